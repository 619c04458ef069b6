"""The rules of the house, and that what is written about it is so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from service.cli import HIDDEN, WORDS, placet
from tests.conftest import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "service" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"`([^`\n]+)`")
FUNCTION_LINES = 40


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name(words[0])
    return subprocess.run((program, *words[1:]), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("words", [("lint-imports",), ("ruff", "check"), ("ruff", "format", "--check")])
def test_the_linters_are_content(words: tuple[str, ...]) -> None:
    done = _run(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def _lengths() -> list[int]:
    import ast

    lengths = []
    for path in (ROOT / "service").rglob("*.py"):
        if "demo" not in path.parts:
            lengths += [
                (node.end_lineno or node.lineno) - node.lineno + 1
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
    return sorted(lengths)


def test_functions_are_short() -> None:
    lengths = _lengths()
    assert lengths[len(lengths) // 2] <= 12
    assert lengths[len(lengths) * 9 // 10] < FUNCTION_LINES


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    linked = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    named = [word for word in CODE.findall(text) if re.fullmatch(r"[\w./-]+/[\w.-]+\.(py|md|yaml|env|sh|json)", word)]
    bases = (document.parent, ROOT)
    for name in {*linked, *named}:
        assert any((base / name).exists() for base in bases), name


def test_the_way_of_one_proposal_has_ten_lines_that_each_name_a_file() -> None:
    lines = re.findall(r"^\d+\. .*$", (ROOT / "service" / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(lines) == 10
    assert all(re.search(r"`[\w/]+\.py`", line) for line in lines)


def _commands(group: click.Group, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    context = click.Context(group)
    for word in (*group.list_commands(context), *(HIDDEN if group is placet else ())):
        command = group.get_command(context, word)
        assert command is not None, word
        found.append((*before, word))
        if isinstance(command, click.Group):
            found += _commands(command, (*before, word))
    return found


def test_every_command_that_a_document_names_exists() -> None:
    commands = {" ".join(words) for words in _commands(placet)}
    assert set(WORDS) <= commands
    for document in DOCUMENTS:
        for span in CODE.findall(document.read_text("utf-8")):
            said = re.match(r"(?:\.venv/bin/)?placet ((?:[a-z-]+(?: |$))+)", span)
            words = said[1].split() if said else []
            assert not words or any(" ".join(words[:count]) in commands for count in (3, 2, 1)), (document.name, span)


def test_every_command_explains_itself() -> None:
    for words in _commands(placet):
        command: click.Command = placet
        for word in words:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word) or command
        assert command.help, words


def test_the_targets_that_documents_name_are_made() -> None:
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {word for document in DOCUMENTS for word in re.findall(r"\bmake ([a-z]+)\b", document.read_text("utf-8"))}
    assert {"up", "test", "scenario"} <= made
    assert {name for name in named if name in {"up", "test", "help", "scenario", "lint", "openapi"}} <= made


def test_continuous_integration_runs_what_people_run() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "set -euo pipefail" in script
    assert re.search(r"^PLACET_NO_SKIP=1 make test$", script, re.MULTILINE)
    assert re.search(r"^make scenario$", script, re.MULTILINE)


def test_the_image_copies_what_exists_and_runs_as_nobody_in_particular() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *sources, _target = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored, source
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    last_stage = text.rpartition("\nFROM ")[2]
    assert "HEALTHCHECK" in last_stage
    assert "pip install" not in last_stage


def test_the_tools_are_the_same_everywhere() -> None:
    pinned = re.search(r"UV_VERSION := (.+)", (ROOT / "Makefile").read_text("utf-8"))
    assert pinned
    assert f"uv=={pinned[1]}" in (ROOT / "Dockerfile").read_text("utf-8")


def test_the_demo_is_what_it_says() -> None:
    demo = ROOT / "service" / "demo"
    done = subprocess.run(
        (sys.executable, "-B", "-m", "unittest", "discover", "-s", "tests", "-t", "."),
        cwd=demo,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((demo / "data" / "products.json").read_text("utf-8"))

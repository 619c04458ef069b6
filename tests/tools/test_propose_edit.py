"""Search-and-replace edits: byte for byte, as often as they say, or not at all."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.contract.data import Json
from service.contract.plan import Outcome
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal
from service.proposals.planning import Planned, load_manifests, load_plan
from service.tools.propose.propose_edit import (
    COUNT_MOST,
    EDITS_MOST,
    FILE_BYTES,
    OPERATION,
    REPLACED_BYTES,
    TEXT_CHARACTERS,
)
from tests.planned import Bench, File, notes, warnings
from tests.stage import git

BIG = b"x" * (FILE_BYTES - 4) + b"end\n"
BASE: Mapping[str, File] = {
    "README.md": ("100644", b"# Orchard\n"),
    "aaa.txt": ("100644", b"aaa aaaa\n"),
    "win.txt": ("100644", b"x\r\ny\r\nz\r\n"),
    "latin.txt": ("100644", b"caf\xe9 and tea \xff\xfe\n"),
    "nul.bin": ("100644", b"\0\1one\0two\0"),
    "run.sh": ("100755", b"#!/bin/sh\necho one\n"),
    "empty.txt": ("100644", b""),
    "big.txt": ("100644", BIG),
    "bigger.txt": ("100644", BIG + b"\n"),
    "caf\u00e9.txt": ("100644", "caf\u00e9\n".encode()),
    "docs/one.md": ("100644", b"1\n"),
    "link": ("120000", b"run.sh"),
    "lib": ("160000", b"1" * 40),
    **dict.fromkeys((".gitmodules", "sub/.GitModules", "GITMOD~1", "gi7eba~1", ".gitmodules "), ("100644", b"[a]\n")),
    "CON": ("100644", b"1\n"),
    "over.txt": ("100644", (b"a" * 999 + b"b") * 1_000),
}


@pytest.fixture(scope="module", name="bench")
def bench_fixture(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.made(tmp_path_factory.mktemp("edit"), OPERATION, BASE)


def edit(path: str, search: str, replace: str, **more: Any) -> Json:
    return {"path": path, "search": search, "replace": replace, **more}


def ask(bench: Bench, *edits: Json, **more: Any) -> Any:
    return bench.ask({"message": "Edit", "edits": list(edits), **more})


def refused(bench: Bench, *edits: Json, **more: Any) -> Refusal:
    return bench.refused({"message": "Edit", "edits": list(edits), **more})


def landing(planned: Planned) -> dict[str, tuple[int, str]]:
    """Mode and SHA-256 of each path that the branch gets."""
    (manifest,) = [one for one in load_manifests(planned.manifest) if one.of == "refs/heads/main"]
    return {line.path.decode(): (line.mode, line.sha256) for line in manifest.lines}


@pytest.mark.parametrize(
    ("path", "edits", "after"),
    [
        ("README.md", [("Orchard", "Garden", 1)], b"# Garden\n"),
        ("README.md", [("# Orchard\n", "", 1)], b""),
        ("README.md", [("Orchard", "a", 1), ("a", "b", 1), ("# b", "c", 1)], b"c\n"),
        ("README.md", [("Orchard", "OrchardOrchard", 1), ("Orchard", "x", 2)], b"# xx\n"),
        ("aaa.txt", [("aa", "b", 3)], b"ba bb\n"),
        ("aaa.txt", [("aaa", "b", 2)], b"b ba\n"),
        ("win.txt", [("y", "Y", 1)], b"x\r\nY\r\nz\r\n"),
        ("win.txt", [("x\r\ny", "x\ny", 1)], b"x\ny\r\nz\r\n"),
        ("win.txt", [("\n", "!", 3)], b"x\r!y\r!z\r!"),
        ("latin.txt", [("tea", "t\u00e9", 1)], b"caf\xe9 and t\xc3\xa9 \xff\xfe\n"),
        ("nul.bin", [("one\0", "1\0\0", 1)], b"\0\x011\0\0two\0"),
        ("run.sh", [("one", "two", 1)], b"#!/bin/sh\necho two\n"),
        ("caf\u00e9.txt", [("\u00e9", "e\u0301", 1)], "cafe\u0301\n".encode()),
        ("big.txt", [("end", "END", 1)], BIG[:-4] + b"END\n"),
    ],
)
def test_what_is_between_the_occurrences_stays_byte_for_byte(
    bench: Bench, path: str, edits: list[tuple[str, str, int]], after: bytes
) -> None:
    sent = [edit(path, search, replace, count=count) for search, replace, count in edits]
    mode = int(BASE[path][0], 8)
    assert landing(bench.plan(ask(bench, *sent))) == {path: (mode, sha256(after))}


def test_edits_of_several_files_land_as_one_commit_and_modes_stay(bench: Bench, tmp_path: Path) -> None:
    copy = bench.copy(tmp_path)
    planned = copy.land(
        ask(copy, edit("run.sh", "one", "two"), edit("docs/one.md", "1", "2"), edit("run.sh", "two\n", "three\n"))
    )
    assert git(copy.path, "show", "main:run.sh") == b"#!/bin/sh\necho three\n"
    assert git(copy.path, "ls-tree", "main", "run.sh").startswith(b"100755 ")
    assert {path: note.code for path, note in notes(planned).items()} == {
        "docs/one.md": "file_updated",
        "run.sh": "file_updated",
    }


@pytest.mark.parametrize(
    ("search", "count", "found"),
    [("pear", 1, 0), ("r", 1, 2), ("r", 3, 2), ("orchard", 1, 0), ("Orchard\r\n", 1, 0), ("# Orchard\n\n", 1, 0)],
)
def test_a_text_that_does_not_occur_as_often_as_said_is_refused_with_how_often_it_does(
    bench: Bench, search: str, count: int, found: int
) -> None:
    refusal = refused(bench, edit("docs/one.md", "1", "2"), edit("README.md", search, "x", count=count))
    assert refusal.code is Code.EDIT_MISMATCH
    assert (refusal.details["at"], refusal.details["field"]) == ("README.md", "edits[1]")
    assert (refusal.details["found"], refusal.details["expected"]) == (found, count)


def test_a_text_that_an_edit_before_has_taken_away_is_not_found(bench: Bench) -> None:
    refusal = refused(bench, edit("README.md", "Orchard", "Garden"), edit("README.md", "Orchard", "Park"))
    assert (refusal.code, refusal.details["field"], refusal.details["found"]) == (Code.EDIT_MISMATCH, "edits[1]", 0)


def test_every_edit_that_fails_is_told(bench: Bench) -> None:
    refusal = refused(bench, edit("README.md", "no", "x"), edit("none", "x", "y"), edit("lib", "1", "2"))
    assert [(one["code"], one["params"]["field"]) for one in refusal.details["blockers"]] == [
        ("edit_mismatch", "edits[0]"),
        ("file_missing", "edits[1]"),
        ("path_occupied", "edits[2]"),
    ]


@pytest.mark.parametrize(
    ("path", "code", "by"),
    [
        ("none.txt", Code.FILE_MISSING, None),
        ("README.md/x", Code.FILE_MISSING, None),
        ("link/x", Code.FILE_MISSING, None),
        ("link", Code.PATH_OCCUPIED, "symlink"),
        ("lib", Code.PATH_OCCUPIED, "submodule"),
        ("docs", Code.PATH_OCCUPIED, "directory"),
        ("../x", Code.PATH_REJECTED, None),
        ("/etc/passwd", Code.PATH_REJECTED, None),
        (".git/config", Code.PATH_REJECTED, None),
        ("", Code.PATH_REJECTED, None),
        ("a\0b", Code.PATH_REJECTED, None),
    ],
)
def test_what_is_no_file_is_not_edited(bench: Bench, path: str, code: Code, by: str | None) -> None:
    refusal = refused(bench, edit(path, "1", "2"))
    assert (refusal.code, refusal.details.get("by")) == (code, by)


@pytest.mark.parametrize("path", [".gitmodules", "sub/.GitModules", "GITMOD~1", "gi7eba~1", ".gitmodules "])
def test_what_passes_for_the_settings_of_submodules_is_not_edited(bench: Bench, path: str) -> None:
    refusal = refused(bench, edit(path, "[a]", "url = --upload-pack=touch /tmp/x"))
    assert (refusal.code, refusal.details["field"]) == (Code.PATH_REJECTED, "edits[0].path")


def test_an_old_name_that_no_proposal_may_make_is_edited(bench: Bench) -> None:
    assert list(landing(bench.plan(ask(bench, edit("CON", "1", "2"))))) == ["CON"]


def test_as_many_edits_as_may_be_of_texts_that_overlap_do_not_take_long(bench: Bench) -> None:
    before = time.process_time()
    shorter = edit("over.txt", "a" * 15 + "b", "b", count=1_000)
    assert landing(bench.plan(ask(bench, *[shorter] * EDITS_MOST)))["over.txt"][1] == sha256(
        (b"a" * (999 - 15 * EDITS_MOST) + b"b") * 1_000
    )
    several = refused(bench, *[edit("over.txt", "a" * 99, "a", count=1_000)] * EDITS_MOST)
    assert several.details["found"] == 10_000
    assert time.process_time() - before < 30


def test_another_blob_or_base_than_expected_is_refused(bench: Bench) -> None:
    blob = git(bench.path, "rev-parse", "main:README.md").decode().strip()
    good = edit("README.md", "Orchard", "x", expected_blob_oid=blob)
    again = edit("README.md", "x", "y", expected_blob_oid=blob)
    assert landing(bench.plan(ask(bench, good, again))) == {"README.md": (0o100644, sha256(b"# y\n"))}
    refusal = refused(bench, {**good, "expected_blob_oid": "1" * 40})
    assert (refusal.code, refusal.details["blob_oid"]) == (Code.BLOB_MISMATCH, blob)
    assert refused(bench, good, expected_base_oid="1" * 40).code is Code.BASE_MOVED
    assert refused(bench, good, branch="none").code is Code.BRANCH_MISSING


@pytest.mark.parametrize(
    ("edits", "field", "limit"),
    [
        ([edit("README.md", "", "x")], "edits[0].search", 1),
        ([edit("README.md", "x" * (TEXT_CHARACTERS + 1), "x")], "edits[0].search", TEXT_CHARACTERS),
        ([edit("README.md", "x", "x" * (TEXT_CHARACTERS + 1))], "edits[0].replace", TEXT_CHARACTERS),
        ([edit("README.md", "x", "y", count=0)], "edits[0].count", 1),
        ([edit("README.md", "x", "y", count=COUNT_MOST + 1)], "edits[0].count", COUNT_MOST),
        ([], "edits", 1),
        ([edit("README.md", "x", "y")] * (EDITS_MOST + 1), "edits", EDITS_MOST),
        ([edit("README.md", "x", "\u00e9" * 50_001), edit("README.md", "x", "y" * 99_999)], "edits", REPLACED_BYTES),
        ([edit("README.md", "x", "y" * 201, count=1_000)], "edits", REPLACED_BYTES),
    ],
)
def test_what_is_too_much_or_too_little_is_refused_naming_the_limit(
    bench: Bench, edits: list[Json], field: str, limit: int
) -> None:
    refusal = refused(bench, *edits)
    assert (refusal.code, refusal.details["field"]) == (Code.INVALID_ARGUMENT, field)
    assert refusal.details["limit"] == limit


@pytest.mark.parametrize(("path", "replace"), [("bigger.txt", "end"), ("big.txt", "ends")])
def test_a_file_of_more_than_the_limit_is_not_edited_nor_made(bench: Bench, path: str, replace: str) -> None:
    refusal = refused(bench, edit(path, "end", replace))
    assert (refusal.code, refusal.details["at"]) == (Code.TOO_MUCH_TO_REVIEW, path)
    assert (refusal.details["limit"], refusal.details["value"]) == (FILE_BYTES, FILE_BYTES + 1)


def test_edits_that_change_nothing_are_refused(bench: Bench) -> None:
    there_and_back = edit("README.md", "Orchard", "Park"), edit("README.md", "Park", "Orchard")
    assert refused(bench, *there_and_back).code is Code.NOTHING_TO_CHANGE


def test_what_hides_in_an_edit_is_warned_of(bench: Bench) -> None:
    request = ask(bench, edit("README.md", "Orchard", "\u0430pple \u202e"), message="Edit \u200b")
    assert warnings(bench.plan(request)) == [
        "hidden_characters://message",
        "hidden_characters:README.md",
        "mixed_scripts:README.md",
    ]


def test_undoing_is_reverting(bench: Bench) -> None:
    plan = load_plan(bench.plan(ask(bench, edit("README.md", "Orchard", "x"))).plan)
    wish = OPERATION.undo(Outcome(request={"branch": "main"}, moves=plan.effects, commits=(plan.commits[0].id,)))
    assert wish is not None
    assert (wish.kind, wish.arguments["branch"]) == ("propose_revert", "main")

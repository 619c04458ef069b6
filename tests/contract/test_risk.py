"""What is warned of by its path alone, and paths that cannot be together."""

import time

import pytest

from service.contract.changes import ChangedFile, fold_alike
from service.contract.data import Entry
from service.contract.placing import crossed
from service.contract.risk import content_warnings, path_warnings, text_warnings
from service.contract.world import Store


def kinds(path: bytes) -> list[str]:
    return [note.params["kind"] for note in path_warnings(path) if note.code == "runs_or_redirects"]


@pytest.mark.parametrize(
    "path",
    [
        *(b".gitmodules", b"a/b/.gitmodules", b".GITMODULES", b".gitmodules.", b".gitmodules ", b".gitmodules:x"),
        *(
            b"a\\.gitmodules",
            b"gitmod~1",
            b"GI7EBA~1",
            b"gi7eb~10",
            ".git\u200cmodules".encode(),
            b".claude/.gitmodules",
        ),
    ],
)
def test_what_passes_for_the_settings_of_submodules_redirects(path: bytes) -> None:
    assert kinds(path) == ["submodules"]


@pytest.mark.parametrize("path", [b"gitmodules", b".gitmodules/x", b".gitmodules.txt", b"github~1", b"\xff.gitmodules"])
def test_what_only_looks_like_it_does_not(path: bytes) -> None:
    assert kinds(path) == []


class _Nothing:
    def blob(self, _oid: str) -> bytes:
        return b""


RUNS = {
    "workflow": """
        .github/workflows/x.yml .github/dependabot.yml .gitlab-ci.yml .gitlab/ci/x.yml .circleci/config.yml
        Jenkinsfile ci/Jenkinsfile.release azure-pipelines.yml .zuul.yaml .zuul.d/x.yaml cloudbuild.yaml
        appveyor.yml .appveyor.yml buildspec.yml renovate.json action.yml .buildkite/pipeline.yml
    """,
    "hook": """
        .husky/pre-commit .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml .lefthook-local.yml
    """,
    "agent_instructions": """
        CLAUDE.md CLAUDE.local.md AGENTS.md AGENTS.override.md GEMINI.md skills/x/SKILL.md .cursorrules
        .cursor/rules/x.mdc .clinerules .clinerules/x.md .codex/config.toml .aider.conf.yml
        .kiro/steering/x.md .mcp.json .windsurfrules .github/copilot-instructions.md .github/instructions/x.md
        .roo/rules/x .goosehints
    """,
    "codeowners": "CODEOWNERS .github/CODEOWNERS docs/codeowners",
    "package_script": """
        package.json setup.py pyproject.toml .npmrc .cargo/config.toml build.rs build.gradle
        app/build.gradle.kts settings.gradle pom.xml gradle/wrapper/gradle-wrapper.properties gradlew
        .mvn/extensions.xml Gemfile x.gemspec composer.json deno.json conftest.py binding.gyp
    """,
    "build": """
        Makefile GNUmakefile x.mk Justfile .justfile Taskfile.yml Dockerfile Containerfile compose.yaml .envrc
        .vscode/tasks.json .vscode/launch.json .vscode/settings.json .devcontainer/devcontainer.json
        .devcontainer.json .idea/runConfigurations/x.xml flake.nix .mise.toml Vagrantfile CMakeLists.txt
    """,
    "attributes": ".gitattributes a/.gitattributes .lfsconfig .mailmap .gitconfig",
}


@pytest.mark.parametrize(("kind", "paths"), RUNS.items(), ids=RUNS)
def test_what_runs_or_redirects_is_known_at_any_depth_and_in_any_case(kind: str, paths: str) -> None:
    for path in paths.split():
        for one in (path, f"deep/er/{path}", path.upper()):
            assert kinds(one.encode()) == [kind], one


@pytest.mark.parametrize(
    "path", ["app.py", "docs/packages.json", "makefiles/x", "agents.py", "src/task.ts", "github/x"]
)
def test_what_nothing_runs_is_let_alone(path: str) -> None:
    assert kinds(path.encode()) == []


def test_a_deleted_codeowners_and_a_file_that_is_moved_to_a_workflow_are_warned_of() -> None:
    entry = Entry(mode=0o100644, oid="1" * 40)
    store: Store = _Nothing()  # type: ignore[assignment]
    gone = ChangedFile(b".github/CODEOWNERS", entry, None).warnings(store)
    assert [note.code for note in gone] == ["runs_or_redirects", "deletes_file"]
    moved = ChangedFile(b".github/workflows/x.yml", entry, entry, b"x.yml").warnings(store)
    assert [note.name for note in moved] == ["runs_or_redirects:.github/workflows/x.yml"]


@pytest.mark.parametrize(
    ("text", "confirm"),
    [
        ("if a: \u202e x", "U+202E"),
        ("a \u2066x\u2069", "U+2066"),
        ("x" + "\U000e0101" * 8, "U+E0101"),
        ("x" + "\ufe0f\U000e0100" * 4, "U+FE0F"),
        ("x" + "\U000e0041" * 8, "U+E0041"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", None),
        ("\u2764\ufe0f a\u200bb\u200f", None),
    ],
)
def test_a_payload_is_typed_and_other_hidden_characters_are_ticked(text: str, confirm: str | None) -> None:
    for note in (*content_warnings(b"a.py", b"", text.encode()), *path_warnings(text.encode())):
        assert note.code in {"hidden_characters", "mixed_scripts"}
        assert note.params.get("confirm") == confirm


def test_many_files_with_a_payload_are_typed_as_one() -> None:
    found = [note for n in range(12) for note in content_warnings(b"f%d" % n, b"", "\u202e".encode())]
    [note] = fold_alike(found)
    assert (note.code, note.params["confirm"]) == ("many_alike", "U+202E")


def test_a_message_may_reorder_letters_but_not_carry_a_payload() -> None:
    assert [note.params.get("confirm") for note in text_warnings("a\u202eb", "message")] == [None]
    assert [note.params.get("confirm") for note in text_warnings("\ufe01" * 9, "message")] == ["U+FE01"]


def test_a_file_that_is_moved_away_is_warned_of_where_it_was() -> None:
    entry = Entry(mode=0o100644, oid="1" * 40)
    store: Store = _Nothing()  # type: ignore[assignment]
    found = ChangedFile(b"x", entry, entry, b".gitmodules").warnings(store)
    assert [note.name for note in found] == ["runs_or_redirects:.gitmodules"]


def test_thousands_of_deep_paths_are_compared_at_once() -> None:
    paths = [b"/".join([b"d%d" % number, *[b"a"] * 30]) for number in range(10_000)]
    before = time.process_time()
    assert list(crossed(paths)) == []
    assert [note.at for note in crossed([*paths[:3], b"D1/a", b"d2/a"])] == ["d2/" + "a/" * 29 + "a", "D1/a"]
    assert time.process_time() - before < 30

"""File import on inputs from real reports: what is refused, with which code, and what lands byte for byte."""

import base64
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from service.contract.data import Json
from service.contract.plan import Note
from service.kit.errors import Code, Refusal
from service.proposals.planning import (
    Planned,
    broken_pin,
    load_card,
    load_manifests,
    load_pins,
    load_plan,
    plan_proposal,
)
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.tools.propose.propose_file_import import OPERATION, FileImport
from service.tools.validation import errors_of, refuse
from service.writer.intent import seal
from service.writer.provenance import Trailers
from service.writer.write import write
from tests.stage import git, make_repository

BASE: Mapping[str, bytes] = {
    "README.md": b"# Orchard\n",
    "app.py": b"print('hello')\n",
    "run.sh": b"#!/bin/sh\n",
    "src/lib/a.py": b"a = 1\n",
    "win.txt": b"x\r\ny\r\nz\r\n",
}
AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    make_repository(tmp_path / "r.git", BASE, executable=("run.sh",))
    return tmp_path / "r.git"


def ask(*files: Json, **more: Any) -> FileImport:
    sent = {
        "repository_id": str(uuid4()),
        "branch": "main",
        "message": "Change files",
        "reason": "Because.",
        "files": list(files),
        **more,
    }
    request, errors = errors_of(FileImport, sent)
    if request is None:
        raise refuse(errors)
    return request


def plan(repository: Path, request: FileImport) -> Planned:
    return plan_proposal(repository, OPERATION, request, UUID(int=5), AUTHOR, time.monotonic() + 20)


def land(repository: Path, *files: Json, **more: Any) -> Planned:
    planned = plan(repository, ask(*files, **more))
    what = load_plan(planned.plan)
    committer = b"O <o@example.org> 1700000100 +0000"
    sealed = seal(what, committer, Trailers(uuid4(), "o@example.org", UUID(int=1), planned.digest))
    write(
        BareRepository(repository),
        what,
        load_manifests(planned.manifest),
        decode(planned.objects),
        sealed,
        lambda _name: None,
    )
    assert git(repository, "fsck", "--strict", "--no-dangling") == b""
    return planned


def refused(repository: Path, *files: Json, **more: Any) -> Refusal:
    before = git(repository, "for-each-ref"), git(repository, "count-objects", "-v")
    with pytest.raises(Refusal) as caught:
        plan(repository, ask(*files, **more))
    assert (git(repository, "for-each-ref"), git(repository, "count-objects", "-v")) == before
    return caught.value


def notes(planned: Planned) -> dict[str, Note]:
    return {note.at: note for section in load_card(planned.card).sections for note in section.notes}


def warnings(planned: Planned) -> list[str]:
    return [note.name for note in load_card(planned.card).warnings]


def blob(repository: Path, path: str) -> str:
    return git(repository, "rev-parse", f"main:{path}").decode().strip()


# Intents


def test_create_on_a_path_that_exists_is_refused_with_the_current_blob_id(repository: Path) -> None:
    refusal = refused(repository, {"path": "app.py", "content": "x", "action": "create"})
    assert (refusal.code, refusal.details["blob_oid"]) == (Code.FILE_EXISTS, blob(repository, "app.py"))
    assert refusal.details["field"] == "files[0]"


@pytest.mark.parametrize(
    "file",
    [
        {"path": "no.txt", "content": "x", "action": "update"},
        {"path": "no.txt", "action": "delete"},
        {"path": "b.txt", "from_path": "no.txt", "action": "rename"},
    ],
)
def test_what_needs_a_file_is_refused_where_there_is_none(repository: Path, file: Json) -> None:
    assert refused(repository, file).code is Code.FILE_MISSING


@pytest.mark.parametrize("action", ["update", "upsert", "delete"])
def test_a_stale_blob_id_is_refused_with_the_current_one(repository: Path, action: str) -> None:
    file: Json = {"path": "app.py", "action": action, "expected_blob_oid": "1" * 40}
    refusal = refused(repository, file if action == "delete" else {**file, "content": "x"})
    assert (refusal.code, refusal.details["blob_oid"]) == (Code.BLOB_MISMATCH, blob(repository, "app.py"))


def test_update_delete_rename_and_create_are_one_commit_and_the_card_shows_the_rename(repository: Path) -> None:
    planned = land(
        repository,
        {"path": "README.md", "content": "# 2\n", "action": "update"},
        {"path": "win.txt", "action": "delete"},
        {"path": "src/main.py", "from_path": "app.py", "action": "rename"},
        {"path": "docs/new.md", "content": "new\n", "action": "create"},
    )
    shown = notes(planned)
    assert {path: note.code for path, note in shown.items()} == {
        "README.md": "file_updated",
        "win.txt": "file_deleted",
        "src/main.py": "file_renamed",
        "docs/new.md": "file_created",
    }
    assert shown["src/main.py"].params["old_path"] == "app.py"
    assert git(repository, "log", "-1", "--format=%s", "main") == b"Change files\n"


def test_a_rename_may_change_content_and_mode_at_once(repository: Path) -> None:
    land(repository, {"path": "b.py", "from_path": "app.py", "action": "rename", "content": "b\n", "mode": "100755"})
    assert git(repository, "ls-tree", "main", "b.py").startswith(b"100755 ")
    assert git(repository, "cat-file", "blob", "main:b.py") == b"b\n"


@pytest.mark.parametrize(
    "files",
    [
        [{"path": "a", "content": "1"}, {"path": "a", "content": "2"}],
        [{"path": "b", "from_path": "app.py", "action": "rename"}, {"path": "app.py", "content": "x"}],
    ],
)
def test_one_path_twice_in_a_request_is_refused(repository: Path, files: list[Json]) -> None:
    refusal = refused(repository, *files)
    assert refusal.code is Code.INVALID_ARGUMENT
    assert refusal.details["field"].startswith("files[1].")


@pytest.mark.parametrize("path", ["src", "src/lib", "app.py/x", "src/lib/a.py/b/c"])
def test_a_file_where_a_directory_is_and_a_directory_through_a_file_are_refused(repository: Path, path: str) -> None:
    assert refused(repository, {"path": path, "content": "x"}).code is Code.PATH_OCCUPIED


def test_a_directory_may_take_the_place_of_a_file_that_the_same_request_deletes(repository: Path) -> None:
    land(repository, {"path": "app.py", "action": "delete"}, {"path": "app.py/x.py", "content": "x\n"})
    assert git(repository, "ls-tree", "-r", "--name-only", "main", "app.py") == b"app.py/x.py\n"


def test_two_new_paths_of_which_one_is_under_the_other_are_refused(repository: Path) -> None:
    assert (
        refused(repository, {"path": "n", "content": "x"}, {"path": "n/m", "content": "y"}).code is Code.PATH_OCCUPIED
    )


def test_content_equal_to_what_is_there_never_makes_an_empty_commit(repository: Path) -> None:
    refusal = refused(repository, {"path": "app.py", "content": "print('hello')\n"})
    assert refusal.code is Code.NOTHING_TO_CHANGE


def test_an_unchanged_file_beside_a_changed_one_is_not_on_the_card(repository: Path) -> None:
    planned = plan(repository, ask({"path": "app.py", "content": "print('hello')\n"}, {"path": "b", "content": "b\n"}))
    assert set(notes(planned)) == {"b"}


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ({"path": "a", "action": "create"}, "content"),
        ({"path": "a"}, "content"),
        ({"path": "app.py", "action": "update"}, "content"),
        ({"path": "a", "action": "delete", "content": "x"}, "content"),
        ({"path": "a", "action": "delete", "mode": "100644"}, "mode"),
        ({"path": "a", "action": "rename"}, "from_path"),
        ({"path": "a", "content": "x", "from_path": "b"}, "from_path"),
    ],
)
def test_an_action_names_the_field_that_it_needs_or_does_not_take(repository: Path, file: Json, field: str) -> None:
    assert refused(repository, file).details["field"] == f"files[0].{field}"


def test_a_base_that_is_not_expected_is_refused_with_the_head(repository: Path) -> None:
    refusal = refused(repository, {"path": "a", "content": "x"}, expected_base_oid="1" * 40)
    assert refusal.code is Code.BASE_MOVED
    assert refusal.details["head"] == git(repository, "rev-parse", "main").decode().strip()


def test_a_branch_that_is_not_there_is_refused(repository: Path) -> None:
    assert refused(repository, {"path": "a", "content": "x"}, branch="nowhere").code is Code.BRANCH_MISSING


# Limits


def test_the_limits_hold_at_the_limit_and_one_beyond_it(repository: Path) -> None:
    whole = "x" * 100_000
    plan(repository, ask({"path": "a", "content": whole}, {"path": "b", "content": whole}))
    one_more = refused(repository, {"path": "a", "content": whole + "x"})
    assert (one_more.details["field"], one_more.details["limit"]) == ("files[0].content", 100_000)
    total = refused(repository, *({"path": f"{n}", "content": "x" * 70_000} for n in range(3)))
    assert (total.details["field"], total.details["limit"], total.details["value"]) == ("files", 200_000, 210_000)
    many = refused(repository, *({"path": f"f{n}", "content": "x"} for n in range(21)))
    assert (many.details["field"], many.details["limit"]) == ("files", 20)
    assert refused(repository).details["field"] == "files"


def test_the_sum_is_counted_in_decoded_bytes_and_content_in_characters_as_sent(repository: Path) -> None:
    encoded = base64.b64encode(b"\0" * 74_999).decode()
    assert len(encoded) == 100_000
    plan(repository, ask(*({"path": f"{n}", "content": encoded, "encoding": "base64"} for n in range(2))))
    wide = "\u00e9" * 100_000  # 200,000 bytes
    plan(repository, ask({"path": "w", "content": wide}))
    assert (
        refused(repository, {"path": "w", "content": wide}, {"path": "v", "content": "x"}).details["value"] == 200_001
    )


# Base64


def test_text_that_looks_like_base64_is_stored_as_it_is(repository: Path) -> None:
    land(repository, {"path": "notes.txt", "content": "aGVsbG8gd29ybGQK"})
    assert blob(repository, "notes.txt") == "d4027b29389e7575881ddc454965cb5ea497204e"


def test_a_picture_sent_as_text_does_not_land_unremarked(repository: Path) -> None:
    planned = plan(repository, ask({"path": "img/p.png", "content": "iVBORw0KGgoAAAAN"}))
    assert warnings(planned) == ["looks_like_base64:img/p.png"]


def test_base64_is_decoded_where_it_is_said_to_be_base64(repository: Path) -> None:
    planned = land(repository, {"path": "img/p.png", "content": "iVBORw0KGgoAAAAN", "encoding": "base64"})
    assert git(repository, "cat-file", "-s", "main:img/p.png") == b"12\n"
    assert warnings(planned) == ["binary_content:img/p.png"]


@pytest.mark.parametrize("content", ["a", "aGVsbG8", "aGVs bG8=", "****", "aGVsbG8\n"])
def test_invalid_base64_is_refused(repository: Path, content: str) -> None:
    refusal = refused(repository, {"path": "a", "content": content, "encoding": "base64"})
    assert refusal.details["field"] == "files[0].content"


# Modes


def test_new_content_without_a_mode_keeps_the_mode(repository: Path) -> None:
    planned = land(repository, {"path": "run.sh", "content": "#!/bin/sh\necho\n"})
    assert git(repository, "ls-tree", "main", "run.sh").startswith(b"100755 ")
    assert warnings(planned) == []


def test_a_new_script_is_executable_when_asked_and_the_card_says_so(repository: Path) -> None:
    planned = land(repository, {"path": "new.sh", "content": "#!/bin/sh\n", "mode": "100755"})
    assert git(repository, "ls-tree", "main", "new.sh").startswith(b"100755 ")
    assert warnings(planned) == ["becomes_executable:new.sh"]


def test_a_change_of_mode_only_is_shown_as_such(repository: Path) -> None:
    planned = land(repository, {"path": "app.py", "action": "update", "mode": "100755"})
    note = notes(planned)["app.py"]
    assert (note.code, note.params["old_mode"], note.params["new_mode"]) == ("mode_changed", "100644", "100755")


@pytest.mark.parametrize("mode", ["100777", "160000", "120000", "040000", "644", "100644 ", "garbag"])
def test_any_other_mode_is_refused(repository: Path, mode: str) -> None:
    assert refused(repository, {"path": "a", "content": "x", "mode": mode}).details["field"] == "files[0].mode"


@pytest.mark.parametrize("action", ["update", "rename", "upsert"])
def test_a_symlink_is_never_written_through_nor_made(repository: Path, action: str) -> None:
    link(repository)
    file: Json = {"path": "link", "action": action, "content": "x"}
    file = {**file, "path": "other", "from_path": "link"} if action == "rename" else file
    refusal = refused(repository, file)
    assert (refusal.code, refusal.details["by"]) == (Code.PATH_OCCUPIED, "symlink")
    assert refused(repository, {"path": "link/x", "content": "x"}).code is Code.PATH_OCCUPIED


def link(repository: Path) -> None:
    target = git(repository, "hash-object", "-w", "--stdin", stdin=b"/etc/passwd").decode().strip()
    git(repository, "read-tree", "main")
    git(repository, "update-index", "--add", "--cacheinfo", f"120000,{target},link")
    tree = git(repository, "write-tree").decode().strip()
    git(repository, "update-ref", "refs/heads/main", git(repository, "commit-tree", tree, "-m", "l").decode().strip())


# Line ends


def test_crlf_is_stored_as_sent_and_one_line_changes(repository: Path) -> None:
    planned = land(repository, {"path": "win.txt", "content": "x\r\nY\r\nz\r\n"})
    assert blob(repository, "win.txt").startswith("ce5d5089")
    note = notes(planned)["win.txt"]
    assert (note.params["added"], note.params["removed"]) == (1, 1)
    assert warnings(planned) == []


def test_line_ends_that_change_are_said_with_their_number(repository: Path) -> None:
    planned = plan(repository, ask({"path": "win.txt", "content": "x\nY\nz\n"}))
    (warning,) = load_card(planned.card).warnings
    assert (warning.code, warning.params["lines"]) == ("line_ends_change", 3)


def test_a_lone_cr_is_kept(repository: Path) -> None:
    land(repository, {"path": "mac.txt", "content": "a\rb\n"})
    assert git(repository, "cat-file", "blob", "main:mac.txt") == b"a\rb\n"


# Paths

ATTACKS = [
    "../x", "/etc/x", "a//b", "./a", "", ".git/hooks/post-commit", ".GIT/config", ".git.", "git~1", "C:\\x", "a\\b",
    "%2e%2e%2fx", "a\0b", "x" * 2_049, ".g\u200cit/config", "a/.git/config", "CON", "a/\u202eb", "x ", ".gitmodules",
]  # fmt: skip


@pytest.mark.parametrize("path", ATTACKS)
@pytest.mark.parametrize("action", ["create", "upsert", "rename"])
def test_an_attack_by_path_is_refused_with_one_code_before_anything_is_read(
    repository: Path, path: str, action: str
) -> None:
    file: Json = {"path": path, "action": action}
    file |= {"from_path": "app.py"} if action == "rename" else {"content": "x"}
    refusal = refused(repository, {"path": "ok.txt", "content": "x"}, file)
    assert (refusal.code, refusal.details["field"]) == (Code.PATH_REJECTED, "files[1].path")


@pytest.mark.parametrize("path", ["readme.md", "README.MD", "Src/x.py", "src/LIB/b.py", "src/lib/A.py"])
def test_a_twin_of_what_is_there_is_refused_and_named(repository: Path, path: str) -> None:
    refusal = refused(repository, {"path": path, "content": "x"})
    assert (refusal.code, refusal.details["rule"]) == (Code.PATH_REJECTED, "twin")


def test_two_twins_in_one_request_are_refused(repository: Path) -> None:
    refusal = refused(repository, {"path": "n/A.txt", "content": "x"}, {"path": "N/b.txt", "content": "x"})
    assert (refusal.code, refusal.details["rule"]) == (Code.PATH_REJECTED, "twin")


def test_a_rename_that_only_changes_letter_case_is_allowed(repository: Path) -> None:
    land(repository, {"path": "readme.md", "from_path": "README.md", "action": "rename"})
    assert blob(repository, "readme.md")


@pytest.mark.parametrize("branch", ["-x", "--output=/x", "main\0", "a..b", "@{-1}", ":/x", "HEAD~1", "refs/proposals/x",
                                    "refs/tags/v1", "a b", "refs/heads/../x", "x" * 1_025])  # fmt: skip
def test_a_branch_that_is_no_branch_name_is_refused(repository: Path, branch: str) -> None:
    refusal = refused(repository, {"path": "a", "content": "x"}, branch=branch)
    assert refusal.details["field"] == "branch"


@pytest.mark.parametrize("key", ["Proposal", "approved-by", "CONNECTION", "Reviewed-Digest"])
def test_a_message_that_speaks_in_our_trailers_is_refused(repository: Path, key: str) -> None:
    refusal = refused(repository, {"path": "a", "content": "x"}, message=f"Add a\n\n{key}: me\n")
    assert (refusal.code, refusal.details["field"]) == (Code.TEXT_REJECTED, "message")


# The empty repository


def test_the_first_proposal_of_an_empty_repository_makes_a_root_commit(tmp_path: Path) -> None:
    empty = tmp_path / "e.git"
    make_repository(empty, None)
    late = plan(empty, ask({"path": "b", "content": "b\n"}))
    land(empty, {"path": "README.md", "content": "# New\n"})
    assert git(empty, "rev-list", "--count", "main") == b"1\n"
    assert load_plan(late.plan).effects[0].old == "0" * 40


def test_a_repository_with_any_branch_gets_no_second_root(tmp_path: Path) -> None:
    empty = tmp_path / "e.git"
    make_repository(empty, None)
    late = plan(empty, ask({"path": "b", "content": "b\n"}, branch="dev"))
    land(empty, {"path": "README.md", "content": "# New\n"}, branch="trunk")
    assert broken_pin(BareRepository(empty), load_pins(late.pins)) is not None
    assert refused(empty, {"path": "x", "content": "x"}, branch="main").code is Code.BRANCH_MISSING


@pytest.mark.parametrize(
    "path",
    [
        "azure-pipelines.yml", "GNUmakefile", "docker-compose.yml", "Dockerfile.prod", "tox.ini", "setup.cfg",
        "a/sitecustomize.py", "x.pth", ".yarnrc.yml", ".bazelrc", ".windsurfrules", "sub/CODEOWNERS", "CLAUDE.md",
        ".github/workflows/a.yml", ".husky/pre-commit", ".gitattributes",
    ],
)  # fmt: skip
def test_a_path_that_something_runs_or_obeys_is_a_warning(repository: Path, path: str) -> None:
    planned = plan(repository, ask({"path": path, "content": "x\n"}))
    assert f"runs_or_redirects:{path}" in warnings(planned)


@pytest.mark.parametrize("path", [".gitmodules", "sub/.GitModules", "GITMOD~1", ".git\u200cmodules"])
@pytest.mark.parametrize(
    "file",
    [
        {"action": "update", "content": "[a]\n"},
        {"action": "update", "mode": "100755"},
        {"action": "delete"},
        {"action": "rename"},
        {"action": "upsert", "content": "[a]\n"},
    ],
)
def test_what_passes_for_the_settings_of_submodules_is_not_touched(path: str, file: Json) -> None:
    sent = {**file, "path": "x", "from_path": path} if file["action"] == "rename" else {**file, "path": path}
    with pytest.raises(Refusal) as caught:
        ask(sent)
    assert caught.value.code is Code.PATH_REJECTED


@pytest.mark.parametrize("content", ["data:image/png;base64,iVBORw0KGgo=", "iVBORw0KGgo=", "AAAA"])
def test_text_where_a_picture_was_meant_is_a_warning(repository: Path, content: str) -> None:
    planned = plan(repository, ask({"path": "img/t.png", "content": content}))
    assert warnings(planned) == ["looks_like_base64:img/t.png"]


def test_words_of_two_alphabets_are_a_warning_with_their_names(repository: Path) -> None:
    planned = plan(repository, ask({"path": "\u0430dmin.py", "content": "\u0430dmin = 1\ncaf\u00e9 = 2\n"}))
    found = [note for note in load_card(planned.card).warnings if note.code == "mixed_scripts"]
    assert [note.params["where"] for note in found] == ["path", "content"]
    assert found[0].params["scripts"] == ["Cyrillic", "Latin"]

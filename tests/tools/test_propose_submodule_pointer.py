"""Submodules: only one that is there moves, and the card says what can be known of its commits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.contract.history import COMMITS_SHOWN
from service.contract.plan import Outcome, Section
from service.kit.errors import Code
from service.proposals.planning import Planned, load_card, load_plan
from service.tools.propose.propose_submodule_pointer import OPERATION
from tests.planned import Bench, File, warnings
from tests.stage import git

OLD, NEW = "1" * 40, "2" * 40
BASE: Mapping[str, File] = {
    "README.md": ("100644", b"# Orchard\n"),
    "docs/one.md": ("100644", b"1\n"),
    "link": ("120000", b"README.md"),
    "lib": ("160000", OLD.encode()),
    "vendor/deep": ("160000", OLD.encode()),
}


@pytest.fixture(scope="module", name="bench")
def bench_fixture(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.made(tmp_path_factory.mktemp("submodule"), OPERATION, BASE)


def ask(bench: Bench, **more: Any) -> Any:
    return bench.ask({"message": "Move lib", "path": "lib", "commit": NEW, **more})


def sections(planned: Planned) -> dict[str, Section]:
    return {section.code: section for section in load_card(planned.card).sections}


def with_history(folder: Path, commits: int) -> tuple[Bench, list[str]]:
    """A repository whose own commits the submodule moves between, the oldest first."""
    git(folder, "init", "-q", "--bare", "-b", "main", "r.git")
    stream = b"".join(
        b"commit refs/heads/lib\nmark :%d\ncommitter C <c@example.org> %d +0000\ndata 6\nNo %03d\n" % (one, one, one)
        for one in range(1, commits + 1)
    )
    stream += b"commit refs/heads/main\ncommitter C <c@example.org> 1 +0000\ndata 0\nM 160000 :1 lib\n"
    git(folder / "r.git", "fast-import", "--quiet", stdin=stream)
    listed = git(folder / "r.git", "rev-list", "--reverse", "lib").decode().split()
    return Bench(folder / "r.git", OPERATION), listed


@pytest.mark.parametrize("path", ["lib", "vendor/deep"])
def test_another_commit_is_recorded_and_the_card_says_both(bench: Bench, tmp_path: Path, path: str) -> None:
    copy = bench.copy(tmp_path)
    planned = copy.land(ask(copy, path=path))
    assert git(copy.path, "ls-tree", "main", path) == f"160000 commit {NEW}\t{path}\n".encode()
    headline = load_card(planned.card).headline
    assert (headline.code, headline.at) == ("submodule_changes", "main")
    assert headline.params == {"branch": "main", "path": path, "old": OLD, "new": NEW}
    assert warnings(planned) == [f"submodule_moves:{path}"]
    assert [note.code for note in sections(planned)["files"].notes] == ["submodule_changed"]


def test_of_commits_that_are_not_here_the_card_says_that_nothing_is_known(bench: Bench) -> None:
    (note,) = sections(bench.plan(ask(bench)))["submodule"].notes
    assert (note.code, note.at) == ("submodule_log_unknown", "lib")
    assert note.params == {"old": OLD, "new": NEW, "old_known": False, "new_known": False}


def test_that_the_new_commit_is_here_is_said_even_when_the_old_one_is_not(bench: Bench) -> None:
    tip = git(bench.path, "rev-parse", "main").decode().strip()
    (note,) = sections(bench.plan(ask(bench, commit=tip)))["submodule"].notes
    assert (note.code, note.params["old_known"], note.params["new_known"]) == ("submodule_log_unknown", False, True)


def test_between_commits_of_this_repository_the_card_lists_what_comes_and_what_leaves(tmp_path: Path) -> None:
    bench, commits = with_history(tmp_path, COMMITS_SHOWN + 5)
    shown = sections(bench.plan(ask(bench, commit=commits[-1])))
    assert [note.code for note in shown["submodule"].notes] == ["submodule_log_known"]
    assert [note.at for note in shown["commits"].notes[:-1]] == commits[:4:-1]
    assert (shown["commits"].notes[-1].code, shown["commits"].notes[-1].params) == ("more_commits", {"count": 4})
    assert "leaves" not in shown
    bench.land(ask(bench, commit=commits[-1]))
    back = sections(bench.plan(ask(bench, commit=commits[-2])))
    assert [note.at for note in back["leaves"].notes] == [commits[-1]]
    assert "commits" not in back


@pytest.mark.parametrize("path", ["README.md", "docs", "docs/one.md", "link", "none", "lib/x", "new/module"])
def test_what_is_no_submodule_does_not_become_one(bench: Bench, path: str) -> None:
    refusal = bench.refused({"message": "Move", "path": path, "commit": NEW})
    assert (refusal.code, refusal.details["at"]) == (Code.NOT_A_SUBMODULE, path)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"commit": OLD}, Code.NOTHING_TO_CHANGE),
        ({"expected_commit": NEW}, Code.BLOB_MISMATCH),
        ({"expected_base_oid": NEW}, Code.BASE_MOVED),
        ({"branch": "none"}, Code.BRANCH_MISSING),
        ({"commit": "0" * 40}, Code.INVALID_ARGUMENT),
        ({"commit": "2" * 39}, Code.INVALID_ARGUMENT),
        ({"commit": "A" * 40}, Code.INVALID_ARGUMENT),
        ({"commit": "main"}, Code.INVALID_ARGUMENT),
        ({"expected_commit": "x"}, Code.INVALID_ARGUMENT),
        ({"path": "../lib"}, Code.PATH_REJECTED),
        ({"path": ".git/modules"}, Code.PATH_REJECTED),
        ({"message": "Proposal: x"}, Code.TEXT_REJECTED),
        ({"url": "ext::sh"}, Code.INVALID_ARGUMENT),
    ],
)
def test_what_does_not_fit_is_refused(bench: Bench, sent: dict[str, Any], code: Code) -> None:
    refusal = bench.refused({"message": "Move", "path": "lib", "commit": NEW, **sent})
    assert refusal.code is code
    assert code is not Code.BLOB_MISMATCH or refusal.details["commit"] == OLD


@pytest.mark.parametrize(("expected", "kind"), [(OLD, "propose_submodule_pointer"), (None, "propose_revert")])
def test_it_goes_back_to_the_commit_before(bench: Bench, expected: str | None, kind: str) -> None:
    request = ask(bench, expected_commit=expected)
    plan = load_plan(bench.plan(request).plan)
    stored = request.model_dump(mode="json")
    wish = OPERATION.undo(Outcome(request=stored, moves=plan.effects, commits=(plan.commits[0].id,)))
    assert wish is not None
    assert wish.kind == kind
    if expected:
        assert bench.ask(wish.arguments).commit == OLD

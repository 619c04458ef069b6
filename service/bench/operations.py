"""What each operation takes to plan and to execute on projects of very different size, by turns in one run."""

import difflib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from os import sync
from pathlib import Path
from shutil import rmtree
from typing import Final

from service.bench.approve import FILES
from service.bench.execution import execute, no_step, submit_any
from service.bench.projects import BRANCH, build, commit_on, content, old_content, path_of, written_file
from service.bench.results import Results, Target, Times
from service.contract.data import Json
from service.contract.refs import BRANCHES
from service.contract.undoing import kept_ref
from service.contract.world import OutOfTime
from service.kit.errors import Refusal
from service.proposals.planners import PLAN_SECONDS

ROUNDS: Final = 20
COMMITS: Final = (10, 50)
PLAN, EXECUTE = "plan", "execute"
_MOST: Final = 3.0
_POINT: Final = "0d9c1f0e-1a5b-4c3d-8e7f-2b6a4c8d0e1f"
_SUBMODULE: Final = "lib"
_OLD_POINTER, _NEW_POINTER = "1" * 40, "2" * 40
_BYTES: Final = 400
_ASIDE: Final = 3  # so many files at the end are changed on no branch but main
_NOTES: Final = {
    PLAN: "What submit does beside the database: pins, plan, card, manifest, staged objects.",
    EXECUTE: "What the writer does beside the database: from the lease to giving it back.",
}
_NOTE: Final = (
    "Medians; the sizes take turns, and each repository is put back as it was made between the turns. Each operation "
    "asks for the same on every size, so what is said of the whole holds for each of its commits."
)


@dataclass(frozen=True)
class Asked:
    """What is asked of an operation; `commits` is how many it brings in or repeats, 0 where it does not say so."""

    kind: str
    arguments: Json
    commits: int = 0

    @property
    def name(self) -> str:
        """Unique among all that is asked."""
        return f"{self.kind}, {self.commits} commits" if self.commits else self.kind


@dataclass
class Ground:
    """A repository, and all of it that is there before anything is executed."""

    files: int
    path: Path
    asked: Sequence[Asked]

    def __post_init__(self) -> None:
        """What is there now is what it is put back to."""
        self._packed = (self.path / "packed-refs").read_bytes()
        self._made = set(self._written())

    def turn(self, asked: Asked) -> tuple[float, float]:
        """Plan, execute, put back. Gives the seconds of the first two."""
        began = time.perf_counter()
        proposal = submit_any(self.path, asked.kind, asked.arguments)
        planned = time.perf_counter()
        execute(self.path, proposal, no_step)
        executed = time.perf_counter()
        self._put_back()
        return planned - began, executed - planned

    def _put_back(self) -> None:
        for path in set(self._written()) - self._made:
            path.unlink()
        if (self.path / "packed-refs").read_bytes() != self._packed:
            (self.path / "packed-refs").write_bytes(self._packed)

    def _written(self) -> Iterator[Path]:
        return (path for folder in ("objects", "refs") for path in (self.path / folder).rglob("*") if path.is_file())


def operations(
    folder: Path, files: Sequence[int] = FILES, rounds: int = ROUNDS, commits: Sequence[int] = COMMITS
) -> list[Results]:
    """Measure in `folder`: every operation on projects of so many files, so many times; the first time warms up.
    Branches of so many commits are repeated elsewhere, and the first of them is merged.
    """
    grounds = [ground(folder / f"operations-{size}.git", size, commits) for size in sorted({*files})]
    sync()
    times = Times()
    names = [asked.name for asked in grounds[0].asked]
    for number, index in product(range(rounds + 1), range(len(names))):
        start = number % len(grounds)
        for one in (*grounds[start:], *grounds[:start]):
            seconds = one.turn(one.asked[index])
            for what, took in zip((PLAN, EXECUTE), seconds, strict=True) if number else ():
                times.add(_key(what, names[index], one.files), took)
    for one in grounds:
        rmtree(one.path)
    return [_results(what, names, times, [one.files for one in grounds]) for what in (PLAN, EXECUTE)]


def _key(what: str, name: str, files: int) -> str:
    return f"{what} {name} {files}"


def _results(what: str, names: Sequence[str], times: Times, files: Sequence[int]) -> Results:
    rows, targets = [], []
    over = f"{files[-1]:,} files over {files[0]:,}"
    for name in names:
        keys = [_key(what, name, size) for size in files]
        medians = {f"{size:,} files, ms": round(times.median(key), 2) for size, key in zip(files, keys, strict=True)}
        grown = times.ratio(keys[-1], keys[0])
        rows.append({"operation": name, **medians, over: round(grown, 2)})
        targets.append(Target(f"{what} {name}: {over}", grown, most=_MOST))
    return Results(f"Operations: {what}", rows, targets, f"{_NOTES[what]} {_NOTE}")


def both_sides(folder: Path, files: int = FILES[-1], seconds: float = PLAN_SECONDS) -> Results:
    """Measure in `folder`: planning, with so many seconds as submit gives, to merge two branches that both change every
    file: so that both changes of each file fit together (`theirs`), or of none (`rival`).
    """
    project = folder / "both-sides.git"
    build(project, files, _both_sides(files))
    rows = []
    for source, fit in (("theirs", "all"), ("rival", "none")):
        began = time.perf_counter()
        ended = _ending(project, source, seconds)
        took = time.perf_counter() - began
        rows.append({"files changed on both sides": files, "of which fit": fit, "ended": ended, "s": round(took, 1)})
    rmtree(project)
    note = f"Planning has {seconds:g} s. So many paths are more than can be reviewed in one proposal."
    return Results("A merge of everything", rows, note=note)


def _ending(project: Path, source: str, seconds: float) -> str:
    """The code by which a caller learns how it ended."""
    try:
        submit_any(project, "propose_merge", {"branch": "main", "source": source}, seconds)
    except OutOfTime:
        return "out_of_time"
    except Refusal as refusal:
        return refusal.code.value.name
    return "planned"


def _both_sides(files: int) -> Iterator[bytes]:
    """Each file gets a first line on main, a last line on `theirs`, and another first line on `rival`."""
    sides = (("theirs", "{}last = 1\n"), ("rival", "first = 2\n{}"), ("main", "first = 1\n{}"))
    for name, form in sides:
        changes = (written_file(path_of(number, files), form.format(old_content(number))) for number in range(files))
        start = BRANCH if name != "main" else ""
        yield from commit_on(f"{BRANCHES}{name}", f"Change every file on {name}", changes, start)


def ground(path: Path, files: int, commits: Sequence[int]) -> Ground:
    """Make the repository that everything can be asked on."""
    build(path, files, _history(files, commits))
    return Ground(files, path, asked_of(files, commits))


def _history(files: int, commits: Sequence[int]) -> Iterator[bytes]:
    """Branches with commits of their own that begin where main was before its last commit; no two conflict."""
    yield from _branch("fix", 1, files)
    for count in commits:
        yield from _branch(_dev(count), count - 1, files)
        yield from commit_on(f"{BRANCHES}{_dev(count)}", "Move a file", _moves(files))
    for ref in (f"{BRANCHES}old", f"{BRANCHES}merged", kept_ref(_POINT, BRANCH)):
        yield b"reset %s\nfrom %s\n\n" % (ref.encode(), BRANCH.encode())
    last = written_file(path_of(files - 1, files), content("main", _BYTES))
    yield from commit_on(BRANCH, "Change a file", [last, _submodule()])


def _branch(name: str, commits: int, files: int) -> Iterator[bytes]:
    """Each commit changes one file, as far from the others as can be."""
    for number in range(commits):
        path = path_of(number * max(1, files // commits) % (files - _ASIDE), files)
        changes = [written_file(path, content((name, number), _BYTES))]
        yield from commit_on(f"{BRANCHES}{name}", f"Change {path}", changes, "" if number else BRANCH)


def _moves(files: int) -> Iterator[bytes]:
    """A file that no branch changes goes to another place."""
    yield b"D %s\n" % path_of(files - _ASIDE, files).encode()
    yield written_file("moved.py", old_content(files - _ASIDE))


def _submodule() -> bytes:
    return b"M 160000 %s %s\n" % (_OLD_POINTER.encode(), _SUBMODULE.encode())


def _dev(commits: int) -> str:
    return f"dev-{commits}"


def asked_of(files: int, commits: Sequence[int]) -> tuple[Asked, ...]:
    """What is asked on a project of so many files: every operation that there is, and the same on every size."""
    main = {"branch": "main"}
    path, old, new = path_of(1, files), old_content(1), content("new", _BYTES)
    words = {**main, "message": "Change a file"}
    imported = {**words, "files": [{"path": path, "content": new}]}
    made = {"branch": "new", "source": "main"}
    tag = {"name": "v1", "target": "main", "message": "Release 1"}
    steps = (("propose_file_import", imported), ("propose_branch", made), ("propose_tag", tag))
    return (
        Asked("propose_file_import", imported),
        Asked("propose_edit", {**words, "edits": [{"path": path, "search": old, "replace": new}]}),
        Asked("propose_patch", {**words, "patch": _diff(path, old, new)}),
        Asked("propose_merge", {**main, "source": _dev(commits[0])}, commits[0]),
        *(Asked("propose_rebase", {"branch": _dev(count), "onto": "main"}, count) for count in commits),
        Asked("propose_cherry_pick", {**main, "commits": ["fix"]}),
        Asked("propose_revert", {**main, "commits": ["main"]}),
        Asked("propose_reset", {**main, "target": "old"}),
        Asked("propose_restore", {"restore_point_id": _POINT, "refs": [BRANCH]}),
        Asked("propose_branch", made),
        Asked("propose_branch_delete", {"branches": ["merged"], "into": "main"}),
        Asked("propose_tag", tag),
        Asked("propose_submodule_pointer", {**words, "path": _SUBMODULE, "commit": _NEW_POINTER}),
        Asked("propose_plan", {"steps": [{"kind": kind, "arguments": arguments} for kind, arguments in steps]}),
    )


def _diff(path: str, old: str, new: str) -> str:
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    return "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))

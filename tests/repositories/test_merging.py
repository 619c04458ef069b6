"""Merges, picks, reverts and rebases are what stock git makes of them, on cases by hand and on histories by chance."""

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from service.contract.data import NULL, Oid
from service.contract.plan import Conflict, Region
from service.contract.world import OutOfTime
from service.repositories.staging import Staging
from tests.faults.sizes import FORM
from tests.histories import AUTHOR, RUNS, Files, Histories, Made, Ours, Stock, ask, git
from tests.repositories.cases import CASES, TEN, at
from tests.repositories.random_histories import History, grow

SEEDS = range(60 if FORM == "suite" else 600)
NAMES = list(CASES)
WAYS = ("pick", "revert", "rebase")
ROUNDABOUT = ("rebase onto", "rebase back")
Way = Callable[["World", History, Stock | Ours], Made]


@dataclass(frozen=True)
class World:
    """All of it in one repository, with a clone for stock git."""

    repository: Path
    ids: list[Oid]
    by_hand: dict[str, History]
    by_chance: dict[int, History]
    stock: Stock
    ours: Ours

    def agree(self, history: History, *ways: str) -> list[tuple[str, Made, Made]]:
        """The ways in which our result is another than stock git's."""
        made = [(way, RUN[way](self, history, self.stock), RUN[way](self, history, self.ours)) for way in ways]
        return [(way, one, other) for way, one, other in made if not _alike(_told(way, one), _told(way, other))]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("merging")
    histories = Histories()
    by_hand = {name: _by_hand(histories, *CASES[name]) for name in NAMES}
    by_chance = {seed: grow(histories, seed) for seed in SEEDS}
    ids = histories.write(folder / "r.git")
    stock = Stock(folder / "r.git", folder / "clone")
    return World(folder / "r.git", ids, by_hand, by_chance, stock, Ours(folder / "r.git"))


def _by_hand(histories: Histories, base: Files, ours: Files, theirs: Files) -> History:
    root = histories.commit(base)
    return History(root, histories.commit(ours, root), histories.commit(theirs, root))


def _merge(world: World, one: History, git: Stock | Ours) -> Made:
    return git.merge(world.ids[one.ours], world.ids[one.theirs])


def _pick(world: World, one: History, git: Stock | Ours) -> Made:
    return git.pick(world.ids[one.ours], [world.ids[one.theirs]], one.mainline)


def _revert(world: World, one: History, git: Stock | Ours) -> Made:
    return git.revert(world.ids[one.theirs], [world.ids[one.ours]], one.ours_mainline)


def _rebase(world: World, one: History, git: Stock | Ours) -> Made:
    return git.rebase(world.ids[one.theirs], world.ids[one.ours], world.ids[one.ours])


def _rebase_onto(world: World, one: History, git: Stock | Ours) -> Made:
    return git.rebase(world.ids[one.theirs], world.ids[one.base], world.ids[one.ours])


def _rebase_back(world: World, one: History, git: Stock | Ours) -> Made:
    return git.rebase(world.ids[one.ours], world.ids[one.base], world.ids[one.base])


RUN: dict[str, Way] = {"merge": _merge, "pick": _pick, "revert": _revert, "rebase": _rebase}
RUN |= {"rebase onto": _rebase_onto, "rebase back": _rebase_back}
OWN = {"merge": slice(0, 1), "pick": slice(3), "revert": slice(0, 3, 2)}
"""What of tree, author and message must be the same: who merges and reverts is somebody else here."""


def _told(way: str, made: Made) -> Made:
    commits = tuple(one[OWN.get(way, slice(3))] for one in made.commits)
    unclear = made.paths is not None and way == "merge" and not made.commits
    return replace(made, commits=commits, at="" if unclear else made.at)


def _alike(stock: Made, ours: Made) -> bool:
    """Stock git may leave no entries for what it calls a conflict, as of a folder renamed to several; we name it."""
    unnamed = stock.paths == frozenset() and not stock.empty and bool(ours.paths)
    return stock == (replace(ours, paths=frozenset()) if unnamed else ours)


@pytest.mark.parametrize("name", NAMES)
def test_a_case_by_hand_gives_what_stock_git_gives(world: World, name: str) -> None:
    place = NAMES.index(name)
    ways = WAYS if FORM != "suite" else WAYS[place // 2 % 3 :][: place % 2]  # of every second case one way more
    assert world.agree(world.by_hand[name], "merge", *ways) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_by_chance_gives_what_stock_git_gives(world: World, seed: int) -> None:
    history = world.by_chance[seed]
    if FORM != "suite" or seed % 10 == 7:
        assert world.agree(history, "merge", *WAYS, *ROUNDABOUT) == []
    else:
        assert _tree_or_paths(world.ours.merge(*_tips(world, history))) == _by_merge_tree(world, history)


def _tree_or_paths(made: Made) -> bytes | frozenset[bytes]:
    return made.commits[-1][0] if made.paths is None else made.paths


def _tips(world: World, history: History) -> tuple[Oid, Oid]:
    return world.ids[history.ours], world.ids[history.theirs]


def _by_merge_tree(world: World, history: History) -> bytes | frozenset[bytes]:
    """What the program says when it is asked by branch names, less what it appends to names in the way."""
    names = [f"c{number}" for number in (history.ours, history.theirs)]
    status, said = ask(world.repository, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *names)
    tree, *paths = said.split(b"\0")[:-1]
    return tree if status == 0 else frozenset(path.partition(b"~")[0] for path in paths)


# What is said of a conflict


def conflicts(world: World, name: str) -> dict[bytes, Conflict]:
    with Staging(world.repository, AUTHOR) as staging:
        merged = staging.merge(*_tips(world, world.by_hand[name]))
    return {one.path: one for one in merged.conflicts}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("edits of one line", {b"a": "content"}),
        ("edits of one line on both sides of a rename", {b"moved": "content"}),
        ("both add another", {b"b": "both_added"}),
        ("delete and modify", {b"a": "deleted_by_us"}),
        ("modify and delete", {b"a": "deleted_by_them"}),
        ("two renames of one file", {b"a": "renamed", b"x": "renamed", b"y": "renamed"}),
        ("rename and delete", {b"moved": "renamed"}),
        ("both add with another mode", {b"run": "mode"}),
        ("a file here and a folder there", {b"b": "directory"}),
        ("a renamed folder and a new file in it", {b"e/new": "directory"}),
        ("a folder renamed to two and a new file in it", {b"d": "directory"}),
        ("binary on both", {b"a": "binary"}),
        ("a submodule that moves on both", {b"lib": "submodule"}),
        ("a submodule here and a file there", {b"lib": "submodule"}),
        ("two links", {b"l": "symlink"}),
        ("a link here and a file there", {b"b": "symlink"}),
    ],
)
def test_each_kind_of_conflict_is_told_by_its_name(world: World, name: str, kinds: dict[bytes, str]) -> None:
    assert {path: one.kind for path, one in conflicts(world, name).items()} == kinds


@pytest.mark.parametrize(
    ("name", "path", "regions"),
    [
        ("edits of one line", b"a", [((5, 1), (5, 1), (5, 1))]),
        ("edits of lines that touch", b"a", [((5, 2), (5, 2), (5, 2))]),
        ("two regions", b"a", [((2, 1), (2, 1), (2, 1)), ((9, 1), (9, 1), (9, 1))]),
        ("insertions at one place", b"a", [((6, 0), (6, 1), (6, 1))]),
        ("insertions at the end", b"a", [((11, 0), (11, 1), (11, 1))]),
        ("insertions at the start", b"a", [((1, 0), (1, 1), (1, 1))]),
        ("a line taken away and edited", b"a", [((5, 1), (5, 0), (5, 1))]),
        ("the same edit and one more", b"a", []),
        ("both add another", b"b", [((1, 0), (1, 1), (1, 1))]),
        ("both add what shares lines", b"b", [((1, 0), (1, 0), (1, 1)), ((1, 0), (11, 1), (12, 0))]),
        ("an empty file", b"a", [((1, 0), (1, 1), (1, 1))]),
        ("no line end at the end, and an edit there", b"a", [((10, 1), (10, 1), (10, 1))]),
        ("lone carriage returns", b"a", [((1, 1), (1, 1), (1, 1))]),
        ("text with markers in dispute", b"a", [((2, 1), (2, 1), (2, 1))]),
        ("binary on both", b"a", []),
        ("two links", b"l", []),
    ],
)
def test_the_lines_in_dispute_are_named_on_each_side(
    world: World, name: str, path: bytes, regions: list[tuple[tuple[int, int], ...]]
) -> None:
    found = conflicts(world, name).get(path)
    expected = tuple(Region(base=base, ours=ours, theirs=theirs) for base, ours, theirs in regions)
    assert (found.regions if found else ()) == expected


def test_a_conflict_has_what_each_side_has(world: World) -> None:
    found = conflicts(world, "delete and modify")[b"a"]
    base = git(world.repository, "hash-object", "--stdin", stdin=TEN).decode().strip()
    theirs = git(world.repository, "hash-object", "--stdin", stdin=at(5, b"theirs\n")).decode().strip()
    assert (found.base and found.base.oid, found.ours, found.theirs and found.theirs.oid) == (base, None, theirs)


def test_every_text_in_dispute_names_lines_that_are_there(world: World) -> None:
    with Staging(world.repository, AUTHOR) as staging:
        for history in [*world.by_hand.values(), *world.by_chance.values()][::4]:
            for one in staging.merge(*_tips(world, history)).conflicts:
                for side in ("base", "ours", "theirs"):
                    entry = getattr(one, side)
                    content = staging.blob(entry.oid) if entry and one.regions else b""
                    lines = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
                    for first, count in (getattr(region, side) for region in one.regions):
                        assert 1 <= first <= first + count <= lines + 1


def test_attributes_of_the_content_decide_nothing(tmp_path: Path) -> None:
    histories = Histories()
    rules = b"* merge=union -text\n*.txt merge=binary\n*.dat merge=ours filter=x\n"
    extra: Files = {b".gitattributes": rules, b"sub/.gitattributes": rules}
    base = histories.commit({**extra, b"a": TEN, b"sub/b.txt": TEN, b"sub/c.dat": TEN})
    sides = [
        histories.commit({**extra, b"a": at(5, side), b"sub/b.txt": at(5, side), b"sub/c.dat": at(place, side)}, base)
        for place, side in ((2, b"ours\n"), (9, b"theirs\n"))
    ]
    ids = histories.write(tmp_path / "r.git")
    with Staging(tmp_path / "r.git", AUTHOR) as staging:
        merged = staging.merge(ids[sides[0]], ids[sides[1]])
        assert [(one.path, one.kind) for one in merged.conflicts] == [(b"a", "content"), (b"sub/b.txt", "content")]
        entry = staging.entry(merged.tree, b"sub/c.dat")
        assert entry is not None
        assert staging.blob(entry.oid) == at(2, b"ours\n", at(9, b"theirs\n"))


def test_modes_of_old_histories_can_be_merged_and_shown(tmp_path: Path) -> None:
    histories = Histories()
    base = histories.commit({b"a": TEN})
    ours = histories.commit({b"a": at(2, b"ours\n")}, base)
    theirs = histories.commit({b"a": TEN, b"new": (RUNS, b"x\n")}, base)
    ids = histories.write(tmp_path / "r.git")
    repository = tmp_path / "r.git"
    tree = git(repository, "cat-file", "tree", ids[theirs]).replace(b"100644", b"100664")
    odd = git(repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=tree).decode().strip()
    commit = git(repository, "commit-tree", odd, "-p", ids[base], "-m", "Odd").decode().strip()
    ours_ = Ours(repository)
    assert ours_.merge(ids[ours], Oid(commit)).paths is None
    assert ours_.pick(ids[ours], [Oid(commit)]).paths is None
    assert ours_.rebase(Oid(commit), ids[ours], ids[ours]).paths is None


# Drafts


def test_commits_that_are_only_planned_are_merged_and_replayed_like_others(world: World) -> None:
    history = world.by_hand["edits far apart"]
    base, (ours, theirs) = world.ids[history.base], _tips(world, history)
    with Staging(world.repository, AUTHOR) as staging:
        ends = []
        for tip in (ours, theirs):
            draft = staging.draft((tip,), staging.commit(tip).tree, b"Empty\n")
            twin = staging.draft((draft.id,), staging.merge(ours, theirs).tree, b"Both\n")
            ends.append((draft.id, twin.id))
        (empty, mine), (other_empty, other) = ends
        assert staging.merge(mine, other) == staging.merge(ours, theirs)
        assert staging.merge(empty, theirs, base=base) == staging.merge(ours, theirs)
        replay = staging.replay(other, mine)  # what mine brings is what theirs and the other have brought
        assert (replay.commits, replay.dropped) == ((other_empty,), ((theirs, "upstream"), (other, "upstream")))
        assert staging.replay(other_empty, empty).commits == (theirs, other_empty)
        assert staging.replay(other, theirs).commits == (other_empty, other)
        again = staging.draft((ours,), staging.merge(ours, theirs).tree, b"The change of theirs\n")
        assert staging.replay(other_empty, again.id).dropped == ((theirs, "upstream"),)
        joined = staging.draft((mine, other), staging.commit(mine).tree, b"Join\n")
        assert (joined.id, "merge") in staging.replay(joined.id, base).dropped


def test_thousands_of_planned_commits_may_stand_on_each_other(world: World) -> None:
    ours, theirs = _tips(world, world.by_hand["edits far apart"])
    with Staging(world.repository, AUTHOR) as staging:
        tip, tree = ours, staging.commit(ours).tree
        for number in range(2_000):
            tip = staging.draft((tip,), tree, b"Empty %d\n" % number).id
        assert staging.merge(tip, theirs) == staging.merge(ours, theirs)


def test_the_empty_tree_can_be_a_side_and_a_base(world: World) -> None:
    history = world.by_hand["edits far apart"]
    base = world.ids[history.base]
    with Staging(world.repository, AUTHOR) as staging:
        gone = staging.merge(base, NULL, base=base)
        assert (staging.entries(gone.tree), gone.conflicts) == ((), ())
        assert staging.merge(base, base, base=NULL).tree == staging.commit(base).tree


# Time, and what is left behind


@pytest.mark.parametrize("way", ["merge", "replay"])
def test_what_takes_too_long_says_so(world: World, way: str) -> None:
    ours, theirs = _tips(world, world.by_hand["edits far apart"])
    with Staging(world.repository, AUTHOR, time.monotonic() - 1) as staging, pytest.raises(OutOfTime):
        staging.merge(ours, theirs) if way == "merge" else staging.replay(ours, theirs)


def test_planning_writes_nothing_to_the_repository_and_leaves_nothing_behind(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = _everything(world.repository)
    for name in ("edits far apart", "edits of one line", "a file here and a folder there", "binary on both"):
        for run in (_merge, _pick, _revert, _rebase):
            run(world, world.by_hand[name], world.ours)
    with Staging(world.repository, AUTHOR, time.monotonic() - 1) as staging, pytest.raises(OutOfTime):
        staging.merge(*_tips(world, world.by_hand["edits of one line"]))
    assert _everything(world.repository) == before
    assert list(tmp_path.iterdir()) == []


def _everything(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in folder.rglob("*")
    }

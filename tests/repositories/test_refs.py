"""Refs move with git's own locks, all or nothing up to the marker, and forward after it."""

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.repositories import refs
from service.repositories.bare import BareRepository
from service.repositories.packed import Packed, packed
from service.repositories.refs import (
    BrokenRef,
    LockHeld,
    RefConflict,
    RefMoved,
    RefTransaction,
    head_branch,
    is_ref_name,
    list_refs,
    read_ref,
    remove_leftover_locks,
)
from service.writer.reconcile import roll_forward

MAIN = "refs/heads/main"
MARKER = "refs/proposals/1"
STEPS = ("lock", "verify", "stage", "commit_marker", "commit_moves")
FORK = multiprocessing.get_context("fork")


class Base(NamedTuple):
    """A repository whose branch `main` is at `old`, with a child `new` that only `refs/heads/other` has."""

    path: Path
    old: Oid
    new: Oid


@pytest.fixture(name="base")
def base_fixture(repository: Path, grow: Callable[..., Oid]) -> Base:
    old = grow({"a": b"1\n"})
    new = grow({"a": b"2\n"}, old)
    _run(RefTransaction(repository, None, (_move(MAIN, new, old), _move("refs/heads/other", NULL, new))))
    return Base(repository, old, new)


def _run(transaction: RefTransaction, until: str = "commit_moves") -> None:
    for step in STEPS[: STEPS.index(until) + 1]:
        if step != "commit_marker" or transaction._marker:
            getattr(transaction, step)()


def _move(ref: str, old: Oid, new: Oid) -> MoveRef:
    return MoveRef(ref=ref, old=old, new=new)


def _never(*_: object) -> bool:
    return False


def _locks(repository: Path) -> list[str]:
    return [path.name for path in repository.rglob("*.lock")]


def test_a_branch_and_its_marker_move_and_git_sees_both(base: Base, git: Callable) -> None:
    _run(RefTransaction(base.path, (MARKER, base.new), (_move(MAIN, base.old, base.new),)))
    assert git(base.path, "rev-parse", MAIN, MARKER).decode().split() == [base.new, base.new]
    assert _locks(base.path) == []
    assert git(base.path, "fsck", "--strict") == b""


def test_head_follows_its_branch_and_is_null_before_the_first_commit(repository: Path, git: Callable) -> None:
    assert head_branch(repository) == MAIN
    assert read_ref(repository, "HEAD") == NULL
    assert list_refs(repository, "refs/") == []
    git(repository, "symbolic-ref", "HEAD", "refs/heads/ä/b")
    assert head_branch(repository) == "refs/heads/ä/b"


def test_a_detached_head_has_no_branch(base: Base, git: Callable) -> None:
    git(base.path, "update-ref", "--no-deref", "HEAD", base.new)
    assert head_branch(base.path) == ""
    assert read_ref(base.path, "HEAD") == base.new


def test_a_moved_branch_stops_everything_and_names_the_head(base: Base) -> None:
    transaction = RefTransaction(base.path, (MARKER, base.new), (_move(MAIN, base.new, base.old),))
    transaction.lock()
    with pytest.raises(RefMoved) as caught:
        transaction.verify()
    transaction.abort()
    assert (caught.value.ref, caught.value.expected, caught.value.head) == (MAIN, base.new, base.old)
    assert read_ref(base.path, MARKER) == NULL
    assert _locks(base.path) == []


def test_a_marker_that_is_there_stops_everything(base: Base, git: Callable) -> None:
    git(base.path, "update-ref", MARKER, base.new)
    git(base.path, "pack-refs", "--all")
    transaction = RefTransaction(base.path, (MARKER, base.new), (_move(MAIN, base.old, base.new),))
    transaction.lock()
    with pytest.raises(RefMoved) as caught:
        transaction.verify()
    transaction.abort()
    assert (caught.value.ref, caught.value.head) == (MARKER, base.new)


@pytest.mark.parametrize("held", [MAIN, MARKER])
def test_a_held_lock_gives_all_others_back_and_is_left_alone(base: Base, held: str) -> None:
    lock = base.path / f"{held}.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    with pytest.raises(LockHeld) as caught:
        RefTransaction(base.path, (MARKER, base.new), (_move(MAIN, base.old, base.new),)).lock()
    assert caught.value.ref == held
    assert _locks(base.path) == [lock.name]


def test_git_and_we_keep_each_other_out(base: Base) -> None:
    transaction = RefTransaction(base.path, None, (_move(MAIN, base.old, base.new),))
    transaction.lock()
    done = subprocess.run(
        ["git", "update-ref", MAIN, base.new], cwd=base.path, capture_output=True, check=False, text=True
    )
    assert "main.lock': File exists" in done.stderr
    transaction.abort()
    assert read_ref(base.path, MAIN) == base.old
    assert _locks(base.path) == []


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("ref", ["refs/heads/other/x/y", "refs/heads/deep"])
def test_a_ref_does_not_stand_under_or_over_another(base: Base, git: Callable, pack: bool, ref: str) -> None:
    git(base.path, "update-ref", "refs/heads/deep/er/x", base.new)
    if pack:
        git(base.path, "pack-refs", "--all")
    with pytest.raises(RefConflict) as caught:
        RefTransaction(base.path, (MARKER, base.new), (_move(ref, NULL, base.new),)).lock()
    assert caught.value.other == ("refs/heads/other" if "other" in ref else "refs/heads/deep/er/x")
    assert _locks(base.path) == []


def test_an_empty_folder_left_by_a_deletion_makes_room(base: Base, git: Callable) -> None:
    _run(RefTransaction(base.path, None, (_move("refs/heads/d/e/f", NULL, base.new),)))
    _run(RefTransaction(base.path, None, (_move("refs/heads/d/e/f", base.new, NULL),)))
    assert (base.path / "refs/heads/d/e").is_dir()
    _run(RefTransaction(base.path, None, (_move("refs/heads/d", NULL, base.new),)))
    assert git(base.path, "rev-parse", "refs/heads/d").decode() == base.new


def test_a_lock_below_says_ask_again(base: Base) -> None:
    rival = RefTransaction(base.path, None, (_move("refs/heads/d/e", NULL, base.new),))
    rival.lock()
    with pytest.raises(LockHeld):
        RefTransaction(base.path, None, (_move("refs/heads/d", NULL, base.new),)).lock()
    _run_rest(rival)
    assert read_ref(base.path, "refs/heads/d/e") == base.new


def _run_rest(transaction: RefTransaction) -> None:
    transaction.verify()
    transaction.stage()
    transaction.commit_moves()


@pytest.mark.parametrize("loose_again", [False, True])
def test_a_deleted_branch_is_gone_from_packed_refs_and_its_file(base: Base, git: Callable, loose_again: bool) -> None:
    git(base.path, "tag", "-a", "-m", "t", "v1", base.old)
    git(base.path, "pack-refs", "--all")
    at = base.new
    if loose_again:
        git(base.path, "update-ref", "refs/heads/other", base.old)
        at = base.old
    _run(RefTransaction(base.path, (MARKER, at), (_move("refs/heads/other", at, NULL),)))
    assert git(base.path, "for-each-ref", "--format=%(refname)").decode().split() == [MAIN, MARKER, "refs/tags/v1"]
    assert git(base.path, "rev-parse", "v1^{}").decode() == base.old
    assert read_ref(base.path, "refs/heads/other") == NULL
    assert _locks(base.path) == []
    assert git(base.path, "fsck", "--strict", "--no-dangling") == b""


def test_a_deletion_meets_a_held_packed_refs_lock_before_the_commit_point(base: Base) -> None:
    (base.path / "packed-refs.lock").touch()
    with pytest.raises(LockHeld) as caught:
        RefTransaction(base.path, (MARKER, base.new), (_move("refs/heads/other", base.new, NULL),)).lock()
    assert caught.value.ref == "packed-refs"
    assert read_ref(base.path, MARKER) == NULL


@pytest.mark.parametrize("header", [True, False])
def test_packed_refs_are_found_by_halving_with_or_without_the_sorted_header(tmp_path: Path, header: bool) -> None:
    names = sorted(b"refs/tags/%d" % number for number in range(500))
    lines = [b"%040x %s\n%s" % (at, name, b"^%040x\n" % at if at % 3 else b"") for at, name in enumerate(names)]
    first = b"# pack-refs with: peeled fully-peeled sorted \n" if header else b""
    (tmp_path / "packed-refs").write_bytes(first + b"".join(lines if header else reversed(lines)))
    with packed(tmp_path) as records:
        assert [records.get(name) for name in names] == [f"{at:040x}" for at in range(500)]
        assert [records.get(name + b"x") for name in (b"", b"refs/tags/1", b"zzz")] == [None] * 3
        assert [name for name, _ in records.under(b"refs/tags/49")] == [
            n for n in names if n.startswith(b"refs/tags/49")
        ]
        assert list(records.under(b"refs/zzz")) == []
        assert records.without([b"refs/tags/none"]) is None
        rest = records.without([names[0], names[499], names[250]])
    assert rest == (first if header else b"") + b"".join(lines[1:250] + lines[251:499])


def test_an_empty_or_absent_packed_refs_holds_nothing(tmp_path: Path) -> None:
    with packed(tmp_path) as records:
        assert records.get(b"refs/heads/main") is None
    (tmp_path / "packed-refs").touch()
    with packed(tmp_path) as records:
        assert list(records.under(b"")) == []


def test_what_is_listed_is_what_git_lists(base: Base, git: Callable) -> None:
    git(base.path, "update-ref", "refs/heads/a-b", base.new)
    git(base.path, "update-ref", "refs/heads/a/b", base.new)
    git(base.path, "pack-refs", "--all")
    git(base.path, "update-ref", "refs/heads/a/b", base.old)
    git(base.path, "update-ref", "refs/heads/a.b", base.old)
    (base.path / "refs/heads/broken").write_text("nonsense\n")
    listed = [f"{oid} {name}" for name, oid in list_refs(base.path, "refs/heads/")]
    (base.path / "refs/heads/broken").unlink()
    assert "\n".join(listed) == git(base.path, "for-each-ref", "--format=%(objectname) %(refname)").decode()


@pytest.mark.parametrize("name", ["refs/heads/link", "refs/heads/folder/main"])
def test_a_symbolic_link_is_no_ref(base: Base, name: str) -> None:
    (base.path / "refs/heads/link").symlink_to(base.path / MAIN)
    (base.path / "refs/heads/folder").symlink_to(base.path / "refs/heads")
    with pytest.raises(BrokenRef):
        read_ref(base.path, name)
    with pytest.raises(BrokenRef):
        RefTransaction(base.path, None, (_move(name, base.old, base.new),)).lock()
    assert _locks(base.path) == []
    assert [ref for ref, _ in list_refs(base.path, "refs/heads/")] == [MAIN, "refs/heads/other"]


def test_a_symbolic_ref_is_read_but_not_moved(base: Base, git: Callable) -> None:
    git(base.path, "symbolic-ref", "refs/heads/alias", MAIN)
    assert read_ref(base.path, "refs/heads/alias") == base.old
    transaction = RefTransaction(base.path, None, (_move("refs/heads/alias", base.old, base.new),))
    transaction.lock()
    with pytest.raises(BrokenRef):
        transaction.verify()
    transaction.abort()
    git(base.path, "symbolic-ref", "refs/heads/alias", "refs/heads/alias")
    with pytest.raises(BrokenRef):
        read_ref(base.path, "refs/heads/alias")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "HEAD",
        "main",
        "refs/heads",
        "refs/heads/",
        "refs/heads/../main",
        "refs/heads/.a",
        "refs/heads/a.lock",
        "refs/heads/a.lock/b",
        "refs/heads//a",
        "refs/heads/a b",
        "refs/heads/a\0",
        "refs/heads/a.",
        "refs/heads/@{-1}",
        "refs/heads/\ud800",
        "refs/heads/" + "x" * 251,
        "refs/heads" + "/x" * 1_100,
        "../../etc/passwd",
        "/etc/passwd",
    ],
)
def test_a_name_that_is_none_reads_as_absent_and_cannot_move(base: Base, name: str) -> None:
    assert not is_ref_name(name)
    if name != "HEAD":
        assert read_ref(base.path, name) == NULL
    with pytest.raises(ValueError, match="valid name"):
        RefTransaction(base.path, None, (_move(name, NULL, base.new),))


def test_a_ref_named_twice_is_a_mistake(base: Base) -> None:
    with pytest.raises(ValueError, match="ref of its own"):
        RefTransaction(base.path, (MAIN, base.new), (_move(MAIN, base.old, base.new),))


def test_the_marker_comes_first(base: Base) -> None:
    transaction = RefTransaction(base.path, (MARKER, base.new), (_move(MAIN, base.old, base.new),))
    _run(transaction, until="stage")
    with pytest.raises(ValueError, match="marker"):
        transaction.commit_moves()
    transaction.abort()


def test_nothing_is_given_back_after_the_commit_point(base: Base) -> None:
    transaction = RefTransaction(base.path, (MARKER, base.new), (_move(MAIN, base.old, base.new),))
    _run(transaction, until="commit_marker")
    transaction.abort()
    assert _locks(base.path) == ["main.lock"]
    transaction.commit_moves()
    assert read_ref(base.path, MAIN) == base.new


def test_many_packed_markers_are_not_read_to_move_one_ref(
    base: Base, git: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [b"%s refs/proposals/%06d\n" % (base.old.encode(), number) for number in range(100_000)]
    head = b"# pack-refs with: peeled fully-peeled sorted \n"
    (base.path / "packed-refs").write_bytes(head + b"".join(lines))
    records = []
    plain = Packed._record
    monkeypatch.setattr(Packed, "_record", lambda *place: records.append(place) or plain(*place))
    _run(RefTransaction(base.path, ("refs/proposals/050000x", base.new), (_move(MAIN, base.old, base.new),)))
    assert len(records) < 200
    monkeypatch.undo()
    _run(RefTransaction(base.path, None, (_move("refs/proposals/000007", base.old, NULL),)))
    assert read_ref(base.path, "refs/proposals/000007") == NULL
    assert (base.path / "packed-refs").stat().st_size == len(head) + sum(map(len, lines)) - len(lines[7])


def _die(signal_step: str, transaction: RefTransaction) -> None:
    _run(transaction, until=signal_step)
    os.kill(os.getpid(), signal.SIGKILL)


def _killed(step: str, transaction: RefTransaction) -> None:
    child = FORK.Process(target=_die, args=(step, transaction))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_killed_after_any_step_recovery_ends_in_one_of_two_states(
    base: Base, git: Callable, step: str, pack: bool
) -> None:
    if pack:
        git(base.path, "pack-refs", "--all")
    moves = (
        _move(MAIN, base.old, base.new),
        _move("refs/heads/other", base.new, NULL),
        _move("refs/heads/made/here", NULL, base.old),
    )
    _killed(step, RefTransaction(base.path, (MARKER, base.new), moves))
    remove_leftover_locks(base.path)
    if STEPS.index(step) < STEPS.index("commit_marker"):
        assert read_ref(base.path, MARKER) == NULL
        assert [read_ref(base.path, move.ref) for move in moves] == [move.old for move in moves]
        _run(RefTransaction(base.path, (MARKER, base.new), moves))
    else:
        assert read_ref(base.path, MARKER) == base.new
        assert roll_forward(BareRepository(base.path), (MARKER, base.new), moves, _never) == (
            moves if step == "commit_marker" else ()
        )
    assert [read_ref(base.path, move.ref) for move in (*moves,)] == [move.new for move in moves]
    assert _locks(base.path) == []
    assert git(base.path, "fsck", "--strict", "--no-dangling") == b""


def test_killed_within_a_deletion_it_is_finished(base: Base, git: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    git(base.path, "pack-refs", "--all")
    git(base.path, "update-ref", "refs/heads/other", base.old)
    moves = (_move("refs/heads/other", base.old, NULL), _move(MAIN, base.old, base.new))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    _killed("commit_moves", RefTransaction(base.path, (MARKER, base.old), moves))
    monkeypatch.undo()
    assert read_ref(base.path, "refs/heads/other") == base.old
    assert remove_leftover_locks(base.path) == ("refs/heads/other.lock",)
    assert roll_forward(BareRepository(base.path), (MARKER, base.old), moves, _never) == moves[:1]
    assert read_ref(base.path, "refs/heads/other") == NULL


def test_a_ref_that_is_elsewhere_stops_the_roll_forward_unless_it_landed(base: Base, grow: Callable) -> None:
    moves = (_move("refs/heads/made", NULL, base.old), _move(MAIN, base.old, base.new))
    marker = (MARKER, base.new)
    _run(RefTransaction(base.path, marker, moves[1:]))
    tip = grow({"a": b"3\n"}, base.new)
    with pytest.raises(RefMoved) as caught:
        roll_forward(BareRepository(base.path), marker, moves, _never)
    assert (caught.value.ref, caught.value.head) == (MAIN, tip)
    assert read_ref(base.path, "refs/heads/made") == NULL
    assert (
        roll_forward(BareRepository(base.path), marker, moves, lambda move, head: (move.ref, head) == (MAIN, tip))
        == moves[:1]
    )


def test_everything_a_dead_writer_leaves_is_removed_and_nothing_else(base: Base, git: Callable) -> None:
    leftovers = [
        "HEAD.lock",
        "config.lock",
        "packed-refs.lock",
        "refs/heads/main.lock",
        "refs/proposals/7.lock",
        "objects/info/commit-graphs/commit-graph-chain.lock",
        "objects/pack/tmp_pack_abc",
        "objects/pack/multi-pack-index.lock",
    ]
    for name in leftovers:
        (base.path / name).parent.mkdir(parents=True, exist_ok=True)
        (base.path / name).touch()
    (base.path / "objects/tmp_objdir-incoming-x/pack").mkdir(parents=True)
    before = git(base.path, "for-each-ref")
    assert remove_leftover_locks(base.path) == tuple(sorted(leftovers))  # the push may still go on
    os.utime(base.path / "objects/tmp_objdir-incoming-x", (0, 0))
    assert remove_leftover_locks(base.path) == ("objects/tmp_objdir-incoming-x",)
    assert remove_leftover_locks(base.path) == ()
    assert git(base.path, "for-each-ref") == before
    assert git(base.path, "fsck", "--strict", "--no-dangling") == b""


def _race(base: Base, number: int, start: object, results: object) -> None:
    transaction = RefTransaction(base.path, (f"refs/proposals/{number}", base.new), (_move(MAIN, base.old, base.new),))
    start.wait()
    try:
        _run(transaction)
        results.put("executed")
    except (RefMoved, LockHeld) as error:
        transaction.abort()
        results.put(type(error).__name__)


def test_of_two_processes_that_move_one_branch_at_once_exactly_one_does(base: Base) -> None:
    for number in range(0, 40, 2):
        start, results = FORK.Barrier(2), FORK.SimpleQueue()
        children = [FORK.Process(target=_race, args=(base, number + one, start, results)) for one in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        assert [results.get() for _ in children].count("executed") == 1
        assert len(list_refs(base.path, "refs/proposals/")) == number // 2 + 1
        assert _locks(base.path) == []
        _run(RefTransaction(base.path, None, (_move(MAIN, base.new, base.old),)))


def test_a_deletion_flushes_packed_refs_and_the_folder_it_took_the_file_from(
    base: Base, git: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(base.path, "pack-refs", "--all")
    git(base.path, "update-ref", "refs/heads/other", base.old)
    flushed: list[str] = []
    monkeypatch.setattr(refs, "flush", lambda path: flushed.append(os.path.relpath(path, base.path)))
    _run(RefTransaction(base.path, (MARKER, base.old), (_move("refs/heads/other", base.old, NULL),)))
    assert flushed[-2:] == [".", "refs/heads"]

"""Pushed ref commands: all or none, recorded once, and finished by whoever comes after a crash."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import pytest
from sqlalchemy import select

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.ledger.tables import ledger_entry, ref_move
from service.proposals.execute import Execute
from service.proposals.push import Push, ReservedRef
from service.proposals.store import ProposalStore
from service.repositories.bare import BareRepository
from service.repositories.lease import Lease, lease_file, marked
from service.repositories.refs import LockHeld, RefConflict, RefMoved
from service.writer.push import Journal, push, read_journal
from tests.stage import SEALER, House, git

pytestmark = pytest.mark.anyio
MAIN, NEXT = "refs/heads/main", "refs/heads/next"


def pusher(house: House, step: Callable[[str], None] = lambda _name: None) -> Push:
    """What takes pushes, in this process."""
    store = ProposalStore(house.stage.writer_db, house.stage.storage)
    execute = Execute(store, BareRepository, lambda _taken: None, step, SEALER)
    return Push(store, BareRepository, execute.lease, step)


def commit(house: House, parent: str, message: str = "Pushed") -> Oid:
    """A commit on the parent, in the repository and on no ref, as a push brings it."""
    tree = git(house.path, "rev-parse", f"{parent}^{{tree}}").decode().strip()
    return Oid(git(house.path, "commit-tree", tree, "-p", parent, "-m", message).decode().strip())


def forward(house: House) -> list[MoveRef]:
    """Main goes on, next is made."""
    head = Oid(house.head())
    new = commit(house, head)
    return [MoveRef(ref=MAIN, old=head, new=new), MoveRef(ref=NEXT, old=NULL, new=new)]


def refs(house: House) -> dict[str, str]:
    lines = git(house.path, "for-each-ref", "--format=%(refname) %(objectname)").decode().splitlines()
    return dict(line.split(" ") for line in lines)


async def recorded(house: House) -> tuple[list[tuple[str, str, str, str]], list[Any]]:
    """The ref moves and the ledger's entries of pushes."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        moves = await tx.execute(select(ref_move.c.ref, ref_move.c.old, ref_move.c.new, ref_move.c.actor))
        entries = await tx.execute(select(ledger_entry.c.body).where(ledger_entry.c.kind == "refs.pushed"))
        return sorted(tuple(row) for row in moves), [json.loads(row.body)["details"] for row in entries]


async def test_a_push_moves_its_refs_and_is_recorded_with_who_pushed(house: House) -> None:
    moves = forward(house)
    actor = house.owner.actor
    pushed = await pusher(house)(actor, house.repository, moves)
    assert isinstance(pushed, UUID)
    assert refs(house) == {MAIN: moves[0].new, NEXT: moves[0].new}
    rows, entries = await recorded(house)
    assert rows == sorted((one.ref, one.old, one.new, f"owner:{actor.id}") for one in moves)
    assert [(one["by"], len(one["moves"])) for one in entries] == [(f"owner:{actor.id}", 2)]
    assert not marked(lease_file(house.path))


@pytest.mark.parametrize("wrong", ["moved", "reserved", "conflict", "locked", "twice", "malformed", "long"])
async def test_of_a_push_that_is_refused_nothing_happens_and_nothing_is_left(house: House, wrong: str) -> None:
    good = forward(house)
    head = good[0].old
    bad: dict[str, tuple[list[MoveRef], type[Exception]]] = {
        "moved": ([MoveRef(ref="refs/heads/gone", old=head, new=head)], RefMoved),
        "reserved": ([MoveRef(ref="refs/proposals/x", old=NULL, new=head)], ReservedRef),
        "conflict": ([MoveRef(ref=f"{MAIN}/below", old=NULL, new=head)], RefConflict),
        "locked": ([MoveRef(ref="refs/heads/held", old=NULL, new=head)], LockHeld),
        "twice": ([good[0]], ValueError),
        "malformed": ([MoveRef(ref="refs/heads/a..b", old=NULL, new=head)], ValueError),
        "long": ([MoveRef(ref=f"refs/heads/{number}", old=NULL, new=head) for number in range(700)], ValueError),
    }
    (house.path / "refs/heads/held.lock").touch()
    more, refusal = bad[wrong]
    before = refs(house)
    with pytest.raises(refusal):
        await pusher(house)(house.owner.actor, house.repository, [*good, *more])
    assert refs(house) == before
    assert await recorded(house) == ([], [])
    assert not (lease_file(house.path).exists() and marked(lease_file(house.path)))
    assert [path.name for path in house.path.rglob("*.lock")] == ["held.lock"]


async def test_an_approval_that_a_push_came_before_is_stale(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    await pusher(house)(house.owner.actor, house.repository, forward(house))
    assert await house.execute(shown)
    assert (await house.read(shown))["status"] == "stale"


async def test_a_push_that_an_execution_came_before_is_refused(house: House) -> None:
    moves = forward(house)
    shown = await house.propose()
    await house.decide(shown)
    assert await house.execute(shown)
    with pytest.raises(RefMoved) as caught:
        await pusher(house)(house.owner.actor, house.repository, moves)
    assert caught.value.head == house.head() == (await house.read(shown))["outcome"]["commit"]


def die(path: Path, journal: Journal, last: str) -> NoReturn:
    """Push in this process as far as the step, and no further."""

    def step(name: str) -> None:
        if name == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with Lease.acquire(path, 5) as lease:
        lease.mark(b"held")
        push(BareRepository(path), lease, journal, step)
    os._exit(1)


def killed(path: Path, journal: Journal, last: str) -> None:
    if (child := os.fork()) == 0:
        die(path, journal, last)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("last", ["push staged", "push journaled", "push moved"])
async def test_whoever_comes_after_a_kill_finishes_the_push_or_finds_that_nothing_happened(
    house: House, last: str
) -> None:
    journal = Journal(UUID(int=7), "owner:1", tuple(forward(house)))
    before = refs(house)
    killed(house.path, journal, last)
    shown = await house.propose()
    await house.decide(shown)
    assert await house.execute(shown)
    rows, entries = await recorded(house)
    pushed = [row for row in rows if row[3] == "owner:1"]
    if last == "push staged":
        assert (pushed, entries) == ([], [])
        assert NEXT not in refs(house)
        assert git(house.path, "rev-list", "--count", f"{before[MAIN]}..main") == b"1\n"
    else:
        assert pushed == sorted((one.ref, one.old, one.new, "owner:1") for one in journal.moves)
        assert len(entries) == 1
        assert refs(house)[NEXT] == journal.moves[1].new
    assert not list(house.path.rglob("*.lock"))
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""


async def test_a_journal_that_comes_back_with_the_power_is_not_pushed_again(house: House) -> None:
    moves = forward(house)
    push_id = await pusher(house)(house.owner.actor, house.repository, moves)
    back = [MoveRef(ref=MAIN, old=moves[0].new, new=moves[0].old), MoveRef(ref=NEXT, old=moves[0].new, new=NULL)]
    await pusher(house)(house.owner.actor, house.repository, back)
    before, known = refs(house), await recorded(house)
    with Lease.acquire(house.path, 5) as lease:
        lease.mark(Journal(push_id, f"owner:{house.owner.actor.id}", tuple(moves)).encode())
    shown = await house.propose()
    await house.decide(shown)
    assert await house.execute(shown)
    assert {name: oid for name, oid in refs(house).items() if name == NEXT} == {}
    assert git(house.path, "rev-list", "--count", f"{before[MAIN]}..main") == b"1\n"
    assert (await recorded(house))[1] == known[1]


@pytest.mark.parametrize("how", ["moved", "in the way", "rubbish"])
async def test_a_strangers_hand_after_the_crash_moves_nothing_raises_the_alarm_and_holds_up_nobody(
    house: House, how: str
) -> None:
    journal = Journal(UUID(int=8), "owner:1", tuple(forward(house)))
    killed(house.path, journal, "push journaled")
    for lock in house.path.rglob("*.lock"):
        lock.unlink()
    if how == "moved":
        git(house.path, "update-ref", MAIN, commit(house, house.head(), "By hand"))
    elif how == "in the way":
        git(house.path, "update-ref", f"{NEXT}/below", house.head())
    else:
        (house.path / NEXT).write_text("rubbish\n")
    shown = await house.propose()
    await house.decide(shown)
    assert await house.execute(shown)
    assert (await house.read(shown))["status"] == "executed"
    assert refs(house).get(NEXT) != journal.moves[1].new
    async with house.stage.owner_db.bound(house.tenant) as tx:
        kinds = (await tx.execute(select(ledger_entry.c.kind))).scalars().all()
    assert kinds.count("writer.alarm") == 1


def test_a_torn_journal_is_none() -> None:
    whole = Journal(UUID(int=9), "owner:1", (MoveRef(ref=MAIN, old=NULL, new=Oid("a" * 40)),)).encode()
    assert read_journal(whole) is not None
    assert [read_journal(whole[:length]) for length in range(len(whole))] == [None] * len(whole)
    assert read_journal(b"held") is None

"""One contract for both: what the simulation plays behaves as the real disk and the real PostgreSQL do."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from service.contract.data import NULL
from service.contract.plan import MoveRef, Plan
from service.grants.standing import Proposer
from service.kit.actor import system
from service.ledger.tables import ledger_entry
from service.proposals.ports import Cause, Change, Decision, Tx
from service.proposals.store import ProposalStore
from service.repositories.bare import BareRepository
from service.repositories.git import init_bare
from service.repositories.lease import LeaseBusy
from service.repositories.objects import build_commit, staged
from service.repositories.refs import LockHeld, RefMoved
from service.writer.intent import Intent, marker_ref
from tests.faults.simulation.disk import Disk, Host, PlayedRepository
from tests.faults.simulation.play import CALM, OWNER, TENANT, Play
from tests.faults.simulation.schedule import Process, Schedule, drive
from tests.stage import House

pytestmark = pytest.mark.anyio
MAIN, OTHER, MARKER = "refs/heads/main", "refs/heads/other", "refs/proposals/1"
WHO = b"Olive Owner <olive@example.org> 1700000000 +0000"
BLOB = staged("blob", b"x\n")
TREE = staged("tree", b"100644 x\0" + bytes.fromhex(BLOB.oid))
FIRST = build_commit(TREE.oid, (), author=WHO, committer=WHO, message=b"First\n")
SECOND = build_commit(TREE.oid, (FIRST.oid,), author=WHO, committer=WHO, message=b"Second\n")
NOTHING = Plan(kinds=(), build=(), effects=())


# repositories


def filled(repository: Any) -> None:
    """Two commits, main at the first."""
    repository.write_pack([BLOB, TREE, FIRST, SECOND])
    carry_out(repository.ref_steps(None, [MoveRef(ref=MAIN, old=NULL, new=FIRST.oid)]))


def carry_out(steps: Any) -> None:
    steps.lock()
    steps.verify()
    steps.stage()
    if steps_marker(steps):
        steps.commit_marker()
    steps.commit_moves()


def steps_marker(steps: Any) -> bool:
    return getattr(steps, "_marker", getattr(steps, "marker", None)) is not None


def forward() -> MoveRef:
    return MoveRef(ref=MAIN, old=FIRST.oid, new=SECOND.oid)


def what_was_written_can_be_read(repository: Any) -> None:
    store = repository.store(NOTHING, ())
    assert store.commit(SECOND.oid).parents == (FIRST.oid,)
    assert store.blob(BLOB.oid) == BLOB.content
    assert [change.path for change in store.changes(None, TREE.oid)] == [b"x"]
    assert repository.message(SECOND.oid) == b"Second\n"
    assert repository.contains(SECOND.oid, FIRST.oid)
    assert not repository.contains(FIRST.oid, SECOND.oid)


def refs_and_marker_move_together(repository: Any) -> None:
    made = MoveRef(ref=OTHER, old=NULL, new=SECOND.oid)
    carry_out(repository.ref_steps((MARKER, SECOND.oid), [forward(), made]))
    assert [repository.read_ref(name) for name in (MAIN, OTHER, MARKER)] == [SECOND.oid] * 3
    assert repository.list_refs("refs/heads/") == [(MAIN, SECOND.oid), (OTHER, SECOND.oid)]
    carry_out(repository.ref_steps(None, [MoveRef(ref=OTHER, old=SECOND.oid, new=NULL)]))
    assert (repository.read_ref(OTHER), repository.own_value(MARKER)) == (NULL, SECOND.oid)
    assert repository.remove_leftovers() == ()


def a_ref_may_be_written_anew_where_it_is(repository: Any) -> None:
    carry_out(repository.ref_steps(None, [MoveRef(ref=MAIN, old=FIRST.oid, new=FIRST.oid)]))
    assert repository.read_ref(MAIN) == FIRST.oid


def a_ref_that_is_elsewhere_moves_nothing(repository: Any) -> None:
    steps = repository.ref_steps((MARKER, SECOND.oid), [MoveRef(ref=MAIN, old=SECOND.oid, new=FIRST.oid)])
    steps.lock()
    with pytest.raises(RefMoved) as caught:
        steps.verify()
    steps.abort()
    assert (caught.value.ref, caught.value.expected, caught.value.head) == (MAIN, SECOND.oid, FIRST.oid)
    assert (repository.read_ref(MAIN), repository.read_ref(MARKER)) == (FIRST.oid, NULL)
    assert repository.remove_leftovers() == ()


def a_lock_keeps_others_out_until_it_is_given_back(repository: Any) -> None:
    first, second = (repository.ref_steps(None, [forward()]) for _ in range(2))
    first.lock()
    with pytest.raises(LockHeld):
        second.lock()
    first.abort()
    carry_out(repository.ref_steps(None, [forward()]))
    assert repository.read_ref(MAIN) == SECOND.oid


def locks_of_the_dead_are_removed(repository: Any) -> None:
    repository.ref_steps((MARKER, SECOND.oid), [forward()]).lock()
    assert len(repository.remove_leftovers()) == 2
    carry_out(repository.ref_steps((MARKER, SECOND.oid), [forward()]))
    assert repository.read_ref(MARKER) == SECOND.oid


def the_marker_comes_first(repository: Any) -> None:
    steps = repository.ref_steps((MARKER, SECOND.oid), [forward()])
    steps.lock()
    with pytest.raises(ValueError, match="marker"):
        steps.commit_moves()
    steps.abort()
    without = repository.ref_steps(None, [forward()])
    with pytest.raises(ValueError, match="marker"):
        without.commit_marker()
    assert repository.read_ref(MAIN) == FIRST.oid


def nothing_is_given_back_after_the_commit_point(repository: Any) -> None:
    steps = repository.ref_steps((MARKER, SECOND.oid), [forward()])
    steps.lock()
    steps.stage()
    steps.commit_marker()
    steps.abort()
    assert repository.read_ref(MARKER) == SECOND.oid
    assert repository.remove_leftovers()


def a_lease_has_one_holder_and_its_mark_stays(repository: Any) -> None:
    with repository.lease(0) as lease:
        assert lease.read() == b""
        lease.mark(b"held")
        with pytest.raises(LeaseBusy), repository.lease(0):
            pass
    with repository.lease(0) as lease:
        assert lease.read() == b"held"
        lease.mark(b"a longer one", lasting=True)
        lease.mark(b"short")
        assert lease.read() == b"short"
        lease.clear()
    with repository.lease(0) as lease:
        assert lease.read() == b""


REPOSITORY_LAWS: tuple[Callable[[Any], None], ...] = (
    what_was_written_can_be_read,
    refs_and_marker_move_together,
    a_ref_may_be_written_anew_where_it_is,
    a_ref_that_is_elsewhere_moves_nothing,
    a_lock_keeps_others_out_until_it_is_given_back,
    locks_of_the_dead_are_removed,
    the_marker_comes_first,
    nothing_is_given_back_after_the_commit_point,
    a_lease_has_one_holder_and_its_mark_stays,
)


def name(law: Any) -> str:
    return str(law.__name__)


@pytest.mark.parametrize("law", REPOSITORY_LAWS, ids=name)
def test_the_disk_is_as_the_writer_expects(law: Callable[[Any], None], tmp_path: Path) -> None:
    init_bare(tmp_path / "r.git", MAIN)
    repository = BareRepository(tmp_path / "r.git")
    filled(repository)
    law(repository)


@pytest.mark.parametrize("law", REPOSITORY_LAWS, ids=name)
def test_the_played_disk_is_as_the_writer_expects(law: Callable[[Any], None]) -> None:
    schedule = Schedule(1)
    process = Process("somebody")
    disk = Disk()
    repository = PlayedRepository(Host(schedule, CALM, {Path("r"): disk}), process, disk)

    def work() -> None:
        with repository.lease(0):  # a played ref moves under the lease only
            filled(repository)
        if law is a_lease_has_one_holder_and_its_mark_stays:
            law(repository)
            return
        with repository.lease(0):
            law(repository)

    task = schedule.start(process, work)
    schedule.run(lambda: not task.over, lambda: None)
    assert not schedule.broken, schedule.broken


# stores


class Scene(Protocol):
    """A store with one pending proposal."""

    tenant: UUID
    proposal: UUID
    repository: UUID
    connection: UUID
    owner: UUID
    app: Any
    writer: Any

    async def entries(self) -> Sequence[str]: ...
    async def together(self, *work: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]: ...


async def approve(scene: Scene) -> None:
    async with scene.app.bound(scene.tenant) as tx:
        await tx.record(
            Decision(scene.proposal, scene.owner, None, "approve", "d" * 64, (), "", WHO, datetime.now(UTC))
        )
        assert await tx.change(Change(scene.proposal, "pending", "approved", when="in time"))
        await tx.queue(scene.proposal, scene.repository)


async def intend(scene: Scene, intent: Intent) -> None:
    async with scene.writer.bound(scene.tenant) as tx:
        await tx.store_intent(scene.proposal, 1, intent, None)
        assert await tx.change(Change(scene.proposal, "approved", "executing"))


def an_intent(scene: Scene) -> Intent:
    return Intent((SECOND,), (forward(),), (marker_ref(scene.proposal), SECOND.oid))


async def a_proposal_is_found(scene: Scene) -> None:
    async with scene.app.bound(scene.tenant) as tx:
        assert await tx.find(uuid4()) is None
        found = await tx.find(scene.proposal, lock=True)
        work = await tx.work(scene.proposal)
        assert (found.state, found.expired, found.repository) == ("pending", False, scene.repository)
        assert (work.state, work.repository) == ("pending", scene.repository)
        assert (await tx.place(scene.repository)).path == work.place.path
        assert await tx.approved(scene.proposal) is None


async def a_state_moves_only_from_its_source_and_in_its_time(scene: Scene) -> None:
    async with scene.app.bound(scene.tenant) as tx:
        assert not await tx.change(Change(scene.proposal, "approved", "stale"))
        assert not await tx.change(Change(scene.proposal, "pending", "expired", when="expired"))
        assert not await tx.change(Change(uuid4(), "pending", "declined"))
        assert await tx.change(Change(scene.proposal, "pending", "declined", {"code": "declined"}, "in time"))
        assert not await tx.change(Change(scene.proposal, "pending", "declined"))
    async with scene.app.bound(scene.tenant) as tx:
        found = await tx.find(scene.proposal)
        assert (found.state, found.outcome) == ("declined", '{"code":"declined"}')


async def what_is_not_committed_never_was(scene: Scene) -> None:
    before = await scene.entries()
    with pytest.raises(KeyError):
        await _change_and_fail(scene)
    async with scene.app.bound(scene.tenant) as tx:
        assert (await tx.find(scene.proposal)).state == "pending"
    assert await scene.entries() == before


async def _change_and_fail(scene: Scene) -> None:
    async with scene.app.bound(scene.tenant) as tx:
        assert await tx.change(Change(scene.proposal, "pending", "declined"))
        tx.append(system(scene.tenant), "proposal.declined", str(scene.proposal))
        raise KeyError("never mind")


async def entries_are_written_with_the_commit_in_their_order(scene: Scene) -> None:
    before = await scene.entries()
    async with scene.app.bound(scene.tenant) as tx:
        tx.append(system(scene.tenant), "one.done", "1")
        tx.append(system(scene.tenant), "two.done", "2", detail="x")
        assert await scene.entries() == before
    assert await scene.entries() == [*before, "one.done", "two.done"]


async def an_approval_is_what_the_writer_finds(scene: Scene) -> None:
    await approve(scene)
    async with scene.writer.bound(scene.tenant) as tx:
        found = await tx.approved(scene.proposal)
        assert (found.proposal.id, found.committer, found.approver) == (scene.proposal, WHO, scene.owner)
        assert found.objects
        assert await tx.executing(scene.repository) == []


async def a_proposal_is_decided_once(scene: Scene) -> None:
    await approve(scene)
    with pytest.raises(Exception, match=r"(?i)duplicate|once"):
        await approve(scene)


async def an_intent_reads_back_and_its_attempts_are_counted(scene: Scene) -> None:
    await approve(scene)
    await intend(scene, an_intent(scene))
    async with scene.writer.bound(scene.tenant) as tx:
        assert await tx.executing(scene.repository) == [scene.proposal]
        await tx.count_attempt(scene.proposal)
        await tx.store_intent(scene.proposal, 1, an_intent(scene), None)
        stored = await tx.intent(scene.proposal)
        assert (stored.intent, stored.attempts) == (an_intent(scene), 2)
        assert stored.objects
        assert 0 <= stored.age < 60
        assert await tx.intent(uuid4()) is None


async def moves_are_recorded_once(scene: Scene) -> None:
    cause = Cause(uuid4(), "owner:1", proposal=False)
    async with scene.writer.bound(scene.tenant) as tx:
        assert not await tx.recorded(cause, [forward()])
        assert await tx.record_moves(cause, scene.repository, [forward()])
    async with scene.writer.bound(scene.tenant) as tx:
        assert not await tx.record_moves(cause, scene.repository, [forward()])
        assert await tx.recorded(cause, [forward()])


async def a_restore_point_has_its_time_and_is_dropped_once(scene: Scene) -> None:
    async with scene.writer.bound(scene.tenant) as tx:
        assert await tx.time_left(scene.proposal) is None
        await tx.keep(scene.proposal, scene.repository, [forward()])
    async with scene.writer.bound(scene.tenant) as tx:
        assert 7_775_000 < await tx.time_left(scene.proposal) <= 7_776_000
        assert await tx.dropped(scene.proposal)
    async with scene.writer.bound(scene.tenant) as tx:
        assert not await tx.dropped(scene.proposal)
        assert await tx.time_left(scene.proposal) is None


async def rights_are_read_as_they_are(scene: Scene) -> None:
    for lock in (False, True):
        async with scene.writer.bound(scene.tenant) as tx:
            found = await tx.stand(Proposer("agent", scene.connection), scene.repository, scene.owner, lock=lock)
            assert set(found.states) == {"tenant", "project", "repository", "connection"}
            assert set(found.states.values()) == {"live"}
            assert found.granted
            assert found.agents_may_propose
            assert found.members[scene.owner].role == "owner"
            assert found.granter in found.members


async def of_two_who_change_at_once_one_does(scene: Scene) -> None:
    async def work(tx: Tx) -> bool:
        await tx.find(scene.proposal, lock=True)
        return await tx.change(Change(scene.proposal, "pending", "declined"))

    def one() -> Coroutine[Any, Any, bool]:
        return scene.app.repeat(scene.tenant, work)  # type: ignore[no-any-return]

    assert sorted(await scene.together(one, one, one)) == [False, False, True]


STORE_LAWS = (
    a_proposal_is_found,
    a_state_moves_only_from_its_source_and_in_its_time,
    what_is_not_committed_never_was,
    entries_are_written_with_the_commit_in_their_order,
    an_approval_is_what_the_writer_finds,
    a_proposal_is_decided_once,
    an_intent_reads_back_and_its_attempts_are_counted,
    moves_are_recorded_once,
    a_restore_point_has_its_time_and_is_dropped_once,
    rights_are_read_as_they_are,
    of_two_who_change_at_once_one_does,
)


@dataclass
class RealScene:
    """On PostgreSQL."""

    house: House
    tenant: UUID
    proposal: UUID
    repository: UUID
    connection: UUID
    owner: UUID
    app: ProposalStore
    writer: ProposalStore

    async def entries(self) -> Sequence[str]:
        async with self.house.stage.owner_db.bound(self.tenant) as tx:
            return list((await tx.execute(select(ledger_entry.c.kind).order_by(ledger_entry.c.seq))).scalars())

    async def together(self, *work: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
        return list(await asyncio.gather(*(one() for one in work)))


@pytest.fixture
async def real(house: House) -> RealScene:
    shown = await house.propose()
    stage = house.stage
    app, writer = (ProposalStore(database, stage.storage) for database in (stage.app_db, stage.writer_db))
    ids = (house.tenant, UUID(shown["proposal_id"]), house.repository, house.agent.id, house.owner.actor.id)
    return RealScene(house, *ids, app, writer)


@pytest.mark.parametrize("law", STORE_LAWS, ids=name)
async def test_the_database_is_as_the_life_of_a_proposal_expects(real: RealScene, law: Any) -> None:
    await law(real)


class PlayedScene:
    """In the simulation, with its own world and no faults."""

    def __init__(self) -> None:
        self.play = Play(1, 0, CALM)
        self.tenant, self.owner = TENANT, OWNER
        self.proposal = self.play._propose(1)
        row = self.play.server.rows["proposal", self.proposal]
        self.repository, self.connection = row.stored.repository, row.stored.connection
        self.app = self.writer = self.play.store

    async def entries(self) -> Sequence[str]:
        return [entry.kind for entry in self.play.server.ledger]

    async def together(self, *work: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
        done: list[Any] = []
        schedule = self.play.schedule
        for one in work:
            schedule.start(self.play.outside, lambda one=one: done.append(drive(one())))
        assert schedule.wait_for(lambda: len(done) == len(work), 60)
        return done


@pytest.mark.parametrize("law", STORE_LAWS, ids=name)
def test_the_played_database_is_as_the_life_of_a_proposal_expects(law: Any) -> None:
    scene = PlayedScene()
    schedule = scene.play.schedule
    failed: list[BaseException] = []

    def work() -> None:
        try:
            drive(law(scene))
        except Exception as error:  # noqa: BLE001  handed to the test
            failed.append(error)

    task = schedule.start(scene.play.outside, work)
    schedule.run(lambda: not task.over, lambda: None)
    scene.play.schedule.close()
    if failed:
        raise failed[0]

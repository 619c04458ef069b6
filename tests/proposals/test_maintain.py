"""The writer keeps repositories fast by itself, behind everybody else."""

import os
import time
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, text

from service.proposals.execute import Execute
from service.proposals.maintain import Maintain, ask_to_maintain
from service.proposals.store import ProposalStore
from service.proposals.tables import intent, work_queue
from service.repositories import maintenance
from service.repositories.bare import BareRepository
from service.repositories.lease import Lease, lease_file, marked
from service.repositories.maintenance import PACKS_MOST, wants_maintenance
from service.repositories.objects import staged
from service.repositories.packs import write_pack
from service.worker import GIVEN, LEASE_LIMIT_SECONDS, MAINTAINS, TAKEN, _Child
from tests.stage import SEALER, House, git

pytestmark = pytest.mark.anyio
EXECUTIONS = 100
FEW_PACKS = 3


def packs(house: House) -> int:
    return len(list((house.path / "objects" / "pack").glob("*.idx")))


def clutter(house: House, count: int = PACKS_MOST) -> None:
    """So many packs of one blob each."""
    for number in range(count):
        write_pack(house.path, [staged("blob", b"%d\n" % number)])


def maintainer(house: House) -> Maintain:
    """What the worker calls."""
    stage = house.stage
    store = ProposalStore(stage.writer_db, stage.storage)
    execute = Execute(store, BareRepository, lambda _taken: None, lambda _name: None, SEALER)
    return Maintain(store, execute.lease, lambda _name: None)


async def ask(house: House) -> None:
    """What an execution does in a repository that has become slow."""
    async with house.stage.writer_db.directory() as tx:
        await ask_to_maintain(tx, house.tenant, house.repository)


async def waiting(house: House, kind: str = "maintain") -> int:
    """How many pieces of work of this kind wait for the house's repository."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        of_kind = select(func.count()).select_from(work_queue).where(work_queue.c.kind == kind)
        found: int = await tx.scalar(of_kind.where(work_queue.c.repository == house.repository))
        return found


async def put_off(house: House) -> bool:
    """Whether the maintenance waits for minutes."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        later = work_queue.c.due > func.clock_timestamp() + text("interval '9 minutes'")
        mine = select(func.count()).select_from(work_queue).where(work_queue.c.subject == house.repository)
        return bool(await tx.scalar(mine.where(later)))


async def run(house: House, number: int) -> None:
    file = {"path": f"d/{number % 9}.txt", "content": f"{number}\n"}
    shown = await house.propose(house.arguments(file))
    await house.decide(shown)
    assert await house.execute(shown)


async def test_a_hundred_executions_leave_few_packs_few_loose_markers_and_every_commit(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "LOOSE_REFS_MOST", 30)
    most_loose = 0
    for number in range(EXECUTIONS):
        await run(house, number)
        most_loose = max(most_loose, len(list((house.path / "refs" / "proposals").iterdir())))
        if packs(house) >= PACKS_MOST:
            assert await waiting(house) == 1
            assert await maintainer(house)(house.tenant, house.repository)
            assert packs(house) <= FEW_PACKS
    assert await waiting(house) == 0
    assert most_loose < 30 + PACKS_MOST
    commits = git(house.path, "rev-list", "-n", str(EXECUTIONS), "main").split()
    markers = git(house.path, "for-each-ref", "--format=%(objectname)", "refs/proposals").split()
    assert (len(markers), sorted(markers)) == (EXECUTIONS, sorted(commits))
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""


async def test_a_repository_is_in_the_queue_once_however_often_it_is_asked_for(house: House) -> None:
    clutter(house, PACKS_MOST - 1)
    assert not wants_maintenance(house.path)
    clutter(house)
    assert wants_maintenance(house.path)
    for _ in range(3):
        await ask(house)
    assert await waiting(house) == 1


async def test_maintenance_gives_way_to_who_holds_the_lease_and_is_asked_again(house: House) -> None:
    clutter(house)
    await ask(house)
    with Lease.acquire(house.path, 0):
        assert not await maintainer(house)(house.tenant, house.repository)
    assert (packs(house), await waiting(house)) == (PACKS_MOST, 1)
    assert not await put_off(house)
    assert await maintainer(house)(house.tenant, house.repository)
    assert (packs(house), await waiting(house), marked(lease_file(house.path))) == (1, 0, False)


async def test_an_approval_waits_for_maintenance_and_no_attempt_is_counted(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    with Lease.acquire(house.path, 0):
        assert not await house.execute(shown)
    assert await house.execute(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(intent.c.attempts).where(intent.c.proposal == UUID(shown["proposal_id"]))) == 1
    assert (await house.read(shown))["status"] == "executed"


async def test_a_disk_that_refuses_puts_maintenance_off_and_the_mark_stays(house: House) -> None:
    clutter(house)
    await ask(house)
    broken = next((house.path / "objects" / "pack").glob("*.pack"))
    broken.chmod(0o644)
    broken.write_bytes(broken.read_bytes()[:20])
    assert not await maintainer(house)(house.tenant, house.repository)
    assert marked(lease_file(house.path))
    assert await put_off(house)


async def test_a_repository_that_is_gone_wants_no_maintenance(house: House) -> None:
    gone = uuid4()
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(
            work_queue.insert().values(kind="maintain", tenant=house.tenant, subject=gone, repository=gone)
        )
    assert await maintainer(house)(house.tenant, gone)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(work_queue.c.kind).where(work_queue.c.subject == gone)) is None


@pytest.mark.parametrize(("word", "seconds"), [(TAKEN, LEASE_LIMIT_SECONDS), (MAINTAINS, 120)])
def test_who_maintains_may_hold_the_lease_for_longer(word: bytes, seconds: int) -> None:
    reading, writing = os.pipe2(os.O_NONBLOCK)
    child = _Child(0, reading, LEASE_LIMIT_SECONDS)
    os.write(writing, word)
    child.read()
    assert child.until
    assert seconds - 10 < child.until - time.monotonic() <= seconds
    os.write(writing, GIVEN)
    child.read()
    assert child.until is None
    os.close(reading)
    os.close(writing)

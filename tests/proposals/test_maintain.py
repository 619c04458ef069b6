"""The writer keeps repositories fast by itself, behind everybody else."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import pytest
from sqlalchemy import func, select, text

from service.proposals.execute import Execute
from service.proposals.maintain import Maintain, ask
from service.proposals.tables import intent, work_queue
from service.repositories import maintenance
from service.repositories.lease import Lease, read_mark
from service.repositories.maintenance import PACKS_MOST
from service.repositories.objects import staged
from service.repositories.packs import write_pack
from service.repositories.placement import Place
from service.worker import GIVEN, LEASE_LIMIT_SECONDS, MAINTAINS, TAKEN, _Child
from tests.stage import House, git

pytestmark = pytest.mark.anyio
WRITER = Path(__file__).parent.parent / "dying_writer.py"
PATIENCE_SECONDS = 60
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
    execute = Execute(stage.writer_db, stage.storage, lambda _taken: None, lambda _name: None)
    return Maintain(stage.writer_db, stage.storage, execute.lease, lambda _name: None)


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
    writer = house.stage.writer_db
    clutter(house, PACKS_MOST - 1)
    await ask(writer, house.tenant, house.repository, Place(house.path, 1))
    assert await waiting(house) == 0
    clutter(house)
    for _ in range(3):
        await ask(writer, house.tenant, house.repository, Place(house.path, 1))
    assert await waiting(house) == 1


async def test_maintenance_gives_way_to_who_holds_the_lease_and_is_asked_again(house: House) -> None:
    clutter(house)
    await ask(house.stage.writer_db, house.tenant, house.repository, Place(house.path, 1))
    with Lease.acquire(house.path, 0):
        assert not await maintainer(house)(house.tenant, house.repository)
    assert (packs(house), await waiting(house)) == (PACKS_MOST, 1)
    assert not await put_off(house)
    assert await maintainer(house)(house.tenant, house.repository)
    assert (packs(house), await waiting(house), read_mark(house.path)) == (1, 0, b"")


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
    await ask(house.stage.writer_db, house.tenant, house.repository, Place(house.path, 1))
    broken = next((house.path / "objects" / "pack").glob("*.pack"))
    broken.chmod(0o644)
    broken.write_bytes(broken.read_bytes()[:20])
    assert not await maintainer(house)(house.tenant, house.repository)
    assert read_mark(house.path)
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
    child = _Child(0, reading)
    os.write(writing, word)
    child.read()
    assert child.until
    assert seconds - 10 < child.until - time.monotonic() <= seconds
    os.write(writing, GIVEN)
    child.read()
    assert child.until is None
    os.close(reading)
    os.close(writing)


@contextmanager
def writer(house: House, url: str, last: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, str(WRITER), url, str(house.stage.storage.root), last, "executor"])
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("last", ["repacked", "refs copied"])
async def test_the_worker_maintains_after_an_execution_and_after_a_kill_the_next_one_does(
    house: House, database_url: str, last: str
) -> None:
    clutter(house)
    names = "".join(f"create refs/proposals/{number:08d} {house.head()}\n" for number in range(500))
    git(house.path, "update-ref", "--stdin", stdin=names.encode())
    shown = await house.propose()
    await house.decide(shown)
    with writer(house, database_url, last), anyio.fail_after(PATIENCE_SECONDS):
        async with house.stage.waiter.running():
            while (await house.own.read(shown["proposal_id"], 5))["status"] != "executed":
                pass
        while packs(house) > FEW_PACKS or await waiting(house) or read_mark(house.path):
            await anyio.to_thread.run_sync(os.sched_yield)
    assert (house.stage.storage.root / "died").exists()
    assert not list((house.path / "refs" / "proposals").iterdir())
    refs = git(house.path, "for-each-ref", "refs/proposals").splitlines()
    assert len(refs) == 501
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""
    assert not [path for path in house.path.rglob("*") if path.name.endswith((".lock", ".new")) or "tmp_" in path.name]
    again = await house.decide(shown)
    assert (again.state, again.replayed, again.outcome["commit"]) == ("executed", True, house.head())

"""A disk that is really full, really read-only, or slow: what was approved waits, and nobody need help it."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from sqlalchemy import func, select

from service.contract.data import Json
from service.proposals.tables import intent, work_queue
from service.repositories.placement import Storage
from service.worker import CLAIM_SECONDS
from tests.faults.attack import Zygote, why_not
from tests.faults.oracle import judge
from tests.faults.sizes import FORM
from tests.faults.trial import staged
from tests.stage import House, Stage

pytestmark = pytest.mark.anyio
BYTES = 2_000_000
PATIENCE_SECONDS = 60
DELAY_SECONDS = 0.05 if FORM == "suite" else 2.0


def mounts(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
async def small(stage: Stage, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage whose repositories have a small disk of their own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mounts("mount", "-t", "tmpfs", "-o", f"size={BYTES}", "tmpfs", str(disk)):
        pytest.skip("a small file system cannot be mounted here")
    yield replace(stage, storage=Storage(disk))
    assert mounts("umount", "-l", str(disk))


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """No byte is free."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize)
    yield
    filler.unlink()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    assert mounts("mount", "-o", "remount,ro", str(disk))
    yield
    assert mounts("mount", "-o", "remount,rw", str(disk))


async def pauses_longer_than_a_claim(house: House, shown: Json) -> None:
    pause = 0.0
    while pause <= CLAIM_SECONDS:
        claims, pause = await waits(house)
        assert pause <= max(CLAIM_SECONDS, 2**claims)
        await house.own.read(shown["proposal_id"], 1)


async def waits(house: House) -> tuple[int, float]:
    """How often it was claimed, and the seconds until it will be again."""
    left = func.extract("epoch", work_queue.c.due - func.clock_timestamp())
    async with house.stage.owner_db.directory() as tx:
        queued = select(work_queue.c.attempts, left.label("left"))
        found = await tx.execute(queued.where(work_queue.c.tenant == house.tenant, work_queue.c.kind == "execute"))
        row = found.one()
    return row.attempts, float(row.left)


@pytest.mark.parametrize("trouble", [full, read_only])
async def test_what_is_approved_while_the_disk_refuses_waits_ever_longer_and_is_executed_when_it_is_well_again(
    small: Stage, writers: Zygote, trouble: Callable[[Path], AbstractContextManager[None]]
) -> None:
    house = await small.house()
    shown = await house.propose()
    with writers.working(small.storage.root), anyio.fail_after(PATIENCE_SECONDS):
        with trouble(small.storage.root):
            await house.decide(shown)
            await pauses_longer_than_a_claim(house, shown)
            assert (await house.read(shown))["status"] == "approved"
            assert (await house.propose(key="while-it-refuses"))["status"] == "pending"
            assert house.content("app.py")
        async with small.waiter.running():
            while (found := await house.own.read(shown["proposal_id"], 5))["status"] == "approved":
                pass
    assert found["status"] == "executed"
    assert await attempts(house) == 1
    assert await judge(small.owner_db, small.storage, house.tenant) == []


async def attempts(house: House) -> int | None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        found: int | None = await tx.scalar(select(intent.c.attempts))
    return found


@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_a_slow_disk_only_takes_longer(stage: Stage, writers: Zygote) -> None:
    trial = await staged(stage, "loose")
    slow = f"inject=fsync:delay_exit={round(DELAY_SECONDS * 1_000_000)}"
    ended = writers.run("execute", trial.house, trial.ids, slow)
    assert ended.status == 0
    assert ended.seconds > 5 * DELAY_SECONDS
    assert await trial.faults() == []

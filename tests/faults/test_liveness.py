"""What goes on while something else does not: other repositories, and a writer whose database is away."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread
import psutil
import pytest

from service.contract.data import Json
from service.proposals.states import FINAL
from service.repositories.lease import Lease
from service.settings import Settings
from service.worker import run_worker
from tests.faults.attack import Zygote
from tests.faults.forks import end, fork
from tests.stage import ISSUER, SEALER, House, Stage

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 60
QUEUED = 8
SOON_SECONDS = 60.0  # who was kept waiting would wait for as long as the other one is held


async def approved(house: House, name: str) -> Json:
    shown = await house.propose(house.arguments({"path": name, "content": f"{name}\n"}))
    await house.decide(shown)
    return shown


async def ended(house: House, shown: Json, seconds: float) -> str | None:
    async def look() -> str | None:
        state = str((await house.read(shown))["status"])
        return state if state in FINAL else None

    return await house.stage.waiter.until(shown["proposal_id"], look, seconds)


async def test_a_repository_that_somebody_holds_keeps_no_other_one_waiting(
    stage: Stage, house: House, writers: Zygote
) -> None:
    other = await stage.house()
    async with stage.waiter.running():
        with Lease.acquire(house.path, 0):
            held = [await approved(house, f"{number}.txt") for number in range(QUEUED)]
            with writers.working(stage.storage.root, executors=2):
                shown = await approved(other, "free.txt")
                assert await ended(other, shown, SOON_SECONDS) == "executed"
        with writers.working(stage.storage.root, executors=2):
            states = [await ended(house, one, PATIENCE_SECONDS) for one in held]
    assert sorted(map(str, states)) == ["executed", *["stale"] * (QUEUED - 1)]


async def test_a_writer_without_a_database_waits_for_it_and_stays_who_it_is(tmp_path: Path) -> None:
    url = f"postgresql://placet@/placet?host={tmp_path}"
    pid = fork(run_worker, Settings(url, ISSUER, tmp_path, b"s" * 32, None), SEALER, 1, log=tmp_path / "log")
    try:
        writer = psutil.Process(pid)
        executor = await anyio.to_thread.run_sync(first_child, writer)
        with pytest.raises(psutil.TimeoutExpired):
            await anyio.to_thread.run_sync(writer.wait, 3)
        assert writer.children() == [executor]
    finally:
        end(pid)


async def test_an_executor_that_dies_leaves_its_parent_no_descriptor(database_url: str, tmp_path: Path) -> None:
    pid = fork(run_worker, Settings(database_url, ISSUER, tmp_path, b"s" * 32, None), SEALER, 1, log=tmp_path / "log")
    try:
        writer = psutil.Process(pid)
        executor = await anyio.to_thread.run_sync(first_child, writer)
        before = writer.num_fds()
        for _ in range(2):
            os.kill(executor.pid, signal.SIGKILL)
            executor = await anyio.to_thread.run_sync(first_child, writer, executor)
        await anyio.to_thread.run_sync(until, lambda: writer.num_fds() == before)
    finally:
        end(pid)


def until(so: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_SECONDS
    while not so():
        assert time.monotonic() < limit
        os.sched_yield()


def first_child(parent: psutil.Process, before: psutil.Process | None = None) -> psutil.Process:
    """The executor, once it is there and is another one than before."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < limit:
        for child in parent.children():
            if child != before and child.status() != psutil.STATUS_ZOMBIE:
                return child
        os.sched_yield()
    raise TimeoutError

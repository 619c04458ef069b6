"""kill -9 of the writer at every system call of an execution, and of the one that recovers it."""

import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from service.kit.database import Database
from service.worker import CLAIM, CLAIM_SECONDS
from tests.faults.attack import Call, Zygote, calls_in, kill_at, why_not
from tests.faults.sizes import SIZES, sampled
from tests.faults.trial import LAYOUTS, Tally, Trial, counted, staged, to_the_lease
from tests.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(why_not()), reason=why_not())]
PATIENCE_SECONDS = 60
RIVAL_EVERY = 3  # in every third trial a rival on the same base goes first after the crash
STATES = (("rename", 2), ("rename", 3), ("rename", 4))  # killed before the index, before the marker, after the marker


async def test_killed_at_any_system_call_it_is_executed_once_and_recovers_by_itself(
    stage: Stage, writers: Zygote, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tally = Tally()
    every = [(layout, call) for layout in LAYOUTS for call in await counted(stage, writers, layout, tmp_path / layout)]
    for number in sampled(len(every), SIZES.kill_points):
        layout, call = every[number - 1]
        trial = await staged(stage, layout, rival=number % RIVAL_EVERY == 0)
        died = writers.run("execute", trial.house, trial.ids[-1:], kill_at(call))
        assert died.status == -9, f"{call} was not reached"
        recovered = writers.run("recover", trial.house, trial.ids)
        assert recovered.status == 0
        await tally.add(f"{layout}, {call}", trial, recovered.seconds)
    record_property("system calls of an execution", len(every) // len(LAYOUTS))
    tally.tell(record_property)
    assert not tally.wrong, "\n".join(tally.wrong)


@pytest.mark.parametrize("state", STATES, ids=["before the index", "before the marker", "after the marker"])
async def test_killed_again_while_it_recovers_it_recovers_from_that_too(
    stage: Stage,
    writers: Zygote,
    tmp_path: Path,
    state: tuple[str, int],
    record_property: Callable[[str, object], None],
) -> None:
    async def crashed() -> Trial:
        trial = await staged(stage, "packed")
        assert writers.run("execute", trial.house, trial.ids, kill_at(Call(*state))).status == -9
        return trial

    counting = await crashed()
    assert writers.run("recover", counting.house, counting.ids, log=tmp_path / "log").status == 0
    calls = to_the_lease(calls_in(tmp_path / "log"))
    tally = Tally()
    for number in sampled(len(calls), SIZES.recovery_kills):
        trial = await crashed()
        call = calls[number - 1]
        assert writers.run("recover", trial.house, trial.ids, kill_at(call)).status == -9, call
        recovered = writers.run("recover", trial.house, trial.ids)
        await tally.add(f"recovering, {call}", trial, recovered.seconds)
    record_property("system calls of this recovery", len(calls))
    tally.tell(record_property)
    assert not tally.wrong, "\n".join(tally.wrong)


async def test_a_new_worker_finds_what_a_dead_one_had_claimed(
    stage: Stage, writers: Zygote, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tally = Tally()
    calls = await counted(stage, writers, "loose", tmp_path / "log")
    trials = []
    for number in sampled(len(calls), min(SIZES.recovery_kills, 20)):
        trial = await staged(stage, "loose", root=stage.storage.root)
        await claimed(stage.owner_db)
        assert writers.run("execute", trial.house, trial.ids, kill_at(calls[number - 1])).status == -9
        trials.append((trial, calls[number - 1]))
    async with stage.waiter.running():
        began = time.monotonic()
        with writers.working(stage.storage.root), anyio.fail_after(PATIENCE_SECONDS):
            seconds = [await ended(trial) - began for trial, _ in trials]
    for (trial, call), took in zip(trials, seconds, strict=True):
        await tally.add(f"worker, {call}", trial, took)
    tally.tell(record_property)
    assert not tally.wrong, "\n".join(tally.wrong)


async def ended(trial: Trial) -> float:
    """When it has ended, by the monotonic clock."""
    while (await trial.house.own.read(trial.ids[0], 5))["status"] in {"approved", "executing"}:
        pass
    return time.monotonic()


async def claimed(owner_db: Database) -> None:
    """As the dead worker did before it began; then nobody else may try for this long."""
    async with owner_db.directory() as tx:
        while (await tx.execute(CLAIM, {"seconds": CLAIM_SECONDS, "busy": []})).one().kind != "execute":
            pass  # the queue is everybody's

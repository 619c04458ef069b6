"""An approval whose writer is killed at a random point and started again: it must end once, and be told so."""

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

from service.bench.memory import children
from service.bench.projects import chosen, content
from service.bench.race import FILES, MODES, RUNS
from service.bench.results import Results
from service.bench.stand import Kind, Project, Stand, stand
from service.bench.tally import Ending, Tally
from service.scenario.play import Hand

TRIALS = 50
_WARM = 10
_BEYOND = 1.25  # of the usual time of an approval: some are killed right after their end


def crash(folder: Path, runs: int = RUNS, trials: int = TRIALS) -> Results:
    """Measure in `folder`, over HTTP; the modes take turns."""

    async def measure() -> list[dict[str, object]]:
        async with stand(folder / "service") as it:
            return [await run(it, mode, number, trials) for number in range(1, runs + 1) for mode in MODES]

    note = (
        "The executors are killed (SIGKILL) at a random time after the click, the writer starts others, what they had "
        "claimed is due at once; the owner hears the first answer and clicks again."
    )
    return Results("Crash", asyncio.run(measure()), note=note)


async def run(it: Stand, mode: Kind, number: int, trials: int) -> dict[str, object]:
    """One run of one mode: a line of the table."""
    where, tally, killed = await it.add(FILES), Tally(), 0
    chance = random.Random(f"{mode} {number}")  # noqa: S311  when to kill
    async with it.writer(mode) as (hand,):
        usual = await _usual(it, where)
        for trial in range(trials):
            ending, died = await _trial(it, where, hand, trial, chance.uniform(0, usual * _BEYOND))
            tally.trials.append([ending])
            killed += died
    counts = await asyncio.to_thread(tally.row, where.path)
    return {"mode": mode, "run": number, **counts, "executors killed": killed}


async def _usual(it: Stand, where: Project) -> float:
    """How many seconds an approval takes that nobody kills."""
    seconds = []
    for number in range(_WARM):
        path = chosen(FILES, 1, number)[0]
        proposed = await it.propose(where, {path: content(number)})
        await it.read(proposed)
        began = time.perf_counter()
        await it.click(proposed)
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[_WARM // 2]


async def _trial(it: Stand, where: Project, hand: Hand, trial: int, seconds: float) -> tuple[Ending, int]:
    """One approval, and how many executors were killed under it."""
    path = chosen(FILES, 1, trial)[0]
    proposed = await it.propose(where, {path: content((trial, path))})
    await it.read(proposed)
    clicked = asyncio.create_task(it.click(proposed))
    await asyncio.sleep(seconds)
    executors = children(hand.pid)
    for executor in executors:
        with suppress(ProcessLookupError):
            os.killpg(executor, signal.SIGKILL)
    await it.hurry()
    answer = await clicked
    return Ending(proposed.id, answer, await it.click(proposed)), len(executors)

"""Two approvals at once on one base: one must win, the other must be told so, and no commit may be lost."""

import asyncio
from pathlib import Path

from service.bench.projects import chosen, content
from service.bench.results import Results
from service.bench.stand import Kind, Project, Stand, stand
from service.bench.tally import Ending, Tally

FILES = 100
RUNS = 2
TRIALS = 100
MODES: tuple[Kind, ...] = ("ours", "naive")


def race(folder: Path, runs: int = RUNS, trials: int = TRIALS) -> Results:
    """Measure in `folder`, over HTTP, with a writer of two executors; the modes take turns."""

    async def measure() -> list[dict[str, object]]:
        async with stand(folder / "service") as it:
            return [await run(it, mode, number, trials) for number in range(1, runs + 1) for mode in MODES]

    note = "Two proposals on one tip, approved at the same time over HTTP; a writer with two executors."
    return Results("Race", asyncio.run(measure()), note=note)


async def run(it: Stand, mode: Kind, number: int, trials: int) -> dict[str, object]:
    """One run of one mode: a line of the table."""
    where, tally = await it.add(FILES), Tally()
    async with it.writer(mode):
        for trial in range(trials):
            tally.trials.append(await _trial(it, where, trial))
    return {"mode": mode, "run": number, **await asyncio.to_thread(tally.row, where.path)}


async def _trial(it: Stand, where: Project, trial: int) -> list[Ending]:
    paths = chosen(FILES, 2, trial)
    both = [await it.propose(where, {path: content((trial, path))}) for path in paths]
    for one in both:
        await it.read(one)
    answers = await asyncio.gather(*(it.click(one) for one in both))
    return [Ending(one.id, answer, await it.click(one)) for one, answer in zip(both, answers, strict=True)]

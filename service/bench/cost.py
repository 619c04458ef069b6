"""What a caller waits for, with the promises and without: proposing, approving, their replays, and going stale."""

import asyncio
from pathlib import Path

from service.bench.projects import chosen, content
from service.bench.race import FILES, MODES, RUNS
from service.bench.results import Results, Times
from service.bench.serve import CLICK, CLICK_AGAIN, PROPOSE, PROPOSE_AGAIN, timed
from service.bench.stand import Kind, Project, Stand, stand

STALE = "stale"
N = 200
_WARM = 5


def cost(folder: Path, runs: int = RUNS, n: int = N) -> Results:
    """Measure in `folder`, over HTTP, each so many times; the modes take turns."""

    async def measure() -> list[dict[str, object]]:
        async with stand(folder / "service") as it:
            return [await run(it, mode, number, n) for number in range(1, runs + 1) for mode in MODES]

    return Results(
        "Cost", asyncio.run(measure()), note=f"Medians over HTTP, n = {n}, 1 file of 10 KB in {FILES} files."
    )


async def run(it: Stand, mode: Kind, number: int, n: int) -> dict[str, object]:
    """One run of one mode: a line of the table."""
    where, times = await it.add(FILES), Times()
    async with it.writer(mode):
        for turn in range(n + _WARM):
            await _turn(it, where, turn, times if turn >= _WARM else Times())
    return {"mode": mode, "run": number, "n": n, **times.row()}


async def _turn(it: Stand, where: Project, turn: int, times: Times) -> None:
    one, other = ({path: content((turn, path))} for path in chosen(FILES, 2, turn))
    late = await it.propose(where, other)
    proposed = await timed(times, PROPOSE, it.propose(where, one))
    await timed(times, PROPOSE_AGAIN, it.propose_again(proposed.sent))
    await timed(times, CLICK, it.click(proposed))
    await timed(times, CLICK_AGAIN, it.click(proposed))
    await timed(times, STALE, it.click(late))

"""What a caller waits for, with the promises and without: proposing, approving, their replays, and going stale."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
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
    """Measure in `folder`, over HTTP, each so many times: a service for each mode, by turns."""

    async def measure() -> list[dict[str, object]]:
        async with AsyncExitStack() as stack:
            stands: dict[Kind, Stand] = {}
            for mode in MODES:
                stands[mode] = await stack.enter_async_context(stand(folder / mode))
                await stack.enter_async_context(stands[mode].writer(mode))
            return [row for number in range(1, runs + 1) for row in await run(stands, number, n)]

    note = (
        f"Medians over HTTP, n = {n}, 1 file of 10 KB in {FILES} files; the modes take turns, each on its own service."
    )
    return Results("Cost", asyncio.run(measure()), note=note)


async def run(stands: Mapping[Kind, Stand], number: int, n: int) -> list[dict[str, object]]:
    """One run: a line of the table for each mode. The writers run already."""
    grounds = {mode: (it, await it.add(FILES), Times()) for mode, it in stands.items()}
    for turn in range(n + _WARM):
        for it, where, times in grounds.values():
            await _turn(it, where, turn, times if turn >= _WARM else Times())
    return [{"mode": mode, "run": number, "n": n, **times.row()} for mode, (_, _, times) in grounds.items()]


async def _turn(it: Stand, where: Project, turn: int, times: Times) -> None:
    one, other = ({path: content((turn, path))} for path in chosen(FILES, 2, turn))
    late = await it.propose(where, other)
    proposed = await timed(times, PROPOSE, it.propose(where, one))
    await timed(times, PROPOSE_AGAIN, it.propose_again(proposed.sent))
    await timed(times, CLICK, it.click(proposed))
    await timed(times, CLICK_AGAIN, it.click(proposed))
    await timed(times, STALE, it.click(late))

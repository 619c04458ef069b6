"""How long a card takes that shows a large change: when its code has never been coloured, and when it has been."""

import asyncio
import re
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import httpx
from sqlalchemy import delete

import service
from service.bench.projects import BRANCH, FILE_BYTES, commit_on, written_file
from service.bench.results import MS, Results, Target, Times
from service.bench.stand import Proposed, Stand, stand
from service.proposals.tables import coloured

FILES: Final = 20
ROUNDS: Final = 15
COLD, CACHED, SPLIT = "card cold", "card cached", "side by side, cached"
COLD_MS: Final = 1_000.0
CACHED_MS: Final = 150.0
_HOUSE: Final = Path(service.__file__).parent
_TEXTS: Final = {"py": "edge/desk/*.py", "md": "**/*.md", "ts": "edge/assets/*[!n].js"}
"""What the files are made of, by their ending: sources of ours. The scripts are JavaScript, which TypeScript holds."""
_WORD: Final = re.compile(r"\w+")


def desk(folder: Path, rounds: int) -> Results:
    """Open one card over and over, with and without what is kept of its colours."""
    times = asyncio.run(_measure(folder, rounds))
    fastest = {f"{name}, ms": round(min(seconds) * MS, 2) for name, seconds in times.seconds.items()}
    return Results(
        title=f"A card of {FILES} files of {FILE_BYTES:,} bytes, before and after",
        rows=[{"of all": "median", **times.row()}, {"of all": "fastest", **fastest}],
        targets=[
            Target("Coloured before", times.median(CACHED), most=CACHED_MS, unit="ms"),
            Target("Never coloured", times.median(COLD), most=COLD_MS, unit="ms"),
        ],
        note="Over HTTP, by turns; targets by the medians. Python, Markdown, TypeScript; every third line changes.",
    )


def before(number: int) -> tuple[str, str]:
    """The path of a file, and what it has."""
    ending = list(_TEXTS)[number % len(_TEXTS)]
    source = "".join(path.read_text("ascii", "replace") for path in sorted(_HOUSE.glob(_TEXTS[ending])))
    source = source.replace("\ufffd", "?")  # so that bytes are characters
    start = source.find("\n", number * FILE_BYTES // 4 % max(1, len(source) - FILE_BYTES)) + 1
    text = f"{number}\n" + "".join(islice(cycle(source[start:] + "\n"), FILE_BYTES))
    return f"src/file{number}.{ending}", f"{text[: FILE_BYTES - 1]}\n"


def after(text: str) -> str:
    """The same with a word turned round in every third line: as long as it was."""
    lines = text.splitlines(keepends=True)
    lines[::3] = [_WORD.sub(lambda word: word[0][::-1], line, count=1) for line in lines[::3]]
    return "".join(lines)


async def _measure(folder: Path, rounds: int) -> Times:
    async with stand(folder) as met:
        return await opened(met, rounds)


async def opened(met: Stand, rounds: int) -> Times:
    """Open a card so often in each way."""
    times, files = Times(), dict(before(number) for number in range(FILES))
    written = (written_file(path, text) for path, text in files.items())
    where = await met.add(1, more=commit_on(BRANCH, "What is changed", written))
    shown = await met.propose(where, {path: after(text) for path, text in files.items()})
    for _ in range(rounds):
        async with met.database.bound(met.tenant) as tx:
            await tx.execute(delete(coloured))
        for name, view in ((COLD, "unified"), (CACHED, "unified"), (SPLIT, "split")):
            times.add(name, await _seconds(met, shown, view))
    return times


async def _seconds(met: Stand, shown: Proposed, view: str) -> float:
    begun = time.perf_counter()
    answer: httpx.Response = await met.owner.get(f"/proposals/{shown.id}?tenant={met.tenant}&view={view}")
    answer.raise_for_status()
    return time.perf_counter() - begun

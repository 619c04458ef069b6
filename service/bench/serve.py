"""The whole service over HTTP: one approval from the click to its end, approvals and proposals a second, memory."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar

from service.bench.approve import FILES
from service.bench.execution import NotExecuted, execute, no_step, submit
from service.bench.memory import Memory, child, memory_of
from service.bench.projects import build, chosen, content
from service.bench.results import Results, Target, Times
from service.bench.stand import MANY, Kind, Project, Proposed, Stand, stand

CLICK, CLICK_AGAIN = "approve", "approve again"
PROPOSE, PROPOSE_AGAIN = "propose", "propose again"
GIT_PART = "Git part"
ROUNDS = 100
SECONDS = 5.0
CLIENTS = 8
SHARDS, WRITERS = 16, 2
PER_SECOND = {"ours": 150, "plumbing": 40}
"""More approvals than there can be: so many proposals lie ready for each second."""
_WARM = 5
_CLICK_MOST = 3.0
_WRITER_MEGABYTES = 150.0
T = TypeVar("T")


@dataclass(frozen=True)
class Load:
    """What many at once brought about in one arrangement."""

    writer: Kind
    files: int
    repositories: int
    writers: int
    proposed: float
    approved: float
    of_writer: Memory
    of_web: Memory

    def row(self) -> dict[str, Any]:
        """A line of the table."""
        return {
            "writer": self.writer,
            "files": self.files,
            "repositories": self.repositories,
            "writers": self.writers,
            "proposals/s": round(self.proposed, 1),
            "approvals/s": round(self.approved, 1),
            "writer processes": self.of_writer.processes,
            "writer RSS, MB": round(self.of_writer.rss, 1),
            "writer PSS, MB": round(self.of_writer.pss, 1),
            "web RSS, MB": round(self.of_web.rss, 1),
            "web PSS, MB": round(self.of_web.pss, 1),
        }


def serve(
    folder: Path, files: Sequence[int] = FILES, rounds: int = ROUNDS, seconds: float = SECONDS, shards: int = SHARDS
) -> list[Results]:
    """Measure in `folder`: one after the other so many times, then at once for so many seconds in each arrangement."""

    async def run() -> list[Results]:
        async with stand(folder / "service") as it:
            return [await one_by_one(it, folder, rounds), await _at_once(it, files, seconds, shards)]

    return asyncio.run(run())


async def timed(times: Times, name: str, work: Awaitable[Any]) -> Any:
    """What the work gives; how long it took is noted."""
    began = time.perf_counter()
    found = await work
    times.add(name, time.perf_counter() - began)
    return found


async def one_by_one(it: Stand, folder: Path, rounds: int) -> Results:
    """The calls of one approval after the other, so many times."""
    times, git = Times(), folder / "git.git"
    where = await it.add(FILES[0])
    await asyncio.to_thread(build, git, FILES[0])
    async with it.writer("ours"):
        for number in range(rounds + _WARM):
            files = {path: content((number, path)) for path in chosen(FILES[0], 1, number)}
            await _round(it, where, git, files, times if number >= _WARM else Times())
    rmtree(git)
    click, part = times.median(CLICK), times.median(GIT_PART)
    replays = max(times.median(CLICK_AGAIN), times.median(PROPOSE_AGAIN))
    others = min(times.median(CLICK), times.median(PROPOSE))
    targets = [
        Target("from the click to executed, over the Git part", click / part, most=_CLICK_MOST),
        Target("the dearer replay over the cheaper first call", replays / others, most=1.0),
    ]
    note = f"1 file of 10 KB in {FILES[0]} files; the Git part takes turns with it, on a copy in the measuring process."
    return Results("One approval over HTTP", [times.row()], targets, note)


async def _round(it: Stand, where: Project, git: Path, files: dict[str, str], times: Times) -> None:
    proposed = await timed(times, PROPOSE, it.propose(where, files))
    await timed(times, PROPOSE_AGAIN, it.propose_again(proposed.sent))
    await it.read(proposed)
    _check(await timed(times, CLICK, it.click(proposed)), replayed=False)
    _check(await timed(times, CLICK_AGAIN, it.click(proposed)), replayed=True)
    prepared = await asyncio.to_thread(submit, git, files, "Change files")
    await timed(times, GIT_PART, asyncio.to_thread(execute, git, prepared, no_step))


def _check(answer: dict[str, Any], *, replayed: bool) -> None:
    if answer.get("status") != "executed" or answer.get("replayed") is not replayed:
        raise NotExecuted(str(answer))


async def _at_once(it: Stand, files: Sequence[int], seconds: float, shards: int) -> Results:
    kinds: tuple[Kind, ...] = ("ours", "plumbing")
    loads = [await load(it, kind, size, 1, 1, seconds) for size in files for kind in kinds]
    loads.append(await load(it, "ours", min(files), shards, WRITERS, seconds))
    largest = max(
        (one.of_writer for one in loads if one.writer == "ours" and one.writers == 1), key=lambda one: one.pss
    )
    targets = [
        Target("a writer in all its processes, PSS", largest.pss, most=_WRITER_MEGABYTES, unit="MB"),
        Target("a writer in all its processes, RSS", largest.rss, most=_WRITER_MEGABYTES, unit="MB"),
    ]
    note = (
        f"{CLIENTS} clients at once in one process beside the service on the same cores, each proposal of 1 file on a "
        "branch of its own. plumbing: the same service with eight git processes in the place of `writer/write`."
    )
    return Results("Many at once over HTTP", [one.row() for one in loads], targets, note)


async def load(it: Stand, kind: Kind, size: int, repositories: int, writers: int, seconds: float) -> Load:
    """Propose and approve for so many seconds in new repositories of this size."""
    projects, places = await _places(it, kind, size, repositories, seconds)
    stock: list[Proposed] = []

    async def propose(place: tuple[Project, str]) -> None:
        path = chosen(size, 1, len(stock))[0]
        stock.append(await it.propose(place[0], {path: content((place[1], path))}, place[1]))

    async def click(one: Proposed) -> None:
        _check(await it.click(one), replayed=False)

    proposed = await rate(propose, places, MANY)
    await rate(it.read, stock, MANY)
    async with it.writer(kind, writers) as hands:
        await rate(click, stock[:_WARM], MANY)
        approved = await rate(click, stock[_WARM:], seconds)
        of_writer, of_web = memory_of(hands[0].pid), memory_of(child(os.getpid(), "web"))
    for project in projects:
        await asyncio.to_thread(rmtree, project.path)
    return Load(kind, size, repositories, writers, proposed, approved, of_writer, of_web)


async def _places(
    it: Stand, kind: Kind, size: int, repositories: int, seconds: float
) -> tuple[list[Project], list[tuple[Project, str]]]:
    """New repositories, and as many branches in them as there may be approvals in so many seconds."""
    count = max(CLIENTS + _WARM, int(PER_SECOND[kind] * seconds))
    branches = [f"refs/heads/topic-{number:05}" for number in range(-(-count // repositories))]
    projects = [await it.add(size, branches) for _ in range(repositories)]
    return projects, [(project, branch) for branch in branches for project in projects]


async def rate(work: Callable[[T], Awaitable[None]], stock: Iterable[T], seconds: float) -> float:
    """How many a second CLIENTS do at once, until the stock or the time is at its end."""
    waiting, done, began = iter(stock), 0, time.perf_counter()

    async def client() -> None:
        nonlocal done
        for one in waiting:
            await work(one)
            done += 1
            if time.perf_counter() - began > seconds:
                return

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return done / (time.perf_counter() - began)

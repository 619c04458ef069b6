"""The Git part with the lease from four processes at once, each on a repository of its own: approvals a second."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import Pool
from multiprocessing.synchronize import Barrier
from os import sync
from pathlib import Path
from shutil import rmtree
from typing import Any

from service.bench.approve import FILES, OURS, PLUMBING
from service.bench.execution import Submitted, execute, maintain, no_step, submit
from service.bench.plumbing import Plumbing
from service.bench.projects import build, chosen, content, copies, pack_refs
from service.bench.results import Results, Target

PROCESSES = 4
SECONDS = 2.0
BLOCKS = 2
PER_SECOND = {OURS: 250, PLUMBING: 50}
"""More than one process can do: so many lie ready for each second."""
_READY_SECONDS = 600.0
_LEAST = {100: 4.0, 10_000: 9.0, 100_000: 40.0}
_NOTE = (
    f"{PROCESSES} processes, each on a repository of its own (one lease is held by one at a time), 1 file of 10 KB on "
    "a branch of its own, submitted before; the maintenance of ours is counted in. The two ways take turns, in "
    f"{BLOCKS} blocks each."
)


@dataclass(frozen=True)
class Share:
    """What one process does."""

    way: str
    repository: Path
    files: int
    block: int
    seconds: float

    @property
    def branches(self) -> list[str]:
        """Those of this block; every approval has one that nobody else moves."""
        return branches(self.way, self.block, self.seconds)


def saturate(folder: Path, files: Sequence[int] = FILES, seconds: float = SECONDS) -> Results:
    """Measure in `folder`: each way for so many seconds in each block."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES, _keep, (context.Barrier(PROCESSES),)) as pool:
        rates = {size: _rates(pool, folder, size, seconds) for size in files}
    factors = {size: one[OURS] / one[PLUMBING] for size, one in rates.items()}
    rows = [
        {"files": size, **{f"{way}/s": round(value, 1) for way, value in one.items()}, "factor": factors[size]}
        for size, one in rates.items()
    ]
    known = factors.keys() & _LEAST.keys()
    targets = [
        Target(f"{size:,} files: ours over plumbing", factors[size], least=_LEAST[size]) for size in sorted(known)
    ]
    return Results("Git parts a second, saturated", rows, targets, _NOTE)


def branches(way: str, block: int, seconds: float) -> list[str]:
    """Full names, as many as there may be approvals in these seconds."""
    return [f"refs/heads/{way}-{block}-{number:05}" for number in range(max(1, int(PER_SECOND[way] * seconds)))]


def _rates(pool: Pool, folder: Path, files: int, seconds: float) -> dict[str, float]:
    project = folder / f"saturated-{files}.git"
    build(project, files)
    pack_refs(
        project, [name for way in PER_SECOND for block in range(BLOCKS) for name in branches(way, block, seconds)]
    )
    made = copies(project, [f"{way}-{index}" for way in PER_SECOND for index in range(PROCESSES)])
    found: dict[str, float] = dict.fromkeys(PER_SECOND, 0.0)
    for block in range(BLOCKS):
        for way in PER_SECOND:
            sync()
            shares = [Share(way, made[f"{way}-{index}"], files, block, seconds) for index in range(PROCESSES)]
            found[way] += sum(pool.map(_work, shares, chunksize=1)) / BLOCKS  # they begin together
    for path in (project, *made.values()):
        rmtree(path)
    return found


_barrier: Barrier


def _keep(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603  a pool hands it to its processes at their start, and only there
    _barrier = barrier


def _work(share: Share) -> float:
    """This process's approvals a second."""
    ready = list((_ours if share.way == OURS else _plumbing)(share))
    _barrier.wait(_READY_SECONDS)
    began, done = time.perf_counter(), 0
    for approve in ready:
        approve()
        done += 1
        if time.perf_counter() - began > share.seconds:
            break
    return done / (time.perf_counter() - began)


def _ours(share: Share) -> Iterator[Callable[[], Any]]:
    for number, branch in enumerate(share.branches):
        files = {path: content((branch, path)) for path in chosen(share.files, 1, number)}
        yield partial(_maintained, share.repository, submit(share.repository, files, "Change files", branch))


def _maintained(repository: Path, proposal: Submitted) -> None:
    execute(repository, proposal, no_step)
    maintain(repository)


def _plumbing(share: Share) -> Iterator[Callable[[], Any]]:
    folder = share.repository.with_suffix(".files")
    folder.mkdir(exist_ok=True)
    way = Plumbing(share.repository, folder / "index")
    for number, branch in enumerate(share.branches):
        path = chosen(share.files, 1, number)[0]
        where = folder / f"content-{number}"
        where.write_text(content((branch, path)), encoding="ascii")
        marker = f"refs/proposals/{share.block}-{number}"
        yield partial(way, {path: where}, "Change files\n", marker, branch)

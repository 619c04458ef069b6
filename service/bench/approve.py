"""The Git part of an execution beside the classic plumbing and the floor, interleaved in one run."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import sync
from pathlib import Path
from shutil import rmtree

from service.bench.execution import execute, maintain, no_step, submit
from service.bench.floor import Floor
from service.bench.plumbing import Plumbing
from service.bench.projects import build, chosen, content, copies
from service.bench.results import Results, Target, Times

PLUMBING, OURS, PLANNED, FLOOR = "plumbing", "ours", "ours with planning", "floor"
FILES = (100, 10_000, 100_000)
CHANGED = (1, 20)
ROUNDS = 40
_FLOOR_MOST = {1: 2.0, 20: 3.0}
_PLUMBING_LEAST = {
    (100, 1): 6.0,
    (10_000, 1): 10.0,
    (100_000, 1): 40.0,
    (100, 20): 5.0,
    (10_000, 20): 6.0,
    (100_000, 20): 16.0,
}
_GROWTH_MOST = 1.5
_NOTE = (
    "Medians, in one run with the ways taking turns. ours: from the lease to giving it back, the proposal submitted "
    "before, maintenance between the turns. ours with planning: the same, with what submit did. plumbing: eight git "
    "processes on files that lie there. floor: the bytes and the seven flushes of ours, and nothing else."
)


@dataclass
class Ground:
    """One project in a copy for each way, and what a proposal on it changes in each turn."""

    files: int
    changed: int
    copies: dict[str, Path]
    folder: Path
    written: tuple[bytes, bytes] = (b"", b"")
    times: Times = field(default_factory=Times)

    def turn(self, number: int) -> None:
        """Each way once, another one first in each turn; the very first warms up, and is what the floor writes."""
        wanted = {path: content((number, path)) for path in chosen(self.files, self.changed, number)}
        ways = list(self._ways(number, wanted))
        start = number % len(ways)
        for name, way in (*ways[start:], *ways[:start]):
            began = time.perf_counter()
            way()
            seconds = time.perf_counter() - began
            if number:
                self.times.add(name, seconds)
        for name in (OURS, PLANNED):
            maintain(self.copies[name])

    def _ways(self, number: int, wanted: dict[str, str]) -> Iterator[tuple[str, Callable[[], object]]]:
        message, marker = f"Change {number}", f"refs/proposals/{number}"
        yield OURS, self._ours(wanted, message)
        planned = self.copies[PLANNED]
        yield PLANNED, lambda: execute(planned, submit(planned, wanted, message), no_step)
        lying = {path: self.folder / f"content-{index}" for index, path in enumerate(wanted)}
        for path, where in lying.items():
            where.write_text(wanted[path], encoding="ascii")
        plumbing = Plumbing(self.copies[PLUMBING], self.folder / "index")
        yield PLUMBING, lambda: plumbing(lying, message, marker)
        yield FLOOR, lambda: Floor(self.copies[FLOOR])(*self.written, marker)

    def _ours(self, wanted: dict[str, str], message: str) -> Callable[[], object]:
        repository = self.copies[OURS]
        proposal = submit(repository, wanted, message)
        if not self.written[0]:
            before = set(_packs(repository))
            execute(repository, proposal, no_step)
            pack, index = sorted(set(_packs(repository)) - before, key=lambda path: path.suffix, reverse=True)
            self.written = pack.read_bytes(), index.read_bytes()
            return lambda: None
        return lambda: execute(repository, proposal, no_step)


def approve(
    folder: Path, files: Sequence[int] = FILES, changed: Sequence[int] = CHANGED, rounds: int = ROUNDS
) -> Results:
    """Measure in `folder`: projects of so many files, proposals that change so many, each way so many times."""
    grounds = []
    for size in files:
        project = folder / f"project-{size}.git"
        build(project, size)
        for count in changed:
            with _ground(project, size, count) as ground:
                for number in range(rounds + 1):
                    ground.turn(number)
                grounds.append(ground)
        rmtree(project)
    return Results("The Git part of an approval", [_row(one) for one in grounds], list(_targets(grounds)), _NOTE)


@contextmanager
def _ground(project: Path, files: int, changed: int) -> Iterator[Ground]:
    made = copies(project, (OURS, PLANNED, PLUMBING))
    scratch = project.with_name(f"scratch-{files}-{changed}")
    scratch.mkdir()
    floor = scratch / "floor"
    Floor(floor).prepare()
    sync()  # what the copies left to be written is not paid for by the first ways
    try:
        yield Ground(files, changed, {**made, FLOOR: floor}, scratch)
    finally:
        for path in (*made.values(), scratch):
            rmtree(path)


def _row(one: Ground) -> dict[str, float | int]:
    return {
        "files": one.files,
        "in the proposal": one.changed,
        **one.times.row(),
        "ours / floor": round(one.times.ratio(OURS, FLOOR), 2),
        "plumbing / ours": round(one.times.ratio(PLUMBING, OURS), 2),
        "plumbing / ours with planning": round(one.times.ratio(PLUMBING, PLANNED), 2),
    }


def _targets(grounds: Sequence[Ground]) -> Iterator[Target]:
    for one in grounds:
        what = f"{one.changed} in {one.files:,} files"
        if most := _FLOOR_MOST.get(one.changed):
            yield Target(f"{what}: ours over the floor", one.times.ratio(OURS, FLOOR), most=most)
        if least := _PLUMBING_LEAST.get((one.files, one.changed)):
            yield Target(f"{what}: plumbing over ours", one.times.ratio(PLUMBING, OURS), least=least)
    single = {one.files: one.times.median(OURS) for one in grounds if one.changed == 1}
    if {FILES[0], FILES[-1]} <= single.keys():
        grown = single[FILES[-1]] / single[FILES[0]]
        yield Target("1 file: ours on 100,000 files over ours on 100", grown, most=_GROWTH_MOST)


def _packs(repository: Path) -> list[Path]:
    return [path for path in (repository / "objects" / "pack").iterdir() if path.suffix in {".pack", ".idx"}]

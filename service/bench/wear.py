"""Whether reads and writes of a repository grow slower with what executions leave behind: markers and packs."""

import time
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from uuid import UUID

from service.bench.execution import execute, maintain, no_step, submit
from service.bench.projects import BRANCH, build, chosen, content, copies, pack_refs
from service.bench.results import Results, Target, Times
from service.repositories.reading import Objects
from service.repositories.refs import read_ref

FRESH, PACKED, LOOSE, WORN = "as made", "markers in packed-refs", "markers as files", "after executions"
MARKERS = 100_000
EXECUTIONS = 10_000
ROUNDS = 100
FILES = 10_000
_MOST = 1.2


def markers(folder: Path, count: int = MARKERS, rounds: int = ROUNDS, files: int = FILES) -> Results:
    """Measure in `folder`: a repository as it was made, and with so many markers, packed and not."""
    project = folder / "worn.git"
    build(project, files)
    made = copies(project, (FRESH, PACKED, LOOSE))
    names = [f"refs/proposals/{UUID(int=number * 7919 << 64)}" for number in range(count)]
    pack_refs(made[PACKED], names)
    tip = read_ref(project, BRANCH)
    (made[LOOSE] / "refs" / "proposals").mkdir()
    for name in names:
        (made[LOOSE] / name).write_text(f"{tip}\n", encoding="ascii")
    times = compared(made, files, rounds)
    for path in (project, *made.values()):
        rmtree(path)
    return Results(f"{count:,} markers", *rows(times, made))


def executions(folder: Path, count: int = EXECUTIONS, rounds: int = ROUNDS, files: int = FILES) -> Results:
    """Measure in `folder`: a repository as it was made, and after so many executions, maintained after each."""
    project = folder / "worn.git"
    build(project, files)
    made = copies(project, (FRESH, WORN))
    for number in range(count):
        wanted = {path: content(("worn", number)) for path in chosen(files, 1, number)}
        execute(made[WORN], submit(made[WORN], wanted, "Change files"), no_step)
        maintain(made[WORN])
    times = compared(made, files, rounds)
    for path in (project, *made.values()):
        rmtree(path)
    return Results(f"{count:,} executions", *rows(times, made))


def compared(repositories: Mapping[str, Path], files: int, rounds: int) -> Times:
    """Write and read by turns; the first round warms up. Maintenance is not timed."""
    times = Times()
    for number in range(rounds + 1):
        wanted = {path: content((number, path)) for path in chosen(files, 1, number)}
        for name, repository in repositories.items():
            proposal = submit(repository, wanted, "Change files")
            began = time.perf_counter()
            execute(repository, proposal, no_step)
            wrote = time.perf_counter()
            read(repository, next(iter(wanted)))
            if number:
                times.add(f"write, {name}", wrote - began)
                times.add(f"read, {name}", time.perf_counter() - wrote)
            maintain(repository)
    return times


def read(repository: Path, path: str) -> bytes:
    """One file at the tip of main, from scratch."""
    objects = Objects(repository)
    entry = objects.entry(objects.commit(read_ref(repository, BRANCH)).tree, path.encode())
    if entry is None:
        raise LookupError(path)
    return objects.blob(entry.oid)


def rows(times: Times, names: Mapping[str, Path]) -> tuple[list[dict[str, object]], list[Target]]:
    """One line for each repository, and how each stands to the first."""
    first, *others = names
    found: list[dict[str, object]] = [
        {"repository": name, **{f"{what}, ms": round(times.median(f"{what}, {name}"), 3) for what in ("write", "read")}}
        for name in names
    ]
    targets = [
        Target(f"{what}: {name} over {first}", times.ratio(f"{what}, {name}", f"{what}, {first}"), most=_MOST)
        for name in others
        for what in ("write", "read")
    ]
    return found, targets

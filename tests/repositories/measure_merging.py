"""What a merge and a repeated commit take on a tree of 100,000 files beside one of 100: it prints a table.

.venv/bin/python tests/repositories/measure_merging.py
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from service.contract.data import Oid  # noqa: E402
from tests.histories import Histories, Ours, git  # noqa: E402

SIZES = (100, 10_000, 100_000)
ROUNDS = 15
COMMITS = 10
PER_FOLDER = 100


def history(folder: Path, files: int) -> tuple[Path, Oid, Oid]:
    """A repository with this many files, a tip, and another that has COMMITS commits beside it."""
    histories = Histories()
    names = [b"d%03d/e%02d/f%02d.txt" % (n // 10_000, n // PER_FOLDER % 100, n % PER_FOLDER) for n in range(files)]
    base = histories.commit({name: b"file %b\n" % name for name in names})
    ours = histories.delta({names[0]: b"ours\n", b"new.txt": b"new\n"}, base)
    tip = base
    for number in range(COMMITS):
        place = names[(number + 1) * len(names) // (COMMITS + 1)]
        tip = histories.delta({place: b"theirs %d\n" % number}, tip)
    ids = histories.write(folder / f"{files}.git")
    git(folder / f"{files}.git", "repack", "-adq")
    return folder / f"{files}.git", ids[ours], ids[tip]


def milliseconds(repository: Path, ours: Oid, theirs: Oid) -> Iterator[tuple[float, float]]:
    """The time of a merge, and of one of the commits of a rebase."""
    git_ = Ours(repository)
    for _ in range(ROUNDS):
        start = time.perf_counter()
        assert git_.merge(ours, theirs).paths is None
        merged = time.perf_counter()
        assert len(git_.rebase(theirs, ours, ours).commits) == COMMITS
        yield (merged - start) * 1_000, (time.perf_counter() - merged) * 1_000 / COMMITS


def main() -> None:
    """Print the median of each."""
    with tempfile.TemporaryDirectory() as folder:
        first: tuple[float, ...] = ()
        sys.stdout.write("files    merge ms        commit ms\n")
        for files in SIZES:
            found = tuple(map(statistics.median, zip(*milliseconds(*history(Path(folder), files)), strict=True)))
            first = first or found
            times = (f"{value:7.1f} ({value / one:3.1f} x)" for value, one in zip(found, first, strict=True))
            sys.stdout.write(f"{files:<8} {'  '.join(times)}\n")


if __name__ == "__main__":
    main()

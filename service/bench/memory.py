"""How much memory a process and all below it hold."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_KILOBYTE = 1_024
_MEGABYTE = 1_000_000
_GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True)
class Memory:
    """Megabytes. `rss` counts what processes share once for each of them, `pss` once in all; see proc_pid_smaps(5)."""

    processes: int
    rss: float
    pss: float


def memory_of(pid: int) -> Memory:
    """Of a process with its children and theirs."""
    family = [pid, *_below(pid)]
    sums = {"Rss": 0.0, "Pss": 0.0}
    for one in family:
        with suppress(*_GONE):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text("ascii").splitlines()[1:]:
                name, size, *_ = line.replace(":", " ").split()
                if name in sums:
                    sums[name] += int(size) * _KILOBYTE / _MEGABYTE
    return Memory(len(family), sums["Rss"], sums["Pss"])


def children(parent: int) -> list[int]:
    """The processes whose parent this is. Source: proc_pid_stat(5)."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(*_GONE):
            if process.name.isdigit():
                after_name = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                found += [int(process.name)] if int(after_name[1]) == parent else []
    return found


def child(parent: int, word: str) -> int:
    """The child process that was started with this word among its arguments.

    Raises:
        LookupError: there is none.
    """
    for pid in children(parent):
        with suppress(*_GONE):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
    raise LookupError(word)


def _below(pid: int) -> Iterator[int]:
    for one in children(pid):
        yield one
        yield from _below(one)

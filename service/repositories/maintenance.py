"""Keep a repository fast: few packs and few loose refs, under its lease, by the git program.

git never flushes a folder, so `git repack -d` and `git pack-refs` may lose, with the power, what they replaced: they
remove the old before the new one's name is sure to last. Here every removal comes after the flush of what replaces it:

    1. the small packs and the loose objects become one pack; its folder is flushed      step `repacked`
    2. the packs and loose objects that it replaces are removed                          step `removed`
    3. packed-refs gets every loose ref; it and its folder are flushed                   step `refs copied`
    4. those refs' own files are removed                                                 step `refs packed`

Whoever is killed in between leaves things twice and never not at all. A reader that finds a pack or a ref's file gone
looks again, as git and libgit2 do, and finds the new one, which was there before the old one went.
Sources: git-pack-objects(1), --stdin-packs; git-repack(1), --geometric; git-pack-refs(1); gitformat-pack(5), index.
"""

import os
import re
import struct
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.repositories.durable import flush
from service.repositories.git import Call, run
from service.repositories.packed import FILE as PACKED

PACKS_MOST = 50
"""A repository with as many packs wants maintenance: a lookup asks one after the other, 5 microseconds each, and a
maintenance costs what some twenty executions cost.
"""

LOOSE_REFS_MOST = 500
"""With as many markers in files of their own they are packed."""

_PACKED_BYTES_PER_REF = 5_000  # packed-refs is written anew each time: the longer it is, the more refs at a time
_FACTOR = 2
_DELTAS_FROM = 2_000
_FAN_OUT_NAME = re.compile("[0-9a-f]{2}")
_FAN_OUT_END = struct.Struct(">I")
_FAN_OUT_END_AT = 8 + 255 * 4
_SETTINGS = ("pack.threads=1", "pack.windowMemory=64m")  # in the background: one processor, little memory
_MARKERS = "refs/proposals"
Step = Callable[[str], None]


@dataclass(frozen=True)
class Maintenance:
    """One maintenance of one repository.

    Args:
        repository: the bare repository's folder.
        lease: the descriptor of its lease, which the caller holds; git children keep it.
        seconds: how long all of it may take.
        step: told each step that was done.
    """

    repository: Path
    lease: int
    seconds: float
    step: Step

    def __call__(self) -> None:
        """Do it. Ended at any point it can be begun again, after `remove_leftover_locks`.

        Raises:
            GitFailed: git refused, or its time was over; what was there is still there.
            OSError: the disk refused; likewise.
        """
        until = time.monotonic() + self.seconds
        self._repack(until)
        if _loose_markers(self.repository) >= _refs_most(self.repository):
            self._pack_refs(until)

    def _repack(self, until: float) -> None:
        folder = _pack_folder(self.repository)
        small, large, objects = _progression(folder)
        new = self._pack(small, large, objects, until)
        flush(folder)
        self.step("repacked")
        _remove_packs(folder, set(small) - new)
        if _has_loose_objects(self.repository):
            self._git(("prune-packed", "--quiet"), until)
        flush(folder)
        self.step("removed")

    def _pack(self, small: Iterable[str], large: Iterable[str], objects: int, until: float) -> set[str]:
        """Put all of the small packs and every loose object into one pack; its name, or none when there is nothing.

        To look for deltas takes most of the time, so it is done when there is much to find: each object is among many
        once in a while.
        """
        window = "--window=10" if objects >= _DELTAS_FROM else "--window=0"
        options = (
            window,
            "--stdin-packs",
            "--unpacked",
            "--honor-pack-keep",
            "--delta-base-offset",
            "--non-empty",
            "--quiet",
        )
        base = _pack_folder(self.repository) / "pack"
        lines = [*(f"{name}.pack\n" for name in small), *(f"^{name}.pack\n" for name in large)]
        made = self._git(("pack-objects", *options, str(base)), until, "".join(lines).encode())
        return {f"pack-{line}" for line in made.decode().split()}

    def _pack_refs(self, until: float) -> None:
        self._git(("pack-refs", "--all", "--no-prune"), until)
        flush(self.repository / PACKED)
        flush(self.repository)
        self.step("refs copied")
        self._git(("pack-refs", "--all", "--prune"), until)
        for folder in (self.repository, *_folders(self.repository / "refs")):
            flush(folder)
        self.step("refs packed")

    def _git(self, arguments: Sequence[str], until: float, stdin: bytes = b"") -> bytes:
        left = max(0.0, until - time.monotonic())
        return run(Call(self.repository, arguments, left, settings=_SETTINGS, lease=self.lease), stdin=stdin)


def wants_maintenance(repository: Path) -> bool:
    """Whether there are many packs; asked after each execution, so it only reads names."""
    return len(_packs(_pack_folder(repository))) >= PACKS_MOST


def _packs(folder: Path) -> list[str]:
    """The packs that may be touched: those with an index, less those that somebody keeps."""
    names = [path.name for path in folder.iterdir()]
    kept = {name.removesuffix(".keep") for name in names if name.endswith(".keep")}
    indexed = {name.removesuffix(".idx") for name in names if name.startswith("pack-") and name.endswith(".idx")}
    return sorted(indexed - kept)


def _progression(folder: Path) -> tuple[list[str], list[str], int]:
    """The packs to join, those to leave, and how many objects the first have: each of the others has twice as many
    objects as all smaller ones together.

    So an object is written again only as often as the repository trebles, and few packs are left.
    """
    weighed = sorted((_weight(folder / f"{name}.idx"), name) for name in _packs(folder))
    total = split = 0
    for index, (weight, _) in enumerate(weighed):
        if weight < _FACTOR * total:
            split = index + 1
        total += weight
    names = [name for _, name in weighed]
    return names[:split], names[split:], sum(weight for weight, _ in weighed[:split])


def _weight(index: Path) -> int:
    """How many objects a pack has, from the end of its index's fan-out table."""
    with index.open("rb") as file:
        file.seek(_FAN_OUT_END_AT)
        count: int = _FAN_OUT_END.unpack(file.read(_FAN_OUT_END.size))[0]
    return count


def _remove_packs(folder: Path, names: Collection[str]) -> None:
    """The indexes first: a pack without one is not there, and is removed as a leftover."""
    files = [path for path in folder.iterdir() if path.stem in names]
    for path in sorted(files, key=lambda path: path.suffix != ".idx"):
        path.unlink()


def _pack_folder(repository: Path) -> Path:
    return repository / "objects" / "pack"


def _has_loose_objects(repository: Path) -> bool:
    return any(_FAN_OUT_NAME.fullmatch(path.name) for path in (repository / "objects").iterdir())


def _folders(top: Path) -> list[Path]:
    return [Path(folder) for folder, _, _ in os.walk(top)]


def _loose_markers(repository: Path) -> int:
    folder = repository / _MARKERS
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def _refs_most(repository: Path) -> int:
    path = repository / PACKED
    return max(LOOSE_REFS_MOST, (path.stat().st_size if path.exists() else 0) // _PACKED_BYTES_PER_REF)

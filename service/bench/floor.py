"""The floor: the bytes of one execution written and flushed, and nothing else. No way to be as safe is faster."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

_OID_BYTES = 41


@dataclass(frozen=True)
class Floor:
    """Writes into a folder of its own, laid out as a repository."""

    folder: Path

    def prepare(self) -> None:
        """Make the folders, which a repository has already."""
        for name in ("objects/pack", "refs/heads", "refs/proposals"):
            (self.folder / name).mkdir(parents=True)

    def __call__(self, pack: bytes, index: bytes, marker: str) -> None:
        """Write one pack, its index and two refs: seven flushes."""
        name = secrets.token_hex(20)
        packs = self.folder / "objects" / "pack"
        _put(packs / f"tmp_{name}", packs / f"pack-{name}.pack", pack)
        _put(packs / f"tmp_{name}", packs / f"pack-{name}.idx", index)
        _flush(packs)
        refs = [self.folder / marker, self.folder / "refs/heads/main"]
        for ref in refs:
            _fill(f"{ref}.lock", os.urandom(_OID_BYTES))
        for ref in refs:
            os.rename(f"{ref}.lock", ref)  # noqa: PTH104  the floor pays for no path objects
            _flush(ref.parent)


def _put(new: Path, path: Path, content: bytes) -> None:
    _fill(str(new), content)
    new.rename(path)


def _fill(path: str, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    os.write(handle, content)
    os.fsync(handle)
    os.close(handle)


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(handle)
    os.close(handle)

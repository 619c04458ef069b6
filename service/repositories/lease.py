"""The lease of a repository: whoever moves its refs or its packs holds it (DESIGN, "Exactly once" step 1).

It is `flock(2)` on a file beside the repository that is never deleted. The lock belongs to the open file and not to
the process, so it ends only when every process that has the descriptor (git children get it) has closed it or died;
for that reason it is never unlocked, only closed.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.repositories.durable import flush, opened

MARK_MOST = 65_536
CLEAR = b"\0"  # ends a mark; as the first byte it says that there is none. Cheaper than to cut the file
_PAUSE = 0.01  # seconds between two tries


class LeaseBusy(Exception):
    """Somebody else has held the lease for the whole time that the caller would wait."""


def lease_file(repository: Path) -> Path:
    """The lease's file: the repository's name with `.lease` after it, in the same folder."""
    return repository.with_name(f"{repository.name}.lease")


class Lease:
    """A lease that is held. `fd` is for the `lease` of a git call."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    @contextmanager
    def acquire(cls, repository: Path, timeout: float) -> Iterator["Lease"]:
        """Hold the lease for the block.

        Args:
            repository: the repository's folder.
            timeout: how many seconds to wait; 0 asks once.

        Raises:
            LeaseBusy: it is held by somebody else.
        """
        path = lease_file(repository)
        with _opened(path) as fd:
            _lock(fd, path, time.monotonic() + timeout)
            yield cls(fd)

    def read(self) -> bytes:
        """The mark that the holder before left; empty when all was in order."""
        return os.pread(self.fd, MARK_MOST, 0).partition(CLEAR)[0]

    def mark(self, text: bytes, *, lasting: bool = False) -> None:
        """Say in the file why the lease is held. A torn mark is still a mark.

        It outlives the process; only a lasting one is flushed, since after a loss of power every writer starts, and
        looks anyway.

        Raises:
            ValueError: it has more than MARK_MOST bytes, or a NUL.
            OSError: the disk has no room for all of it.
        """
        if len(text) > MARK_MOST or CLEAR in text:
            raise ValueError("no mark")
        if os.pwrite(self.fd, text + CLEAR, 0) != len(text) + len(CLEAR):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if lasting:
            os.fsync(self.fd)

    def clear(self) -> None:
        """Take the mark away. It is not flushed: a mark that comes back costs one needless recovery."""
        os.pwrite(self.fd, CLEAR, 0)


def marked(file: Path) -> bool:
    """Whether the holder of a lease file, or one who died, has left a mark in it."""
    with file.open("rb") as opened_file:
        return opened_file.read(1) not in {b"", CLEAR}


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    known = path.exists()
    with opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600) as fd:
        if not known:
            flush(path.parent)
        yield fd


def _lock(fd: int, path: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise LeaseBusy(path.stem) from None
            time.sleep(_PAUSE)
        else:
            return

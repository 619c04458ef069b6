"""Files that survive a loss of power: write, flush, rename, flush the folder (git itself never flushes folders)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def flush(path: Path | str) -> None:
    """Flush one file or one folder to the disk.

    Raises:
        OSError: it is not there, or the disk reports an error; what was written before counts as lost then.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_tree(top: Path) -> None:
    """Flush every file and folder under `top`, and `top` itself; symbolic links are not followed."""
    for folder, _, names in os.walk(top):
        for name in names:
            if not (path := Path(folder, name)).is_symlink():
                flush(path)
        flush(Path(folder))


@contextmanager
def opened(path: Path | str, flags: int, mode: int = 0o644) -> Iterator[int]:
    """A file descriptor that children do not inherit and that ends with the block."""
    handle = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield handle
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes) -> None:
    """Write everything, also when the system takes less at once."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def write_new(path: Path | str, content: bytes, mode: int = 0o644) -> None:
    """Create a file and flush it. Its name lasts only after the folder is flushed too.

    Raises:
        FileExistsError: something has this name.
    """
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) as handle:
        write_all(handle, content)
        os.fsync(handle)

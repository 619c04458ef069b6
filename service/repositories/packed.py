"""Read `packed-refs` without reading all of it: markers pile up there by the hundred thousand.

The file is sorted by name (its header says so; git has written it that way since 2.18), so a name is found by
halving. Source: gitrepository-layout(5), packed-refs; refs/packed-backend.c in git for the format.
"""

import mmap
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from service.contract.data import Oid
from service.repositories.durable import opened

FILE = "packed-refs"
_OID_SIZE = 40
_RECORD = re.compile(rb"([0-9a-f]{40}) ([^\n]+)\n((?:\^[0-9a-f]{40}\n)?)")
_NONE = b"# pack-refs with: sorted \n"
_Data = bytes | mmap.mmap


class Packed:
    """The records of one packed-refs file: `<id> <name>` lines, each with a `^<id>` line where a tag was peeled."""

    def __init__(self, data: _Data) -> None:
        header = data[: data.find(b"\n") + 1] if data[:1] == b"#" else b""
        self._start = len(header)
        self._data = data
        if b" sorted" not in header:
            self._start = 0
            records = sorted(_RECORD.findall(data[:]), key=lambda record: record[1])
            self._data = b"".join(oid + b" " + name + b"\n" + peeled for oid, name, peeled in records)

    def get(self, name: bytes) -> Oid | None:
        """The id of the ref with this name."""
        found, oid, _ = self._record(self._seek(name))
        return oid if found == name else None

    def under(self, prefix: bytes) -> Iterator[tuple[bytes, Oid]]:
        """The refs whose names start with the prefix, in byte order."""
        at = self._seek(prefix)
        while at < len(self._data):
            name, oid, at = self._record(at)
            if not name.startswith(prefix):
                return
            yield name, oid

    def without(self, names: Iterable[bytes]) -> bytes | None:
        """The file's content less these refs; None when it has none of them."""
        kept, last = [], 0
        for name in sorted(names):
            at = self._seek(name)
            found, _, following = self._record(at)
            if found == name:
                kept.append(self._data[last:at])
                last = following
        return b"".join((*kept, self._data[last:])) if kept else None

    def _seek(self, name: bytes) -> int:
        """Where the first record starts whose name is not less."""
        low, high = self._start, len(self._data)
        while low < high:
            at = self._line_start(low, (low + high) // 2)
            if self._data[at : at + 1] == b"^":
                at = self._line_start(low, at - 1)
            found, _, following = self._record(at)
            low, high = (following, high) if found < name else (low, at)
        return low

    def _line_start(self, low: int, at: int) -> int:
        return max(low, self._data.rfind(b"\n", low, at) + 1)

    def _record(self, at: int) -> tuple[bytes, Oid, int]:
        """The record that starts here, and where the next one does; at the end an empty name."""
        end = self._data.find(b"\n", at)
        end = len(self._data) if end < 0 else end
        oid, name = self._data[at : at + _OID_SIZE], self._data[at + _OID_SIZE + 1 : end]
        following = end + 1
        if self._data[following : following + 1] == b"^":
            following += _OID_SIZE + 2
        return name, Oid(oid.decode("ascii", "replace")), min(following, len(self._data))


@contextmanager
def packed(repository: Path) -> Iterator[Packed]:
    """The packed refs of a repository as they are now; a later rewriting makes a new file and is not seen."""
    with ExitStack() as stack:
        data: _Data = _NONE
        with suppress(FileNotFoundError), opened(repository / FILE, os.O_RDONLY | os.O_NOFOLLOW) as handle:
            if os.fstat(handle).st_size:
                data = stack.enter_context(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
        yield Packed(data)

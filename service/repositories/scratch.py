"""A folder of objects beside a repository for the git program to plan in: it reads both and writes only here.

Nothing in it is flushed and all of it goes when planning is over; what a plan needs is read back and staged.
Source: gitrepository-layout(5), `objects/info/alternates`; git(1), GIT_OBJECT_DIRECTORY.
"""

import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from service.contract.data import Oid
from service.contract.world import OutOfTime
from service.repositories.git import Call, GitTimeout, run
from service.repositories.objects import Staged, staged
from service.repositories.reading import KIND_NAMES

_NO_DEADLINE = 60.0
_PREFIX = "placet-plan-"
_ABANDONED_SECONDS = 3_600.0
_QUICK = 1  # zlib's level: what is written here is read once


def sweep() -> None:
    """Take away the folders of planners that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


class Scratch:
    """A scratch object folder.

    Args:
        repository: the bare repository whose objects are seen too.
        deadline: when to raise OutOfTime, in `time.monotonic()` seconds; None: a minute for each call of git.
    """

    def __init__(self, repository: Path, deadline: float | None) -> None:
        self._repository = repository
        self._deadline = deadline
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        self._objects = Path(self._folder.name, "objects")
        (self._objects / "pack").mkdir(parents=True)
        (self._objects / "info").mkdir()
        (self._objects / "info" / "alternates").write_bytes(os.fsencode(repository.absolute() / "objects") + b"\n")
        self._known: set[Oid] = set()

    @property
    def folder(self) -> Path:
        """Where other files of a plan, such as an index, may be."""
        return Path(self._folder.name)

    def add(self, objects: Iterable[Staged]) -> None:
        """Let git see these objects."""
        for one in objects:
            if one.oid not in self._known:
                self._known.add(one.oid)
                header = f"{one.kind} {len(one.content)}\0".encode()
                path = self._objects / one.oid[:2] / one.oid[2:]
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(zlib.compress(header + one.content, _QUICK))

    def run(
        self,
        arguments: Sequence[str | bytes],
        *,
        stdin: bytes = b"",
        answers: Sequence[int] = (0,),
        environment: dict[str, str] | None = None,
    ) -> bytes:
        """Run git on both object folders and give what it wrote.

        Raises:
            OutOfTime: the deadline passed.
            GitFailed: it ended with another status than `answers`.
        """
        seconds = _NO_DEADLINE if self._deadline is None else self._deadline - time.monotonic()
        if seconds <= 0:
            raise OutOfTime
        seen = {"GIT_OBJECT_DIRECTORY": str(self._objects), **(environment or {})}
        call = Call(self._repository, arguments, seconds, settings=("core.fsync=none",), environment=seen)
        try:
            return run(call, stdin=stdin, answers=answers)
        except GitTimeout:
            raise OutOfTime from None

    def made(self) -> Iterator[Staged]:
        """What git has written since it was asked last."""
        for path in self._objects.glob("[0-9a-f][0-9a-f]/*"):
            oid = Oid(path.parent.name + path.name)
            if oid not in self._known and not path.name.startswith("tmp_"):
                self._known.add(oid)
                yield _loose(path)

    def close(self) -> None:
        """Take the folder away."""
        self._folder.cleanup()


def _loose(path: Path) -> Staged:
    header, _, content = zlib.decompress(path.read_bytes()).partition(b"\0")
    return staged(KIND_NAMES[header.partition(b" ")[0]], content)

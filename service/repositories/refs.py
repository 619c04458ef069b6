"""Read and move refs ourselves, with git's lock protocol on the files backend, in steps that survive a crash.

git's own transaction over two refs is not atomic when it is killed (FACTS, "Refs and crashes"), so the marker ref is
renamed first and alone: it is the commit point, and recovery goes by it. Sources: gitrepository-layout(5), refs;
git-check-ref-format(1); lockfile.h in git for `<name>.lock`.

The caller holds the repository's lease. The locks keep others out that do not know the lease, such as a person's git.
Names are text; bytes that are not UTF-8 are surrogate escapes, as in Python's file names.
"""

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.repositories.durable import flush, opened, write_all
from service.repositories.packed import FILE as PACKED
from service.repositories.packed import Packed, packed

HEAD = "HEAD"
_LOCK = ".lock"
_SYMBOLIC = b"ref: "
_SYMBOLIC_MOST = 5  # as git's SYMREF_MAXDEPTH
_FORBIDDEN = re.compile(r"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|[./]\Z")
_OID = re.compile(rb"([0-9a-f]{40})\n?")
_NAME_MOST = 2_048
_PART_MOST = 255 - len(_LOCK)  # bytes of one part of a name that the file system can hold with its lock
_LEFTOVERS = (
    "*.lock",
    "packed-refs.new",  # git makes none while there is one
    "objects/*.lock",
    "objects/info/**/*.lock",
    "objects/pack/*.lock",
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/*/tmp_obj_*",
)
_QUARANTINES = ("objects/incoming-*", "objects/tmp_objdir-*")
_ABANDONED_SECONDS = 3_600.0  # objects are received without the lease: what is younger may be somebody's at this moment


class BrokenRef(Exception):
    """A ref's file is a symbolic link, says something that is no object id, or goes round in a circle."""


class LockHeld(Exception):
    """Somebody holds a lock: ask again. It says nothing about the ref.

    Args:
        ref: the ref whose lock is held, or `packed-refs`.
    """

    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class RefConflict(Exception):
    """A ref cannot be made because another one stands in its way, as `a` does in the way of `a/b`.

    Args:
        ref: the ref to make.
        other: the one that is there.
    """

    def __init__(self, ref: str, other: str) -> None:
        super().__init__(f"{ref}: {other} stands in the way")
        self.ref = ref
        self.other = other


class RefMoved(Exception):
    """A ref is not where it was expected.

    Args:
        ref: its full name.
        expected: the id it should have.
        head: the id it has; NULL when it is absent.
    """

    def __init__(self, ref: str, expected: Oid, head: Oid) -> None:
        super().__init__(f"{ref} is at {head}, not at {expected}")
        self.ref = ref
        self.expected = expected
        self.head = head


def is_ref_name(name: str) -> bool:
    """Whether git allows this full name (git-check-ref-format(1)) and the file system holds it; HEAD is none."""
    try:
        raw = os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return False
    well_formed = name.startswith("refs/") and name.count("/") > 1 and not _FORBIDDEN.search(name)
    return well_formed and len(raw) <= _NAME_MOST and max(map(len, raw.split(b"/"))) <= _PART_MOST


def read_ref(repository: Path, name: str) -> Oid:
    """The id a ref has; NULL when there is no such ref. HEAD and other symbolic refs are followed.

    Raises:
        BrokenRef: there is something that is no ref.
    """
    for _ in range(_SYMBOLIC_MOST):
        content = _loose(repository, name)
        if content is None:
            return _packed_oid(repository, name)
        if not content.startswith(_SYMBOLIC):
            return _parsed(name, content)
        name = os.fsdecode(content.removeprefix(_SYMBOLIC).strip())
    raise BrokenRef(name)


def head_branch(repository: Path) -> str:
    """The full name of the branch that HEAD names, born or not; empty when HEAD is detached."""
    content = _loose(repository, HEAD) or b""
    return os.fsdecode(content.removeprefix(_SYMBOLIC).strip()) if content.startswith(_SYMBOLIC) else ""


def list_refs(repository: Path, prefix: str) -> list[tuple[str, Oid]]:
    """The refs under a folder such as `refs/heads/`, by full name in byte order; broken ones are left out."""
    found: dict[str, Oid] = {}
    loose = list(_loose_names(repository, prefix))  # before packed-refs: git packs a ref before it unlinks the file
    with packed(repository) as records:
        found.update((os.fsdecode(name), oid) for name, oid in records.under(os.fsencode(prefix)))
    for name in loose:
        with suppress(BrokenRef):
            found[name] = read_ref(repository, name)
    return sorted(((name, oid) for name, oid in found.items() if oid != NULL), key=lambda ref: os.fsencode(ref[0]))


def _loose_names(repository: Path, prefix: str) -> Iterator[str]:
    for folder, _, files in os.walk(repository / prefix):
        for file in files:
            name = Path(folder, file).relative_to(repository).as_posix()
            if is_ref_name(name):
                yield name


def _loose(repository: Path, name: str) -> bytes | None:
    """The content of a ref's own file; None when there is none."""
    if name != HEAD and not is_ref_name(name):
        return None
    _refuse_links(repository, name)
    try:
        with opened(f"{repository}/{name}", os.O_RDONLY | os.O_NONBLOCK) as handle:
            return os.read(handle, 4_096)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _refuse_links(repository: Path, name: str) -> None:
    path = str(repository)
    with suppress(FileNotFoundError, NotADirectoryError):
        for part in name.split("/"):
            path = f"{path}/{part}"
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise BrokenRef(name)


def _packed_oid(repository: Path, name: str) -> Oid:
    if not is_ref_name(name):
        return NULL
    with packed(repository) as records:
        return records.get(os.fsencode(name)) or NULL


def _parsed(name: str, content: bytes) -> Oid:
    match = _OID.match(content)
    if not match:
        raise BrokenRef(name)
    return Oid(match[1].decode())


def own_value(repository: Path, name: str) -> Oid:
    """The id a ref itself has, NULL when there is none; a symbolic one is not followed.

    Raises:
        BrokenRef: there is something that is no ref, or a symbolic one.
    """
    content = _loose(repository, name)
    return _packed_oid(repository, name) if content is None else _parsed(name, content)


class RefTransaction:
    """Moves of refs, all or nothing up to `commit_marker`, all by roll-forward after it.

    Call, in this order, `lock`, `verify`, `stage`, `commit_marker`, `commit_moves`; `abort` gives up before the commit
    point. An instance is used once.

    Args:
        repository: the bare repository's folder.
        marker: the marker ref's name and the id it shall have; None where there is none (a roll-forward, a new
            repository): then `commit_moves` follows on `stage`.
        moves: the refs to move; NULL as `old` makes one, NULL as `new` takes one away.

    Raises:
        ValueError: a name that is none, or one ref twice.
    """

    def __init__(self, repository: Path, marker: tuple[str, Oid] | None, moves: Sequence[MoveRef]) -> None:
        self._repository = repository
        self._marker = MoveRef(ref=marker[0], old=NULL, new=marker[1]) if marker else None
        every = (*moves, *filter(None, [self._marker]))
        if len({move.ref for move in every if is_ref_name(move.ref)}) != len(every):
            raise ValueError("each move needs a ref of its own, with a valid name")
        self._all = sorted(every, key=lambda move: os.fsencode(move.ref))
        self._set = [move for move in moves if move.new != NULL]
        self._gone = [move for move in moves if move.new == NULL]
        self._held: dict[str, int] = {}  # lock files by path, with their descriptors; -1 when that is closed
        self._new_folders: list[Path] = []
        self._new_packed: bytes | None = None
        self._committed = False

    def lock(self) -> None:
        """Take every ref's lock, and packed-refs' for a deletion, and see that each new ref has room.

        Raises:
            LockHeld: somebody else has one of them; all others are given back.
            BrokenRef: a symbolic link is on the way.
            RefConflict: a ref stands in the way of another; all locks are given back.
        """
        try:
            for move in self._all:
                _refuse_links(self._repository, move.ref)
                self._hold(move.ref)
            if self._gone:
                self._hold(PACKED)
            with packed(self._repository) as records:
                for move in self._all:
                    if move.new != NULL and not os.path.isfile(f"{self._repository}/{move.ref}"):
                        self._check_room(move.ref, records)
        except BaseException:
            self.abort()
            raise

    def _make_folders(self, ref: str) -> None:
        folder = (self._repository / ref).parent
        missing = [
            one for one in (folder, *folder.parents) if one.is_relative_to(self._repository) and not one.exists()
        ]
        try:
            for one in reversed(missing):
                one.mkdir(exist_ok=True)
                self._new_folders.append(one)
        except (FileExistsError, NotADirectoryError):
            raise RefConflict(ref, self._file_above(ref)) from None

    def _file_above(self, ref: str) -> str:
        above = (path for path in (self._repository / ref).parents if path.is_file())
        return next((path.relative_to(self._repository).as_posix() for path in above), ref)

    def _hold(self, ref: str) -> None:
        try:
            self._create(ref)
        except FileNotFoundError:
            self._make_folders(ref)
            try:
                self._create(ref)
            except FileNotFoundError:  # somebody's git tidied the empty folder away
                raise LockHeld(ref) from None

    def _create(self, ref: str) -> None:
        lock = _lock_path(self._repository, ref)
        try:
            self._held[lock] = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise LockHeld(ref) from None
        except NotADirectoryError:
            raise RefConflict(ref, self._file_above(ref)) from None

    def _fill(self, ref: str, content: bytes) -> None:
        """Write a lock file and flush it; its descriptor is not needed any more."""
        lock = _lock_path(self._repository, ref)
        handle, self._held[lock] = self._held[lock], -1
        try:
            write_all(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)

    def _check_room(self, ref: str, records: Packed) -> None:
        name = os.fsencode(ref)
        parts = name.split(b"/")
        for above in (b"/".join(parts[:count]) for count in range(3, len(parts))):
            if records.get(above):
                raise RefConflict(ref, os.fsdecode(above))
        for below, _ in records.under(name + b"/"):
            raise RefConflict(ref, os.fsdecode(below))
        self._clear_folder(ref)

    def _clear_folder(self, ref: str) -> None:
        """Take away the empty folders that a deleted ref left behind where this one's file goes."""
        path = self._repository / ref
        for folder, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        if path.is_dir():
            below = next(_loose_names(self._repository, ref), None)
            raise RefConflict(ref, below) if below else LockHeld(ref)

    def verify(self) -> None:
        """Compare every ref with its old value, under the locks.

        Raises:
            RefMoved: one is elsewhere.
            BrokenRef: one is a symbolic ref or no ref at all.
        """
        for move in self._all:
            head = own_value(self._repository, move.ref)
            if head != move.old:
                raise RefMoved(move.ref, move.old, head)

    def stage(self) -> None:
        """Write the new values into the lock files and flush them, and new folders into those above."""
        for move in (*filter(None, [self._marker]), *self._set):
            self._fill(move.ref, move.new.encode() + b"\n")
        if self._gone:
            with packed(self._repository) as records:
                self._new_packed = records.without(os.fsencode(move.ref) for move in self._gone)
        if self._new_packed is not None:
            self._fill(PACKED, self._new_packed)
        for folder in {folder.parent for folder in self._new_folders}:
            flush(folder)

    def commit_marker(self) -> None:
        """The commit point: the marker's name appears, and lasts when this returns."""
        if self._marker is None:
            raise ValueError("there is no marker")
        self._rename(self._marker.ref)
        self._committed = True
        flush(self._folder(self._marker.ref))

    def commit_moves(self) -> None:
        """Let the other refs appear and disappear, and flush their folders."""
        if self._marker and not self._committed:
            raise ValueError("the marker comes first")
        self._committed = True
        for move in self._set:
            self._rename(move.ref)
        for folder in {self._folder(move.ref) for move in self._set}:
            flush(folder)
        if self._gone:
            self._delete()

    def _delete(self) -> None:
        """First out of packed-refs, then the file: the other way round, an old packed value would show again."""
        if self._new_packed is not None:
            self._rename(PACKED)
        flush(self._repository)
        for move in self._gone:
            path = self._repository / move.ref
            path.unlink(missing_ok=True)
            flush(path.parent)
        self._release()

    def _rename(self, ref: str) -> None:
        lock = _lock_path(self._repository, ref)
        os.rename(lock, f"{self._repository}/{ref}")
        del self._held[lock]

    def _folder(self, ref: str) -> str:
        return os.path.dirname(f"{self._repository}/{ref}")

    def abort(self) -> None:
        """Give the locks back, and take away the folders that were made for them, so that the next attempt makes and
        flushes them anew; after the commit point nothing, because there is no way back.
        """
        if self._committed:
            return
        self._release()
        for folder in reversed(self._new_folders):
            with suppress(OSError):  # somebody else has put something in it
                folder.rmdir()

    def _release(self) -> None:
        for lock, handle in reversed(list(self._held.items())):
            if handle >= 0:
                self._held[lock] = -1
                os.close(handle)
            with suppress(FileNotFoundError):
                os.unlink(lock)
            del self._held[lock]  # only now: what could not be given back is tried again


def _lock_path(repository: Path, ref: str) -> str:
    return f"{repository}/{ref}{_LOCK}"


def remove_leftover_locks(repository: Path) -> tuple[str, ...]:
    """Remove what dead writers left: locks, unfinished packs and objects; abandoned pushes. Hold the lease.

    Returns:
        The removed paths, relative to the repository, sorted.
    """
    locks = [path for path in _walk_files(repository / "refs") if path.name.endswith(_LOCK)]
    files = [*locks, *_unindexed(repository), *(path for pattern in _LEFTOVERS for path in repository.glob(pattern))]
    folders = [path for pattern in _QUARANTINES for path in repository.glob(pattern) if _abandoned(path)]
    for path in files:
        path.unlink(missing_ok=True)
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    return tuple(sorted({path.relative_to(repository).as_posix() for path in (*files, *folders)}))


def _unindexed(repository: Path) -> Iterator[Path]:
    """The files of packs without an index, which is written last and removed first: nothing of them was ever there."""
    for path in (repository / "objects" / "pack").glob("pack-*.*"):
        if not path.with_suffix(".idx").exists() and _abandoned(path):
            yield path


def _abandoned(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _ABANDONED_SECONDS


def flush_folders(repository: Path) -> None:
    """Flush the folders of all refs and packs: a dead writer may have made one and not lived to flush it."""
    for folder, _, _ in os.walk(repository / "refs", topdown=False):
        flush(folder)
    for name in ("objects/pack", "objects", "."):
        flush(repository / name)


def _walk_files(top: Path) -> Iterator[Path]:
    for folder, _, files in os.walk(top):
        yield from (Path(folder, file) for file in files)

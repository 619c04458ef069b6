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
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    "objects/*.lock",
    "objects/info/**/*.lock",
    "objects/pack/*.lock",
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/*/tmp_obj_*",
)
_QUARANTINES = ("objects/incoming-*", "objects/tmp_objdir-*")


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
    path = repository / name
    _refuse_links(repository, path)
    try:
        with opened(path, os.O_RDONLY | os.O_NONBLOCK) as handle:
            return os.read(handle, 4_096)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _refuse_links(repository: Path, path: Path) -> None:
    for part in (path, *path.parents):
        if part == repository:
            return
        if part.is_symlink():
            raise BrokenRef(str(path.relative_to(repository)))


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


def _own_value(repository: Path, name: str) -> Oid:
    """The id a ref itself has; a symbolic one is not followed but refused."""
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
        self._held: list[Path] = []
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
                _refuse_links(self._repository, self._repository / move.ref)
                self._make_folders(move.ref)
                self._hold(move.ref)
            if self._gone:
                self._hold(PACKED)
            with packed(self._repository) as records:
                for move in self._all:
                    if move.new != NULL:
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
        lock = _lock_path(self._repository, ref)
        try:
            with opened(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL):
                self._held.append(lock)
        except FileExistsError:
            raise LockHeld(ref) from None
        except NotADirectoryError:
            raise RefConflict(ref, self._file_above(ref)) from None
        except FileNotFoundError:  # somebody's git tidied the empty folder away
            raise LockHeld(ref) from None

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
            head = _own_value(self._repository, move.ref)
            if head != move.old:
                raise RefMoved(move.ref, move.old, head)

    def stage(self) -> None:
        """Write the new values into the lock files and flush them, and new folders into those above."""
        for move in (*filter(None, [self._marker]), *self._set):
            _fill(_lock_path(self._repository, move.ref), move.new.encode() + b"\n")
        if self._gone:
            with packed(self._repository) as records:
                self._new_packed = records.without(os.fsencode(move.ref) for move in self._gone)
        if self._new_packed is not None:
            _fill(_lock_path(self._repository, PACKED), self._new_packed)
        for folder in {folder.parent for folder in self._new_folders}:
            flush(folder)

    def commit_marker(self) -> None:
        """The commit point: the marker's name appears, and lasts when this returns."""
        if self._marker is None:
            raise ValueError("there is no marker")
        path = self._repository / self._marker.ref
        self._rename(path)
        self._committed = True
        flush(path.parent)

    def commit_moves(self) -> None:
        """Let the other refs appear and disappear, and flush their folders."""
        if self._marker and not self._committed:
            raise ValueError("the marker comes first")
        self._committed = True
        paths = [self._repository / move.ref for move in self._set]
        for path in paths:
            self._rename(path)
        for folder in {path.parent for path in paths}:
            flush(folder)
        if self._gone:
            self._delete()

    def _delete(self) -> None:
        """First out of packed-refs, then the file: the other way round, an old packed value would show again."""
        if self._new_packed is not None:
            self._rename(self._repository / PACKED)
            flush(self._repository)
        for move in self._gone:
            path = self._repository / move.ref
            path.unlink(missing_ok=True)
            flush(path.parent)
        self._release()

    def _rename(self, path: Path) -> None:
        lock = path.with_name(path.name + _LOCK)
        lock.rename(path)
        self._held.remove(lock)

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
        while self._held:
            self._held.pop().unlink(missing_ok=True)


def _lock_path(repository: Path, ref: str) -> Path:
    return repository / f"{ref}{_LOCK}"


def _fill(lock: Path, content: bytes) -> None:
    with opened(lock, os.O_WRONLY | os.O_TRUNC) as handle:
        write_all(handle, content)
        os.fsync(handle)


def roll_forward(
    repository: Path, moves: Iterable[MoveRef], landed: Callable[[MoveRef, Oid], bool]
) -> tuple[MoveRef, ...]:
    """Finish the moves of a transaction whose marker is there.

    Args:
        repository: the bare repository's folder.
        moves: the intent's moves.
        landed: whether a ref that is neither where it was nor where it should go has been there and moved on: the
            new id is an ancestor of the given one.

    Returns:
        The moves that were still to be made, and are made now.

    Raises:
        RefMoved: a ref is where nobody can have moved it; nothing moved.
        LockHeld: remove leftover locks first.
    """
    heads = [(move, _own_value(repository, move.ref)) for move in moves]
    waiting = tuple(move for move, head in heads if head == move.old)
    for move, head in heads:
        if head not in {move.old, move.new} and not landed(move, head):
            raise RefMoved(move.ref, move.new, head)
    if waiting:
        _carry_out(repository, waiting)
    return waiting


def write_again(repository: Path, refs: Sequence[tuple[str, Oid]]) -> None:
    """Write refs anew where they are, and flush them, because an earlier flush of them may have failed.

    Args:
        repository: the bare repository's folder.
        refs: their names with the ids they have.

    Raises:
        RefMoved: one is elsewhere.
        LockHeld: remove leftover locks first.
        OSError: the disk refused; each ref is where it was.
    """
    _carry_out(repository, [MoveRef(ref=name, old=oid, new=oid) for name, oid in refs])


def _carry_out(repository: Path, moves: Sequence[MoveRef]) -> None:
    transaction = RefTransaction(repository, None, moves)
    try:
        transaction.lock()
        transaction.verify()
        transaction.stage()
        transaction.commit_moves()
    finally:
        transaction.abort()


def remove_leftover_locks(repository: Path) -> tuple[str, ...]:
    """Remove what dead writers left: locks, unfinished packs and objects, quarantined pushes. Hold the lease.

    Returns:
        The removed paths, relative to the repository, sorted.
    """
    locks = [path for path in _walk_files(repository / "refs") if path.name.endswith(_LOCK)]
    files = [*locks, *(path for pattern in _LEFTOVERS for path in repository.glob(pattern))]
    folders = [path for pattern in _QUARANTINES for path in repository.glob(pattern)]
    for path in files:
        path.unlink(missing_ok=True)
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    return tuple(sorted({path.relative_to(repository).as_posix() for path in (*files, *folders)}))


def flush_folders(repository: Path) -> None:
    """Flush the folders of all refs and packs: a dead writer may have made one and not lived to flush it."""
    refs = [Path(folder) for folder, _, _ in os.walk(repository / "refs", topdown=False)]
    for folder in (*refs, repository / "objects" / "pack", repository / "objects", repository):
        flush(folder)


def _walk_files(top: Path) -> Iterator[Path]:
    for folder, _, files in os.walk(top):
        yield from (Path(folder, file) for file in files)

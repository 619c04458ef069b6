"""Build objects beside a repository without writing to it: a contract `Store` whose new objects stay in memory.

What a plan needs is stored in PostgreSQL as ready pack entries (`encode`), so that nothing is compressed again when
the writer makes its one pack of them. Sources: gitformat-pack(5) for the entries, git-fsck(1) for identity lines.
"""

import hashlib
import re
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pygit2

from service.contract.data import Change, Commit, Draft, Entry, LineCount, Oid
from service.contract.plan import Line, NewCommit
from service.contract.world import OutOfTime, Store
from service.repositories.diff import line_stats
from service.repositories.reading import GITLINK, TREE, BadObject, Kind, Names, Objects, Record, entry_of
from service.repositories.trees import edited

_NUMBERS: dict[Kind, int] = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_KINDS = {number: kind for kind, number in _NUMBERS.items()}
_IDENTITY = re.compile(rb"[^<>\n\0 ][^<>\n\0]* <[^<>\n\0 ]+> (0|[1-9][0-9]{0,11}) [+-][0-9]{4}")
_HEADER_KEY = re.compile(rb"[a-z][a-z0-9-]*")
_FORMAT = b"PO1"
_HEAD = struct.Struct(">3sI")  # the format, how many objects follow
_RECORD = struct.Struct(">20sI")  # object id, length of the pack entry that follows


_Side = tuple[int, bytes] | None  # what one of two trees has: mode and hexadecimal id
_Pair = tuple[bytes, _Side, _Side]


class Damaged(Exception):
    """Stored staged objects do not read back as what was stored."""


@dataclass(frozen=True)
class Staged:
    """A built object that is not in the repository yet; `packed` is its entry in a pack."""

    oid: Oid
    kind: Kind
    content: bytes

    @cached_property
    def packed(self) -> bytes:
        """Kind and size in base 128, then the content, compressed."""
        return _pack_header(_NUMBERS[self.kind], len(self.content)) + zlib.compress(self.content)


def staged(kind: Kind, content: bytes) -> Staged:
    """An object with the id that Git gives it.

    Raises:
        pygit2.GitError: a blob is made to collide with another one (libgit2 computes SHA-1 with collision detection).
    """
    return Staged(Oid(str(pygit2.hash(content))) if kind == "blob" else _object_id(kind, content), kind, content)


def _object_id(kind: Kind, content: bytes) -> Oid:
    digest = hashlib.sha1(f"{kind} {len(content)}\0".encode(), usedforsecurity=False)
    digest.update(content)
    return Oid(digest.hexdigest())


def _pack_header(number: int, size: int) -> bytes:
    first, rest = number << 4 | size & 15, size >> 4
    out = bytearray()
    while rest:
        out.append(first | 0x80)
        first, rest = rest & 0x7F, rest >> 7
    out.append(first)
    return bytes(out)


def encode(objects: Sequence[Staged]) -> bytes:
    """Staged objects as one value for a bytea: `PO1`, how many, then for each its id, a length, and its pack entry."""
    records = (_RECORD.pack(bytes.fromhex(one.oid), len(one.packed)) + one.packed for one in objects)
    return b"".join((_HEAD.pack(_FORMAT, len(objects)), *records))


def decode(stored: bytes) -> tuple[Staged, ...]:
    """What `encode` made, every id computed again.

    Raises:
        Damaged: the value is cut, changed or of another format.
    """
    try:
        magic, count = _HEAD.unpack_from(stored)
        objects = tuple(_decoded(stored))
    except (struct.error, zlib.error, IndexError, KeyError) as error:
        raise Damaged(str(error)) from error
    if magic != _FORMAT or count != len(objects):
        raise Damaged("cut, or another format")
    return objects


def _decoded(stored: bytes) -> Iterator[Staged]:
    at = _HEAD.size
    while at < len(stored):
        oid, length = _RECORD.unpack_from(stored, at)
        at += _RECORD.size + length
        one = _unpacked(stored[at - length : at])
        if at > len(stored) or one.oid != oid.hex():
            raise Damaged(f"{oid.hex()} does not read back")
        yield one


def _unpacked(packed: bytes) -> Staged:
    number, size, shift, at = packed[0] >> 4 & 7, packed[0] & 15, 4, 0
    while packed[at] & 0x80:
        at += 1
        size |= (packed[at] & 0x7F) << shift
        shift += 7
    stream = zlib.decompressobj()
    content = stream.decompress(packed[at + 1 :], size + 1)
    if len(content) != size or not stream.eof or stream.unused_data or _pack_header(number, size) != packed[: at + 1]:
        raise Damaged("an entry has another size than it says")
    kind = _KINDS[number]
    one = Staged(_object_id(kind, content), kind, content)  # whether it collides was asked when it was staged
    one.__dict__["packed"] = packed  # where cached_property keeps it
    return one


class Staging(Objects, Store):
    """A repository's objects and, beside them in memory, the ones that a plan builds.

    Args:
        repository: the bare repository's folder.
        author: this proposal's whole author line: name, mail, seconds, zone.
        deadline: when to raise OutOfTime, in `time.monotonic()` seconds.
        objects: objects staged before, as `decode` gives them.
        drafts: the plan's commits that were built on them.
    """

    def __init__(
        self,
        repository: Path,
        author: bytes,
        deadline: float | None = None,
        objects: Iterable[Staged] = (),
        drafts: Iterable[NewCommit] = (),
    ) -> None:
        super().__init__(repository)
        self._author = check_identity(author)
        self._deadline = deadline
        self._objects = {one.oid: one for one in objects}
        self._drafts: dict[Oid, NewCommit] = {one.id: one for one in drafts}
        self._found: set[Oid] = set()

    def read(self, oid: Oid, kind: Kind) -> bytes:
        """An object's content, staged or from the repository.

        Raises:
            OutOfTime: the deadline has passed.
            BadObject: there is none of this kind.
        """
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime
        one = self._objects.get(oid)
        if one is None:
            self._found.add(oid)
            return super().read(oid, kind)
        if one.kind != kind:
            raise BadObject(oid, f"it is a {one.kind}, not a {kind}")
        return one.content

    def commit(self, oid: Oid) -> Commit:
        """The commit with this id; a draft has its author as committer until it is sealed."""
        if (new := self._drafts.get(oid)) is None:
            return super().commit(oid)
        return Commit(tree=new.tree, parents=new.parents, author=new.author, committer=new.author, message=new.message)

    def changes(self, old: Oid | None, new: Oid | None) -> Iterator[Change]:
        """The paths that differ between two trees, in byte order, renames as a deletion and a creation."""
        waiting: list[_Pair] = [(b"", _tree(old), _tree(new))]
        while waiting:
            path, before, after = waiting.pop()
            if before == after:
                continue
            if TREE in {side[0] for side in (before, after) if side}:
                waiting.extend(reversed(self._pairs(path, before, after)))
            else:
                yield Change(path=path, old=_entry_or_none(before), new=_entry_or_none(after))

    def _pairs(self, path: bytes, before: _Side, after: _Side) -> "list[_Pair]":
        """The names in either of two trees, in Git's order; a folder never pairs with a file of its name."""
        old, new = (set(self.records(_hex(side[1]))) if side else set() for side in (before, after))
        olds, news = _keyed(old - new), _keyed(new - old)  # most of a big tree is the same on both sides
        prefix = path + b"/" if path else b""
        return [(prefix + key.rstrip(b"/"), olds.get(key), news.get(key)) for key in sorted(olds.keys() | news.keys())]

    def line_count(self, old: Oid | None, new: Oid | None) -> LineCount | None:
        """Lines added and removed between two blobs; None when either is binary."""
        if old == new:
            return LineCount(added=0, removed=0)
        return line_stats(*(self.blob(oid) if oid else None for oid in (old, new)))

    def put(self, content: bytes) -> Oid:
        """Stage a blob."""
        return self._stage("blob", content)

    def put_tree(self, content: bytes) -> Oid:
        """Stage a tree from its sorted entries."""
        return self._stage("tree", content)

    def _stage(self, kind: Kind, content: bytes) -> Oid:
        one = staged(kind, content)
        self._objects.setdefault(one.oid, one)
        return one.oid

    def edit(self, tree: Oid | None, edits: Mapping[bytes, Entry | None]) -> Oid:
        """Stage the tree that has these paths set or (None) taken away; directories left empty go too."""
        return edited(self, tree, edits)

    def draft(self, parents: tuple[Oid, ...], tree: Oid, message: bytes) -> NewCommit:
        """A commit to build, with this proposal's author and author date; equal ones have the same provisional id."""
        parts = (*parents, tree, "")
        seed = b"draft\n" + "\n".join(parts).encode() + self._author + b"\n" + message
        new = NewCommit(
            id=Draft(Oid(hashlib.sha256(seed).hexdigest()[:40])),
            parents=parents,
            tree=tree,
            author=self._author,
            message=message,
        )
        self._drafts[new.id] = new
        return new

    def staged(self) -> tuple[Staged, ...]:
        """The staged objects that the drafts' trees reach, less those that planning read from the repository.

        What it read hangs on a pinned ref. Anything else is kept even when the repository has it too: it may hang on
        nothing there, and be gone when the plan is executed.
        """
        kept: dict[Oid, Staged] = {}
        waiting = [new.tree for new in self._drafts.values()]
        while waiting:
            one = self._objects.get(waiting.pop())
            if one is None or one.oid in kept or one.oid in self._found:
                continue
            kept[one.oid] = one
            if one.kind == "tree":
                waiting.extend(Oid(sha.decode()) for _, sha in self.names(one.oid).values())
        return tuple(sorted(kept.values(), key=lambda one: (_NUMBERS[one.kind], one.oid)))


def _tree(oid: Oid | None) -> _Side:
    return None if oid is None else (TREE, oid.encode())


def _hex(sha: bytes) -> Oid:
    return Oid(sha.decode("ascii"))


def _keyed(records: Iterable[Record]) -> Names:
    return {name + b"/" if mode == TREE else name: (mode, sha) for name, mode, sha in records}


def _entry_or_none(value: tuple[int, bytes] | None) -> Entry | None:
    return None if value is None else entry_of(value)


def check_identity(line: bytes) -> bytes:
    """An author or committer line that Git reads back as it was meant.

    Raises:
        ValueError: it is not `name <mail> seconds zone`, with nothing in it that ends a part early.
    """
    if not _IDENTITY.fullmatch(line):
        raise ValueError(f"no identity line: {line!r}")
    return line


def build_commit(
    tree: Oid,
    parents: tuple[Oid, ...],
    *,
    author: bytes,
    committer: bytes,
    message: bytes,
    extra: tuple[tuple[bytes, bytes], ...] = (),
) -> Staged:
    """A commit, byte for byte.

    Args:
        tree: its tree.
        parents: their ids, none for a root.
        author: a whole identity line.
        committer: a whole identity line.
        message: as it shall be stored, its last line end included.
        extra: further headers after the committer, such as `gpgsig`; a value's later lines are indented by a space.

    Raises:
        ValueError: an identity line or header cannot be stored as such, or the message has a NUL.
    """
    if b"\0" in message or any(not _HEADER_KEY.fullmatch(key) or b"\0" in value for key, value in extra):
        raise ValueError("a NUL byte, or a header that is none")
    lines = [b"tree " + tree.encode(), *(b"parent " + parent.encode() for parent in parents)]
    lines += [b"author " + check_identity(author), b"committer " + check_identity(committer)]
    lines += [key + b" " + value.rstrip(b"\n").replace(b"\n", b"\n ") for key, value in extra]
    return staged("commit", b"\n".join(lines) + b"\n\n" + message)


def manifest_lines(store: Store, old: Oid | None, new: Oid | None) -> tuple[Line, ...]:
    """What each path that differs between two trees is in the new one, in byte order.

    SHA-256 is of a file's or symbolic link's content, of the text of a submodule's commit id, and empty for a
    deletion, whose mode is 0.
    """
    return tuple(_line(store, change) for change in store.changes(old, new))


def _line(store: Store, change: Change) -> Line:
    if change.new is None:
        return Line(path=change.path, mode=0, sha256="")
    content = change.new.oid.encode() if change.new.mode == GITLINK else store.blob(change.new.oid)
    return Line(path=change.path, mode=change.new.mode, sha256=hashlib.sha256(content).hexdigest())

"""Build objects beside a repository without writing to it: a contract `Store` whose new objects stay in memory.

What a plan needs is stored in PostgreSQL as ready pack entries (`encode`), so that nothing is compressed again when
the writer makes its one pack of them. Sources: gitformat-pack(5) for the entries, git-fsck(1) for identity lines.
"""

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pygit2

from service.contract.data import Oid
from service.repositories.reading import Kind

NUMBERS: dict[Kind, int] = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_KINDS = {number: kind for kind, number in NUMBERS.items()}
_IDENTITY = re.compile(rb"[^<>\n\0 ][^<>\n\0]* <[^<>\n\0 ]+> (0|[1-9][0-9]{0,11}) [+-][0-9]{4}")
_HEADER_KEY = re.compile(rb"[a-z][a-z0-9-]*")
_FORMAT = b"PO1"
_HEAD = struct.Struct(">3sI")  # the format, how many objects follow
_RECORD = struct.Struct(">20sI")  # object id, length of the pack entry that follows


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
        return _pack_header(NUMBERS[self.kind], len(self.content)) + zlib.compress(self.content)


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


def build_tag(target: Oid, name: str, *, tagger: bytes, message: bytes, signature: bytes = b"") -> Staged:
    """An annotated tag of a commit, byte for byte; a signature stands behind the message (git-mktag(1)).

    Raises:
        ValueError: the tagger cannot be stored as such, or the name or the message has a NUL or a line too many.
    """
    if b"\0" in message or "\0" in name or "\n" in name:
        raise ValueError("a NUL byte, or a name of more than one line")
    lines = [b"object " + target.encode(), b"type commit", b"tag " + name.encode(), b"tagger " + check_identity(tagger)]
    return staged("tag", b"\n".join(lines) + b"\n\n" + message + signature)

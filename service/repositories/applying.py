"""Apply a unified diff with the git program, on an index of the touched paths only.

The index holds what the patch's files are in the tree, so git's work does not grow with the repository; what comes of
it is grafted onto the tree. git looks at no working tree here, so what it would have found there is looked up in the
tree: a folder where a file is to be, a file where a folder is to be.
Source: git-apply(1); gitformat-index(5).
"""

import base64
import hashlib
import re
import signal
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, Protocol

from service.contract.data import Entry, Oid
from service.contract.names import READ_PATH_BYTES, quote_path
from service.contract.patches import PatchedFile, patched_files
from service.contract.plan import Note
from service.contract.world import Applied
from service.kit.errors import Code
from service.repositories.git import GitFailed
from service.repositories.reading import GITLINK, TREE, Kind, Names
from service.repositories.scratch import Scratch

READ_BYTES: Final = 50_000_000
"""What the files of a patch may have before it, together; a file with two sections counts twice."""
BINARY_BYTES: Final = 2_000_000
"""What the binary parts of a patch may unpack to, together, both directions of each."""

_SYMLINK: Final = 0o120000
_BINARY_PART: Final = re.compile(rb"^(literal|delta) (\d{1,20})[^\n]*\n", re.MULTILINE)
_CODED: Final = re.compile(rb"([A-Za-z])([^\n]+)\n")
_CUT: Final = re.compile(rb"\x00|//")
_SIZES: Final = 20  # the two sizes at the start of a delta have at most so many bytes
_HEAD: Final = struct.Struct(">4sII")  # signature, version, how many entries
_ENTRY: Final = struct.Struct(">24xI12x20sH")  # no times and places of a file: mode, id, the name's length
_NAME_MOST: Final = 0xFFF

_REFUSED: Final = (1, 128, -signal.SIGABRT, -signal.SIGSEGV)
"""How git ends when it does not take a patch; some headers that contradict themselves fail an assertion of its own."""

# What git says of one path, in front of it and behind it, and what we call it.
_OF_PATH: Final = (
    ("context", "error: patch failed: ", ":"),
    ("missing", "error: ", ": does not exist in index"),
    ("exists", "error: ", ": already exists in index"),
    ("unsafe_path", "error: invalid path '", "'"),
    ("beyond_symlink", "error: affected file '", "' is beyond a symbolic link"),
    ("type", "error: ", ": wrong type"),
    ("mode", "of ", " does not match old mode"),
    ("binary", "error: cannot apply binary patch to '", "' without full index line"),
    ("binary", "error: the patch applies to '", "'"),
    ("binary", "error: the patch applies to an empty '", "'"),
    ("binary", "error: binary patch does not apply to '", "'"),
    ("binary", "error: binary patch to '", "' creates incorrect result"),
    ("moved_twice", "error: path ", " has been renamed/deleted"),
    ("submodule", "error: corrupt patch for submodule ", ""),
    ("context", "error: ", ": patch does not apply"),
)
_EMPTY: Final = ("No valid patches in input", "unrecognized input")
_LINE: Final = re.compile(r"(?:line |:)(\d+)")

_Places = Callable[[bytes], Entry | None]


class Bench(Protocol):
    """Where a patch is applied; `repositories.staging.Staging` is one."""

    @property
    def scratch(self) -> Scratch: ...
    def names(self, oid: Oid) -> Names: ...
    def header(self, oid: Oid) -> tuple[Kind, int] | None: ...
    def keep(self, blobs: Iterable[Oid]) -> None: ...
    def edit(self, tree: Oid | None, edits: Mapping[bytes, Entry | None]) -> Oid: ...
    def git(
        self, *arguments: str | bytes, stdin: bytes = b"", answers: tuple[int, ...] = (0,), **environment: str
    ) -> bytes: ...


class _Rejected(Exception):
    def __init__(self, *notes: Note) -> None:
        self.notes = notes


def apply(bench: Bench, tree: Oid, patch: bytes) -> Applied:
    """See the contract's `Store.apply`.

    A note of what is rejected has `why`, and `line` where git says one: of the file for `context`, else of the patch.
    `why` is one of context, missing, exists, unsafe_path, beyond_symlink, type, mode, binary, moved_twice, submodule,
    occupied (a file is where a folder is needed, or a folder is where the file would be), dataless (a binary file
    differs, but the patch does not say how), too_large (with `limit` and `value`), empty, malformed.
    """
    try:
        return Applied(tree=_applied(bench, tree, patch))
    except _Rejected as rejected:
        return Applied(tree=None, rejected=rejected.notes)


def _applied(bench: Bench, tree: Oid, patch: bytes) -> Oid:
    files = patched_files(patch)
    _check_content(patch, files)
    place = _places(bench, tree)
    paths = {path for one in files for path in (one.old, one.new) if path is not None}
    before = _found(place, paths)
    _check_size(bench, before, files)
    links = dict(found for path in paths if (found := _in_the_way(place, path)) and found[1].mode == _SYMLINK)
    seen = {**links, **before}
    after = _run(bench, patch, seen, paths)
    gone = [path for path in before if path not in after]
    made = {path: entry for path, entry in after.items() if seen.get(path) != entry}
    bare = bench.edit(tree, dict.fromkeys(gone))
    _check_places(_places(bench, bare), files, gone, made, after)
    known = {entry.oid for entry in before.values()}
    bench.keep(entry.oid for entry in made.values() if entry.mode != GITLINK and entry.oid not in known)
    return bench.edit(bare, made)


def _check_content(patch: bytes, files: Iterable[PatchedFile]) -> None:
    """What a patch brings must stand in it, names too: git would take a binary file by its id from anywhere in the
    repository, cut a name at a NUL, and take `a//b` for `a/b`.
    """
    notes = [_note("dataless", one.new or one.old or b"") for one in files if one.dataless]
    paths = {path for one in files for path in (one.old, one.new) if path is not None}
    odd = (path for path in paths if len(path) > READ_PATH_BYTES or _CUT.search(path))
    notes += [_note("unsafe_path", path[:READ_PATH_BYTES]) for path in sorted(odd)]
    if notes:
        raise _Rejected(*notes)
    _limit(sum(_unpacked(part, patch) for part in _BINARY_PART.finditer(patch)), BINARY_BYTES)


def _unpacked(part: re.Match[bytes], patch: bytes) -> int:
    """How large a binary part gets: what it says, and for a delta what its head says of the result."""
    said = int(part[2])
    if part[1] == b"literal":
        return said
    stream, head, at = zlib.decompressobj(), b"", part.end()
    try:
        while len(head) < _SIZES and (line := _CODED.match(patch, at)):
            head += stream.decompress(base64.b85decode(line[2])[: _length(line[1])], _SIZES)
            at = line.end()
        return said + _varint(head, _varint(head, 0)[1])[0]
    except (ValueError, zlib.error, IndexError):
        return said  # git cannot read it either


def _length(letter: bytes) -> int:
    """How many bytes a line of base 85 stands for: A to Z are 1 to 26, a to z the 26 after them."""
    return ord(letter) - ord("A") + 1 if letter.isupper() else ord(letter) - ord("a") + 27


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def _limit(value: int, most: int) -> None:
    if value > most:
        raise _Rejected(_note("too_large", b"", limit=most, value=min(value, 2**53 - 1)))


def _places(bench: Bench, tree: Oid) -> _Places:
    """What the tree holds at a path; each folder is read once."""
    names = cache(bench.names)

    def place(path: bytes) -> Entry | None:
        at = (TREE, tree.encode())
        for name in path.split(b"/"):
            inner = names(Oid(at[1].decode())).get(name) if at[0] == TREE else None
            if inner is None:
                return None
            at = inner
        return Entry(mode=_as_index(at[0]), oid=Oid(at[1].decode()))

    return place


def _found(place: _Places, paths: Iterable[bytes]) -> dict[bytes, Entry]:
    return {path: entry for path in sorted(paths) if (entry := place(path)) and entry.mode != TREE}


def _as_index(mode: int) -> int:
    """Old histories have files of other modes; an index knows two (create_ce_mode in cache.h of git)."""
    if mode in (TREE, GITLINK, _SYMLINK):
        return mode
    return 0o100755 if mode & 0o100 else 0o100644


def _in_the_way(place: _Places, path: bytes) -> tuple[bytes, Entry] | None:
    """What is no folder where the path needs one, with its path."""
    for at, byte in enumerate(path):
        if byte == ord("/"):
            entry = place(path[:at])
            if entry is None or entry.mode != TREE:
                return (path[:at], entry) if entry else None
    return None


def _check_size(bench: Bench, before: Mapping[bytes, Entry], files: Iterable[PatchedFile]) -> None:
    """Every file of a patch stays in git's memory, also one that the next renames on."""
    sizes = {path: (bench.header(entry.oid) or ("blob", 0))[1] for path, entry in before.items()}
    read = 0
    for one in files:
        size = 0 if one.old is None else sizes.get(one.old, 0)
        read += size
        if one.new is not None:
            sizes[one.new] = size
    _limit(read, READ_BYTES)


def _run(bench: Bench, patch: bytes, entries: Mapping[bytes, Entry], paths: Collection[bytes]) -> dict[bytes, Entry]:
    """Apply the patch to an index of these entries; what the index holds then."""
    index = bench.scratch.folder / "patched-index"
    index.write_bytes(_index(entries))
    arguments = ("apply", "--cached", "--whitespace=nowarn", "--numstat", "-z", "--apply", "-")
    try:
        told = bench.git(*arguments, stdin=patch, GIT_INDEX_FILE=str(index))
    except GitFailed as failed:
        raise _rejected(failed, paths) from None
    written = {line.split(b"\t", 2)[2] for line in told.split(b"\0") if line}
    if not written <= set(paths):  # git reads the headers otherwise than we do: then it has not seen what is there
        raise _Rejected(*(_note("malformed", path) for path in sorted(written - set(paths))))
    return dict(_entries(index.read_bytes()))


def _index(entries: Mapping[bytes, Entry]) -> bytes:
    """An index, version 2, that claims to know no file of a working tree."""
    parts = [_HEAD.pack(b"DIRC", 2, len(entries))]
    for path, entry in sorted(entries.items()):
        head = _ENTRY.pack(entry.mode, bytes.fromhex(entry.oid), min(len(path), _NAME_MOST))
        parts += [head, path, b"\0" * (8 - (len(head) + len(path)) % 8)]
    content = b"".join(parts)
    return content + hashlib.sha1(content, usedforsecurity=False).digest()


def _entries(index: bytes) -> Iterator[tuple[bytes, Entry]]:
    """The entries of an index, version 2: git writes the version that it has read."""
    _, _, count = _HEAD.unpack_from(index)
    at = _HEAD.size
    for _ in range(count):
        mode, oid, _ = _ENTRY.unpack_from(index, at)
        path = index[at + _ENTRY.size : index.index(b"\0", at + _ENTRY.size)]
        yield path, Entry(mode=mode, oid=Oid(oid.hex()))
        at += (_ENTRY.size + len(path)) // 8 * 8 + 8


def _check_places(
    place: _Places,
    files: Collection[PatchedFile],
    gone: Iterable[bytes],
    made: Iterable[bytes],
    after: Collection[bytes],
) -> None:
    """Refuse what git wrote over something else: in an index a file silently takes the place of a folder.

    Args:
        place: the tree without what is gone.
        files: those of the patch.
        gone: the paths that the index has no longer.
        made: those that are new in it, or another thing.
        after: all that it has.
    """
    leave = {one.leaves for one in files}
    wrong = {path for path in gone if path not in leave}
    wrong |= {one.new for one in files if one.new is not None and one.new not in after and one.new not in leave}
    for path in made:
        there = place(path)
        if _in_the_way(place, path) or (there is not None and there.mode == TREE):
            wrong.add(path)
    if wrong:
        raise _Rejected(*(_note("occupied", path) for path in sorted(wrong)))


def _rejected(failed: GitFailed, paths: Iterable[bytes]) -> _Rejected:
    """Why git refused, as far as the end of what it said tells.

    Raises:
        GitFailed: it was no refusal.
    """
    if failed.status not in _REFUSED:
        raise failed
    notes = [note for path in sorted(paths) if (note := _of_path(failed.stderr, path))]
    return _Rejected(*(notes or [_of_patch(failed.stderr)]))


def _of_path(said: str, path: bytes) -> Note | None:
    shown = path.decode("utf-8", "replace")
    for why, before, behind in _OF_PATH:
        _, found, rest = said.partition(f"{before}{shown}{behind}")
        if found:
            line = re.match(r"\d+", rest) if behind == ":" else None
            return _note(why, path, **({"line": int(line[0])} if line else {}))
    return None


def _of_patch(said: str) -> Note:
    if any(sentence in said for sentence in _EMPTY):
        return _note("empty", b"")
    line = _LINE.search(said)
    return _note("malformed", b"", **({"line": int(line[1])} if line else {}))


def _note(why: str, path: bytes, **params: Any) -> Note:
    return Note(code=Code.PATCH_REJECTED.value.name, at=quote_path(path), params={"why": why, **params})

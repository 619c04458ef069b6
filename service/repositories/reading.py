"""Read Git objects from one repository with libgit2, in process, by exact id: nothing here understands revisions.

Opening takes 0.1 ms, so nothing is cached between calls and a new pack or ref of another process is seen at once.
Content is never assumed to be well formed: a history may have been imported.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pygit2
from dulwich.errors import ObjectFormatException
from dulwich.objects import parse_tree
from pygit2.enums import ConfigLevel, RepositoryOpenFlag, SortMode

from service.contract.data import Commit, Entry, Oid
from service.kit.errors import Code, Refusal

Kind = Literal["commit", "tree", "blob", "tag"]
Record = tuple[bytes, int, bytes]
"""A name in a tree with its mode and hexadecimal id."""
Names = dict[bytes, tuple[int, bytes]]
"""A tree's own names: mode and hexadecimal id."""

KINDS: dict[int, Kind] = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
KIND_NAMES: dict[bytes, Kind] = {kind.encode(): kind for kind in KINDS.values()}
TREE = 0o040000
GITLINK = 0o160000
TAGS_DEEP = 10  # tags of tags
_OID = re.compile(rb"[0-9a-f]{40}")
FLAGS = RepositoryOpenFlag.NO_SEARCH | RepositoryOpenFlag.BARE

for level in (ConfigLevel.SYSTEM, ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.PROGRAMDATA):
    pygit2.settings.search_path[level] = ""  # THREATS G09: no configuration but the repository's own


class BadObject(Refusal):
    """An object is not there, is of another kind than its place says, or cannot be read.

    Args:
        oid: which.
        why: what is wrong with it; for the log.
    """

    def __init__(self, oid: str, why: str) -> None:
        super().__init__(Code.REPOSITORY_DAMAGED, "An object of this repository cannot be read.", object=oid)
        self.oid = oid
        self.why = why

    def __str__(self) -> str:
        return f"{self.oid}: {self.why}"


class Objects:
    """The objects of one bare repository.

    Args:
        repository: its folder.

    Raises:
        Refusal: REPOSITORY_DAMAGED when there is no repository.
    """

    def __init__(self, repository: Path) -> None:
        try:
            self._repository = pygit2.Repository(str(repository), FLAGS)
        except pygit2.GitError as error:
            raise Refusal(Code.REPOSITORY_DAMAGED, "This repository cannot be read.") from error
        self._odb = self._repository.odb

    def read(self, oid: Oid, kind: Kind) -> bytes:
        """An object's content, without its header.

        Raises:
            BadObject: there is none of this kind.
        """
        return _read(self._odb, oid, kind)

    def header(self, oid: Oid) -> tuple[Kind, int] | None:
        """An object's kind and size in bytes; None when it is not there."""
        try:
            kind, size = self._odb.read_header(pygit2.Oid(raw=bytes.fromhex(oid)))
        except (KeyError, ValueError, pygit2.GitError):
            return None
        return KINDS[int(kind)], size

    def records(self, oid: Oid) -> list[Record]:
        """A tree's own records, in the tree's order.

        Raises:
            BadObject: there is no tree, or it cannot be read.
        """
        content = self.read(oid, "tree")
        try:
            return list(parse_tree(content, 20, strict=False))
        except (ObjectFormatException, ValueError) as error:
            raise BadObject(oid, "the tree cannot be read") from error

    def names(self, oid: Oid) -> Names:
        """A tree's own names, in the tree's order. Raises BadObject."""
        return {name: (mode, sha) for name, mode, sha in self.records(oid)}

    def entries(self, tree: Oid) -> tuple[tuple[bytes, Entry], ...]:
        """The names directly in this tree."""
        return tuple((name, entry_of(value)) for name, value in self.names(tree).items())

    def entry(self, tree: Oid | None, path: bytes) -> Entry | None:
        """What the tree holds at the path; the empty path is the tree itself. Links are never followed."""
        if tree is None:
            return None
        at = (TREE, tree.encode())
        for name in path.split(b"/") if path else ():
            inner = self.names(_oid(at[1])).get(name) if at[0] == TREE else None
            if inner is None:
                return None
            at = inner
        return entry_of(at)

    def blob(self, oid: Oid) -> bytes:
        """The content of a blob."""
        return self.read(oid, "blob")

    def commit(self, oid: Oid) -> Commit:
        """The commit with this id."""
        return parse_commit(oid, self.read(oid, "commit"))

    def contains(self, tip: Oid, commit: Oid) -> bool:
        """Whether a commit is the tip or one of its ancestors."""
        return tip == commit or bool(self._repository.descendant_of(tip, commit))

    def find_commit(self, oid: Oid) -> Oid | None:
        """The commit that this id is or, as a tag, leads to; None where there is none."""
        for _ in range(TAGS_DEEP):
            header = self.header(oid)
            if header is None or header[0] != "tag":
                return oid if header and header[0] == "commit" else None
            target = next((value for key, value in headers(self.read(oid, "tag")) if key == b"object"), b"")
            oid = Oid(target.decode("ascii", "replace"))
        return None

    def merge_base(self, one: Oid, other: Oid) -> Oid | None:
        """A best common ancestor; None for histories that have nothing in common."""
        found = self._repository.merge_base(one, other)
        return None if found is None else Oid(str(found))

    def walk_log(self, tips: Sequence[Oid], without: Sequence[Oid], most: int) -> tuple[tuple[Oid, ...], int]:
        """What the tips have and `without` has not: the newest commits, at most `most`, and how many there are."""
        walk = self._repository.walk(None, SortMode.TOPOLOGICAL | SortMode.TIME)
        for oid in tips:
            walk.push(oid)
        for oid in without:
            walk.hide(oid)
        found = [Oid(str(commit.id)) for commit in itertools.islice(walk, most)]
        return tuple(found), len(found) + sum(1 for _ in walk)

    def ahead(self, tip: Oid, commit: Oid) -> int:
        """How many commits the tip has that the commit has not."""
        return self.apart(tip, commit)[0]

    def apart(self, one: Oid, other: Oid) -> tuple[int, int]:
        """How many commits the one has that the other has not, and the other way round.

        Raises:
            BadObject: a commit of theirs cannot be read.
        """
        try:
            ahead, behind = self._repository.ahead_behind(one, other)
        except (KeyError, ValueError, pygit2.GitError) as error:
            raise BadObject(one, "its history cannot be read") from error
        return int(ahead), int(behind)


def _read(odb: pygit2.Odb, oid: Oid, kind: Kind) -> bytes:
    try:
        found, content = odb.read(pygit2.Oid(raw=bytes.fromhex(oid)))
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise BadObject(oid, "it is not there or cannot be read") from error
    if KINDS[int(found)] != kind:
        raise BadObject(oid, f"it is a {KINDS[int(found)]}, not a {kind}")
    return content


def _oid(sha: bytes) -> Oid:
    return Oid(sha.decode("ascii"))


def entry_of(value: tuple[int, bytes]) -> Entry:
    """A tree's mode and hexadecimal id as the contract's entry."""
    return Entry(mode=value[0], oid=_oid(value[1]))


def headers(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The header lines of a commit or tag as key and value; continuation lines are left out."""
    for line in content.partition(b"\n\n")[0].split(b"\n"):
        key, _, value = line.partition(b" ")
        if key:
            yield key, value


def parse_commit(oid: Oid, content: bytes) -> Commit:
    """A commit from its content. A header that an old or broken commit lacks is empty.

    Raises:
        BadObject: it names no tree, or by what is no id.
    """
    found = list(headers(content))
    first = dict(reversed(found))
    if not _OID.fullmatch(first.get(b"tree", b"")):
        raise BadObject(oid, "the commit names no tree")
    return Commit(
        tree=Oid(first[b"tree"].decode("ascii", "replace")),
        parents=tuple(Oid(value.decode("ascii", "replace")) for key, value in found if key == b"parent"),
        author=first.get(b"author", b""),
        committer=first.get(b"committer", b""),
        message=content.partition(b"\n\n")[2],
        encoding=first.get(b"encoding", b""),
    )

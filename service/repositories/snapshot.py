"""Read one repository for the read tools and the pages: by exact bytes, within limits, whatever was imported.

Nothing of Git's syntax for revisions is understood. Symbolic links and submodules are entries, never followed.
"""

import heapq
import itertools
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from service.contract.data import NULL, Commit, Entry, Oid
from service.contract.ports import Hit, Listed, NamedRef
from service.repositories import search as grep
from service.repositories.reading import TREE, BadObject, Names, Objects, entry_of
from service.repositories.refs import BrokenRef, head_branch, list_refs, read_ref

WALK_MOST = 10_000
"""Entries of one listing at most, whatever is asked (THREATS G11)."""

SECONDS = 1.0
"""How long one listing, log or search may take."""

_BRANCHES = "refs/heads/"
_TAGS = "refs/tags/"
_OID_SIZE = 40
_SECONDS = re.compile(rb"> ?([0-9]{1,18}) [+-][0-9]+\Z")
_HEX = frozenset("0123456789abcdef")


class Snapshot:
    """One repository to read; the contract's `Snapshot`. Blocking. Every call sees what is there by then.

    Args:
        repository: the bare repository's folder.
    """

    def __init__(self, repository: Path) -> None:
        self._path = repository

    def is_empty(self) -> bool:
        """Whether there is neither a branch nor a tag."""
        return not list_refs(self._path, _BRANCHES) and not list_refs(self._path, _TAGS)

    def default_branch(self) -> str:
        """The short name of the branch that HEAD names; empty when HEAD is detached.

        Where HEAD's branch has no commit and others have, the first of them by name: somebody began elsewhere.
        """
        named = head_branch(self._path)
        if named and self._read(named) == NULL:
            named = next((name for name, _ in list_refs(self._path, _BRANCHES)), named)
        return named.removeprefix(_BRANCHES)

    def branches(self, after: bytes, most: int) -> Sequence[NamedRef]:
        """Branches in byte order of their short names."""
        return self._named(_BRANCHES, after, most)

    def tags(self, after: bytes, most: int) -> Sequence[NamedRef]:
        """Tags that lead to a commit, in byte order of their short names, with that commit."""
        return self._named(_TAGS, after, most)

    def _named(self, prefix: str, after: bytes, most: int) -> list[NamedRef]:
        objects = Objects(self._path)
        found: list[NamedRef] = []
        for full, oid in list_refs(self._path, prefix):
            name = os.fsencode(full.removeprefix(prefix))
            if name > after and len(found) < most and (commit := objects.find_commit(oid)):
                found.append(NamedRef(name=name, oid=commit))
        return found

    def resolve(self, ref: str) -> Oid | None:
        """The commit with a whole commit id, whatever a ref is called; else of a full name under refs/heads or
        refs/tags, of HEAD, of a branch, or of a tag.
        """
        full = ref == "HEAD" or ref.startswith((_BRANCHES, _TAGS))
        objects = Objects(self._path)
        if len(ref) == _OID_SIZE and _HEX.issuperset(ref):
            header = objects.header(Oid(ref))
            if header and header[0] == "commit":
                return Oid(ref)
        for name in (ref,) if full else (_BRANCHES + ref, _TAGS + ref):
            if (oid := self._read(name)) != NULL:
                return objects.find_commit(oid)
        return None

    def _read(self, name: str) -> Oid:
        """The id a ref has; a broken one is none, as in listings."""
        try:
            return read_ref(self._path, name)
        except BrokenRef:
            return NULL

    def commit(self, oid: Oid) -> Commit:
        """The commit with this id.

        Raises:
            BadObject: there is none.
        """
        return Objects(self._path).commit(oid)

    def log(self, oid: Oid, most: int) -> Sequence[tuple[Oid, Commit]]:
        """The commit and its ancestors in the order of `git log`, for at most SECONDS.

        Raises:
            BadObject: there is no such commit, or one of those that are asked for is missing or broken.
        """
        until = time.monotonic() + SECONDS
        found: list[tuple[Oid, Commit]] = []
        for name, commit in _ancestors(Objects(self._path), oid):
            if len(found) >= most or time.monotonic() > until:
                break
            found.append((name, commit))
        return found

    def entry(self, commit: Oid, path: bytes) -> Entry | None:
        """What the commit has at the path; the empty path is its root."""
        objects = Objects(self._path)
        return objects.entry(objects.commit(commit).tree, path)

    def walk(self, commit: Oid, path: bytes, *, after: bytes, most: int, deep: bool) -> tuple[Sequence[Listed], bool]:
        """Entries under a folder in byte order of their paths.

        Args:
            commit: where.
            path: the folder; empty for the root. Anything else than a folder has no entries.
            after: only paths greater than this one.
            most: how many at most; never more than WALK_MOST.
            deep: whether to give what is in the folders in place of the folders.

        Returns:
            The entries, and whether the listing stopped for want of time or at WALK_MOST.
        """
        objects = Objects(self._path)
        top = objects.entry(objects.commit(commit).tree, path)
        if top is None or top.mode != TREE:
            return [], False
        walk = _Walk(objects, after, deep=deep)
        found: list[Listed] = []
        for place, entry in walk.under(path, top.oid):
            if len(found) >= min(most, WALK_MOST):
                return found, len(found) < most
            found.append(Listed(path=place, entry=entry, size=_size(objects, entry)))
        return found, walk.stopped

    def blob(self, oid: Oid) -> bytes:
        """The content of a blob.

        Raises:
            BadObject: there is none.
        """
        return Objects(self._path).blob(oid)

    def blob_size(self, oid: Oid) -> int:
        """A blob's size in bytes, without reading it.

        Raises:
            BadObject: there is none.
        """
        header = Objects(self._path).header(oid)
        if header is None or header[0] != "blob":
            raise BadObject(oid, "there is no such blob")
        return header[1]

    def search(
        self, commit: Oid, text: str, *, under: bytes, ignore_case: bool, after: tuple[bytes, int], most: int
    ) -> tuple[Sequence[Hit], bool]:
        """Lines that contain the text, in path and line order after `after`, and whether time ran out."""
        return grep.search(
            self._path,
            commit,
            text,
            under=under,
            ignore_case=ignore_case,
            after=after,
            most=most,
            seconds=SECONDS,
        )


class _Walk:
    """A walk through trees in path order that gives up when its time is over."""

    def __init__(self, objects: Objects, after: bytes, *, deep: bool) -> None:
        self._objects = objects
        self._after = after
        self._deep = deep
        self._until = time.monotonic() + SECONDS
        self.stopped = False

    def under(self, path: bytes, tree: Oid) -> Iterator[tuple[bytes, Entry]]:
        waiting = self._inside(path, tree)
        while waiting:
            if time.monotonic() > self._until:
                self.stopped = True
                return
            place, value = waiting.pop()
            if self._deep and value[0] == TREE:
                waiting.extend(self._inside(place, entry_of(value).oid))
            else:
                yield place, entry_of(value)

    def _inside(self, path: bytes, tree: Oid) -> list[tuple[bytes, tuple[int, bytes]]]:
        """What is directly in a tree and may come after `after`, the last first."""
        prefix = path + b"/" if path else b""
        placed = [(prefix + name, value) for name, value in self._names(tree).items()]
        return sorted(filter(self._is_open, placed), key=self._order, reverse=True)

    def _names(self, tree: Oid) -> Names:
        try:
            return self._objects.names(tree)
        except BadObject:  # a broken tree lists as empty
            return {}

    def _order(self, item: tuple[bytes, tuple[int, bytes]]) -> bytes:
        place, (mode, _) = item
        return place + b"/" if self._deep and mode == TREE else place

    def _is_open(self, item: tuple[bytes, tuple[int, bytes]]) -> bool:
        place, (mode, _) = item
        if self._deep and mode == TREE:
            return self._after < place + b"/" or self._after.startswith(place + b"/")
        return place > self._after


def _ancestors(objects: Objects, oid: Oid) -> Iterator[tuple[Oid, Commit]]:
    """The newest first of those whose child was given; of equally old ones, the one found first (git-log(1)).

    libgit2's walk by time gives commits of one second in any order.
    """
    counter = itertools.count()
    waiting: list[tuple[int, int, Oid, Commit]] = []
    seen: set[Oid] = set()

    def add(name: Oid) -> None:
        if name not in seen:
            seen.add(name)
            commit = objects.commit(name)
            heapq.heappush(waiting, (-_seconds(commit.committer), next(counter), name, commit))

    add(oid)
    while waiting:
        *_, name, commit = heapq.heappop(waiting)
        yield name, commit
        for parent in commit.parents:
            add(parent)


def _seconds(identity: bytes) -> int:
    match = _SECONDS.search(identity)
    return int(match[1]) if match else 0


def _size(objects: Objects, entry: Entry) -> int | None:
    header = objects.header(entry.oid)
    return header[1] if header and header[0] == "blob" else None

"""What an operation sees while it plans: pinned facts and a store of content-addressed objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from service.contract.data import Change, Commit, Entry, LineCount, Oid
from service.contract.plan import Fact, NewCommit, RefAt, Value


class OutOfTime(Exception):
    """Planning took longer than its deadline."""


class NotPinned(Exception):
    """An operation asked for a fact that it had not named: a mistake in the operation."""


class Store(Protocol):
    """Git objects, read from the repository and staged beside it. Blocking; raises OutOfTime; moves nothing."""

    def commit(self, oid: Oid) -> Commit:
        """The commit with this id."""

    def entry(self, tree: Oid | None, path: bytes) -> Entry | None:
        """What the tree holds at the path (a directory is an entry too); None where there is nothing."""

    def entries(self, tree: Oid) -> tuple[tuple[bytes, Entry], ...]:
        """The names directly in this tree."""

    def blob(self, oid: Oid) -> bytes:
        """The content of a blob."""

    def changes(self, old: Oid | None, new: Oid | None) -> Iterator[Change]:
        """The paths that differ between two trees, in byte order, renames as a deletion and a creation."""

    def line_count(self, old: Oid | None, new: Oid | None) -> LineCount | None:
        """Lines added and removed between two blobs; None when either is binary."""

    def put(self, content: bytes) -> Oid:
        """Stage a blob."""

    def edit(self, tree: Oid | None, edits: Mapping[bytes, Entry | None]) -> Oid:
        """Stage the tree that has these paths set or (None) taken away; directories left empty go too."""

    def draft(self, parents: tuple[Oid, ...], tree: Oid, message: bytes) -> NewCommit:
        """A commit to build, with this proposal's author and author date."""


@dataclass(frozen=True)
class World:
    """The pinned facts and the store. Whoever asks for a fact that is not pinned has a mistake."""

    seen: Mapping[Fact, Value]
    store: Store

    def ref(self, name: str) -> Oid:
        """The commit at which the ref was pinned; NULL when it was absent."""
        for fact, value in self.seen.items():
            if isinstance(fact, RefAt) and fact.name == name:
                return value
        raise NotPinned(name)

"""What an operation sees while it plans: pinned facts and a store of content-addressed objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from service.contract.data import NULL, Change, Commit, Data, Entry, LineCount, Oid
from service.contract.lines import Span
from service.contract.plan import Conflict, Fact, NewCommit, NewTag, Note, Plan, RefAt, Value


class OutOfTime(Exception):
    """Planning took longer than its deadline."""


class NotPinned(Exception):
    """An operation asked for a fact that it had not named: a mistake in the operation."""


class Merged(Data):
    """What a merge gives: its tree, and where it could not agree (the tree has markers there then)."""

    tree: Oid
    conflicts: tuple[Conflict, ...] = ()


class Applied(Data):
    """What a patch gives: the tree, or why it does not apply, with the paths where it does not."""

    tree: Oid | None
    rejected: tuple[Note, ...] = ()


class Replay(Data):
    """What a branch has beyond another: the commits to repeat, the oldest first, and those left out, with why:
    `merge`, or `upstream` where the other has the same change already.
    """

    commits: tuple[Oid, ...]
    dropped: tuple[tuple[Oid, str], ...] = ()


class Store(Protocol):
    """Git objects, read from the repository and staged beside it. Blocking; raises OutOfTime; moves nothing.

    Wherever a commit is asked for, one that is only planned (a draft) will do.
    """

    def commit(self, oid: Oid) -> Commit:
        """The commit with this id."""

    def is_draft(self, oid: Oid) -> bool:
        """Whether this commit is only planned: its id is shown to nobody."""

    def find_commit(self, oid: Oid) -> Oid | None:
        """The commit that this id is or, as a tag, leads to; None where there is none."""

    def contains(self, tip: Oid, commit: Oid) -> bool:
        """Whether a commit is the tip or one of its ancestors."""

    def merge_base(self, one: Oid, other: Oid) -> Oid | None:
        """A best common ancestor; None for histories that have nothing in common."""

    def log(self, tip: Oid, without: Oid, most: int) -> tuple[tuple[Oid, ...], int]:
        """What the tip has and `without` (NULL: nothing) has not: the newest commits, at most `most`, and how many."""

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

    def spans(self, old: Oid, new: Oid) -> tuple[Span, ...] | None:
        """Where the lines of two blobs differ, from top to bottom; None when either is binary."""

    def put(self, content: bytes) -> Oid:
        """Stage a blob."""

    def edit(self, tree: Oid | None, edits: Mapping[bytes, Entry | None]) -> Oid:
        """Stage the tree that has these paths set or (None) taken away; directories left empty go too."""

    def merge(self, ours: Oid, theirs: Oid, base: Oid | None = None) -> Merged:
        """Merge two commits as `git merge` does by default. With `base`, a commit or NULL for the empty tree, in place
        of their own common ancestor: so a commit is picked (base: its parent) or reverted (theirs: its parent).
        """

    def replay(self, tip: Oid, upstream: Oid) -> Replay:
        """What `git rebase` would repeat of the tip on the upstream."""

    def apply(self, tree: Oid, patch: bytes) -> Applied:
        """Apply a unified diff as `git apply` does by default."""

    def draft(self, parents: tuple[Oid, ...], tree: Oid, message: bytes, replays: Oid | None = None) -> NewCommit:
        """A commit to build: this proposal's author and author date, or those of the commit that it replays."""

    def tag(self, target: Oid, name: str, message: bytes) -> NewTag:
        """An annotated tag to build."""


def tree_of(store: Store, commit: Oid) -> Oid | None:
    """A commit's tree; None for NULL, which has nothing."""
    return None if commit == NULL else store.commit(commit).tree


@dataclass(frozen=True)
class World:
    """The pinned facts and the store. Whoever asks for a fact that is not pinned has a mistake.

    Attributes:
        seen: the pinned facts.
        store: the objects.
        moved: where earlier steps of the same plan have moved refs.
    """

    seen: Mapping[Fact, Value]
    store: Store
    moved: Mapping[str, Oid] = field(default_factory=dict)

    def ref(self, name: str) -> Oid:
        """The commit at which the ref was pinned, or to which an earlier step moved it; NULL when it was absent."""
        for fact, value in self.seen.items():
            if isinstance(fact, RefAt) and fact.name == name:
                return self._moved(name, value)
        raise NotPinned(name)

    def _moved(self, name: str, pinned: Oid) -> Oid:
        if not name.endswith("/"):
            return self.moved.get(name, pinned)
        made = (oid for ref, oid in self.moved.items() if ref.startswith(name) and oid != NULL)
        return pinned if pinned != NULL else next(made, NULL)

    def after(self, plan: Plan) -> "World":
        """The world as it is when this plan has been executed."""
        return replace(self, moved={**self.moved, **{move.ref: move.new for move in plan.effects}})

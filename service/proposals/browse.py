"""What the pages of one repository show: files, history, branches, a commit, what waits; see `view` for the rules.

Paths, names and messages are bytes as Git has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from service.contract.data import Commit, Entry, Oid
from service.contract.ports import Listed, NamedRef, RestorePoint
from service.kit.actor import Actor
from service.proposals.lists import RepositoryLine
from service.proposals.view import FileView, Show
from service.writer.verify import Finding

START_MOST: Final = 10_000
"""So far into a history a page of it may begin."""


@dataclass(frozen=True)
class Head:
    """What every page of a repository says above all: which it is, and how many things wait on the desk."""

    line: RepositoryLine
    now: datetime
    waiting: int


@dataclass(frozen=True)
class OverviewView:
    """A repository at a glance.

    Attributes:
        default_branch: its short name; empty where HEAD names none.
        newest: the commit there; None where it has none.
        counts: its proposals in each list of the inbox.
        branches, tags: how many there are, as far as they are counted.
    """

    head: Head
    default_branch: str
    newest: tuple[Oid, Commit] | None
    counts: Mapping[Show, int]
    branches: int
    tags: int
    restore_points: int


@dataclass(frozen=True)
class FolderView:
    """A folder at a commit, which is None where the branch has none yet. `after`: where the next page begins."""

    head: Head
    ref: str
    commit: Oid | None
    path: bytes
    entries: tuple[Listed, ...]
    after: bytes | None


@dataclass(frozen=True)
class FileContentView:
    """A file at a commit; `content` is None for a submodule and for what is too big to be shown."""

    head: Head
    ref: str
    commit: Oid
    path: bytes
    entry: Entry
    size: int | None
    content: bytes | None


@dataclass(frozen=True)
class HistoryView:
    """Commits, the newest first. `after`: how many are before the next page; None on the last. `cut`: there are more
    all the same, for which there was no time or no page.
    """

    head: Head
    ref: str
    commits: tuple[tuple[Oid, Commit], ...]
    start: int
    after: int | None
    cut: bool = False


@dataclass(frozen=True)
class BranchLine:
    """A branch, and by how many commits it is before and behind the default branch; None: not counted."""

    ref: NamedRef
    ahead: int | None
    behind: int | None


@dataclass(frozen=True)
class RefsView:
    """Branches and tags by name; `more`: there are others that are not shown."""

    head: Head
    default_branch: str
    branches: tuple[BranchLine, ...]
    tags: tuple[NamedRef, ...]
    more: bool


@dataclass(frozen=True)
class CommitView:
    """One commit.

    Attributes:
        finding: who signed it, by the keys of this tenant.
        proposal: what made it, where this person may see that.
        files: what it changes against its first parent, whole.
        others: paths that it changes too, too many to be shown whole.
    """

    head: Head
    oid: Oid
    commit: Commit
    finding: Finding
    proposal: UUID | None
    files: tuple[FileView, ...]
    others: tuple[bytes, ...]


@dataclass(frozen=True)
class RestorePointsView:
    """What was kept, the newest first. `after`: the last one's id where there are more."""

    head: Head
    points: tuple[RestorePoint, ...]
    after: str


class Browsing(Protocol):
    """One repository, for who is in its project. Raises NOT_FOUND also for a ref, path or commit that is not there."""

    async def overview(self, actor: Actor, repository_id: UUID) -> OverviewView: ...

    async def files(
        self, actor: Actor, repository_id: UUID, ref: str | None, path: bytes, after: bytes
    ) -> FolderView | FileContentView:
        """What is at a path: a folder's entries after the path `after`, or a file."""

    async def history(self, actor: Actor, repository_id: UUID, ref: str | None, start: int) -> HistoryView: ...

    async def refs(self, actor: Actor, repository_id: UUID) -> RefsView: ...

    async def commit(self, actor: Actor, repository_id: UUID, oid: Oid) -> CommitView: ...

    async def restore_points(self, actor: Actor, repository_id: UUID, after: str) -> RestorePointsView: ...

"""What a tool may ask of the service, as Protocols that the roots fill. A tool never sees more than these."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from service.contract.data import Commit, Entry, Json, Oid
from service.contract.operation import Operation, Toolset
from service.contract.plan import Conflict, MoveRef
from service.kit.actor import Actor

Scope = Literal["repo:read", "repo:propose"]


class Arguments(BaseModel):
    """A tool's validated input. Types are strict; what is not known is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Answer(BaseModel):
    """A tool's structured output."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RepositoryFacts(Answer):
    """What a connection may know of a repository."""

    repository_id: str
    name: str
    project: str
    agents_may_propose: bool


@dataclass(frozen=True)
class NamedRef:
    """A branch or tag by its short name, and the commit it leads to."""

    name: bytes
    oid: Oid


@dataclass(frozen=True)
class Listed:
    """One entry of a listing: its path from the root, and for a blob its size in bytes."""

    path: bytes
    entry: Entry
    size: int | None


@dataclass(frozen=True)
class Hit:
    """A line that a search found; `line` is cut to 500 bytes."""

    path: bytes
    number: int
    line: bytes


class Snapshot(Protocol):
    """One repository to read. Blocking: call it in a thread. Nothing of Git's syntax for revisions is understood."""

    def is_empty(self) -> bool: ...
    def default_branch(self) -> str: ...
    def branches(self, after: bytes, most: int) -> Sequence[NamedRef]: ...
    def tags(self, after: bytes, most: int) -> Sequence[NamedRef]: ...
    def resolve(self, ref: str) -> Oid | None: ...
    def commit(self, oid: Oid) -> Commit: ...
    def log(self, oid: Oid, most: int) -> Sequence[tuple[Oid, Commit]]: ...
    def entry(self, commit: Oid, path: bytes) -> Entry | None: ...
    def walk(self, commit: Oid, path: bytes, *, after: bytes, most: int, deep: bool) -> tuple[Sequence[Listed], bool]:
        """Entries under a directory in path order after `after`, and whether the listing stopped for want of time."""

    def blob_size(self, oid: Oid) -> int:
        """A blob's size in bytes, without reading its content."""

    def blob(self, oid: Oid) -> bytes: ...
    def search(
        self, commit: Oid, text: str, *, under: bytes, ignore_case: bool, after: tuple[bytes, int], most: int
    ) -> tuple[Sequence[Hit], bool]:
        """Lines that contain the text, in path and line order after `after`, and whether time ran out."""


class Repositories(Protocol):
    """The repositories that the calling connection may read. Anything else is NOT_FOUND."""

    async def list(self, after: str, most: int) -> list[RepositoryFacts]: ...
    async def facts(self, repository_id: str) -> RepositoryFacts: ...
    async def open(self, repository_id: str) -> Snapshot: ...


class Proposals(Protocol):
    """The calling connection's own proposals. Any other id is NOT_FOUND."""

    async def submit(self, operation: Operation[Any], request: Any, key: str, sent: Json) -> Json: ...
    async def read(self, proposal_id: str, wait_seconds: int) -> Json: ...
    async def list(self, *, repository_id: str | None, state: str | None, after: str, most: int) -> list[Json]: ...
    async def cancel(self, proposal_id: str) -> Json: ...


@dataclass(frozen=True)
class KeptConflict:
    """What could not be proposed, as it is kept. Times are RFC 3339, UTC."""

    id: str
    repository_id: str
    operation: str
    made_at: str
    conflicts: tuple[Conflict, ...]
    content: Callable[[Entry], bytes]
    """What one side has (a submodule's commit as git diff writes it). Blocking."""


class Conflicts(Protocol):
    """What the calling connection could not propose in the last day. Any other id is NOT_FOUND."""

    async def read(self, conflict_id: str) -> KeptConflict: ...


@dataclass(frozen=True)
class RestorePoint:
    """What the refs were before an execution, and what it made of them. Times are RFC 3339, UTC.

    Attributes:
        id: also that of the proposal that was executed.
        operation: its kind.
        expires_at: until then what was kept can be restored.
        moves: each ref with what it was and what it became; NULL is absent.
    """

    id: str
    repository_id: str
    operation: str
    made_at: str
    expires_at: str
    moves: tuple[MoveRef, ...]


class RestorePoints(Protocol):
    """The restore points of the repositories that the calling connection may read. Anything else is NOT_FOUND."""

    async def list(self, repository_id: str, before: str, most: int) -> list[RestorePoint]:
        """The newest first, older than the one with the id `before`."""

    async def read(self, restore_point_id: str) -> RestorePoint: ...


class Cursors(Protocol):
    """Opaque positions in a listing, signed and bound to tenant, connection and query."""

    def seal(self, query: Json, position: Json) -> str: ...
    def open(self, query: Json, cursor: str) -> Json:
        """The position. Raises INVALID_CURSOR for one that was changed or belongs to another query."""


@dataclass(frozen=True)
class Ports:
    """Everything a tool call has."""

    actor: Actor
    repositories: Repositories
    proposals: Proposals
    conflicts: Conflicts
    restore_points: RestorePoints
    cursors: Cursors
    in_thread: Callable[..., Awaitable[Any]]
    """`await in_thread(function, *arguments)` runs a blocking function beside the event loop."""


A = TypeVar("A", bound=Arguments)


class Tool(Protocol[A]):
    """A tool that reads, or that cancels: one object in one file that bears its name."""

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    scope: ClassVar[Scope]
    toolset: ClassVar[Toolset]
    read_only: ClassVar[bool]
    destructive: ClassVar[bool]
    idempotent: ClassVar[bool]
    arguments: type[A]
    answer: type[Answer]

    async def run(self, arguments: A, ports: Ports) -> Answer: ...

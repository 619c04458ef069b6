"""What the pages beside the proposals show: connections, repositories, the ledger; see `view` for the rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from service.contract.answers import State
from service.contract.data import Json
from service.grants.policy import Clause
from service.kit.actor import Actor
from service.writer.signature import OwnerKey, PublicKey

Standing = Literal["live", "paused", "revoked"]
ConnectionAction = Literal["pause", "resume", "revoke"]
RepositoryAction = Literal["admit_agents", "refuse_agents", "require_signatures"]


@dataclass(frozen=True)
class ConnectionLine:
    """One connection.

    Attributes:
        granted_by: the person's e-mail address.
        repositories: as `project / name`.
        counts: how many of its proposals are in each state; a state without any may be absent.
        last_at: when it last proposed something.
        used_at: when it last took a token, which it needs anew each hour.
    """

    id: UUID
    name: str
    client: str
    granted_by: str
    scopes: tuple[str, ...]
    repositories: tuple[str, ...]
    state: Standing
    created_at: datetime
    expires_at: datetime | None
    last_at: datetime | None
    used_at: datetime | None
    counts: Mapping[State, int]
    may_manage: bool


@dataclass(frozen=True)
class ConnectionsView:
    """The tenant's connections: live and paused ones by name, then revoked ones."""

    now: datetime
    waiting: int
    lines: tuple[ConnectionLine, ...]


@dataclass(frozen=True)
class ConnectionView:
    """One connection, with the clauses of its policy (none: nothing is restricted) and who decides there."""

    now: datetime
    waiting: int
    line: ConnectionLine
    clauses: tuple[Clause, ...]


@dataclass(frozen=True)
class RepositoryLine:
    """One repository, with how many proposals wait in it, and whether only signed approvals are taken there."""

    id: UUID
    project: str
    name: str
    state: Standing
    agents_may_propose: bool
    waiting: int
    may_manage: bool
    signed_approvals: bool = False


@dataclass(frozen=True)
class RepositoriesView:
    """The tenant's repositories by project and name."""

    now: datetime
    waiting: int
    lines: tuple[RepositoryLine, ...]


@dataclass(frozen=True)
class LedgerLine:
    """One entry; `actor` is a name, or the id where there is none; `hash` is 64 hexadecimal digits; `details` are the
    entry's own.
    """

    seq: int
    at: datetime
    kind: str
    subject: str
    actor_kind: str
    actor: str
    hash: str
    details: Json = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerFilter:
    """What is asked for; what is empty or None asks for all.

    Attributes:
        kind: the first word of the entries' kinds, such as `proposal`.
        actor: an id of who did it.
        subject: what it happened to.
        since, until: from the one to before the other.
    """

    kind: str = ""
    actor: UUID | None = None
    subject: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class LedgerView:
    """Entries, newest first; `before` asks for the next page, None on the last. `actors`: who can be asked for."""

    now: datetime
    waiting: int
    lines: tuple[LedgerLine, ...]
    before: int | None
    actors: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SigningView:
    """Whether the tenant's commits are signed, and every key that ever signed one: the service's, and people's own."""

    on: bool
    keys: tuple[PublicKey, ...]
    owners: tuple[OwnerKey, ...]


class Connections(Protocol):
    """The agents' connections."""

    async def list(self, actor: Actor) -> ConnectionsView: ...

    async def read(self, actor: Actor, connection_id: UUID) -> ConnectionView: ...

    async def change(self, actor: Actor, connection_id: UUID, action: ConnectionAction) -> tuple[UUID, ...]:
        """Pause, resume or revoke; gives the proposals that had passed the point of no return before it."""


class Repositories(Protocol):
    """The repositories."""

    async def list(self, actor: Actor) -> RepositoriesView: ...

    async def change(self, actor: Actor, repository_id: UUID, action: RepositoryAction) -> None: ...


class Ledger(Protocol):
    """What happened, and with which keys commits are signed."""

    async def read(self, actor: Actor, only: LedgerFilter, before: int | None, most: int) -> LedgerView: ...

    async def signing(self, actor: Actor) -> SigningView: ...

"""What the pages beside the proposals show: connections, repositories, the ledger; see `view` for the rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from service.contract.answers import State
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
    counts: Mapping[State, int]
    may_manage: bool


@dataclass(frozen=True)
class ConnectionsView:
    """The tenant's connections: live and paused ones by name, then revoked ones."""

    now: datetime
    waiting: int
    lines: tuple[ConnectionLine, ...]


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
    """One entry; `actor` is a name, or the id where there is none; `hash` is 64 hexadecimal digits."""

    seq: int
    at: datetime
    kind: str
    subject: str
    actor_kind: str
    actor: str
    hash: str


@dataclass(frozen=True)
class LedgerView:
    """Entries, newest first; `before` asks for the next page, None on the last."""

    now: datetime
    waiting: int
    lines: tuple[LedgerLine, ...]
    before: int | None


@dataclass(frozen=True)
class SigningView:
    """Whether the tenant's commits are signed, and every key that ever signed one: the service's, and people's own."""

    on: bool
    keys: tuple[PublicKey, ...]
    owners: tuple[OwnerKey, ...]


class Connections(Protocol):
    """The agents' connections."""

    async def list(self, actor: Actor) -> ConnectionsView: ...

    async def change(self, actor: Actor, connection_id: UUID, action: ConnectionAction) -> tuple[UUID, ...]:
        """Pause, resume or revoke; gives the proposals that had passed the point of no return before it."""


class Repositories(Protocol):
    """The repositories."""

    async def list(self, actor: Actor) -> RepositoriesView: ...

    async def change(self, actor: Actor, repository_id: UUID, action: RepositoryAction) -> None: ...


class Ledger(Protocol):
    """What happened, and with which keys commits are signed."""

    async def read(self, actor: Actor, before: int | None, most: int) -> LedgerView: ...

    async def signing(self, actor: Actor) -> SigningView: ...

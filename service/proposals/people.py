"""Who is in a tenant's projects, and what an owner changes there; see `view` for the rules."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol
from uuid import UUID

from service.grants.manage import Role
from service.kit.actor import Actor
from service.proposals.lists import Standing

Way = Literal["passkey", "password", "oidc"]


@dataclass(frozen=True)
class Member:
    """A person in a project; `ways` is how he can sign in beside a link, for owners alone."""

    id: UUID
    email: str
    name: str
    role: Role
    state: Standing
    since: datetime
    me: bool
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class ProjectPeople:
    """A project with its members."""

    id: UUID
    name: str
    may_manage: bool
    members: tuple[Member, ...]


@dataclass(frozen=True)
class PeopleView:
    """The projects that a person is in."""

    now: datetime
    waiting: int
    projects: tuple[ProjectPeople, ...]


@dataclass(frozen=True)
class TenantView:
    """What holds in a tenant.

    Attributes:
        proposal_time: how long a proposal waits for a decision.
        warn_time: how long before its end people are told.
        restore_time: how long what was taken away can be restored.
        pending_most: how many proposals of one proposer may wait.
        sign_commits: whether the service signs what it writes.
    """

    waiting: int
    name: str
    proposal_time: timedelta
    warn_time: timedelta
    restore_time: timedelta
    pending_most: int
    sign_commits: bool


class People(Protocol):
    """The people of a tenant. Taking out raises NOT_FOUND, FORBIDDEN, PROOF_NEEDED, LAST_OWNER."""

    async def read(self, actor: Actor) -> PeopleView: ...

    async def tenant(self, actor: Actor) -> TenantView: ...

    async def take_out(self, actor: Actor, membership_id: UUID) -> None:
        """Take a member out of his project; at once, everywhere."""

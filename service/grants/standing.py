"""Everything that a proposal hangs on, read in one walk; whether it still stands is a pure question.

The writer takes each row FOR SHARE in this order: tenant, project, repository, connection, then the memberships of the
granter, or of the owner who proposes himself, and of the approver. Whoever changes a right takes that row FOR UPDATE,
so a change is either seen here or comes after the point of no return. Grants and clauses have no rows of their own to
hold: changing one raises the version of its connection, so they are read last, when that row is held still.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ARRAY, Select, Uuid, bindparam, func, literal, select, true

from service.grants.policy import Clause, Wanted, check_policy
from service.grants.tables import connection, connection_repository, membership, policy_clause, project, tenant
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.repositories.tables import repository

DECIDERS = ("owner", "maintainer")
_ROWS = {"agent": (tenant, project, repository, connection), "owner": (tenant, project, repository)}


@dataclass(frozen=True)
class Proposer:
    """Who made a proposal: an agent's connection, or an owner."""

    kind: Literal["agent", "owner"]
    id: UUID

    @classmethod
    def of(cls, connection: UUID | None, person: UUID | None) -> "Proposer":
        """From the two columns of which one is set."""
        if connection is not None:
            return cls("agent", connection)
        if person is None:
            raise ValueError("nobody proposed this")
        return cls("owner", person)

    @property
    def connection(self) -> UUID | None:
        """The connection, where it is one."""
        return self.id if self.kind == "agent" else None

    @property
    def person(self) -> UUID | None:
        """The person, where it is one."""
        return self.id if self.kind == "owner" else None


@dataclass(frozen=True)
class Member:
    """A person's place in the project."""

    role: str
    state: str


@dataclass(frozen=True)
class Standing:
    """What the walk found.

    Attributes:
        now: the database's clock at the walk.
        states: of tenant, project, repository and connection, by these names, in the order of the walk.
        in_time: whether the connection has not expired.
        granted: whether the connection was given this repository; an owner needs no grant.
        granter: who consented to the connection, or the owner who proposes himself.
        by_owner: an owner proposes himself.
        members: the project's members among the people asked for, the granter included.
        pending_most: how many proposals of one connection may wait.
        proposal_seconds: how long a proposal waits for a decision.
        sign_commits: whether the tenant asks for signatures.
        signed_approvals: whether nothing less than a person's own signature approves in this repository.
    """

    now: datetime
    states: Mapping[str, str]
    in_time: bool
    granted: bool
    granter: UUID
    by_owner: bool
    members: Mapping[UUID, Member]
    agents_may_propose: bool
    clauses: tuple[Clause, ...]
    connection_name: str
    pending_most: int
    proposal_seconds: int
    sign_commits: bool
    signed_approvals: bool

    def is_member(self, person: UUID) -> bool:
        """Whether the person is in the project now, in whatever role."""
        found = self.members.get(person)
        return found is not None and found.state == "live"

    def check_decider(self, person: UUID, what: str = "approver") -> None:
        """Refuse who may not decide in the project. Raises FORBIDDEN."""
        if not self.is_member(person) or self.members[person].role not in DECIDERS:
            raise Refusal(Code.FORBIDDEN, f"The {what} may not decide in this project.", what=what)

    def check_signed(self, signature: bytes | None) -> None:
        """Refuse an approval without the person's signature where the repository requires it. SIGNATURE_NEEDED."""
        if self.signed_approvals and signature is None:
            raise Refusal(Code.SIGNATURE_NEEDED, "This repository takes only approvals signed with a passkey.")

    def check(self, wanted: Wanted) -> None:
        """Refuse what may not be.

        Raises:
            Refusal: NOT_FOUND where the connection cannot know of the repository; FORBIDDEN where the connection, its
                repository or the person who granted it no longer stands; PROPOSALS_OFF; POLICY_DENIED.
        """
        if not self.granted:  # first: who is not granted learns nothing
            raise Refusal(Code.NOT_FOUND, "There is no such repository.")
        for what, state in self.states.items():
            if state != "live":
                raise Refusal(Code.FORBIDDEN, f"The {what} is {state}.", what=what, state=state)
        if not self.in_time:
            raise Refusal(Code.FORBIDDEN, "The connection has expired.", what="connection", state="expired")
        self.check_decider(self.granter, "proposer" if self.by_owner else "granter")
        if self.by_owner:
            return
        if not self.agents_may_propose:
            raise Refusal(Code.PROPOSALS_OFF, "Agents may not propose in this repository.")
        check_policy(self.clauses, wanted)


def _chain(kind: str) -> Select[Any]:
    now = func.clock_timestamp()
    same = repository.c.tenant
    agent = kind == "agent"
    walked = (
        select(
            now.label("now"),
            *(table.c.state.label(f"{table.name}_state") for table in _ROWS[kind]),
            ((connection.c.expires_at.is_(None) | (connection.c.expires_at > now)) if agent else true()).label(
                "in_time"
            ),
            (connection.c.granted_by if agent else bindparam("proposer", type_=Uuid)).label("granter"),
            (connection.c.name if agent else literal("")).label("connection_name"),
            repository.c.agents_may_propose,
            repository.c.signed_approvals,
            project.c.id.label("project_id"),
            tenant.c.pending_most,
            tenant.c.proposal_seconds,
            tenant.c.sign_commits,
        )
        .join_from(repository, tenant, tenant.c.id == same)
        .join(project, (project.c.tenant == same) & (project.c.id == repository.c.project))
        .where(repository.c.id == bindparam("repository"))
    )
    if not agent:
        return walked
    return walked.join(connection, (connection.c.tenant == same) & (connection.c.id == bindparam("proposer")))


def _members() -> Select[Any]:
    return (
        select(membership.c.person, membership.c.role, membership.c.state)
        .where(membership.c.project == bindparam("project"))
        .where(membership.c.person == func.any(bindparam("people", type_=ARRAY(Uuid))))
        .order_by(membership.c.id)
    )


def _grants() -> Select[Any]:
    """Whether the repository was given to the connection, and its policy in a fixed order: a statement of its own, so
    that it sees what was committed before the locks above were had.
    """
    grant, clause = connection_repository.c, policy_clause.c
    return (
        select(clause.effect, clause.subject, clause.pattern)
        .select_from(connection_repository)
        .outerjoin(policy_clause, (clause.tenant == grant.tenant) & (clause.connection == grant.connection))
        .where(grant.connection == bindparam("connection"), grant.repository == bindparam("repository"))
        .order_by(clause.effect, clause.subject, clause.pattern)
    )


# Built once: to put a statement together costs more than to run it. By who proposes, and by whether the rows are held
# still; PostgreSQL locks the tables of one row in the order in which they are named.
_CHAIN = {
    (kind, lock): _chain(kind).with_for_update(read=True, of=list(rows)) if lock else _chain(kind)
    for kind, rows in _ROWS.items()
    for lock in (False, True)
}
_MEMBERS = {False: _members(), True: _members().with_for_update(read=True)}
_GRANTS = _grants()


async def stand(
    tx: Bound, proposer: Proposer, repository_id: UUID, approver: UUID | None = None, *, lock: bool = False
) -> Standing:
    """Walk the rows that a proposal hangs on; `lock` holds them still until the transaction ends.

    Raises:
        Refusal: NOT_FOUND where there is no such connection or repository.
    """
    asked = {"proposer": proposer.id, "repository": repository_id}
    row = (await tx.execute(_CHAIN[proposer.kind, lock], asked)).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is no such repository.")
    people = sorted({row.granter, approver or row.granter})
    members = await tx.execute(_MEMBERS[lock], {"project": row.project_id, "people": people})
    by_owner = proposer.kind == "owner"
    grants = [] if by_owner else (await tx.execute(_GRANTS, {"connection": proposer.id, **asked})).all()
    return Standing(
        now=row.now,
        states={table.name: getattr(row, f"{table.name}_state") for table in _ROWS[proposer.kind]},
        in_time=row.in_time,
        granted=by_owner or bool(grants),
        granter=row.granter,
        by_owner=by_owner,
        members={one.person: Member(one.role, one.state) for one in members},
        agents_may_propose=row.agents_may_propose,
        clauses=tuple(Clause(one.effect, one.subject, one.pattern) for one in grants if one.effect),
        connection_name=row.connection_name,
        pending_most=row.pending_most,
        proposal_seconds=row.proposal_seconds,
        sign_commits=row.sign_commits,
        signed_approvals=row.signed_approvals,
    )

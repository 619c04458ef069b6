"""Everything that an agent's proposal hangs on, read in one walk; whether it still stands is a pure question.

The writer takes each row FOR SHARE in this order: tenant, project, repository, connection, then the memberships of the
granter and of the approver. Whoever changes a right takes that row FOR UPDATE, so a change is either seen here or comes
after the point of no return. Grants and clauses have no rows of their own to hold: changing one raises the version of
its connection, so they are read last, when that row is held still.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, select

from service.grants.policy import Clause, Wanted, check_policy
from service.grants.tables import connection, connection_repository, membership, policy_clause, project, tenant
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.repositories.tables import repository

DECIDERS = ("owner", "maintainer")
_CHAIN = (tenant, project, repository, connection)


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
        granted: whether the connection was given this repository.
        granter: who consented to the connection.
        members: the project's members among the people asked for, the granter included.
        pending_most: how many proposals of one connection may wait.
        proposal_seconds: how long a proposal waits for a decision.
        sign_commits: whether the tenant asks for signatures.
    """

    now: datetime
    states: Mapping[str, str]
    in_time: bool
    granted: bool
    granter: UUID
    members: Mapping[UUID, Member]
    agents_may_propose: bool
    clauses: tuple[Clause, ...]
    connection_name: str
    pending_most: int
    proposal_seconds: int
    sign_commits: bool

    def is_member(self, person: UUID) -> bool:
        """Whether the person is in the project now, in whatever role."""
        found = self.members.get(person)
        return found is not None and found.state == "live"

    def check_decider(self, person: UUID, what: str = "approver") -> None:
        """Refuse who may not decide in the project. Raises FORBIDDEN."""
        if not self.is_member(person) or self.members[person].role not in DECIDERS:
            raise Refusal(Code.FORBIDDEN, f"The {what} may not decide in this project.", what=what)

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
        self.check_decider(self.granter, "granter")
        if not self.agents_may_propose:
            raise Refusal(Code.PROPOSALS_OFF, "Agents may not propose in this repository.")
        check_policy(self.clauses, wanted)


async def stand(
    tx: Bound, connection_id: UUID, repository_id: UUID, approver: UUID | None = None, *, lock: bool = False
) -> Standing:
    """Walk the rows that an agent's proposal hangs on; `lock` holds them still until the transaction ends.

    Raises:
        Refusal: NOT_FOUND where there is no such connection or repository.
    """
    row = (await tx.execute(_held(_chain(connection_id, repository_id), lock=lock))).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is no such repository.")
    members = await _members(tx, row.project_id, {row.granted_by, approver or row.granted_by}, lock=lock)
    granted, clauses = await _granted(tx, connection_id, repository_id)
    return Standing(
        now=row.now,
        states={table.name: getattr(row, f"{table.name}_state") for table in _CHAIN},
        in_time=row.in_time,
        granted=granted,
        granter=row.granted_by,
        members=members,
        agents_may_propose=row.agents_may_propose,
        clauses=clauses,
        connection_name=row.connection_name,
        pending_most=row.pending_most,
        proposal_seconds=row.proposal_seconds,
        sign_commits=row.sign_commits,
    )


def _chain(connection_id: UUID, repository_id: UUID) -> Select[Any]:
    now = func.clock_timestamp()
    same = repository.c.tenant
    return (
        select(
            now.label("now"),
            *(table.c.state.label(f"{table.name}_state") for table in _CHAIN),
            (connection.c.expires_at.is_(None) | (connection.c.expires_at > now)).label("in_time"),
            connection.c.granted_by,
            connection.c.name.label("connection_name"),
            repository.c.agents_may_propose,
            project.c.id.label("project_id"),
            tenant.c.pending_most,
            tenant.c.proposal_seconds,
            tenant.c.sign_commits,
        )
        .join_from(repository, tenant, tenant.c.id == same)
        .join(project, (project.c.tenant == same) & (project.c.id == repository.c.project))
        .join(connection, (connection.c.tenant == same) & (connection.c.id == connection_id))
        .where(repository.c.id == repository_id)
    )


def _held(statement: Select[Any], *, lock: bool) -> Select[Any]:
    """PostgreSQL locks the tables of one row in the order in which they are named here."""
    return statement.with_for_update(read=True, of=list(_CHAIN)) if lock else statement


async def _members(tx: Bound, project_id: UUID, people: set[UUID], *, lock: bool) -> dict[UUID, Member]:
    statement = select(membership.c.person, membership.c.role, membership.c.state).where(
        membership.c.project == project_id, membership.c.person.in_(sorted(people))
    )
    ordered = statement.order_by(membership.c.id)
    found = await tx.execute(ordered.with_for_update(read=True) if lock else ordered)
    return {row.person: Member(row.role, row.state) for row in found}


async def _granted(tx: Bound, connection_id: UUID, repository_id: UUID) -> tuple[bool, tuple[Clause, ...]]:
    """Whether the repository was given to the connection, and its policy in a fixed order: a statement of its own, so
    that it sees what was committed before the locks above were had.
    """
    rows = (await tx.execute(_grant_rows(connection_id, repository_id))).all()
    return bool(rows), tuple(Clause(row.effect, row.subject, row.pattern) for row in rows if row.effect)


def _grant_rows(connection_id: UUID, repository_id: UUID) -> Select[Any]:
    grant, clause = connection_repository.c, policy_clause.c
    return (
        select(clause.effect, clause.subject, clause.pattern)
        .select_from(connection_repository)
        .outerjoin(policy_clause, (clause.tenant == grant.tenant) & (clause.connection == grant.connection))
        .where(grant.connection == connection_id, grant.repository == repository_id)
        .order_by(clause.effect, clause.subject, clause.pattern)
    )

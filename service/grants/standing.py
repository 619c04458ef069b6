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

from sqlalchemy import ARRAY, Select, Uuid, bindparam, func, select

from service.grants.policy import Clause, Wanted, check_policy
from service.grants.tables import connection, connection_repository, membership, policy_clause, project, tenant
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.repositories.tables import repository

DECIDERS = ("owner", "maintainer")
_ROWS = (tenant, project, repository, connection)


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


def _chain() -> Select[Any]:
    now = func.clock_timestamp()
    same = repository.c.tenant
    return (
        select(
            now.label("now"),
            *(table.c.state.label(f"{table.name}_state") for table in _ROWS),
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
        .join(connection, (connection.c.tenant == same) & (connection.c.id == bindparam("connection")))
        .where(repository.c.id == bindparam("repository"))
    )


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


# Built once: to put a statement together costs more than to run it. By whether the rows are held still; PostgreSQL
# locks the tables of one row in the order in which they are named.
_CHAIN = {False: _chain(), True: _chain().with_for_update(read=True, of=list(_ROWS))}
_MEMBERS = {False: _members(), True: _members().with_for_update(read=True)}
_GRANTS = _grants()


async def stand(
    tx: Bound, connection_id: UUID, repository_id: UUID, approver: UUID | None = None, *, lock: bool = False
) -> Standing:
    """Walk the rows that an agent's proposal hangs on; `lock` holds them still until the transaction ends.

    Raises:
        Refusal: NOT_FOUND where there is no such connection or repository.
    """
    asked = {"connection": connection_id, "repository": repository_id}
    row = (await tx.execute(_CHAIN[lock], asked)).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is no such repository.")
    people = sorted({row.granted_by, approver or row.granted_by})
    members = await tx.execute(_MEMBERS[lock], {"project": row.project_id, "people": people})
    grants = (await tx.execute(_GRANTS, asked)).all()
    return Standing(
        now=row.now,
        states={table.name: getattr(row, f"{table.name}_state") for table in _ROWS},
        in_time=row.in_time,
        granted=bool(grants),
        granter=row.granted_by,
        members={one.person: Member(one.role, one.state) for one in members},
        agents_may_propose=row.agents_may_propose,
        clauses=tuple(Clause(one.effect, one.subject, one.pattern) for one in grants if one.effect),
        connection_name=row.connection_name,
        pending_most=row.pending_most,
        proposal_seconds=row.proposal_seconds,
        sign_commits=row.sign_commits,
    )

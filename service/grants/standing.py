"""Whether everything that an agent's proposal hangs on still stands: one walk, the same at submit, decision and intent.

The writer takes each row FOR SHARE in this order: tenant, project, repository, connection, the granter's membership,
the approver's membership. Whoever changes a right takes that row FOR UPDATE, so a change is either seen here or comes
after the point of no return.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, func, select

from service.grants.policy import Clause, Wanted, check_policy, read_clauses
from service.grants.tables import connection, connection_repository, membership, project, tenant
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.repositories.tables import repository

DECIDERS = ("owner", "maintainer")


@dataclass(frozen=True)
class Standing:
    """What the walk found, with what later steps need of it."""

    tenant: Row[Any]
    repository: Row[Any]
    connection: Row[Any]
    clauses: tuple[Clause, ...]

    def check(self, wanted: Wanted) -> None:
        """Refuse what the policy does not allow. Raises POLICY_DENIED."""
        check_policy(self.clauses, wanted)


async def stand(tx: Bound, connection_id: UUID, repository_id: UUID, *, lock: bool = False) -> Standing:
    """Walk the rows that an agent's proposal hangs on.

    Raises:
        Refusal: NOT_FOUND where the connection cannot know of the repository; FORBIDDEN where the connection, its
            repository or the person who granted it no longer stands; PROPOSALS_OFF.
    """
    read = _locked if lock else _plain
    await _check_granted(tx, connection_id, repository_id)  # first: who is not granted learns nothing
    home = (await tx.execute(select(repository.c.project).where(repository.c.id == repository_id))).one()
    the_tenant = await _one(tx, read(select(tenant).where(tenant.c.id == tx.tenant)), "tenant")
    await _one(tx, read(select(project).where(project.c.id == home.project)), "project")
    the_repository = await _one(tx, read(select(repository).where(repository.c.id == repository_id)), "repository")
    now = func.clock_timestamp()
    alive = (connection.c.expires_at.is_(None) | (connection.c.expires_at > now)).label("in_time")
    the_connection = await _one(
        tx, read(select(connection, alive).where(connection.c.id == connection_id)), "connection"
    )
    if not the_connection.in_time:
        raise Refusal(Code.FORBIDDEN, "The connection has expired.", what="connection", state="expired")
    await _check_granted(tx, connection_id, repository_id)  # again: only now the connection's grants are held still
    await decider(tx, home.project, the_connection.granted_by, what="granter", lock=lock)
    if not the_repository.agents_may_propose:
        raise Refusal(Code.PROPOSALS_OFF, "Agents may not propose in this repository.")
    return Standing(the_tenant, the_repository, the_connection, await read_clauses(tx, connection_id))


async def decider(tx: Bound, project_id: UUID, person: UUID, *, what: str = "approver", lock: bool = False) -> Row[Any]:
    """The live membership by which this person may decide in the project.

    Raises:
        Refusal: FORBIDDEN where there is none, or its role only reads.
    """
    read = _locked if lock else _plain
    statement = read(select(membership).where(membership.c.project == project_id, membership.c.person == person))
    row = (await tx.execute(statement)).one_or_none()
    if row is None or row.state != "live" or row.role not in DECIDERS:
        raise Refusal(Code.FORBIDDEN, f"The {what} may not decide in this project.", what=what)
    return row


async def _one(tx: Bound, statement: Select[Any], what: str) -> Row[Any]:
    row = (await tx.execute(statement)).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, f"There is no such {what}.")
    if row.state != "live":
        raise Refusal(Code.FORBIDDEN, f"The {what} is {row.state}.", what=what, state=row.state)
    return row


async def _check_granted(tx: Bound, connection_id: UUID, repository_id: UUID) -> None:
    granted = await tx.scalar(
        select(connection_repository.c.repository).where(
            connection_repository.c.connection == connection_id, connection_repository.c.repository == repository_id
        )
    )
    if granted is None:
        raise Refusal(Code.NOT_FOUND, "There is no such repository.")


def _plain(statement: Select[Any]) -> Select[Any]:
    return statement


def _locked(statement: Select[Any]) -> Select[Any]:
    return statement.with_for_update(read=True)

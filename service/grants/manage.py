"""Give and take rights. Each change takes its row FOR UPDATE and raises its version, so that the writer, which reads
these rows FOR SHARE, either sees it or has passed the point of no return before it.
"""

from typing import Any, Final, Literal
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Row, Table, delete, select, update
from sqlalchemy.exc import IntegrityError

from service.contract.names import check_name, check_text
from service.grants.policy import PATTERN_CHARACTERS, Clause
from service.grants.tables import connection, membership, policy_clause, project, tenant
from service.kit.actor import Actor
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.repositories.placement import FIRST_SHARD
from service.repositories.tables import placement, repository

State = Literal["live", "paused", "revoked"]
Role = Literal["owner", "maintainer", "reader"]
NEXT: dict[str, frozenset[str]] = {
    "live": frozenset({"paused", "revoked"}),
    "paused": frozenset({"live", "revoked"}),
    "revoked": frozenset(),
}


DAY: Final = 86_400
LIMITS: Final = {
    "proposal_seconds": (60, 30 * DAY),
    "pending_most": (1, 1_000),
    "restore_seconds": (DAY, 3_650 * DAY),
    "warn_seconds": (60, 7 * DAY),
}
"""The least and the most that each of a tenant's limits may be."""


async def add_tenant(tx: Bound, actor: Actor, name: str) -> UUID:
    """Make a tenant. The transaction must already be bound to its id: a wall has no gate before it stands."""
    await _insert(tx, tenant, "tenant", id=tx.tenant, name=check_name(name, "name"))
    append(tx, actor, "tenant.added", str(tx.tenant), name=name)
    return tx.tenant


async def add_project(tx: Bound, actor: Actor, name: str) -> UUID:
    """Make a project in the bound tenant."""
    project_id = uuid4()
    await _insert(tx, project, "project", tenant=tx.tenant, id=project_id, name=check_name(name, "name"))
    append(tx, actor, "project.added", str(project_id), name=name)
    return project_id


async def add_membership(tx: Bound, actor: Actor, project_id: UUID, person: UUID, role: Role) -> UUID:
    """Let a person into a project; also one who was in it before and was taken out.

    Raises:
        Refusal: NAME_TAKEN for one who is in it.
    """
    mine = (membership.c.project == project_id) & (membership.c.person == person)
    before = (await tx.execute(select(membership).where(mine).with_for_update())).one_or_none()
    if before is not None and before.state == "revoked":
        await _change(tx, membership, before.id, state="live", role=role)
        membership_id = before.id
    else:
        membership_id = uuid4()
        values = {"tenant": tx.tenant, "id": membership_id, "project": project_id, "person": person, "role": role}
        await _insert(tx, membership, "membership", **values)
    append(tx, actor, "membership.added", str(membership_id), person=str(person), role=role)
    return UUID(str(membership_id))


async def add_repository(tx: Bound, actor: Actor, project_id: UUID, repository_id: UUID, name: str) -> None:
    """Enter a repository and its place. Its folder is made by the caller before this commits."""
    checked = check_name(name, "name")
    await _insert(tx, repository, "repository", tenant=tx.tenant, id=repository_id, project=project_id, name=checked)
    await tx.execute(placement.insert().values(tenant=tx.tenant, repository=repository_id, shard=FIRST_SHARD))
    append(tx, actor, "repository.added", str(repository_id), name=name)


async def change_state(tx: Bound, actor: Actor, table: Table, row_id: UUID, state: State) -> None:
    """Pause, resume or revoke a tenant, project, membership, repository or connection. Revoked is for ever, except
    that a person may be added to a project again.

    Raises:
        Refusal: NOT_FOUND; FORBIDDEN for a move that its present state does not allow.
    """
    row = await _hold(tx, table, table.c.id == row_id)
    if row.state == state:
        return
    if state not in NEXT[row.state]:
        raise Refusal(Code.FORBIDDEN, f"The {table.name} is {row.state} and cannot become {state}.", state=row.state)
    await _change(tx, table, row_id, state=state)
    append(tx, actor, f"{table.name}.{state}", str(row_id), was=row.state)


async def change_role(tx: Bound, actor: Actor, project_id: UUID, person: UUID, role: Role) -> None:
    """Give a member another role. Raises NOT_FOUND for one who is none."""
    row = await _hold(tx, membership, (membership.c.project == project_id) & (membership.c.person == person))
    await _change(tx, membership, row.id, role=role)
    append(tx, actor, "membership.role", str(row.id), was=row.role, role=role)


async def let_agents_propose(tx: Bound, actor: Actor, repository_id: UUID, *, on: bool) -> None:
    """Turn the repository's own switch. Raises NOT_FOUND."""
    row = await _hold(tx, repository, repository.c.id == repository_id)
    if row.agents_may_propose == on:
        return
    await _change(tx, repository, repository_id, agents_may_propose=on)
    append(tx, actor, "repository.agents_may_propose", str(repository_id), on=on)


async def require_signatures(tx: Bound, actor: Actor, repository_id: UUID, *, on: bool) -> None:
    """Let nothing less than a person's own signature approve in a repository, or let it. Raises NOT_FOUND."""
    row = await _hold(tx, repository, repository.c.id == repository_id)
    if row.signed_approvals != on:
        await _change(tx, repository, repository_id, signed_approvals=on)
        append(tx, actor, "repository.signed_approvals", str(repository_id), on=on)


async def sign_commits(tx: Bound, actor: Actor, *, on: bool) -> None:
    """Turn the tenant's switch, and hold its row: until this transaction ends no intent is made in it."""
    row = await _hold(tx, tenant, tenant.c.id == tx.tenant)
    await _change(tx, tenant, tx.tenant, sign_commits=on)
    if row.sign_commits != on:
        append(tx, actor, "tenant.sign_commits", str(tx.tenant), on=on)


async def set_limits(tx: Bound, actor: Actor, **limits: int) -> None:
    """Set how long proposals wait (proposal_seconds), how many of one proposer may (pending_most), for how long
    restore points made from now on are kept (restore_seconds), and how long before its end people are told that a
    proposal expires (warn_seconds).

    Raises:
        Refusal: INVALID_ARGUMENT naming the limit and its bounds.
    """
    for name, value in limits.items():
        least, most = LIMITS[name]
        if not least <= value <= most:
            message = f"{name} is between {least:,} and {most:,}."
            raise Refusal(
                Code.INVALID_ARGUMENT, message, field=name, limit=most if value > most else least, value=value
            )
    row = await _hold(tx, tenant, tenant.c.id == tx.tenant)
    changed = {name: value for name, value in limits.items() if getattr(row, name) != value}
    if changed:
        await _change(tx, tenant, tx.tenant, **changed)
        append(tx, actor, "tenant.limits", str(tx.tenant), **changed)


async def add_clause(tx: Bound, actor: Actor, connection_id: UUID, clause: Clause) -> None:
    """Add a clause to a connection's policy. Raises NOT_FOUND; NAME_TAKEN for a clause that is there."""
    await _hold(tx, connection, connection.c.id == connection_id)
    check_text(clause.pattern, "pattern", most=PATTERN_CHARACTERS)
    values = {"effect": clause.effect, "subject": clause.subject, "pattern": clause.pattern}
    await _insert(tx, policy_clause, "clause", tenant=tx.tenant, id=uuid4(), connection=connection_id, **values)
    await _change(tx, connection, connection_id)
    append(tx, actor, "policy.added", str(connection_id), clause=str(clause))


async def remove_clause(tx: Bound, actor: Actor, connection_id: UUID, clause: Clause) -> None:
    """Take a clause away. Raises NOT_FOUND."""
    await _hold(tx, connection, connection.c.id == connection_id)
    columns = policy_clause.c
    gone = await tx.execute(
        delete(policy_clause)
        .where(columns.connection == connection_id, columns.effect == clause.effect)
        .where(columns.subject == clause.subject, columns.pattern == clause.pattern)
    )
    if gone.rowcount == 0:
        raise Refusal(Code.NOT_FOUND, "There is no such clause.")
    await _change(tx, connection, connection_id)
    append(tx, actor, "policy.removed", str(connection_id), clause=str(clause))


async def _hold(tx: Bound, table: Table, which: ColumnElement[bool]) -> Row[Any]:
    found = await tx.execute(select(table).where(which).with_for_update())
    row = found.one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, f"There is no such {table.name}.")
    return row


async def _change(tx: Bound, table: Table, row_id: UUID, **values: Any) -> None:
    await tx.execute(update(table).where(table.c.id == row_id).values(version=table.c.version + 1, **values))


async def _insert(tx: Bound, table: Table, what: str, **values: Any) -> None:
    try:
        async with tx.connection.begin_nested():
            await tx.execute(table.insert().values(**values))
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", "") != "23505":
            raise Refusal(Code.NOT_FOUND, f"What this {what} belongs to does not exist.") from None
        raise Refusal(Code.NAME_TAKEN, f"There is such a {what} already.", field="name") from None

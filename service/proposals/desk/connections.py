"""The tenant's connections, and what an owner does with one."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, func, select

from service.grants.manage import State as StandingState
from service.grants.manage import change_state
from service.grants.policy import read_clauses
from service.grants.standing import DECIDERS
from service.grants.tables import connection, connection_repository, membership, oauth_client, person, project
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.desk.reach import count_shown, memberships, now_of
from service.proposals.lists import ConnectionAction, ConnectionLine, ConnectionsView, ConnectionView
from service.proposals.tables import proposal
from service.repositories.tables import repository

_SHOWN: Final = (
    select(connection, oauth_client.c.name.label("client_name"), person.c.email)
    .join(oauth_client, oauth_client.c.id == connection.c.client)
    .join(person, person.c.id == connection.c.granted_by)
)
ACTIONS: dict[ConnectionAction, StandingState] = {"pause": "paused", "resume": "live", "revoke": "revoked"}


@dataclass(frozen=True)
class OwnerConnections:
    """Implements `lists.Connections`."""

    database: Database

    async def list(self, actor: Actor) -> ConnectionsView:
        """The tenant's connections that reach a project of this person's."""
        async with self.database.bound(actor.tenant) as tx:
            reached = await _reached(tx, actor)
            rows = (
                await tx.execute(
                    _SHOWN.where(connection.c.id.in_(reached) | (connection.c.granted_by == actor.id)).order_by(
                        connection.c.state == "revoked", connection.c.name, connection.c.created_at
                    )
                )
            ).all()
            tallies = await _tallies(tx)
            waiting = (await count_shown(tx, actor))["waiting"]
            lines = [_connection_line(actor, row, reached.get(row.id, []), tallies[row.id]) for row in rows]
            return ConnectionsView(await now_of(tx), waiting, tuple(lines))

    async def read(self, actor: Actor, connection_id: UUID) -> ConnectionView:
        """One of them, with its policy."""
        async with self.database.bound(actor.tenant) as tx:
            reached = await _reached(tx, actor)
            row = (await tx.execute(_SHOWN.where(connection.c.id == connection_id))).one_or_none()
            if row is None or (row.granted_by != actor.id and connection_id not in reached):
                raise Refusal(Code.NOT_FOUND, "There is no such connection.")
            tally = (await _tallies(tx))[connection_id]
            waiting = (await count_shown(tx, actor))["waiting"]
            line = _connection_line(actor, row, reached.get(row.id, []), tally)
            return ConnectionView(await now_of(tx), waiting, line, await read_clauses(tx, connection_id))

    async def change(self, actor: Actor, connection_id: UUID, action: ConnectionAction) -> tuple[UUID, ...]:
        """Pause, resume or revoke; what had passed the point of no return before it is given."""
        async with self.database.bound(actor.tenant) as tx:
            granted_by = await tx.scalar(select(connection.c.granted_by).where(connection.c.id == connection_id))
            if granted_by != actor.id and connection_id not in await _reached(tx, actor):
                raise Refusal(Code.NOT_FOUND, "There is no such connection.")
            await change_state(tx, actor, connection, connection_id, ACTIONS[action])
            running = await tx.execute(
                select(proposal.c.id).where(proposal.c.connection == connection_id, proposal.c.state == "executing")
            )
            return tuple(row.id for row in running)


async def _reached(tx: Bound, actor: Actor) -> dict[UUID, list[str]]:
    """The connections that reach a repository of this person's projects, with the repositories' names."""
    found = await tx.execute(
        select(
            connection_repository.c.connection,
            project.c.name.label("project_name"),
            repository.c.name.label("repository_name"),
        )
        .join(
            repository,
            (repository.c.tenant == connection_repository.c.tenant)
            & (repository.c.id == connection_repository.c.repository),
        )
        .join(project, (project.c.tenant == repository.c.tenant) & (project.c.id == repository.c.project))
        .where(repository.c.project.in_(memberships(actor).where(membership.c.role.in_(DECIDERS))))
        .order_by(project.c.name, repository.c.name)
    )
    reached: dict[UUID, list[str]] = defaultdict(list)
    for row in found:
        reached[row.connection].append(f"{row.project_name} / {row.repository_name}")
    return reached


async def _tallies(tx: Bound) -> dict[UUID, list[Row[Any]]]:
    found = await tx.execute(
        select(
            proposal.c.connection,
            proposal.c.state,
            func.count().label("number"),
            func.max(proposal.c.created_at).label("last_at"),
        ).group_by(proposal.c.connection, proposal.c.state)
    )
    tallies: dict[UUID, list[Row[Any]]] = defaultdict(list)
    for row in found:
        tallies[row.connection].append(row)
    return tallies


def _connection_line(actor: Actor, row: Row[Any], names: list[str], tally: list[Row[Any]]) -> ConnectionLine:
    return ConnectionLine(
        id=row.id,
        name=row.name,
        client=row.client_name,
        granted_by=row.email,
        scopes=tuple(row.scopes),
        repositories=tuple(names),
        state=row.state,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_at=max((one.last_at for one in tally), default=None),
        used_at=row.used_at,
        counts={one.state: one.number for one in tally},
        may_manage=row.granted_by == actor.id or bool(names),
    )

"""The repositories that a connection reaches: the port that tools read through. Anything else does not exist."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, Select, Table, select

from service.contract.ports import RepositoryFacts, Snapshot
from service.grants.tables import connection, connection_repository, membership, project, tenant
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.repositories.placement import Storage
from service.repositories.snapshot import Snapshot as GitSnapshot
from service.repositories.tables import repository


@dataclass(frozen=True)
class ReachedRepositories:
    """What the calling connection may read while it, its repository and whoever granted it stand."""

    actor: Actor
    database: Database
    storage: Storage

    async def list(self, after: str, most: int) -> "list[RepositoryFacts]":
        """Repositories in the order of their ids, after the one with the id `after`, at most so many."""
        statement = self._reached().order_by(repository.c.id).limit(most)
        if after:
            statement = statement.where(repository.c.id > _uuid(after))
        async with self.database.bound(self.actor.tenant) as tx:
            return [_facts(row) for row in await tx.execute(statement)]

    async def facts(self, repository_id: str) -> RepositoryFacts:
        """One repository."""
        async with self.database.bound(self.actor.tenant) as tx:
            return _facts(await self._row(tx, repository_id))

    async def open(self, repository_id: str) -> Snapshot:
        """One repository to read."""
        async with self.database.bound(self.actor.tenant) as tx:
            row = await self._row(tx, repository_id)
            place = await self.storage.place(tx, row.id)
        return GitSnapshot(place.path)

    def _reached(self) -> Select[Any]:
        return reached_repositories(self.actor, repository, project.c.name.label("project_name"))

    async def _row(self, tx: Bound, repository_id: str) -> Row[Any]:
        row = (await tx.execute(self._reached().where(repository.c.id == _uuid(repository_id)))).one_or_none()
        if row is None:
            raise Refusal(Code.NOT_FOUND, "There is no such repository.")
        return row


def reached_repositories(actor: Actor, *columns: Table | ColumnElement[Any]) -> Select[Any]:
    """The ids of the repositories that a connection reaches now, or other columns of them: whatever it reads of a
    repository, it reads while this gives it.
    """
    same = repository.c.tenant
    return (
        select(*(columns or (repository.c.id,)))
        .select_from(repository)
        .join(
            connection_repository,
            (connection_repository.c.tenant == same) & (connection_repository.c.repository == repository.c.id),
        )
        .join(
            connection,
            (connection.c.tenant == same) & (connection.c.id == connection_repository.c.connection),
        )
        .join(project, (project.c.tenant == same) & (project.c.id == repository.c.project))
        .join(tenant, tenant.c.id == same)
        .join(
            membership,
            (membership.c.tenant == same)
            & (membership.c.project == project.c.id)
            & (membership.c.person == connection.c.granted_by),
        )
        .where(connection.c.id == actor.id)
        .where(*(table.c.state == "live" for table in (tenant, project, repository, connection, membership)))
    )


def _facts(row: Row[Any]) -> RepositoryFacts:
    return RepositoryFacts(
        repository_id=str(row.id),
        name=row.name,
        project=row.project_name,
        agents_may_propose=row.agents_may_propose,
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Refusal(Code.NOT_FOUND, "There is no such repository.") from None

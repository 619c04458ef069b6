"""What a person may see on the desk, and what several of its pages say."""

from typing import Any, cast
from uuid import UUID

from sqlalchemy import Select, func, select

from service.grants.tables import connection, membership, oauth_client, person, project
from service.kit.actor import Actor
from service.kit.database import Bound
from service.proposals.tables import proposal
from service.proposals.view import (
    SHOWN,
    Show,
)
from service.repositories.tables import repository

LINES_MOST = 200

LINE = (
    select(
        proposal,
        repository.c.name.label("repository_name"),
        repository.c.signed_approvals,
        project.c.name.label("project_name"),
        func.coalesce(connection.c.name, person.c.name).label("connection_name"),
        func.coalesce(oauth_client.c.name, person.c.name).label("client_name"),
    )
    .join(repository, (repository.c.tenant == proposal.c.tenant) & (repository.c.id == proposal.c.repository))
    .join(project, (project.c.tenant == repository.c.tenant) & (project.c.id == repository.c.project))
    .outerjoin(connection, (connection.c.tenant == proposal.c.tenant) & (connection.c.id == proposal.c.connection))
    .outerjoin(oauth_client, oauth_client.c.id == connection.c.client)
    .outerjoin(person, person.c.id == proposal.c.person)
)
"""Proposals with what a line of a list says of each."""


def memberships(actor: Actor) -> Select[Any]:
    """The projects that a person is in."""
    return select(membership.c.project).where(membership.c.person == actor.id, membership.c.state == "live")


async def role_in(tx: Bound, actor: Actor, repository_id: UUID) -> str | None:
    """A person's role where a repository is; None for one who is not in its project."""
    statement = (
        select(membership.c.role)
        .join(repository, (repository.c.tenant == membership.c.tenant) & (repository.c.project == membership.c.project))
        .where(repository.c.id == repository_id, membership.c.person == actor.id, membership.c.state == "live")
    )
    return cast("str | None", await tx.scalar(statement))


async def count_shown(tx: Bound, actor: Actor) -> dict[Show, int]:
    """How many of the proposals that a person may see are in each list of the inbox."""
    found = await tx.execute(
        select(proposal.c.state, func.count().label("number"))
        .join(repository, (repository.c.tenant == proposal.c.tenant) & (repository.c.id == proposal.c.repository))
        .where(repository.c.project.in_(memberships(actor)))
        .group_by(proposal.c.state)
    )
    numbers = {row.state: row.number for row in found}
    return {show: sum(numbers.get(state, 0) for state in states) for show, states in SHOWN.items()}


async def now_of(tx: Bound) -> Any:
    """The database's clock."""
    return await tx.scalar(select(func.clock_timestamp()))

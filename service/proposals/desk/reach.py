"""What a person may see on the desk, and what several of its pages say."""

from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import ColumnElement, Row, Select, and_, func, literal, or_, select, true

from service.grants.tables import connection, membership, oauth_client, person, project
from service.kit.actor import Actor
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.proposals.tables import proposal
from service.proposals.view import (
    COUNT_MOST,
    SHOWN,
    Show,
)
from service.repositories.tables import repository

LINES_MOST = 200
LATELY: Final = timedelta(hours=24)

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


async def card_row(tx: Bound, actor: Actor, proposal_id: UUID) -> Row[Any]:
    """A proposal that a person may see, with what a line says of it. Raises NOT_FOUND."""
    mine = repository.c.project.in_(memberships(actor))
    row = (await tx.execute(LINE.where(proposal.c.id == proposal_id, mine))).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is no such proposal.")
    return row


async def role_in(tx: Bound, actor: Actor, repository_id: UUID) -> str | None:
    """A person's role where a repository is; None for one who is not in its project."""
    statement = (
        select(membership.c.role)
        .join(repository, (repository.c.tenant == membership.c.tenant) & (repository.c.project == membership.c.project))
        .where(repository.c.id == repository_id, membership.c.person == actor.id, membership.c.state == "live")
    )
    return cast("str | None", await tx.scalar(statement))


async def count_shown(tx: Bound, actor: Actor, only: UUID | None = None) -> dict[Show, int]:
    """How many of the proposals that a person may see, of one repository alone if asked, are in each list of the inbox:
    what waits to the last one, the others, which only grow, as far as `COUNT_MOST` and one more.
    """
    mine = and_(proposal.c.repository.in_(reached(actor)), true() if only is None else proposal.c.repository == only)
    counted = {}
    for show in SHOWN:
        found = select(literal(1)).where(mine, listed(show))
        found = found if show == "waiting" else found.limit(COUNT_MOST + 1)
        counted[show] = select(func.count()).select_from(found.subquery()).scalar_subquery()
    row = (await tx.execute(select(*counted.values()))).one()
    return dict(zip(counted, row, strict=True))


def reached(actor: Actor) -> Select[Any]:
    """The repositories in the projects that a person is in."""
    return select(repository.c.id).where(repository.c.project.in_(memberships(actor)))


def listed(show: Show) -> ColumnElement[bool]:
    """What is in a list of the inbox."""
    if show == "waiting":
        return proposal.c.state == "pending"
    states = and_(proposal.c.state.in_(SHOWN[show]), proposal.c.state != "pending")  # said as the index says it
    lately = proposal.c.ended_at > func.clock_timestamp() - LATELY
    return and_(states, or_(lately, proposal.c.ended_at.is_(None))) if show == "today" else states


async def now_of(tx: Bound) -> Any:
    """The database's clock."""
    return await tx.scalar(select(func.clock_timestamp()))

"""A proposal as those hear of it who may decide there."""

from typing import Final
from uuid import UUID

from sqlalchemy import func, select

from service.grants.tables import connection, membership, person, project
from service.kit.database import Bound
from service.proposals.planning import load_card
from service.proposals.tables import proposal
from service.proposals.withheld import words_of
from service.publish.words import Decider, News
from service.repositories.tables import repository

_PROPOSAL: Final = (
    select(
        proposal.c.id,
        proposal.c.state,
        proposal.c.kind,
        proposal.c.card,
        proposal.c.expires_at,
        proposal.c.repository,
        repository.c.project,
        repository.c.name.label("repository_name"),
        func.coalesce(connection.c.name, person.c.name).label("proposer"),
    )
    .join(repository, (repository.c.tenant == proposal.c.tenant) & (repository.c.id == proposal.c.repository))
    .outerjoin(connection, (connection.c.tenant == proposal.c.tenant) & (connection.c.id == proposal.c.connection))
    .outerjoin(person, person.c.id == proposal.c.person)
)
_DECIDERS: Final = (
    select(person.c.id, person.c.email, membership.c.role)
    .join(membership, membership.c.person == person.c.id)
    .join(project, (project.c.tenant == membership.c.tenant) & (project.c.id == membership.c.project))
    .where(membership.c.state == "live", membership.c.role.in_(("owner", "maintainer")), project.c.state != "revoked")
    .order_by(person.c.id)
)


async def read_news(tx: Bound, proposal_id: UUID) -> News | None:
    """What is to be told of a proposal now, and to whom; None where it is gone."""
    row = (await tx.execute(_PROPOSAL.where(proposal.c.id == proposal_id))).one_or_none()
    if row is None:
        return None
    people = await tx.execute(_DECIDERS.where(membership.c.project == row.project))
    return News(
        tenant=tx.tenant,
        proposal=row.id,
        repository_id=row.repository,
        project_id=row.project,
        state=row.state,
        kind=row.kind,
        repository=row.repository_name,
        proposer=row.proposer,
        reason=words_of(load_card(row.card), "reason") or "",
        expires_at=row.expires_at,
        deciders=tuple(Decider(one.id, one.email, one.role == "owner") for one in people),
    )

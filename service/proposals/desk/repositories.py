"""The tenant's repositories, and whether agents may propose in one."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, func, select

from service.grants.manage import let_agents_propose, require_signatures
from service.grants.proof import has_signing_passkey
from service.grants.tables import membership, project
from service.kit.actor import Actor
from service.kit.database import Database
from service.kit.errors import Code, Refusal
from service.proposals.desk.reach import count_shown, now_of, role_in
from service.proposals.lists import RepositoriesView, RepositoryAction, RepositoryLine
from service.proposals.tables import proposal
from service.repositories.tables import repository


@dataclass(frozen=True)
class OwnerRepositories:
    """Implements `lists.Repositories`."""

    database: Database

    async def list(self, actor: Actor) -> RepositoriesView:
        """The tenant's repositories in this person's projects."""
        async with self.database.bound(actor.tenant) as tx:
            rows = (await tx.execute(seen_repositories(actor).order_by(project.c.name, repository.c.name))).all()
            counted = await tx.execute(
                select(proposal.c.repository, func.count().label("waiting"))
                .where(proposal.c.state == "pending")
                .group_by(proposal.c.repository)
            )
            waits = {row.repository: row.waiting for row in counted}
            lines = [repository_line(row, waits.get(row.id, 0)) for row in rows]
            return RepositoriesView(await now_of(tx), (await count_shown(tx, actor))["waiting"], tuple(lines))

    async def change(self, actor: Actor, repository_id: UUID, action: RepositoryAction) -> None:
        """Let agents propose there, or not, or take only signed approvals. Owners only, and who would lock himself out
        of approving is not let.
        """
        async with self.database.bound(actor.tenant) as tx:
            if await role_in(tx, actor, repository_id) != "owner":
                raise Refusal(Code.NOT_FOUND, "There is no such repository.")
            if action != "require_signatures":
                await let_agents_propose(tx, actor, repository_id, on=action == "admit_agents")
            elif not await has_signing_passkey(tx, actor.id):
                raise Refusal(Code.SIGNATURE_NEEDED, "First let a passkey of yours sign approvals.")
            else:
                await require_signatures(tx, actor, repository_id, on=True)


def seen_repositories(actor: Actor) -> Select[Any]:
    """The repositories in this person's projects, each with its project's name and his role there."""
    return (
        select(repository, project.c.name.label("project_name"), membership.c.role)
        .join(project, (project.c.tenant == repository.c.tenant) & (project.c.id == repository.c.project))
        .join(membership, (membership.c.tenant == project.c.tenant) & (membership.c.project == project.c.id))
        .where(membership.c.person == actor.id, membership.c.state == "live")
    )


def repository_line(row: Row[Any], waiting: int) -> RepositoryLine:
    return RepositoryLine(
        id=row.id,
        project=row.project_name,
        name=row.name,
        state=row.state,
        agents_may_propose=row.agents_may_propose,
        waiting=waiting,
        may_manage=row.role == "owner",
        signed_approvals=row.signed_approvals,
    )

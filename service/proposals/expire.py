"""Expiry ends the waiting for a decision, by the database's clock; a decision that comes late finds the same."""

from contextlib import suppress
from uuid import UUID

from sqlalchemy import delete, func

from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.proposals.states import LostRace, move
from service.proposals.tables import proposal, work_queue


async def expire(database: Database, actor: Actor, proposal_id: UUID) -> None:
    """Expire a proposal that is still pending, and forget that it was to be looked at."""

    async def work(tx: Bound) -> None:
        due = proposal.c.expires_at <= func.clock_timestamp()
        await move(tx, actor, proposal_id, "pending", "expired", {"code": "expired"}, only_if=due)

    with suppress(LostRace):  # decided or withdrawn in time
        await database.repeat(actor.tenant, work)
    async with database.directory() as tx:
        await tx.execute(
            delete(work_queue).where(
                work_queue.c.kind == "expire",
                work_queue.c.tenant == actor.tenant,
                work_queue.c.subject == proposal_id,
            )
        )

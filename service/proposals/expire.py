"""Expiry ends the waiting for a decision, by the database's clock; a decision that comes late finds the same."""

from uuid import UUID

from service.kit.actor import Actor
from service.proposals.ports import Change, Store, Tx
from service.proposals.states import LostRace, move


async def expire(store: Store, actor: Actor, proposal_id: UUID) -> None:
    """Expire a proposal that is still pending, and forget that it was to be looked at.

    One that waits and whose time is not over (a clock was put back) stays in the queue and is looked at again.
    """

    async def work(tx: Tx) -> None:
        try:
            await move(tx, actor, Change(proposal_id, "pending", "expired", {"code": "expired"}, "expired"))
        except LostRace:
            found = await tx.find(proposal_id)
            if found is not None and found.state == "pending":
                return
        await tx.forget(proposal_id, "expire")

    await store.repeat(actor.tenant, work)

"""Expiry ends the waiting for a decision, by the database's clock; a decision that comes late finds the same."""

from contextlib import suppress
from uuid import UUID

from service.kit.actor import Actor
from service.proposals.ports import Change, Store, Tx
from service.proposals.states import LostRace, move


async def expire(store: Store, actor: Actor, proposal_id: UUID) -> None:
    """Expire a proposal that is still pending, and forget that it was to be looked at."""

    async def work(tx: Tx) -> None:
        with suppress(LostRace):  # decided or withdrawn in time
            await move(tx, actor, Change(proposal_id, "pending", "expired", {"code": "expired"}, "expired"))
        await tx.forget(proposal_id, "expire")

    await store.repeat(actor.tenant, work)

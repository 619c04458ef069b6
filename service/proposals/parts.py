"""What a decision on a part does to the proposal that it is a part of, in the same transaction.

Both wait until one of them is decided. The whole is locked before its parts, always, so whoever decides on one knows
how the other stands. That parts end with the whole is `states.move`'s.
"""

from typing import Final

from service.contract.parts import left_out
from service.kit.actor import Actor
from service.kit.errors import Code, Refusal
from service.proposals.planning import load_card
from service.proposals.ports import Change, Stored, Tx, Verdict
from service.proposals.states import move

PARTLY: Final = "partly_approved"
"""The code in the outcome of a declined proposal of which a part was approved."""


def check_verdict(stored: Stored, verdict: Verdict) -> None:
    """Refuse to decline a part: what was proposed is the whole. Raises OWNERS_PART."""
    if stored.parent is not None and verdict != "approve":
        raise Refusal(
            Code.OWNERS_PART,
            "This is a part of another proposal. Withdraw it, or decline the whole.",
            part_of=str(stored.parent),
        )


async def decline_rest(tx: Tx, actor: Actor, part: Stored, note: str) -> None:
    """Decline the proposal of which a part was just approved: its agent reads which part, and what was left out.

    Raises:
        LostRace: it does not wait any more.
    """
    if part.parent is not None:
        told = {"proposal_id": str(part.id), "left_out": left_out(load_card(part.card)), "note": note}
        outcome = {"code": PARTLY, **{name: value for name, value in told.items() if value}}
        await move(tx, actor, Change(part.parent, "pending", "declined", outcome))


async def end_stale(tx: Tx, actor: Actor, stored: Stored, outcome: dict[str, str]) -> None:
    """A proposal on a fact that moved ends as stale, and with a part the whole, which stands on the same facts.

    Raises:
        LostRace: one of them does not wait any more.
    """
    await move(tx, actor, Change(stored.id, "pending", "stale", outcome))
    if stored.parent is not None:
        await move(tx, actor, Change(stored.parent, "pending", "stale", outcome))

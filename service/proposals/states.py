"""The states of a proposal and the moves between them. Each move is one UPDATE guarded by its source state."""

import json
from typing import Any

from service.contract.answers import State
from service.kit.actor import Actor
from service.proposals.ports import Change, Tx

MOVES: dict[State, frozenset[State]] = {
    "pending": frozenset({"approved", "declined", "cancelled", "expired", "stale"}),
    "approved": frozenset({"executing", "stale", "failed", "executed"}),
    "executing": frozenset({"executed", "stale", "failed", "approved"}),
}
"""approved -> executed only where the marker says that it had been executed before the database lost that."""

FINAL: frozenset[str] = frozenset({"executed", "stale", "failed", "declined", "cancelled", "expired"})
DONE = "placet_done"
WORK = "placet_work"
DESK = "placet_desk"
"""Told by the database with a tenant's id when a proposal came or moved there, or a ref."""


class LostRace(Exception):
    """The proposal was no longer in the state that this move starts from."""


async def move(tx: Tx, actor: Actor, what: Change) -> None:
    """Make one move, with its ledger entry, and wake who waits for the end. With a proposal that waits no longer, none
    of its parts does.

    Raises:
        LostRace: no row was in the source state, or not as `what.when` wants it.
        ValueError: there is no such move.
    """
    if what.target not in MOVES.get(what.source, ()):
        raise ValueError(f"a proposal never goes from {what.source} to {what.target}")
    if not await tx.change(what):
        raise LostRace(what.source)
    tx.append(actor, f"proposal.{what.target}", str(what.proposal), was=what.source, outcome=what.outcome or {})
    if what.source == "pending":
        for part in await tx.parts(what.proposal):
            await move(tx, actor, Change(part, "pending", "cancelled", {"code": "whole_ended"}))


def read_outcome(text: str | None) -> dict[str, Any]:
    """A stored outcome."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found

"""The states of a proposal and the moves between them. Each move is one UPDATE guarded by its source state."""

import json
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, true, update

from service.contract.answers import State
from service.kit.actor import Actor
from service.kit.canonical import canonical
from service.kit.database import Bound
from service.ledger.append import append
from service.proposals.tables import proposal

MOVES: dict[State, frozenset[State]] = {
    "pending": frozenset({"approved", "declined", "cancelled", "expired", "stale"}),
    "approved": frozenset({"executing", "stale", "failed", "executed"}),
    "executing": frozenset({"executed", "stale", "failed", "approved"}),
}
"""approved -> executed only where the marker says that it had been executed before the database lost that."""

FINAL: frozenset[str] = frozenset({"executed", "stale", "failed", "declined", "cancelled", "expired"})
DONE = "placet_done"
WORK = "placet_work"


class LostRace(Exception):
    """The proposal was no longer in the state that this move starts from."""


async def move(
    tx: Bound,
    actor: Actor,
    proposal_id: UUID,
    source: State,
    target: State,
    outcome: dict[str, Any] | None = None,
    *,
    only_if: ColumnElement[bool] | None = None,
) -> None:
    """Make one move, with its ledger entry, and wake who waits for the end.

    Raises:
        LostRace: no row was in the source state (or met `only_if`).
        ValueError: there is no such move.
    """
    if target not in MOVES.get(source, ()):
        raise ValueError(f"a proposal never goes from {source} to {target}")
    values: dict[str, Any] = {"state": target}
    if target in FINAL:
        values["ended_at"] = func.clock_timestamp()
    if outcome is not None:
        values["outcome"] = canonical(outcome).decode()
    guarded = update(proposal).where(proposal.c.id == proposal_id, proposal.c.state == source)
    moved = await tx.execute(guarded.where(true() if only_if is None else only_if).values(**values))
    if moved.rowcount != 1:
        raise LostRace(source)
    await append(tx, actor, f"proposal.{target}", str(proposal_id), was=source, outcome=outcome or {})
    if target in FINAL:
        await tx.notify(DONE, str(proposal_id))


def read_outcome(text: str | None) -> dict[str, Any]:
    """A stored outcome."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found

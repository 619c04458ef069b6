"""Undo: what was executed is taken back by a proposal of the owner's own, which he approves like any other."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select

from service.contract.data import Json
from service.contract.operation import Operation
from service.contract.plan import MoveRef, Outcome, Wish
from service.grants.standing import Proposer
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.states import read_outcome
from service.proposals.submission import Submission
from service.proposals.submit import Submit
from service.proposals.tables import proposal, restore_point
from service.proposals.undone import count_undos, undo_of
from service.proposals.view import Decider
from service.writer.provenance import person_line


@dataclass(frozen=True)
class Undo:
    """The undo step of one web process; `operations` by kind."""

    database: Database
    submitting: Submit
    operations: Mapping[str, Operation[Any]]

    async def __call__(self, who: Decider, proposal_id: UUID) -> UUID:
        """Propose the undo of an execution, once; gives the proposal.

        Raises:
            Refusal: NOTHING_TO_UNDO, what the operation that undoes it refuses, or FORBIDDEN.
        """
        async with self.database.bound(who.actor.tenant) as tx:
            row = (await tx.execute(select(proposal).where(proposal.c.id == proposal_id))).one()
            if earlier := await undo_of(tx, proposal_id):
                return earlier
            wish = await self._wish(tx, row)
            number = await count_undos(tx, proposal_id)
        if wish is None:
            raise Refusal(Code.NOTHING_TO_UNDO, "There is nothing that takes this back.")
        operation = self.operations[wish.kind]
        reason = f"Takes back what proposal {proposal_id} did."
        sent: Json = {"repository_id": str(row.repository), "reason": reason, **wish.arguments}
        request = operation.request.model_validate_json(json.dumps(sent))
        key, author = f"undo-{proposal_id}-{number}", person_line(who.name, who.email)
        what = Submission(operation, request, key, sent, Proposer("owner", who.actor.id), author, proposal_id)
        return (await self.submitting(who.actor, what))[0]

    async def offers(self, tx: Bound, row: Row[Any]) -> bool:
        """Whether a proposal may be taken back now: it was executed, nothing takes it back yet, and what that needs is
        there.
        """
        return await self._wish(tx, row) is not None and await undo_of(tx, row.id) is None

    async def _wish(self, tx: Bound, row: Row[Any]) -> Wish | None:
        """What takes it back; None where nothing does, or where it needs a restore point that was dropped."""
        if row.state != "executed" or not read_outcome(row.outcome).get("moves"):
            return None
        wish = self.operations[row.kind].undo(_outcome(row))
        if wish is None or "restore_point_id" not in wish.arguments:
            return wish
        point = restore_point.c.id == UUID(wish.arguments["restore_point_id"])
        there = select(restore_point.c.id).where(point, restore_point.c.dropped_at.is_(None))
        return wish if await tx.scalar(there) else None


def _outcome(row: Row[Any]) -> Outcome:
    found = read_outcome(row.outcome)
    return Outcome(
        request=json.loads(row.request),
        moves=tuple(MoveRef.model_validate(one) for one in found["moves"]),
        commits=tuple(found["commits"]),
        restore_point=str(row.id) if found["restorable"] else None,
    )

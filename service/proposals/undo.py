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
from service.proposals.tables import proposal
from service.proposals.view import Decider
from service.writer.provenance import person_line

ENDED_IN_VAIN = frozenset({"declined", "cancelled", "expired", "stale", "failed"})
"""An undo that ended so may be proposed anew."""


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
            earlier = await _earlier(tx, proposal_id)
        if earlier and earlier[-1].state not in ENDED_IN_VAIN:
            return UUID(str(earlier[-1].id))
        wish = self._wish(row)
        if wish is None:
            raise Refusal(Code.NOTHING_TO_UNDO, "There is nothing that takes this back.")
        operation = self.operations[wish.kind]
        reason = f"Takes back what proposal {proposal_id} did."
        sent: Json = {"repository_id": str(row.repository), "reason": reason, **wish.arguments}
        request = operation.request.model_validate_json(json.dumps(sent))
        key = f"{_prefix(proposal_id)}{len(earlier)}"
        author = person_line(who.name, who.email)
        what = Submission(operation, request, key, sent, Proposer("owner", who.actor.id), author)
        return (await self.submitting(who.actor, what))[0]

    def _wish(self, row: Row[Any]) -> Wish | None:
        return self.operations[row.kind].undo(_outcome(row)) if may_undo(row) else None


def may_undo(row: Row[Any]) -> bool:
    """Whether a proposal was executed and moved something, so that it may be taken back."""
    return row.state == "executed" and bool(read_outcome(row.outcome).get("moves"))


async def _earlier(tx: Bound, proposal_id: UUID) -> list[Row[Any]]:
    """The proposals that were made to undo this one, the last at the end."""
    columns = (proposal.c.id, proposal.c.state)
    mine = proposal.c.person.is_not(None) & proposal.c.key.startswith(_prefix(proposal_id), autoescape=True)
    return list((await tx.execute(select(*columns).where(mine).order_by(proposal.c.created_at))).all())


def _prefix(proposal_id: UUID) -> str:
    return f"undo-{proposal_id}-"


def _outcome(row: Row[Any]) -> Outcome:
    found = read_outcome(row.outcome)
    return Outcome(
        request=json.loads(row.request),
        moves=tuple(MoveRef.model_validate(one) for one in found["moves"]),
        commits=tuple(found["commits"]),
        restore_point=str(row.id) if found["restorable"] else None,
    )

"""Choose a part of a waiting proposal: it becomes a proposal of its own, which an owner looks at and approves."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, literal, select

from service.contract.operation import SERVERS_KEYS, Operation
from service.grants.policy import Wanted
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.proposals.planners import Planners
from service.proposals.planning import Planned, Whole, load_plan, plan_part
from service.proposals.ports import Change, Stored
from service.proposals.states import FINAL, move, read_outcome
from service.proposals.store import ProposalTx
from service.proposals.submission import Submission
from service.proposals.submit import store_proposal
from service.proposals.tables import LIVE, proposal, staging
from service.proposals.view import NO_PROPOSAL, Decider
from service.repositories.placement import Storage


@dataclass(frozen=True)
class Dividing:
    """This step of one web process; `operations` by kind."""

    database: Database
    storage: Storage
    planners: Planners
    operations: Mapping[str, Operation[Any]]

    async def __call__(self, who: Decider, proposal_id: UUID, keep: Collection[str]) -> UUID:
        """Make a proposal of what was chosen, or find the one that waits with the same; gives its id.

        Raises:
            Refusal: FORBIDDEN; PROPOSAL_ENDED; BASE_MOVED; NOT_DIVISIBLE; CHOOSE_SOME; what keeps its proposer from
                proposing it now.
        """
        async with self.database.bound(who.actor.tenant) as tx:
            whole = await self.check(tx, who, proposal_id)
            place = await self.storage.place(tx, whole.repository)
            mine = (staging.c.tenant == proposal.c.tenant) & (staging.c.proposal == proposal.c.id)
            asked = select(proposal.c.kind, proposal.c.request, staging.c.objects).join(staging, mine)
            row = (await tx.execute(asked.where(proposal.c.id == proposal_id))).one()
        operation, made = self.operations[row.kind], uuid4()
        request = operation.request.model_validate(json.loads(row.request))
        stored = Whole(proposal_id, whole.pins, whole.plan, whole.card, row.objects)
        async with self.planners.turn(who.actor.id):
            planned = await self.planners.run(partial(plan_part, place.path, operation, request, made, stored, keep))
        chosen = _Chosen(operation, request, made, planned)
        return await self.database.repeat(who.actor.tenant, lambda tx: self._store(tx, who, proposal_id, chosen))

    async def check(self, tx: Bound, who: Decider, proposal_id: UUID, *, lock: bool = False) -> Stored:
        """The proposal, if a part of it may be chosen by this person.

        Raises:
            Refusal: NOT_FOUND, FORBIDDEN, PROPOSAL_ENDED; NOT_DIVISIBLE for a part.
        """
        stored = await self._decided_by(tx, who, proposal_id, lock=lock)
        if stored.state != "pending" or stored.expired:
            state = stored.state if stored.state != "pending" else "expired"
            outcome = read_outcome(stored.outcome)
            raise Refusal(Code.PROPOSAL_ENDED, f"This proposal is {state}.", status=state, outcome=outcome)
        if stored.parent is not None:
            raise Refusal(Code.NOT_DIVISIBLE, "This is a part already. Choose again in what it is a part of.")
        return stored

    async def withdraw(self, who: Decider, proposal_id: UUID) -> UUID:
        """Withdraw a part; what it is a part of waits on, and its id is given. Again: the same answer.

        Raises:
            Refusal: FORBIDDEN; NOT_A_PART; PROPOSAL_ENDED.
        """

        async def work(tx: Bound) -> UUID:
            stored = await self._decided_by(tx, who, proposal_id, lock=True)
            if stored.parent is None:
                raise Refusal(Code.NOT_A_PART, "This is no part that an owner chose.")
            if stored.state == "pending":
                withdrawn = Change(proposal_id, "pending", "cancelled", {"code": "withdrawn"})
                await move(ProposalTx(tx, self.storage), who.actor, withdrawn)
            elif stored.state != "cancelled":
                raise Refusal(Code.PROPOSAL_ENDED, f"This proposal is {stored.state}.", status=stored.state)
            return stored.parent

        return await self.database.repeat(who.actor.tenant, work)

    async def _decided_by(self, tx: Bound, who: Decider, proposal_id: UUID, *, lock: bool) -> Stored:
        moves = ProposalTx(tx, self.storage)
        stored = await moves.find(proposal_id, lock=lock)
        if stored is None:
            raise Refusal(Code.NOT_FOUND, NO_PROPOSAL)
        standing = await moves.stand(stored.proposer, stored.repository, who.actor.id)
        if not standing.is_member(who.actor.id):
            raise Refusal(Code.NOT_FOUND, NO_PROPOSAL)
        standing.check_decider(who.actor.id)
        return stored

    async def _store(self, tx: Bound, who: Decider, proposal_id: UUID, chosen: "_Chosen") -> UUID:
        """Insert, or find what waits already. The whole is locked: it waits, and nobody else chooses the same."""
        whole = await self.check(tx, who, proposal_id, lock=True)
        expires_at = await tx.scalar(select(proposal.c.expires_at).where(proposal.c.id == proposal_id))
        what = await chosen.submission(tx, whole)
        same = (proposal.c.parent == proposal_id) & (proposal.c.body_hash == what.body_hash)
        if waiting := await tx.scalar(select(proposal.c.id).where(same, proposal.c.state.in_(LIVE))):
            return UUID(str(waiting))
        standing = await ProposalTx(tx, self.storage).stand(whole.proposer, whole.repository)
        planned = chosen.planned
        standing.check(Wanted(planned.kinds, planned.refs, planned.paths))
        await store_proposal(tx, what, chosen.id, planned, literal(expires_at), proposal_id)
        told = {"operation": what.operation.kind, "card_digest": planned.digest, "part_of": str(proposal_id)}
        append(tx, who.actor, "proposal.pending", str(chosen.id), **told)
        return chosen.id


@dataclass(frozen=True)
class _Chosen:
    """A part as it was planned."""

    operation: Operation[Any]
    request: Any
    id: UUID
    planned: Planned

    async def submission(self, tx: Bound, whole: Stored) -> Submission:
        """As it is stored: what gives the same files is the same; one that ended is made anew under another key."""
        sent = {"part_of": str(whole.id), "tree": load_plan(self.planned.plan).commits[0].tree}
        what = Submission(self.operation, self.request, "", sent, whole.proposer)
        same = (proposal.c.parent == whole.id) & (proposal.c.body_hash == what.body_hash)
        ended = await tx.scalar(select(func.count()).where(same, proposal.c.state.in_(FINAL)))
        key = f"{SERVERS_KEYS}{whole.id}:{sent['tree']}:{ended}"
        return Submission(self.operation, self.request, key, sent, whole.proposer)

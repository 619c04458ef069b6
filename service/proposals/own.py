"""A connection's own proposals: the port that tools use. Whatever is another's does not exist."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, select, tuple_

from service.contract.data import Json
from service.contract.operation import Operation
from service.contract.plan import ReviewCard
from service.contract.refs import short_name
from service.grants.standing import Proposer
from service.grants.tables import connection_repository
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.decide import NO
from service.proposals.others import other_agents
from service.proposals.planning import broken_pin, load_card, load_pins, load_plan
from service.proposals.ports import Change
from service.proposals.states import FINAL, LostRace, move, read_outcome
from service.proposals.store import ProposalTx
from service.proposals.submission import Submission
from service.proposals.submit import Submit
from service.proposals.tables import decision, proposal
from service.proposals.waiting import Waiter
from service.proposals.withheld import WITHHELD, is_withheld, secrets_of, words_of
from service.repositories.bare import BareRepository
from service.repositories.placement import Place, Storage

ASK_AGAIN_MS = 5_000
LEFT_OUT_MOST = 50
"""So many of what was left out are told; their whole number is."""
OUTCOME_FIELDS = (
    "commit",
    "head",
    "code",
    "message",
    "note",
    "propose_again",
    "moves",
    "restore_point_id",
    "proposal_id",
    "left_out",
    "left_out_count",
)


@dataclass(frozen=True)
class OwnProposals:
    """The calling connection's proposals.

    Attributes:
        operations: by kind, to say what a stored request had received.
        issuer: for the address of the review page.
    """

    actor: Actor
    database: Database
    storage: Storage
    submitting: Submit
    waiter: Waiter
    operations: Mapping[str, Operation[Any]]
    issuer: str

    async def submit(self, operation: Operation[Any], request: Any, key: str, sent: Json) -> Json:
        """Propose, or find the proposal that this key stands for."""
        what = Submission(operation, request, key, sent, Proposer("agent", self.actor.id))
        proposal_id, replayed = await self.submitting(self.actor, what)
        async with self.database.bound(self.actor.tenant) as tx:
            others = await other_agents(tx, await self._row(tx, proposal_id))
        return {**await self._shown(proposal_id), "replayed": replayed, "other_agents": others}

    async def read(self, proposal_id: str, wait_seconds: int) -> Json:
        """One proposal; waits up to so many seconds for its end."""
        own = _uuid(proposal_id)

        async def ended() -> Json | None:
            shown = await self._shown(own)
            return shown if shown["status"] in FINAL else None

        return await self.waiter.until(str(own), ended, wait_seconds) or await self._shown(own)

    async def list(self, *, repository_id: str | None, state: str | None, after: str, most: int) -> list[Json]:
        """Proposals in the order in which they were made, after the one with the id `after`, at most so many; not the
        parts of them that an owner chose.
        """
        statement = self._own().order_by(proposal.c.created_at, proposal.c.id).limit(most)
        statement = statement.where(proposal.c.parent.is_(None))
        if repository_id is not None:
            statement = statement.where(proposal.c.repository == _uuid(repository_id))
        if state is not None:
            statement = statement.where(proposal.c.state == state)
        async with self.database.bound(self.actor.tenant) as tx:
            if after:
                last = await self._row(tx, _uuid(after))
                place = tuple_(proposal.c.created_at, proposal.c.id)
                statement = statement.where(place > tuple_(last.created_at, last.id))
            rows = (await tx.execute(statement)).all()
            places = {row.repository: await self.storage.place(tx, row.repository) for row in rows}
        return [await self._json(row, places[row.repository]) for row in rows]

    async def cancel(self, proposal_id: str) -> Json:
        """Withdraw a pending proposal. Again: the same answer.

        Raises:
            Refusal: NOT_PENDING with the state that it has; OWNERS_PART.
        """
        own = _uuid(proposal_id)

        async def work(tx: Bound) -> None:
            row = await self._row(tx, own)
            if row.parent is not None:
                raise Refusal(Code.OWNERS_PART, "This is a part that an owner chose.", part_of=str(row.parent))
            if row.state == "cancelled":
                return
            try:
                cancelled = Change(own, "pending", "cancelled", {"code": "cancelled"})
                await move(ProposalTx(tx, self.storage), self.actor, cancelled)
            except LostRace:
                now = (await self._row(tx, own)).state
                raise Refusal(Code.NOT_PENDING, f"The proposal is {now}.", status=now) from None

        await self.database.repeat(self.actor.tenant, work)
        return await self._shown(own)

    def _own(self) -> Select[Any]:
        """Only of repositories that the connection still reaches."""
        granted = select(connection_repository.c.repository).where(connection_repository.c.connection == self.actor.id)
        said = (decision.c.tenant == proposal.c.tenant) & (decision.c.proposal == proposal.c.id)
        statement = select(proposal, decision.c.note).outerjoin(decision, said)
        return statement.where(proposal.c.connection == self.actor.id, proposal.c.repository.in_(granted))

    async def _row(self, tx: Bound, own: UUID) -> Row[Any]:
        row = (await tx.execute(self._own().where(proposal.c.id == own))).one_or_none()
        if row is None:
            raise Refusal(Code.NOT_FOUND, "There is no such proposal.")
        return row

    async def _shown(self, own: UUID) -> Json:
        async with self.database.bound(self.actor.tenant) as tx:
            row = await self._row(tx, own)
            place = await self.storage.place(tx, row.repository)
        return await self._json(row, place)

    async def _json(self, row: Row[Any], place: Place) -> Json:
        pins = load_pins(row.pins)
        moved = (
            row.state == "pending" and await asyncio.to_thread(broken_pin, BareRepository(place.path), pins) is not None
        )
        card, plan = load_card(row.card), load_plan(row.plan)
        return {
            "proposal_id": str(row.id),
            "status": row.state,
            "repository_id": str(row.repository),
            "tool": row.kind,
            "branch": short_name(plan.effects[0].ref),
            "refs": [move.ref for move in plan.effects],
            "kept": _kept(card),
            "group_id": row.group_id,
            "part_of": str(row.parent) if row.parent else None,
            "message": words_of(card, "message"),
            "reason": words_of(card, "reason"),
            "created_at": row.created_at.isoformat(),
            "expires_at": row.expires_at.isoformat(),
            "card_digest": row.digest,
            "review_url": f"{self.issuer}/proposals/{row.id}?tenant={self.actor.tenant}",
            "pins": [{"ref": pin.fact.name, "oid": pin.seen} for pin in pins],
            "branch_moved": moved,
            "outcome": _outcome(row),
            "received": self._received(row, card),
            "secrets": secrets_of(card),
            "headline": card.headline.model_dump(mode="json"),
            "next": _next(row),
        }

    def _received(self, row: Row[Any], card: ReviewCard) -> Sequence[Json]:
        operation = self.operations[row.kind]
        received = operation.received(operation.request.model_validate(json.loads(row.request)))
        return [{**one, "path": WITHHELD} for one in received] if is_withheld(card, "path") else received


def _kept(card: ReviewCard) -> Sequence[Json] | None:
    """The branches that a request names and that stay."""
    notes = [note for section in card.sections for note in section.notes if note.code == "kept_branch"]
    return [{"ref": note.at, "why": note.params["why"]} for note in notes] or None


def _outcome(row: Row[Any]) -> Json | None:
    """How it ended, with the owner's note, whatever his verdict was."""
    found = {**read_outcome(row.outcome), **({"note": row.note} if row.note else {})}
    found["propose_again"] = row.wanted_again
    if left := found.get("left_out"):
        found |= {"left_out": left[:LEFT_OUT_MOST], "left_out_count": len(left)}
    if found.get("restorable"):
        found["restore_point_id"] = str(row.id)
    return {name: found[name] for name in OUTCOME_FIELDS if found.get(name)} or None


def _next(row: Row[Any]) -> Json | None:
    """What to call next: this one again while it waits, the part of it that was approved, the tool that proposed it
    where a person wants it anew.
    """
    found = read_outcome(row.outcome)
    waits = str(row.id) if row.state not in FINAL else found.get("proposal_id")
    if row.wanted_again or found.get("code") == NO["changes"]:
        return {"tool": row.kind, "arguments": {"repository_id": str(row.repository)}, "after_ms": 0}
    if waits:
        arguments = {"proposal_id": waits, "wait_seconds": 25}
        return {"tool": "read_proposal", "arguments": arguments, "after_ms": ASK_AGAIN_MS}
    return None


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Refusal(Code.NOT_FOUND, "There is no such proposal.") from None

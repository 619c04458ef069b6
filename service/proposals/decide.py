"""Decide: one owner's yes or no, bound to what he was shown, and everything checked again at that moment."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Row, func, select

from service.contract.answers import State
from service.contract.data import Json
from service.contract.names import check_text
from service.contract.plan import Pin
from service.grants.policy import Wanted
from service.grants.standing import decider, stand
from service.kit.actor import Actor, system
from service.kit.canonical import canonical, sha256
from service.kit.database import Bound, Conflict, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.proposals.planning import broken_pin, load_card, load_manifests, load_pins, load_plan
from service.proposals.states import FINAL, WORK, LostRace, move, read_outcome
from service.proposals.tables import decision, proposal, work_queue
from service.proposals.waiting import Waiter
from service.repositories.placement import Storage
from service.repositories.tables import repository
from service.writer.provenance import committer_line

WAIT_SECONDS = 10
NOTE_MOST = 2_000
Verdict = Literal["approve", "decline"]
# Refusals that end in the ledger, since a person tried to decide.
WRITTEN_DOWN = frozenset(
    {Code.FORBIDDEN, Code.POLICY_DENIED, Code.PROPOSALS_OFF, Code.CARD_CHANGED, Code.WARNINGS_OPEN, Code.NOT_FOUND}
)
# What an approval finds when it comes late, and answers as it was answered then.
REPLAYED: frozenset[str] = frozenset({"approved", "executing", "executed", "stale", "failed"})


@dataclass(frozen=True)
class Verdicts:
    """What an owner says: the verdict, the digest of the card he saw, the warnings he ticked, a note."""

    verdict: Verdict
    digest: str
    acknowledged: frozenset[str] = frozenset()
    note: str = ""


@dataclass(frozen=True)
class Decided:
    """How a decision ended. `state` is `approved` or `executing` where the writer has not answered in time."""

    proposal_id: UUID
    state: State
    replayed: bool
    outcome: Json = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether the end is known."""
        return self.state in FINAL


@dataclass(frozen=True)
class Decider:
    """A person who decides: an owner's actor with the name and address that go into the commit."""

    actor: Actor
    name: str
    email: str


@dataclass(frozen=True)
class Decide:
    """The decide step of one web process."""

    database: Database
    storage: Storage
    waiter: Waiter

    async def __call__(self, who: Decider, proposal_id: UUID, said: Verdicts) -> Decided:
        """Decide, and wait for the writer when it was a yes.

        Raises:
            Refusal: NOT_FOUND, FORBIDDEN, CARD_CHANGED, WARNINGS_OPEN, PROPOSAL_ENDED with the final state, or what
                keeps the connection from proposing this now (it stays pending then).
        """
        check_text(said.note, "note", most=NOTE_MOST, least=0)
        first = await self.database.repeat(who.actor.tenant, lambda tx: self._decide(tx, who, proposal_id, said))
        if isinstance(first, Refusal):
            raise await self._final(who.actor.tenant, proposal_id, first)
        if first.known or said.verdict == "decline":
            return first
        ended = await self.waiter.until(
            str(proposal_id), lambda: self._ended(who.actor.tenant, proposal_id, replayed=first.replayed), WAIT_SECONDS
        )
        return ended or first

    async def _final(self, tenant: UUID, proposal_id: UUID, refusal: Refusal) -> Refusal:
        """Who lost to an approval is told how that ended, if the writer answers in time."""
        if refusal.details.get("status") not in {"approved", "executing"}:
            return refusal
        ended = await self.waiter.until(
            str(proposal_id), lambda: self._ended(tenant, proposal_id, replayed=True), WAIT_SECONDS
        )
        return _ended_refusal(proposal_id, ended.state, ended.outcome) if ended else refusal

    async def _ended(self, tenant: UUID, proposal_id: UUID, *, replayed: bool) -> Decided | None:
        async with self.database.bound(tenant) as tx:
            row = await _row(tx, proposal_id)
        if row.state not in FINAL:
            return None
        return Decided(proposal_id, row.state, replayed, read_outcome(row.outcome))

    async def _decide(self, tx: Bound, who: Decider, proposal_id: UUID, said: Verdicts) -> Decided | Refusal:
        """A refusal is given back, not raised, so that what the ledger says of it is kept."""
        row = await _row(tx, proposal_id, lock=True)
        try:
            await _may_decide(tx, who, row)
            return await self._weigh(tx, who, row, said)
        except Refusal as refusal:
            if refusal.code not in WRITTEN_DOWN:
                raise
            code = refusal.code.value.name
            await append(tx, who.actor, "decision.refused", str(row.id), verdict=said.verdict, code=code)
            return refusal

    async def _weigh(self, tx: Bound, who: Decider, row: Row[Any], said: Verdicts) -> Decided | Refusal:
        if row.state != "pending":
            return _late(row, said)
        if row.expired:
            await move(tx, system(tx.tenant), row.id, "pending", "expired", {"code": "expired"})
            return _ended_refusal(row.id, "expired", {})
        if said.digest != row.digest:
            message = "The card is not the one you saw. Look at it again."
            raise Refusal(Code.CARD_CHANGED, message, card_digest=row.digest)
        if said.verdict == "decline":
            return await _decline(tx, who, row, said)
        _check_acknowledged(row, said)
        await _check_rights(tx, row)
        return await self._approve(tx, who, row, said)

    async def _approve(self, tx: Bound, who: Decider, row: Row[Any], said: Verdicts) -> Decided:
        place = await self.storage.place(tx, row.repository)
        broken = await asyncio.to_thread(broken_pin, place.path, load_pins(row.pins))
        await _record(tx, who, row, said)
        if broken:
            outcome = stale_outcome(*broken)
            await move(tx, who.actor, row.id, "pending", "stale", outcome)
            return Decided(row.id, "stale", replayed=False, outcome=outcome)
        try:
            in_time = proposal.c.expires_at > func.clock_timestamp()
            await move(tx, who.actor, row.id, "pending", "approved", only_if=in_time)
        except LostRace:  # it expired since the row was read; the next look says so
            raise Conflict from None
        await tx.execute(
            work_queue.insert().values(kind="execute", tenant=tx.tenant, subject=row.id, repository=row.repository)
        )
        await tx.notify(WORK, str(row.id))
        return Decided(row.id, "approved", replayed=False)


def stale_outcome(pin: Pin, now: str) -> Json:
    """What a stale proposal says: which fact moved, and where it is now."""
    return {"code": "stale", "ref": pin.fact.name, "pinned": pin.seen, "head": now}


async def _row(tx: Bound, proposal_id: UUID, *, lock: bool = False) -> Row[Any]:
    expired = (proposal.c.expires_at <= func.clock_timestamp()).label("expired")
    statement = select(proposal, expired).where(proposal.c.id == proposal_id)
    found = await tx.execute(statement.with_for_update(key_share=True) if lock else statement)
    row = found.one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is no such proposal.")
    return row


async def _may_decide(tx: Bound, who: Decider, row: Row[Any]) -> None:
    project = await tx.scalar(select(repository.c.project).where(repository.c.id == row.repository))
    await decider(tx, project, who.actor.id)


def _late(row: Row[Any], said: Verdicts) -> Decided | Refusal:
    outcome = read_outcome(row.outcome)
    same = row.state in REPLAYED if said.verdict == "approve" else row.state == "declined"
    if same:
        return Decided(row.id, row.state, replayed=True, outcome=outcome)
    return _ended_refusal(row.id, row.state, outcome)


def _ended_refusal(proposal_id: UUID, state: str, outcome: Json) -> Refusal:
    return Refusal(
        Code.PROPOSAL_ENDED, f"This proposal is {state}.", proposal_id=str(proposal_id), status=state, outcome=outcome
    )


def _check_acknowledged(row: Row[Any], said: Verdicts) -> None:
    names = [note.name for note in load_card(row.card).warnings]
    missing = [name for name in names if name not in said.acknowledged]
    if missing:
        raise Refusal(Code.WARNINGS_OPEN, f"{len(missing)} warnings are not acknowledged.", warnings=missing)


async def _check_rights(tx: Bound, row: Row[Any]) -> None:
    standing = await stand(tx, row.connection, row.repository)
    standing.check(wanted(row))


def wanted(row: Row[Any]) -> Wanted:
    """What a stored proposal touches, from its plan and manifest."""
    plan, reviewed = load_plan(row.plan), load_manifests(row.manifest)
    paths = sorted({line.path for manifest in reviewed for line in manifest.lines})
    return Wanted(plan.kinds, tuple(effect.ref for effect in plan.effects), tuple(paths))


async def _decline(tx: Bound, who: Decider, row: Row[Any], said: Verdicts) -> Decided:
    await _record(tx, who, row, said)
    outcome = {"code": "declined", "note": said.note}
    await move(tx, who.actor, row.id, "pending", "declined", outcome)
    return Decided(row.id, "declined", replayed=False, outcome=outcome)


async def _record(tx: Bound, who: Decider, row: Row[Any], said: Verdicts) -> None:
    """Store the decision; this fixes committer and committer date."""
    now = (await tx.execute(select(func.clock_timestamp().label("at")))).one().at
    await tx.execute(
        decision.insert().values(
            tenant=tx.tenant,
            proposal=row.id,
            person=who.actor.id,
            session=who.actor.session,
            verdict=said.verdict,
            digest=said.digest,
            acknowledged=canonical(sorted(said.acknowledged)).decode(),
            note=said.note,
            committer=committer_line(who.name, who.email, int(now.timestamp())),
            decided_at=now,
        )
    )
    await append(
        tx,
        who.actor,
        f"decision.{said.verdict}",
        str(row.id),
        card_digest=said.digest,
        acknowledged=sorted(said.acknowledged),
        note_sha256=sha256(said.note.encode()),
    )

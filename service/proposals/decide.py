"""Decide: one owner's yes or no, bound to what he was shown, and everything checked again at that moment."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from service.contract.answers import State
from service.contract.data import Json
from service.contract.names import check_text
from service.contract.plan import Manifest, Note, Pin, Plan
from service.grants.policy import Wanted
from service.grants.standing import Standing
from service.kit.actor import system
from service.kit.canonical import sha256
from service.kit.database import Conflict
from service.kit.errors import Code, Refusal
from service.proposals.parts import check_verdict, decline_rest, end_stale
from service.proposals.planning import broken_pin, load_card, load_manifests, load_pins, load_plan
from service.proposals.ports import (
    Change,
    ChecksSecrets,
    Decision,
    Expects,
    InThread,
    Shown,
    Store,
    Stored,
    Tx,
    Verdict,
    Waits,
)
from service.proposals.states import FINAL, LostRace, move, read_outcome
from service.proposals.view import Decider, Verdicts
from service.proposals.withheld import names_of
from service.writer.ports import RefReader
from service.writer.provenance import committer_line

T = TypeVar("T")
WAIT_SECONDS = 10
NOTE_MOST = 2_000
# Refusals that end in the ledger, since a person tried to decide.
WRITTEN_DOWN = frozenset(
    {
        Code.FORBIDDEN,
        Code.POLICY_DENIED,
        Code.PROPOSALS_OFF,
        Code.CARD_CHANGED,
        Code.NOT_SHOWN,
        Code.WARNINGS_OPEN,
        Code.CONFIRMATION_OPEN,
        Code.REASON_MISSING,
        Code.SECRETS_SINCE,
        Code.PROOF_NEEDED,
        Code.NOT_FOUND,
        Code.SIGNATURE_NEEDED,
        Code.SIGNATURE_REFUSED,
    }
)
# What an approval finds when it comes late, and answers as it was answered then.
REPLAYED: frozenset[str] = frozenset({"approved", "executing", "executed", "stale", "failed"})
NO: Mapping[Verdict, str] = {"decline": "declined", "changes": "changes_requested"}
"""The verdicts that end a proposal as declined, and the code of each in its outcome."""


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
class Fixed:
    """What a decision fixes: who commits and when, with what he proved who he is, and his own signature if any."""

    committer: bytes
    at: datetime
    proof: Shown = "session"
    signature: bytes | None = None


Then = Callable[[Tx, Decider, Stored, Standing, Verdicts, Fixed], Awaitable[T]]
"""What is done with an approval once everything was checked."""


@dataclass(frozen=True)
class Decide:
    """The decide step of one web process.

    Attributes:
        store: as the role `placet_app`.
        open: gives the repository in a folder, to read its refs.
        in_thread: where that is done.
        check_secrets: searches again what is to be approved; see `scanning.check_secrets`.
        waiter: tells when the writer has come to an end.
    """

    store: Store
    open: Callable[[Path], RefReader]
    in_thread: InThread
    waiter: Waits
    check_secrets: ChecksSecrets

    async def __call__(self, who: Decider, proposal_id: UUID, said: Verdicts) -> Decided:
        """Decide, and wait for the writer when it was a yes.

        Raises:
            Refusal: NOT_FOUND, FORBIDDEN, CARD_CHANGED, WARNINGS_OPEN, PROOF_NEEDED, PROPOSAL_ENDED with the final
                state, or what keeps the connection from proposing this now (it stays pending then).
        """
        return await self.run(who, proposal_id, said, self._approve)

    async def run(self, who: Decider, proposal_id: UUID, said: Verdicts, then: Then[T]) -> Decided | T:
        """The same with another end: what `then` makes of an approval that may be made. Raises as a decision does."""
        check_text(said.note, "note", most=NOTE_MOST, least=1 if said.verdict == "changes" else 0)
        check_text(said.reason, "reason", most=NOTE_MOST, least=0)
        leaks = None if said.verdict in NO else await self._search(who.actor.tenant, proposal_id, said)
        with self.waiter.expecting(str(proposal_id)) as expected:
            first = await self.store.repeat(
                who.actor.tenant, lambda tx: self._decide(tx, who, proposal_id, said, leaks, then)
            )
            if isinstance(first, Refusal):
                raise await self._final(who.actor.tenant, proposal_id, first, expected)
            if not isinstance(first, Decided) or first.known:
                return first
            look = partial(self._ended, who.actor.tenant, proposal_id, replayed=first.replayed)
            return await expected.until(look, WAIT_SECONDS) or first

    async def _final(self, tenant: UUID, proposal_id: UUID, refusal: Refusal, expected: Expects) -> Refusal:
        """Who lost to an approval is told how that ended, if the writer answers in time."""
        if refusal.details.get("status") not in {"approved", "executing"}:
            return refusal
        ended = await expected.until(partial(self._ended, tenant, proposal_id, replayed=True), WAIT_SECONDS)
        return _ended_refusal(proposal_id, ended.state, ended.outcome) if ended else refusal

    async def _ended(self, tenant: UUID, proposal_id: UUID, *, replayed: bool) -> Decided | None:
        async with self.store.bound(tenant) as tx:
            stored = await _known(tx, proposal_id)
        if stored.state not in FINAL:
            return None
        return Decided(proposal_id, stored.state, replayed, read_outcome(stored.outcome))

    async def _decide(
        self, tx: Tx, who: Decider, proposal_id: UUID, said: Verdicts, leaks: Refusal | None, then: Then[T]
    ) -> Decided | T | Refusal:
        """A refusal is given back, not raised, so that what the ledger says of it is kept."""
        stored = await _known(tx, proposal_id, lock=True)
        standing = await tx.stand(stored.proposer, stored.repository, who.actor.id)
        if not standing.is_member(who.actor.id):  # who is not in the project learns nothing
            raise _unknown()
        try:
            standing.check_decider(who.actor.id)
            return await self._weigh(tx, who, stored, standing, said, leaks, then)
        except Refusal as refusal:
            if refusal.code not in WRITTEN_DOWN:
                raise
            code = refusal.code.value.name
            tx.append(who.actor, "decision.refused", str(proposal_id), verdict=said.verdict, code=code)
            return refusal

    async def _weigh(
        self,
        tx: Tx,
        who: Decider,
        stored: Stored,
        standing: Standing,
        said: Verdicts,
        leaks: Refusal | None,
        then: Then[T],
    ) -> Decided | T | Refusal:
        check_verdict(stored, said.verdict)
        if stored.state != "pending":
            return _late(stored, said)
        if stored.expired:
            await move(tx, system(tx.tenant), Change(stored.id, "pending", "expired", {"code": "expired"}))
            return _ended_refusal(stored.id, "expired", {})
        if said.digest != stored.digest:
            message = "The card is not the one you saw. Look at it again."
            raise Refusal(Code.CARD_CHANGED, message, card_digest=stored.digest)
        if said.verdict in NO:
            return await _decline(tx, who, stored, standing, said)
        await _check_read(tx, who, stored)
        warnings = load_card(stored.card).warnings
        _check_acknowledged(warnings, said)
        proof = await _check_proof(tx, who, warnings)
        standing.check(wanted(load_plan(stored.plan), load_manifests(stored.manifest)))
        if leaks:
            raise leaks
        return await then(tx, who, stored, standing, said, fixed_now(who, standing, proof))

    async def _search(self, tenant: UUID, proposal_id: UUID, said: Verdicts) -> Refusal | None:
        """What is to be approved is searched for secrets once more: before anything is locked, since that takes its
        time, and a revocation must not wait. What it finds is said in its turn. A card never changes under its digest.
        """
        async with self.store.bound(tenant) as tx:
            stored = await _known(tx, proposal_id)
            if stored.state != "pending" or said.digest != stored.digest:
                return None  # which is refused for that
            path, objects = (await tx.place(stored.repository)).path, await tx.staged(stored.id)
        plan, card = load_plan(stored.plan), load_card(stored.card)
        try:
            await self.in_thread(lambda: self.check_secrets(path, plan, card, objects, said.reason))
        except Refusal as refusal:
            return refusal
        return None

    async def _approve(
        self, tx: Tx, who: Decider, stored: Stored, standing: Standing, said: Verdicts, fixed: Fixed
    ) -> Decided:
        """Without a signature: not where the repository or the person himself wants one."""
        standing.check_signed(None)
        if await tx.credentials(who.actor.id):
            raise Refusal(Code.SIGNATURE_NEEDED, "You have your approvals signed with a passkey.")
        return await self.approve(tx, who, stored, said, fixed)

    async def approve(self, tx: Tx, who: Decider, stored: Stored, said: Verdicts, fixed: Fixed) -> Decided:
        """Store the approval and hand it to the writer; stale where a pin is broken."""
        refs = self.open((await tx.place(stored.repository)).path)
        broken = await self.in_thread(lambda: broken_pin(refs, load_pins(stored.pins)))
        await _record(tx, who, stored, said, fixed)
        if broken:
            outcome = stale_outcome(*broken)
            await end_stale(tx, who.actor, stored, outcome)
            return Decided(stored.id, "stale", replayed=False, outcome=outcome)
        try:
            await move(tx, who.actor, Change(stored.id, "pending", "approved", when="in time"))
            await decline_rest(tx, who.actor, stored, said.note)
        except LostRace:  # it expired since the row was read; the next look says so
            raise Conflict from None
        await tx.queue(stored.id, stored.repository)
        return Decided(stored.id, "approved", replayed=False)


def stale_outcome(pin: Pin, now: str) -> Json:
    """What a stale proposal says: which fact moved, and where it is now."""
    return {"code": "stale", "ref": pin.fact.name, "pinned": pin.seen, "head": now}


async def _known(tx: Tx, proposal_id: UUID, *, lock: bool = False) -> Stored:
    stored = await tx.find(proposal_id, lock=lock)
    if stored is None:
        raise _unknown()
    return stored


def _unknown() -> Refusal:
    return Refusal(Code.NOT_FOUND, "There is no such proposal.")


def _late(stored: Stored, said: Verdicts) -> Decided | Refusal:
    outcome = read_outcome(stored.outcome)
    code = NO.get(said.verdict)
    same = stored.state in REPLAYED if code is None else (stored.state, outcome.get("code")) == ("declined", code)
    if same:
        return Decided(stored.id, stored.state, replayed=True, outcome=outcome)
    return _ended_refusal(stored.id, stored.state, outcome)


def _ended_refusal(proposal_id: UUID, state: str, outcome: Json) -> Refusal:
    return Refusal(
        Code.PROPOSAL_ENDED, f"This proposal is {state}.", proposal_id=str(proposal_id), status=state, outcome=outcome
    )


async def _check_read(tx: Tx, who: Decider, stored: Stored) -> None:
    """Nothing is approved that was not sent in full to this very session."""
    unsent = await tx.unsent(stored.id, who.actor.session, stored.digest)
    if unsent is None:
        raise Refusal(Code.NOT_SHOWN, "The card was not opened in this session.")
    if unsent:
        files = "1 file was" if unsent == 1 else f"{unsent:,} files were"
        raise Refusal(Code.NOT_SHOWN, f"{files} not shown to you in full.", files=unsent)


def _check_acknowledged(warnings: Sequence[Note], said: Verdicts) -> None:
    names = [note.name for note in warnings]
    missing = [name for name in names if name not in said.acknowledged]
    if missing:
        raise Refusal(Code.WARNINGS_OPEN, f"{len(missing)} warnings are not acknowledged.", warnings=missing)
    asked = [note.params["confirm"] for note in warnings if "confirm" in note.params]
    if untyped := [text for text in asked if text not in said.confirmed]:
        raise Refusal(Code.CONFIRMATION_OPEN, "What the card asks you to type is not there.", confirm=untyped)
    if unreasoned := [note.name for note in warnings if note.params.get("reason") and not said.reason]:
        raise Refusal(Code.REASON_MISSING, "Why this may be let through is not said.", warnings=unreasoned)


async def _check_proof(tx: Tx, who: Decider, warnings: Sequence[Note]) -> Shown:
    """What asks to be typed asks for a fresh proof as well, of who has anything to prove with."""
    if not any("confirm" in note.params for note in warnings):
        return "session"
    proof = await tx.proof(who.actor.id, who.actor.session)
    if proof.able and proof.by is None:
        raise Refusal(Code.PROOF_NEEDED, "This is hard to take back, so it takes more than being signed in.")
    return proof.by or "session"


def wanted(plan: Plan, reviewed: Sequence[Manifest]) -> Wanted:
    """What a proposal touches, from its plan and manifest."""
    paths = sorted({line.path for manifest in reviewed for line in manifest.lines})
    return Wanted(plan.kinds, tuple(effect.ref for effect in plan.effects), tuple(paths))


async def _decline(tx: Tx, who: Decider, stored: Stored, standing: Standing, said: Verdicts) -> Decided:
    await _record(tx, who, stored, said, fixed_now(who, standing))
    outcome = {"code": NO[said.verdict], "note": said.note}
    await move(tx, who.actor, Change(stored.id, "pending", "declined", outcome))
    return Decided(stored.id, "declined", replayed=False, outcome=outcome)


def fixed_now(who: Decider, standing: Standing, proof: Shown = "session") -> Fixed:
    """Committer and committer date, by the database's clock."""
    return Fixed(committer_line(who.name, who.email, int(standing.now.timestamp())), standing.now, proof)


async def _record(tx: Tx, who: Decider, stored: Stored, said: Verdicts, fixed: Fixed) -> None:
    acknowledged = sorted(said.acknowledged)
    reason = said.reason if said.verdict == "approve" else ""
    await tx.record(
        Decision(
            proposal=stored.id,
            person=who.actor.id,
            session=who.actor.session,
            verdict=said.verdict,
            digest=said.digest,
            acknowledged=acknowledged,
            note=said.note,
            reason=reason,
            committer=fixed.committer,
            at=fixed.at,
            proof=fixed.proof,
            signature=fixed.signature,
        )
    )
    tx.append(
        who.actor,
        f"decision.{said.verdict}",
        str(stored.id),
        card_digest=said.digest,
        acknowledged=names_of(load_card(stored.card), acknowledged),
        note_sha256=sha256(said.note.encode()),
        proof=fixed.proof,
        **({"signature": fixed.signature.decode()} if fixed.signature else {}),
        **({"reason": reason} if reason else {}),
    )

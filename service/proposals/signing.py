"""An approval in two steps: prepare fixes every byte of it, finish brings its person's own signature of them.

Between the two lies a draft: one person's, of one session, at one card digest, with these acknowledgements, good for
five minutes and once. Everything is checked at both steps.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from service.contract.data import Json
from service.grants.standing import Standing
from service.kit.errors import Code, Refusal
from service.proposals.decide import Decide, Decided, Fixed, Then
from service.proposals.planning import load_plan
from service.proposals.ports import Answer, Draft, Prepared, Stored, Tx
from service.proposals.view import Decider, Verdicts
from service.writer.approval import Signable, signable
from service.writer.passkey import BadAssertion, Passkey, passkey_signature
from service.writer.signature import armoured

DRAFT_SECONDS: Final = 300


@dataclass(frozen=True)
class Signing:
    """The two steps.

    Attributes:
        deciding: the decide step, whose checks and end these share.
        origin: where people are asked, such as `https://placet.example.org`.
    """

    deciding: Decide
    origin: str

    @property
    def rp_id(self) -> str:
        """The host for which passkeys are made."""
        return urlsplit(self.origin).hostname or ""

    async def prepare(self, who: Decider, proposal_id: UUID, said: Verdicts) -> Prepared | Decided:
        """Fix the bytes of an approval; what had been decided before is given as it ended.

        Raises:
            Refusal: as a decision does; SIGNATURE_NEEDED where the person has no passkey that signs.
        """
        prepare: Then[Prepared] = self._prepare
        return await self.deciding.run(who, proposal_id, said, prepare)

    async def finish(self, who: Decider, proposal_id: UUID, answer: Answer) -> Decided:
        """Approve with what an authenticator answered, and wait for the writer.

        Raises:
            Refusal: as a decision does; SIGNATURE_REFUSED for a draft that is used, too old or another session's, and
                for an answer that is no signature of it.
        """
        async with self.deciding.store.bound(who.actor.tenant) as tx:
            draft = await tx.take_draft(answer.draft, proposal_id, who.actor.session)
        if draft is None:
            raise _refused("There is no such draft.")
        said = Verdicts("approve", **_read(draft.said))
        return await self.deciding.run(who, proposal_id, said, partial(self._finish, draft=draft, answer=answer))

    async def _prepare(
        self, tx: Tx, who: Decider, stored: Stored, _standing: Standing, said: Verdicts, fixed: Fixed
    ) -> Prepared:
        credentials = await tx.credentials(who.actor.id)
        if not credentials:
            raise Refusal(Code.SIGNATURE_NEEDED, "You have no passkey that signs approvals.")
        draft = Draft(uuid4(), stored.id, who.actor.id, who.actor.session, _stored(said), fixed.committer, fixed.at)
        await tx.store_draft(draft, DRAFT_SECONDS)
        what = _signable(stored, fixed.committer)
        return Prepared(draft.id, what.message, tuple(one.id for one in credentials), self.rp_id)

    async def _finish(
        self,
        tx: Tx,
        who: Decider,
        stored: Stored,
        _standing: Standing,
        said: Verdicts,
        _fixed: Fixed,
        *,
        draft: Draft,
        answer: Answer,
    ) -> Decided:
        if not draft.good:
            raise _refused("This approval was prepared more than five minutes ago, or was used.")
        asked = {one.id: one for one in await tx.credentials(who.actor.id)}.get(answer.credential)
        key = Passkey.from_cose(asked.public_key, self.rp_id) if asked else None
        if asked is None or key is None:
            raise _refused("This is no passkey with which you sign approvals.")
        what = _signable(stored, draft.committer)
        try:
            signature = passkey_signature(key, self.origin, what.message, answer.given)
        except BadAssertion as error:
            raise _refused(str(error)) from None
        counted = answer.given.counter
        if counted <= asked.counter and (counted, asked.counter) != (0, 0):
            raise _refused("The passkey has counted backwards: there may be a copy of it.")
        await tx.signed_with(who.actor.id, who.email, replace(asked, counter=counted), key)
        armour = armoured(key.blob, signature, what.namespace)
        return await self.deciding.approve(tx, who, stored, said, Fixed(draft.committer, draft.at, "passkey", armour))


def _signable(stored: Stored, committer: bytes) -> Signable:
    return signable(load_plan(stored.plan), committer, stored.trailers(committer))


def _stored(said: Verdicts) -> Json:
    return {
        "digest": said.digest,
        "acknowledged": sorted(said.acknowledged),
        "confirmed": sorted(said.confirmed),
        "note": said.note,
        "reason": said.reason,
    }


def _read(said: Json) -> Json:
    return {**said, "acknowledged": frozenset(said["acknowledged"]), "confirmed": frozenset(said["confirmed"])}


def _refused(why: str) -> Refusal:
    return Refusal(Code.SIGNATURE_REFUSED, why)

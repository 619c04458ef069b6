"""Approvals that a person signs with a passkey: the two steps as a browser's script asks them."""

import base64
import binascii
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, Field
from starlette.responses import Response

from service.contract.ports import Arguments
from service.edge.desk import asking
from service.edge.desk.answers import DecidedAnswer, SignatureAsked, UnknownOutcome
from service.edge.desk.api import decided
from service.edge.errors import json_response
from service.edge.guard import Call, Docs, Endpoint
from service.kit.errors import Code, Refusal
from service.proposals.ports import Answer, Prepared
from service.writer.passkey import Assertion, challenge

_MOST: Final = 4_096
_SECONDS: Final = 120


def _read(text: str) -> str:
    """Base64url without padding, as scripts write bytes."""
    try:
        base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("is not base64url without padding") from None
    return text


Bytes = Annotated[str, Field(max_length=_MOST), AfterValidator(_read)]


class SignedApproval(Arguments):
    """What an authenticator answered; bytes in base64url without padding."""

    draft: Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    credential: Bytes
    authenticator_data: Bytes
    client_data: Bytes
    signature: Bytes

    @property
    def answer(self) -> Answer:
        """As the desk takes it."""
        given = Assertion(_bytes(self.authenticator_data), _bytes(self.client_data), _bytes(self.signature))
        return Answer(UUID(self.draft), _bytes(self.credential), given)


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def prepare(call: Call) -> Response:
    """Fix the bytes of an approval: what the authenticator is asked to sign, within five minutes."""
    who = await asking.decider(call)
    subject = asking.proposal_id(call)
    sent = asking.checked(asking.Decision, await call.json())
    if sent.verdict != "approve":
        raise Refusal(Code.INVALID_ARGUMENT, "Only an approval is signed.", field="verdict", allowed=["approve"])
    made = await call.parts.desk.cards.prepare(who, subject, sent.verdicts)
    if not isinstance(made, Prepared):
        return decided(call, made)
    asked = SignatureAsked(
        draft=str(made.draft),
        challenge=challenge(made.challenge),
        credentials=[challenge(one) for one in made.credentials],
        rp_id=made.rp_id,
        seconds=_SECONDS,
    )
    return json_response(asked.model_dump(mode="json"))


async def finish(call: Call) -> Response:
    """Approve with a signature: answered as a decision is."""
    who = await asking.decider(call)
    subject = asking.proposal_id(call)
    sent = asking.checked(SignedApproval, await call.json())
    return decided(call, await call.parts.desk.cards.finish(who, subject, sent.answer))


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/api/v1/proposals/{id}/signature",
        "proposal.decide",
        prepare,
        docs=Docs({200: SignatureAsked, 202: UnknownOutcome}, asking.Decision),
    ),
    Endpoint(
        "POST",
        "/api/v1/proposals/{id}/signed-approval",
        "proposal.decide",
        finish,
        docs=Docs({200: DecidedAnswer, 202: UnknownOutcome}, SignedApproval),
    ),
)

"""What a person's own signature says of an approval: that these bytes, or this decision, are what he said yes to.

One signature for one proposal: of the new commit or tag that leads to all the others; where there is none such, of the
decision itself, in a namespace of its own.
"""

from dataclasses import dataclass, field

from service.contract.data import Json
from service.contract.plan import Plan
from service.kit.canonical import canonical
from service.writer.intent import seal, tip_of
from service.writer.passkey import BadAssertion, Passkey, verify_passkey
from service.writer.provenance import Trailers
from service.writer.signature import DECISION, GIT, to_be_signed, unarmoured


@dataclass(frozen=True)
class Signable:
    """What a person signs: the bytes, and for what."""

    content: bytes
    namespace: bytes

    @property
    def message(self) -> bytes:
        """What the authenticator is asked to sign."""
        return to_be_signed(self.content, self.namespace)


@dataclass(frozen=True)
class OwnerSignature:
    """A person's signature of an approval, in its armour."""

    armour: bytes = field(repr=False)

    def sign(self, content: bytes) -> bytes | None:
        """The signature for exactly the bytes that were signed; None for all others. A `Sign`."""
        return self.armour if self.holds(Signable(content, GIT)) else None

    def holds(self, what: Signable) -> bool:
        """Whether it is a signature of this."""
        try:
            public, signature = unarmoured(self.armour, what.namespace)
            verify_passkey(Passkey.read(public), what.message, signature)
        except (ValueError, BadAssertion):
            return False
        return True


def signable(plan: Plan, committer: bytes, trailers: Trailers) -> Signable:
    """What is signed when this plan is approved.

    Args:
        plan: what was reviewed.
        committer: the line of who approves, with the time.
        trailers: of the commits.
    """
    tip = tip_of(plan)
    if tip is None:
        return Signable(canonical(canonical_decision(trailers.proposal, trailers.digest, committer)), DECISION)
    place = next(place for place, new in enumerate(plan.build) if new.id == tip)
    return Signable(seal(plan, committer, trailers).commits[place].content, GIT)


def canonical_decision(proposal: object, digest: str, committer: bytes) -> Json:
    """An approval as it is signed where there is no commit that could be.

    Args:
        proposal: its id.
        digest: of the card that was seen.
        committer: the line of who approves, with the time.
    """
    return {"verdict": "approve", "proposal": str(proposal), "card_digest": digest, "by": committer.decode()}

"""What a person may do after a refusal; the codes' own advice is for programs and agents."""

from service.kit.errors import Code, Refusal
from service.kit.language import gettext, later

_FOR_PEOPLE = {
    Code.NOT_FOUND: later("It may have been removed, or it is in another tenant, or not yours to see."),
    Code.INVALID_ARGUMENT: later("Go back and try again."),
    Code.INVALID_REQUEST: later("Go back and try again."),
    Code.PROOF_NEEDED: later("Show that it is you; you come back here, and decide then."),
    Code.FORBIDDEN: later("Decline it, or let who may do so give the right back first."),
    Code.PROPOSALS_OFF: later("Turn it on under Repositories, or decline."),
    Code.POLICY_DENIED: later("Decline it, or let an owner change the connection's policy first."),
    Code.SIGNATURE_NEEDED: later("Switch it on for a passkey in your settings, under how you sign in."),
    Code.METHOD_NOT_ALLOWED: later("Go back and try again."),
    Code.HOST_REJECTED: later("Use the address that the service was set up with."),
}


_FOR_EVER = later("That is for ever: decline it; the agent may connect again and propose anew.")


def for_people(refusal: Refusal) -> str:
    """One sentence on what to do next."""
    if refusal.code is Code.FORBIDDEN and refusal.details.get("state") == "revoked":
        return gettext(_FOR_EVER)
    return gettext(_FOR_PEOPLE.get(refusal.code, refusal.code.value.todo))

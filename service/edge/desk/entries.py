"""What the ledger's entries say, in words. A kind that is not known here is shown as it is."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from service.contract.data import Json
from service.edge.desk.pieces import phrase
from service.edge.desk.visible import Visible
from service.kit.language import gettext, later

SUBJECTS: Final[Mapping[str, str]] = {
    "proposal": later("Proposals"),
    "decision": later("Decisions"),
    "connection": later("Connections"),
    "policy": later("Policies"),
    "repository": later("Repositories"),
    "restore_point": later("Restore points"),
    "membership": later("People"),
    "project": later("Projects"),
    "tenant": later("Settings of the tenant"),
    "signing_key": later("Signing keys"),
    "webhook": later("Webhooks"),
    "agent": later("Refused agents"),
}
"""The first words of the kinds, as a person may ask for them."""
PLACES: Final[Mapping[str, str]] = {
    "proposal": "/proposals/",
    "decision": "/proposals/",
    "restore_point": "/proposals/",
    "connection": "/connections/",
    "policy": "/connections/",
    "agent": "/connections/",
    "repository": "/repositories/",
}
"""Where the page is of what an entry names, by the first word of its kind."""
_WORDS: Final[Mapping[str, str]] = {
    "proposal.pending": later("A proposal was made"),
    "proposal.approved": later("A proposal was approved"),
    "proposal.executing": later("The writer began with a proposal"),
    "proposal.executed": later("A proposal was executed"),
    "proposal.stale": later("A proposal became stale"),
    "proposal.failed": later("A proposal failed"),
    "proposal.declined": later("A proposal was declined"),
    "proposal.cancelled": later("A proposal was withdrawn"),
    "proposal.expired": later("A proposal expired"),
    "proposal.signed": later("A commit of a proposal was signed"),
    "proposal.wanted_again": later("An agent was asked to propose again"),
    "decision.approve": later("Somebody approved"),
    "decision.decline": later("Somebody declined"),
    "decision.changes": later("Somebody asked for changes"),
    "decision.refused": later("A decision was not taken: {code}"),
    "connection.added": later("A connection was granted"),
    "connection.granted": later("A connection was granted"),
    "connection.denied": later("A connection was not granted"),
    "connection.used_code": later("A connection took its first token"),
    "connection.tokens_revoked": later("A connection gave its tokens back"),
    "connection.replay_stopped": later("A token or code was used twice, and its connection lost its tokens"),
    "connection.live": later("A connection goes on"),
    "connection.paused": later("A connection was paused"),
    "connection.revoked": later("A connection was revoked"),
    "policy.added": later("A clause was added to a policy: {clause}"),
    "policy.removed": later("A clause was taken from a policy: {clause}"),
    "repository.added": later("A repository was added"),
    "repository.agents_may_propose": later("Whether agents may propose in a repository was changed"),
    "repository.signed_approvals": later("Whether a repository takes only signed approvals was changed"),
    "repository.live": later("A repository goes on"),
    "repository.paused": later("A repository was paused"),
    "repository.revoked": later("A repository was ended"),
    "restore_point.dropped": later("A restore point was dropped"),
    "membership.added": later("A person was let into a project: {role}"),
    "membership.role": later("A person has another role: {was} → {role}"),
    "membership.live": later("A person may act again"),
    "membership.paused": later("A person was paused"),
    "membership.revoked": later("A person was taken out of a project"),
    "project.added": later("A project was added"),
    "project.live": later("A project goes on"),
    "project.paused": later("A project was paused"),
    "project.revoked": later("A project was ended"),
    "tenant.added": later("The tenant was made"),
    "tenant.limits": later("Limits were changed"),
    "tenant.sign_commits": later("Whether commits are signed was changed"),
    "signing_key.added": later("A signing key was made"),
    "signing_key.retired": later("A signing key was retired"),
    "signing_key.sealed_anew": later("A signing key was sealed anew"),
    "webhook.added": later("A webhook was added"),
    "webhook.resumed": later("A webhook was switched on again"),
    "webhook.removed": later("A webhook was taken away"),
    "agent.denied": later("An agent was refused at an address for people"),
}


_NAMED: Final = ("clause", "code", "role", "was")
"""What sentences name of an entry's details."""


def words(kind: str, details: Json) -> Markup:
    """One entry, with what its details name."""
    message = _WORDS.get(kind)
    if message is None:
        return Markup("<code>{}</code>").format(Visible().line(kind))
    told = {name: Visible().line(str(details.get(name, ""))) for name in _NAMED}
    return phrase(gettext(message), **told)

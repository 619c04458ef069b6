"""One error type inside, one table of codes, one mapping per wire.

A caller can meet every code below. `status` is the HTTP status of the owner API; over MCP each of them is a result
with `isError` (except where PROTOCOL names a transport error). `todo` says what to do next.
"""

from enum import Enum
from typing import Any, NamedTuple

from service.kit.language import gettext


class Wire(NamedTuple):
    """How a code leaves the service: its stable name, the HTTP status, and what the caller can do next."""

    name: str
    status: int
    todo: str


class Code(Enum):
    """Every code a caller can meet."""

    # What was sent cannot be read.
    INVALID_JSON = Wire("invalid_json", 400, "Send one JSON value in UTF-8 without duplicate keys.")
    INVALID_REQUEST = Wire("invalid_request", 400, "Correct the request as the message says.")
    PAYLOAD_TOO_LARGE = Wire("payload_too_large", 413, "Send less in one call.")
    TOO_SLOW = Wire("too_slow", 408, "Send the whole request at once.")
    METHOD_NOT_ALLOWED = Wire("method_not_allowed", 405, "Use the method that the Allow header names.")
    HOST_REJECTED = Wire("host_rejected", 400, "Call the service by its own name.")
    INVALID_ARGUMENT = Wire("invalid_argument", 422, "Correct the named field and call again.")
    INVALID_CURSOR = Wire("invalid_cursor", 400, "Start again without a cursor.")
    PATH_REJECTED = Wire("path_rejected", 422, "Choose another path.")
    REF_REJECTED = Wire("ref_rejected", 422, "Choose another branch or tag name.")
    TEXT_REJECTED = Wire("text_rejected", 422, "Remove what the message names and call again.")

    # Who asks, and whether he may.
    UNAUTHENTICATED = Wire("unauthenticated", 401, "Connect again to get a new token.")
    INSUFFICIENT_SCOPE = Wire("insufficient_scope", 403, "Ask the owner for the scope that the challenge names.")
    AGENT_SCOPE_DENIED = Wire("agent_scope_denied", 403, "Only a person signed in with a browser may do this.")
    SIGN_IN_REFUSED = Wire("sign_in_refused", 401, "Try again, or sign in another way.")
    SIGN_IN_REQUIRED = Wire("sign_in_required", 401, "Sign in with a browser first.")
    FORBIDDEN = Wire("forbidden", 403, "Ask an owner of this project.")
    CSRF_REJECTED = Wire("csrf_rejected", 403, "Load the page again and repeat the action there.")
    ORIGIN_REJECTED = Wire("origin_rejected", 403, "Call the service from its own pages or without an Origin header.")
    POLICY_DENIED = Wire("policy_denied", 403, "Propose within what the message says is allowed.")
    PROPOSALS_OFF = Wire("proposals_off", 403, "Ask the owner to let agents propose in this repository.")
    NOT_FOUND = Wire("not_found", 404, "List what you can reach and use an id from there.")
    RATE_LIMITED = Wire("rate_limited", 429, "Wait as long as Retry-After says.")

    LAST_OWNER = Wire("last_owner", 409, "Make somebody else an owner of the project first.")

    # The proposal.
    KEY_REUSED = Wire(
        "idempotency_key_reused_with_different_body", 409, "Use a new idempotency key for a different request."
    )
    TOO_MANY_PENDING = Wire("too_many_pending", 429, "Wait for a decision or cancel a waiting proposal.")
    BASE_MOVED = Wire("base_moved", 409, "Read the current head and propose on it.")
    NOTHING_TO_CHANGE = Wire("nothing_to_change", 422, "Leave out what is already so.")
    FILE_EXISTS = Wire("file_exists", 409, "Use update with the current blob id, or choose another path.")
    FILE_MISSING = Wire("file_missing", 409, "Use create, or correct the path.")
    BLOB_MISMATCH = Wire("blob_mismatch", 409, "Read the file again and propose on what it is now.")
    PATH_OCCUPIED = Wire("path_occupied", 409, "Choose a path that no file or directory stands in the way of.")
    BRANCH_MISSING = Wire("branch_missing", 404, "List the branches and use one of them.")
    BRANCH_EXISTS = Wire("branch_exists", 409, "Choose another name, or propose on the branch that is there.")
    TAG_EXISTS = Wire("tag_exists", 409, "Choose another name; a tag that is there does not move.")
    COMMIT_MISSING = Wire("commit_missing", 404, "Name a branch, a tag or a whole commit id of this repository.")
    CONFLICTS = Wire("conflicts", 409, "Read the conflicts, and propose what both sides can live with.")
    NOT_FAST_FORWARD = Wire("not_fast_forward", 409, "Merge with a merge commit or squash, or rebase first.")
    UNRELATED_HISTORIES = Wire("unrelated_histories", 409, "Name commits that have an ancestor in common.")
    MERGE_COMMIT = Wire("merge_commit", 422, "Say with mainline which parent counts, or name other commits.")
    COMMIT_REJECTED = Wire("commit_rejected", 422, "Name commits that can be repeated as they are.")
    PATCH_REJECTED = Wire("patch_rejected", 422, "Make the patch anew on the branch as it is now.")
    EDIT_MISMATCH = Wire("edit_mismatch", 409, "Read the file again; each search text must occur as often as said.")
    NOT_A_SUBMODULE = Wire("not_a_submodule", 409, "Name the path of a submodule that is there.")
    NOT_RESTORABLE = Wire("not_restorable", 409, "Read the restore point and name what it kept.")
    NOT_MERGED = Wire("not_merged", 409, "Merge the branches first; only merged ones are deleted.")
    TOO_MUCH_TO_REVIEW = Wire("too_much_to_review", 422, "Propose it in smaller parts.")
    OUT_OF_TIME = Wire("out_of_time", 503, "Ask for less in one proposal, or try again.")

    # The decision.
    CARD_CHANGED = Wire("card_changed", 409, "Read the card again before you decide.")
    WARNINGS_OPEN = Wire("warnings_not_acknowledged", 409, "Acknowledge each warning that the card names.")
    NOT_SHOWN = Wire("not_shown_in_full", 409, "Open every file of the card in this session, then decide.")
    CONFIRMATION_OPEN = Wire("confirmation_missing", 409, "Type what the card asks for before you approve.")
    SIGNATURE_NEEDED = Wire("signature_needed", 409, "Approve it in a browser, with a passkey that signs.")
    SIGNATURE_REFUSED = Wire("signature_refused", 409, "Approve it again, and let the passkey that is asked sign.")
    NOT_TOO_LATE = Wire("not_too_late", 409, "Only what became stale or expired can be asked for again.")
    PROOF_NEEDED = Wire("proof_needed", 403, "Show that it is you at /prove, then decide again.")
    NOTHING_TO_UNDO = Wire("nothing_to_undo", 409, "Only what was executed and can be taken back has an undo.")
    PROPOSAL_ENDED = Wire("proposal_ended", 409, "Nothing can be decided here any more.")
    NOT_DIVISIBLE = Wire("not_divisible", 409, "Approve or decline it whole.")
    CHOOSE_SOME = Wire("choose_some", 422, "Choose some of it, and not all.")
    NOT_A_PART = Wire("not_a_part", 409, "Decline it, or let its agent withdraw it.")
    OWNERS_PART = Wire("owners_part", 409, "An owner approves this part, or withdraws it.")
    NOT_PENDING = Wire("not_pending", 409, "Only a waiting proposal can be withdrawn.")

    # The writer.
    SIGNING_KEY_UNUSABLE = Wire(
        "signing_key_unusable", 503, "Ask the operator to mend the signing key, then propose it again."
    )
    COULD_NOT_WRITE = Wire(
        "could_not_write", 503, "Ask the operator to look at the writer's log, then propose it again."
    )
    MANIFEST_DIFFERS = Wire("manifest_differs", 503, "Ask the operator to look at the writer's log; propose it again.")
    SIGNATURE_DIFFERS = Wire(
        "signature_differs", 503, "Ask the operator to look at the writer's log; propose it again."
    )

    # Other services.
    ADDRESS_REFUSED = Wire("address_refused", 422, "Name a public https address, or let the operator allow the host.")
    UNREACHABLE = Wire("unreachable", 502, "Try again later; if it stays so, ask the operator.")

    # Administration.
    NAME_TAKEN = Wire("name_taken", 409, "Choose another name.")
    NOT_A_REPOSITORY = Wire("not_a_repository", 422, "Name a Git repository: a folder, a bundle or a URL.")

    # The service itself.
    REPOSITORY_DAMAGED = Wire("repository_damaged", 503, "Ask the operator to look at the repository.")
    UNAVAILABLE = Wire("unavailable", 503, "Try again in a moment; a repeated key is safe.")
    STORAGE_FULL = Wire("storage_full", 507, "Ask the operator for space; reads go on.")
    INTERNAL = Wire("internal", 500, "Report the id of this error to the operator.")


class Refusal(Exception):
    """A call is refused for a reason its caller can understand.

    Args:
        code: the stable code.
        message: one sentence for a person, free of secrets and of other tenants' things.
        details: what a program may want: `field`, `limit`, `value`, `head`, … (JSON values only).
    """

    def __init__(self, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @property
    def said(self) -> str:
        """The message, in the language that is spoken."""
        return gettext(self.message)

    def body(self) -> dict[str, Any]:
        """The error as every wire shows it: code, message, what to do next, details."""
        wire = self.code.value
        return {"code": wire.name, "message": self.said, "next": gettext(wire.todo), **self.details}

"""What the owner API answers, as the types that its description is generated from."""

from typing import Literal

from service.contract.data import Json
from service.contract.ports import Answer


class SessionAnswer(Answer):
    """Who is signed in, and the token that a change carries in `X-CSRF-Token`."""

    email: str
    tenant: str
    csrf: str


class SigningAnswer(Answer):
    """Whether commits are signed, and the file by which `git verify-commit` knows every key that ever signed one."""

    sign_commits: bool
    allowed_signers: str


class ProposedAnswer(Answer):
    """The proposal that was made, had been made before, or is wanted again."""

    proposal_id: str


class SaidNote(Answer):
    """A code with its parameters, and what it says; `name` is how a warning is acknowledged."""

    name: str
    code: str
    at: str
    params: Json
    says: str


class ProposalLine(Answer):
    """One proposal in a list; times are RFC 3339, UTC."""

    proposal_id: str
    project: str
    repository: str
    connection: str
    client: str
    state: str
    created_at: str
    expires_at: str
    headline: SaidNote
    message: str
    warnings: list[SaidNote]
    branch_moved: bool


class ProposalList(Answer):
    """A page of one list with how many are in each; lists other than "waiting" are counted up to 1,000, and 1,001 says
    that there are more. `matching`: how many of what waits match, on all pages. `after`: asks for the next page.
    """

    show: str
    counts: dict[str, int]
    matching: int | None
    proposals: list[ProposalLine]
    after: str | None


class GlanceAnswer(Answer):
    """How many things wait, and a mark that changes when the named proposal does."""

    waiting: int
    mark: str | None


class FileSide(Answer):
    """A file before or after; `mode` is Git's, in octal digits. A submodule has neither bytes nor SHA-256."""

    mode: str
    bytes: int | None = None
    sha256: str | None = None


class FileAnswer(Answer):
    """One path of the net change; `sent`: it was sent in full to this session, which an approval needs of each."""

    place: int
    sent: bool
    path: str
    old_path: str | None
    old: FileSide | None
    new: FileSide | None


class Content(Answer):
    """A file's content: as text where it is UTF-8, else in base64."""

    encoding: Literal["utf-8", "base64"]
    data: str


class FileContents(Answer):
    """One file in full. Having asked for each is what lets this session approve; `unsent`: how many are left."""

    place: int
    of: int
    card_digest: str
    path: str
    old: Content | None
    new: Content | None
    unsent: int


class PinAnswer(Answer):
    """A pinned ref, where it was and where it is now; `ahead`: by how many commits."""

    ref: str
    seen: str
    current: str
    holds: bool
    ahead: int | None


class SectionAnswer(Answer):
    """Notes that belong together."""

    code: str
    notes: list[SaidNote]


class DecisionAnswer(Answer):
    """What a person decided."""

    verdict: str
    by: str
    note: str
    at: str


class OutcomeAnswer(Answer):
    """How it ended; only what applies is there."""

    commit: str | None = None
    head: str | None = None
    reason: str | None = None
    message: str | None = None
    approved_part: str | None = None


class CardAnswer(Answer):
    """Everything a decision is about. `part_of`: the proposal of which this is a part; `parts`: its own that wait;
    `divisible`: whether a part of it can be chosen.
    """

    proposal_id: str
    tenant: str
    project: str
    repository: str
    branch: str
    connection: str
    client: str
    state: str
    created_at: str
    expires_at: str
    card_digest: str
    headline: SaidNote
    agent_words: dict[str, str]
    warnings: list[SaidNote]
    sections: list[SectionAnswer]
    files: list[FileAnswer]
    pins: list[PinAnswer]
    commit_preview: str
    may_decide: bool
    by_owner: bool
    may_undo: bool
    may_ask_again: bool
    wanted_again: str | None
    part_of: str | None
    parts: list[str]
    divisible: bool
    decision: DecisionAnswer | None
    outcome: OutcomeAnswer | None


class DecidedAnswer(OutcomeAnswer):
    """How a decision ended; `replayed`: it had been so already."""

    proposal_id: str
    status: str
    replayed: bool


class SignatureAsked(Answer):
    """What an authenticator is asked to sign; bytes in base64url without padding.

    `draft` names the approval at the second step, `credentials` are those that may sign.
    """

    draft: str
    challenge: str
    credentials: list[str]
    rp_id: str
    seconds: int


class UnknownOutcome(Answer):
    """The writer has not answered in time; the same decision again, or `ask`, tells how it ended."""

    code: str
    proposal_id: str
    ask: str

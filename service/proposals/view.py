"""What the owner's pages and the owner API show, as plain values, and the questions that they ask.

Codes, parameters and bytes: no HTML and no sentences. Every time is the database's, so that a page says "in 5 minutes"
by the clock that ends the wait.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol
from uuid import UUID

from service.contract.answers import State
from service.contract.data import Oid
from service.contract.parts import Hunk
from service.contract.plan import Note, ReviewCard
from service.kit.actor import Actor
from service.kit.errors import Refusal
from service.proposals.coloured import NO_COLOURS, KnownColours
from service.proposals.ports import Answer, Prepared, Verdict
from service.repositories.colour import Key

Show = Literal["waiting", "missed", "today", "decided", "stale", "ended"]

_DECIDED: Final[tuple[State, ...]] = ("approved", "executing", "executed", "failed", "declined")
SHOWN: Final[Mapping[Show, tuple[State, ...]]] = {
    "waiting": ("pending",),
    "missed": ("expired",),
    "today": _DECIDED,
    "decided": _DECIDED,
    "stale": ("stale",),
    "ended": ("cancelled",),
}
"""The inbox's lists and the states that are in each; "today" is the last 24 hours of what was decided."""
COUNT_MOST: Final = 1_000
"""A list other than "waiting" is counted so far; one more says that there are more."""

NO_PROPOSAL: Final = "There is no such proposal."
"""The sentence of NOT_FOUND, one for an id that is malformed, unknown or another tenant's."""


@dataclass(frozen=True)
class InboxLine:
    """One proposal in a list.

    Attributes:
        message: the agent's commit message, or its reason where there is no commit.
        ended_at: when it came to its last state; None while it has not.
        branch_moved: a pinned ref is not where the card says it is. Asked for pending ones only.
        part: an owner chose it out of another proposal.
    """

    id: UUID
    project: str
    repository: str
    connection: str
    client: str
    state: State
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    headline: Note
    message: str
    warnings: tuple[Note, ...]
    branch_moved: bool
    part: bool = False


@dataclass(frozen=True)
class Filter:
    """Which proposals of a list are asked for. What is None or empty asks for all.

    Attributes:
        repository: its id.
        proposer: the id of a connection, or of the person who proposed.
        kind: of the operation.
        group: as the agent named it.
        soon: only what expires within four hours.
        warned: only what has warnings.
        words: each of these words occurs in the message, the reason, the headline's facts, a branch or a path.
    """

    repository: UUID | None = None
    proposer: UUID | None = None
    kind: str = ""
    group: str = ""
    soon: bool = False
    warned: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Something that a list can be filtered by: the value, and what it is called."""

    value: str
    name: str


@dataclass(frozen=True)
class Choices:
    """What occurs in a list, by name: among its newest 2,000 where it is longer."""

    repositories: tuple[Choice, ...] = ()
    proposers: tuple[Choice, ...] = ()
    kinds: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class InboxView:
    """One page of a list. What waits comes by repository and proposer, the group with the oldest first, oldest first in
    each; other lists newest first.

    Attributes:
        counts: how many are in each list, whatever is filtered; see `COUNT_MOST`.
        after: where the next page begins; "" on the last.
        matching: how many of what waits match the filter, on all pages; None for other lists.
        tenants: the tenants of this person.
        lacks: what has to be there before anything can come: "repository", "connection", or "" if nothing lacks.
    """

    now: datetime
    show: Show
    counts: Mapping[Show, int]
    lines: tuple[InboxLine, ...]
    after: str = ""
    matching: int | None = None
    choices: Choices = Choices()
    tenants: tuple[Choice, ...] = ()
    lacks: Literal["", "repository", "connection"] = ""


@dataclass(frozen=True)
class Glance:
    """How many things wait, and how one proposal stands: its state, and each pinned ref with where it is."""

    waiting: int
    state: State | None = None
    refs: tuple[tuple[str, Oid], ...] = ()


@dataclass(frozen=True)
class FileView:
    """One path of the net change, with both contents whole.

    Attributes:
        old_path: where it was, if it was renamed.
        old_mode: Git's number; 0 where there was nothing.
        new_mode: Git's number; 0 where nothing will be.
        of: where it changes, if in several places: a branch, `tag NAME`, or the first line of a commit's message.
        seen: the person who asks has marked this change as seen.
    """

    path: bytes
    old_path: bytes | None
    old_mode: int
    new_mode: int
    old: bytes | None
    new: bytes | None
    of: str = ""
    seen: bool = False


@dataclass(frozen=True)
class PinView:
    """A pinned ref, and where it is now.

    Attributes:
        seen: the commit when the proposal was made; NULL for an absent ref.
        current: the commit now; NULL for an absent ref.
        holds: what was pinned is still true.
        ahead: commits on the ref since `seen`, where that is known.
        overlaps: whether what they changed is among the paths of this proposal; None where it was not asked.
        came: of a ref that moved on, the newest of those commits, ten at most: ids and subjects.
        touched: which of the paths of this proposal they changed, twenty at most.
    """

    ref: str
    seen: Oid
    current: Oid
    holds: bool
    ahead: int | None = None
    overlaps: bool | None = None
    came: tuple[tuple[Oid, str], ...] = ()
    touched: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class DecisionView:
    """What a person decided."""

    verdict: Verdict
    email: str
    note: str
    at: datetime


@dataclass(frozen=True)
class Outcome:
    """How it ended.

    Attributes:
        commit: what was executed.
        head: of a stale one, where the ref is instead.
        code: why it failed, as an error code; "" otherwise.
        message: the same as that error's sentence.
        part: the part of it that was approved.
    """

    commit: Oid | None = None
    head: Oid | None = None
    code: str = ""
    message: str = ""
    part: UUID | None = None


@dataclass(frozen=True)
class AroundLine:
    """Another proposal that waits in the same repository.

    Attributes:
        overlap: it touches one of the same paths, or moves one of the same refs.
        grouped: its agent put it in the same group.
    """

    id: UUID
    headline: Note
    connection: str
    overlap: bool
    grouped: bool = False


@dataclass(frozen=True)
class CardView:
    """Everything an owner decides on.

    Attributes:
        tenant: for the links, which carry it.
        branch: the short name of the first ref that moves.
        refs: the full names of all refs that move.
        digest: of the card, 64 hexadecimal digits; a decision names it.
        files: the whole net change, in byte order of the path.
        commit_preview: the commit as it will be, as far as it is fixed, byte for byte what `git cat-file` would print.
        around: live facts, never part of the card.
        may_decide: the person's role lets him decide here.
        waiting: how many proposals wait in this tenant.
        hindrance: why an approval would be refused now, whatever the card says; a live fact like `around`.
        by_owner: an owner proposed it, not an agent; `connection` and `client` are his name then.
        may_undo: it was executed, something takes it back, and nothing does so yet.
        sent: the places, from 1, of the files that were sent in full to this session.
        may_ask_again: it came too late, and its agent can be asked to propose it anew.
        wanted_again: what the agent was told when it was; None where it was not.
        signs: this person's approvals are signed with a passkey: it is asked for, and nothing less approves.
        signature_wanted: the repository takes only such approvals.
        part_of: the proposal of which an owner chose this part.
        parts: the parts of it that wait.
        divisible: a part of it can be chosen.
        colours: what is known of the colours of its files.
    """

    id: UUID
    tenant: UUID
    repository_id: UUID
    project: str
    repository: str
    branch: str
    state: State
    created_at: datetime
    expires_at: datetime
    now: datetime
    connection: str
    client: str
    card: ReviewCard
    digest: str
    pins: tuple[PinView, ...]
    files: tuple[FileView, ...]
    commit_preview: str
    decision: DecisionView | None
    outcome: Outcome | None
    around: tuple[AroundLine, ...]
    may_decide: bool
    waiting: int
    hindrance: Refusal | None = None
    refs: tuple[str, ...] = ()
    by_owner: bool = False
    may_undo: bool = False
    sent: frozenset[int] = frozenset()
    may_ask_again: bool = False
    wanted_again: str | None = None
    signs: bool = False
    signature_wanted: bool = False
    part_of: UUID | None = None
    parts: tuple[UUID, ...] = ()
    divisible: bool = False
    colours: KnownColours = NO_COLOURS


@dataclass(frozen=True)
class OneFile:
    """One file of a proposal, whole.

    Attributes:
        place: which, from 1.
        of: how many there are.
        unsent: how many of them are not sent in full to this session, this one left out.
        signs: this person's approvals are signed with a passkey.
    """

    proposal: UUID
    tenant: UUID
    digest: str
    place: int
    of: int
    file: FileView
    unsent: int
    signs: bool
    colours: KnownColours = NO_COLOURS


@dataclass(frozen=True)
class Marked:
    """A file of a proposal that was marked as seen, or whose mark was taken off.

    Attributes:
        place: which, from 1.
        sent: it was sent in full to this session.
        count: how many of the files are marked now.
        of: how many there are.
    """

    proposal: UUID
    tenant: UUID
    place: int
    file: FileView
    sent: bool
    count: int
    of: int
    colours: KnownColours


@dataclass(frozen=True)
class PartView:
    """What can be chosen of a proposal.

    Attributes:
        id: by which it is chosen.
        files: one, or several that only stand together.
        hunks: the groups of lines of the one file that can be chosen by themselves; none where it is taken whole.
    """

    id: str
    files: tuple[FileView, ...]
    hunks: tuple[Hunk, ...] = ()


@dataclass(frozen=True)
class PartsView:
    """A proposal as it is divided."""

    id: UUID
    tenant: UUID
    project: str
    repository: str
    branch: str
    headline: Note
    parts: tuple[PartView, ...]
    waiting: int
    colours: KnownColours = NO_COLOURS


@dataclass(frozen=True)
class Verdicts:
    """What an owner says: the verdict, the digest of the card he saw, the warnings he ticked, what he typed to confirm
    the strongest of them, a note, and why he lets through what wants a reason.
    """

    verdict: Verdict
    digest: str
    acknowledged: frozenset[str] = frozenset()
    note: str = ""
    confirmed: frozenset[str] = frozenset()
    reason: str = ""


@dataclass(frozen=True)
class DecisionResult:
    """What came of a decision.

    Attributes:
        status: declined, executed, stale or failed; approved or executing when the writer had not answered in time.
        replayed: it was so already.
        outcome: of an ended one.
    """

    proposal_id: UUID
    status: State
    replayed: bool
    outcome: Outcome = field(default_factory=Outcome)


@dataclass(frozen=True)
class Decider:
    """A person who decides: an owner's actor with the name and address that go into the commit."""

    actor: Actor
    name: str
    email: str


class Inbox(Protocol):
    """The lists of proposals."""

    async def read(self, actor: Actor, show: Show, only: Filter, after: str) -> InboxView:
        """One page; `after` is where it begins, "" for the first. Raises INVALID_CURSOR."""

    async def members(self, tenant_id: UUID, people: Iterable[UUID]) -> set[UUID]:
        """Who of these people is still in a project of the tenant."""

    async def glance(self, actor: Actor, proposal_id: UUID | None) -> Glance:
        """What an open page looks at again when something changed."""


class Cards(Protocol):
    """One proposal, and what is done there."""

    async def read(self, actor: Actor, proposal_id: UUID) -> CardView: ...

    async def file(self, actor: Actor, proposal_id: UUID, place: int) -> OneFile:
        """One of its files, whole. Raises NOT_FOUND where there is no such place."""

    async def sent(self, actor: Actor, proposal_id: UUID, digest: str, *, of: int, places: Collection[int]) -> None:
        """Store that the card with this digest was sent to the actor's session, and these of its files in full."""

    async def keep_colours(self, actor: Actor, made: Mapping[Key, bytes]) -> None:
        """Keep what a page had to colour, if there is room."""

    async def mark(self, actor: Actor, proposal_id: UUID, place: int, *, on: bool) -> Marked:
        """Mark one of its files as seen by this person, or take the mark off. Raises NOT_FOUND as `file`."""

    async def decide(self, who: Decider, proposal_id: UUID, said: Verdicts) -> DecisionResult:
        """Decide, and after an approval wait at most 10 seconds for the writer.

        Raises:
            Refusal: CARD_CHANGED; NOT_SHOWN; WARNINGS_OPEN; CONFIRMATION_OPEN; PROPOSAL_ENDED with `state`; FORBIDDEN.
        """

    async def prepare(self, who: Decider, proposal_id: UUID, said: Verdicts) -> Prepared | DecisionResult:
        """Fix the bytes of an approval, for its person's passkey to sign; see `proposals.signing`.

        Raises:
            Refusal: as a decision; SIGNATURE_NEEDED where the person has no passkey that signs.
        """

    async def finish(self, who: Decider, proposal_id: UUID, answer: Answer) -> DecisionResult:
        """Approve with what a passkey signed. Raises as a decision; SIGNATURE_REFUSED."""

    async def ask_again(self, who: Decider, proposal_id: UUID, note: str) -> None:
        """Tell the agent that what came too late is wanted again. Raises NOT_TOO_LATE; FORBIDDEN."""

    async def undo(self, who: Decider, proposal_id: UUID) -> UUID:
        """Propose what takes an execution back, or find what was proposed for that; gives the proposal.

        Raises:
            Refusal: NOTHING_TO_UNDO; FORBIDDEN; what keeps it from being proposed, such as CONFLICTS.
        """


class Parts(Protocol):
    """Parts of waiting proposals, for who may decide there."""

    async def read(self, who: Decider, proposal_id: UUID) -> PartsView:
        """What can be chosen. Raises PROPOSAL_ENDED; NOT_DIVISIBLE; FORBIDDEN."""

    async def choose(self, who: Decider, proposal_id: UUID, keep: Collection[str]) -> UUID:
        """Make a proposal of what was chosen, or find the one that waits with the same; gives that.

        Raises:
            Refusal: as `read`; CHOOSE_SOME; BASE_MOVED; what keeps it from being proposed.
        """

    async def withdraw(self, who: Decider, proposal_id: UUID) -> UUID:
        """Withdraw a part; gives what it is a part of. Raises NOT_A_PART; PROPOSAL_ENDED; FORBIDDEN."""

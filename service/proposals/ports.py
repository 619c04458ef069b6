"""What the life of a proposal asks of its database, as values and Protocols. `store.py` answers with PostgreSQL.

Deciding and executing see nothing else, so that the same code runs where crashes, lost answers and interleavings are
made by a seed.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from uuid import UUID

from service.contract.answers import State
from service.contract.data import Json
from service.contract.plan import MoveRef, Plan, ReviewCard
from service.grants.proof import Proof
from service.grants.standing import Proposer, Standing
from service.kit.actor import Actor
from service.repositories.placement import Place
from service.writer.intent import Intent
from service.writer.keys import LiveKey
from service.writer.passkey import Assertion, Passkey
from service.writer.provenance import Trailers, committer_email

T = TypeVar("T")
Verdict = Literal["approve", "decline", "changes"]
Shown = Literal["session", "passkey", "password", "oidc"]
"""With what it was known that the person decides: being signed in, or a fresh proof."""
Kind = Literal["execute", "expire", "maintain", "drop"]
"""What a worker may have to do: with a proposal, with a repository (maintain), with a restore point (drop)."""


@dataclass(frozen=True)
class Stored:
    """A proposal as it is stored; texts are canonical JSON. `expired` is by the database's clock.

    Of `connection` and `person` one is set: who proposed it. `parent` is the proposal of which it is a part.
    """

    id: UUID
    repository: UUID
    connection: UUID | None
    person: UUID | None
    state: State
    digest: str
    pins: str
    plan: str
    card: str
    manifest: str
    outcome: str | None
    expired: bool
    parent: UUID | None = None

    @property
    def proposer(self) -> Proposer:
        """Who made it."""
        return Proposer.of(self.connection, self.person)

    def trailers(self, committer: bytes) -> Trailers:
        """What its commits' trailers say once this person approved it."""
        return Trailers(self.id, committer_email(committer), self.connection, self.digest)


@dataclass(frozen=True)
class Approved:
    """An approved proposal with what its execution needs: staged objects, committer line, who approved, and his own
    signature in its armour where there is one.
    """

    proposal: Stored
    objects: bytes
    committer: bytes
    approver: UUID
    signature: bytes | None = None


@dataclass(frozen=True)
class Work:
    """Where a proposal's work is to be done."""

    state: State
    repository: UUID
    place: Place


@dataclass(frozen=True)
class StoredIntent:
    """An intent that was committed, with the staged objects, how often it was tried, and for how many seconds."""

    intent: Intent
    objects: bytes
    attempts: int
    age: float


@dataclass(frozen=True)
class Decision:
    """An owner's yes or no; `committer` and `at` are fixed by it."""

    proposal: UUID
    person: UUID
    session: UUID | None
    verdict: Verdict
    digest: str
    acknowledged: Sequence[str]
    note: str
    committer: bytes
    at: datetime
    proof: Shown = "session"
    signature: bytes | None = None
    reason: str = ""
    """Why what the card warns of was let through."""


@dataclass(frozen=True)
class Credential:
    """A passkey with which a person signs approvals.

    Attributes:
        id: by which an authenticator knows it.
        public_key: as WebAuthn gives it, in COSE.
        counter: how far it had counted.
    """

    id: bytes
    public_key: bytes
    counter: int


@dataclass(frozen=True)
class Draft:
    """An approval that waits for its person's signature; `good`: neither used nor too old, by the database's clock."""

    id: UUID
    proposal: UUID
    person: UUID
    session: UUID | None
    said: Json
    committer: bytes
    at: datetime
    good: bool = True


@dataclass(frozen=True)
class Prepared:
    """What the browser's authenticator is asked.

    Attributes:
        draft: names this approval at the second step.
        challenge: what is to be signed.
        credentials: the ids of those that may.
        rp_id: for which host they were made.
    """

    draft: UUID
    challenge: bytes
    credentials: tuple[bytes, ...]
    rp_id: str


@dataclass(frozen=True)
class Answer:
    """What came back: which credential, and what it says."""

    draft: UUID
    credential: bytes
    given: Assertion


@dataclass(frozen=True)
class Change:
    """One move of a proposal's state; `when` compares its expiry with the database's clock as the move is made."""

    proposal: UUID
    source: State
    target: State
    outcome: Json | None = None
    when: Literal["always", "in time", "expired"] = "always"


@dataclass(frozen=True)
class Cause:
    """Why refs moved: a proposal, executed by the writer, or somebody's push. `id` is the proposal's or the push's."""

    id: UUID
    actor: str
    proposal: bool


class Tx(Protocol):
    """A transaction bound to one tenant: all of it is committed, or none. READ COMMITTED."""

    @property
    def tenant(self) -> UUID:
        """Whose rows these are."""

    async def find(self, proposal_id: UUID, *, lock: bool = False) -> Stored | None:
        """A proposal; `lock` keeps every other change of it waiting until this transaction ends. Before a part, what it
        is a part of is locked, always.
        """

    async def parts(self, proposal_id: UUID) -> Sequence[UUID]:
        """The waiting parts of a proposal that this transaction has locked, in the order of their ids."""

    async def approved(self, proposal_id: UUID) -> Approved | None:
        """An approved proposal, locked; None when it is in any other state."""

    async def work(self, proposal_id: UUID) -> Work | None:
        """A proposal's state and place."""

    async def staged(self, proposal_id: UUID) -> bytes:
        """The objects that were staged for a proposal."""

    async def place(self, repository_id: UUID) -> Place:
        """Where a repository lies. Raises NOT_FOUND."""

    async def executing(self, repository_id: UUID) -> Sequence[UUID]:
        """The proposals of a repository that are past the point of no return and not at their end."""

    async def stand(
        self, proposer: Proposer, repository_id: UUID, approver: UUID | None = None, *, lock: bool = False
    ) -> Standing:
        """What a proposal hangs on; see `grants.standing.stand`."""

    async def change(self, what: Change) -> bool:
        """Move a state if it is as `what` says; False when it is not. Who waits for an end is woken."""

    async def proof(self, person_id: UUID, session_id: UUID | None) -> Proof:
        """What this person has to prove with, and did prove in this session lately; see `grants.proof`."""

    async def record(self, decision: Decision) -> None:
        """Store a decision."""

    async def credentials(self, person: UUID) -> Sequence[Credential]:
        """With which passkeys a person signs approvals; none: he does not."""

    async def store_draft(self, draft: Draft, seconds: int) -> None:
        """Store a draft for so many seconds, in place of this session's earlier one and of all that are too old."""

    async def take_draft(self, draft_id: UUID, proposal_id: UUID, session: UUID | None) -> Draft | None:
        """Use up a draft of this session and proposal, and give it, or how it was; None where there is none."""

    async def signed_with(self, person: UUID, email: str, credential: Credential, key: Passkey) -> None:
        """Publish the key of an approval, and keep how far the authenticator has counted."""

    async def unsent(self, proposal_id: UUID, session: UUID | None, digest: str) -> int | None:
        """How many files of a proposal were not sent in full to a session; None: not even its card."""

    async def queue(self, proposal_id: UUID, repository_id: UUID) -> None:
        """Ask a writer to execute a proposal, and wake one when this commits."""

    async def forget(self, subject: UUID, *kinds: Kind) -> None:
        """Take work on a proposal or a repository out of the queue."""

    async def postpone(self, subject: UUID, seconds: float | None = None, kind: Kind = "execute") -> None:
        """Do it later: after so many seconds, or after a pause that grows with every claim, half a minute at most."""

    async def live_key(self) -> LiveKey | None:
        """The tenant's key that signs now; see `writer.keys`."""

    async def maintain(self, repository_id: UUID) -> None:
        """Ask a writer to put a repository in order, once however often it is asked."""

    async def store_intent(self, proposal_id: UUID, epoch: int, intent: Intent, signing_key: UUID | None) -> None:
        """Store what will be written and which key signed it, in place of an earlier intent of this proposal."""

    async def intent(self, proposal_id: UUID) -> StoredIntent | None:
        """What was stored."""

    async def count_attempt(self, proposal_id: UUID) -> None:
        """One more attempt has ended without a word."""

    async def record_moves(self, cause: Cause, repository_id: UUID, moves: Sequence[MoveRef]) -> bool:
        """Store that these refs moved; False where it is stored already."""

    async def keep(self, proposal_id: UUID, repository_id: UUID, moves: Sequence[MoveRef]) -> None:
        """Store that an execution kept what these refs were, and have it dropped when the tenant's time is over."""

    async def time_left(self, restore_point_id: UUID) -> float | None:
        """The seconds until a restore point's time is over, by the database's clock; None where it was dropped, or
        where there never was one.
        """

    async def dropped(self, restore_point_id: UUID) -> bool:
        """Store that what a restore point kept is gone; False where that is stored already."""

    async def recorded(self, cause: Cause, moves: Sequence[MoveRef]) -> bool:
        """Whether these moves are stored."""

    def append(self, actor: Actor, kind: str, subject: str, **details: Any) -> None:
        """Have a ledger entry written at the commit."""


class Store(Protocol):
    """The database of one process."""

    def bound(self, tenant: UUID) -> AbstractAsyncContextManager[Tx]:
        """A transaction; commits at the end, rolls back on any exception."""

    async def repeat(self, tenant: UUID, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Do the whole of `work` in one transaction, again where PostgreSQL broke a deadlock."""


class Expects(Protocol):
    """The end of a proposal, expected."""

    async def until(self, look: Callable[[], Awaitable[T | None]], seconds: float) -> T | None:
        """Look when there is something to see, until something is found or the time is over; None then."""


class Waits(Protocol):
    """Wait for the end of a proposal."""

    def expecting(self, proposal_id: str) -> AbstractContextManager[Expects]:
        """Miss no end that comes from now on."""


class ChecksSecrets(Protocol):
    """Search again what is to be approved; see `scanning.check_secrets`. Blocking."""

    def __call__(self, path: Path, plan: Plan, card: ReviewCard, objects: bytes, reason: str, /) -> None: ...


class InThread(Protocol):
    """Run something that blocks where it holds up nobody."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...

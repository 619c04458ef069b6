"""PostgreSQL, played: READ COMMITTED, row locks that wait, rollbacks, and COMMITs without an answer."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from service.contract.data import Json
from service.contract.plan import MoveRef
from service.grants.policy import Clause
from service.grants.proof import Proof
from service.grants.standing import Member, Proposer, Standing
from service.kit.actor import Actor
from service.kit.canonical import canonical
from service.kit.database import Conflict
from service.kit.errors import Code, Refusal
from service.proposals.ports import (
    Approved,
    Cause,
    Change,
    Credential,
    Decision,
    Draft,
    Kind,
    Stored,
    StoredIntent,
    Work,
)
from service.proposals.states import FINAL
from service.repositories.placement import Place
from service.writer.intent import Intent
from service.writer.passkey import Passkey
from tests.faults.simulation.disk import Chances
from tests.faults.simulation.schedule import Killed, Process, Schedule

T = TypeVar("T")
Key = tuple[Any, ...]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LOCK_SECONDS = 3.0
ATTEMPTS_MOST = 5
PAUSE_MOST = 30
RESTORE_SECONDS = 7_776_000


@dataclass(frozen=True)
class Row:
    """A proposal's row."""

    stored: Stored
    expires_at: float
    objects: bytes


@dataclass(frozen=True)
class Right:
    """A row that rights hang on. `values` is what else it says."""

    state: str = "live"
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Queued:
    """A row of the queue."""

    repository: UUID
    due: float
    attempts: int = 0


@dataclass(frozen=True)
class Entry:
    """A ledger's entry."""

    kind: str
    subject: str
    actor: Actor
    details: Json


@dataclass(eq=False)
class Server:
    """What is committed, who holds what, and what time it says it is."""

    schedule: Schedule
    chances: Chances
    tenant: UUID
    rows: dict[Key, Any] = field(default_factory=dict)
    queued: dict[Key, Queued] = field(default_factory=dict)  # of the rows, those of the queue
    undecided: set[UUID] = field(default_factory=set)  # the proposals that are not at their end
    parts: dict[UUID, list[UUID]] = field(default_factory=dict)  # of which proposals there are parts, and which
    ledger: list[Entry] = field(default_factory=list)
    locks: dict[Key, dict["PlayedTx", str]] = field(default_factory=dict)
    open: list["PlayedTx"] = field(default_factory=list)
    skew: float = 0.0
    committed: Callable[["PlayedTx"], None] = lambda _tx: None

    def clock(self) -> float:
        return self.schedule.now + self.skew

    def store(self, process: Process) -> "PlayedStore":
        process.ends.append(lambda: self._forget(process))
        return PlayedStore(self, process)

    def _forget(self, process: Process) -> None:
        for tx in [one for one in self.open if one.process is process]:
            self.end(tx)

    def end(self, tx: "PlayedTx") -> None:
        """Let a transaction's locks go; what it wrote and did not commit is gone."""
        if tx in self.open:
            self.open.remove(tx)
        for key in tx.held:
            del self.locks[key][tx]
            if not self.locks[key]:
                del self.locks[key]
        tx.held.clear()

    def commit(self, tx: "PlayedTx") -> None:
        self.committed(tx)
        for key, row in tx.written.items():
            self.store_row(key, row)
        for key in tx.gone:
            self.rows.pop(key, None)
            self.queued.pop(key, None)
        self.ledger.extend(tx.entries)
        self.end(tx)

    def store_row(self, key: Key, row: Any) -> None:
        """What is committed from now on."""
        self.rows[key] = row
        if key[0] == "queue":
            self.queued[key] = row
        if key[0] == "proposal":
            change = self.undecided.discard if row.stored.state in FINAL else self.undecided.add
            change(key[1])
            if row.stored.parent and key[1] not in (known := self.parts.setdefault(row.stored.parent, [])):
                known.append(key[1])

    def due(self) -> bool:
        """Whether there is work."""
        clock = self.clock()
        return any(row.due <= clock for row in self.queued.values())

    def until_due(self) -> float:
        """Seconds until there is work, if no more comes."""
        return max(0.0, min((row.due for row in self.queued.values()), default=0.0) - self.clock())

    def claim(self) -> tuple[Kind, UUID] | None:
        """As the worker's CLAIM: the first that is due and that nobody holds."""
        clock = self.clock()
        due = [(row.due, key) for key, row in self.queued.items() if row.due <= clock and key not in self.locks]
        if not due:
            return None
        _, key = min(due, key=lambda one: (one[0], str(one[1])))
        self.store_row(key, replace(self.rows[key], due=clock + 3, attempts=self.rows[key].attempts + 1))
        return key[1], key[2]


@dataclass(frozen=True)
class PlayedStore:
    """The store of one process, as `proposals/ports.py` wants it."""

    server: Server
    process: Process

    @asynccontextmanager
    async def bound(self, tenant: UUID) -> AsyncIterator["PlayedTx"]:
        assert tenant == self.server.tenant
        self._reach()
        tx = PlayedTx(self.server, self.process)
        self.server.open.append(tx)
        try:
            yield tx
            self._commit(tx)
        finally:
            if self.process.alive:
                self.server.end(tx)

    def _reach(self) -> None:
        if not self.process.alive:
            raise Killed
        self.server.schedule.point()
        if self.server.schedule.chance.random() < self.server.chances.unreachable:
            raise Refusal(Code.UNAVAILABLE, "The database does not answer.")

    def _commit(self, tx: "PlayedTx") -> None:
        self._reach()
        lost = self.server.schedule.chance.random() < self.server.chances.lost_answer
        if not lost or self.server.schedule.chance.random() < 0.5:
            self.server.commit(tx)
        if lost:
            raise Refusal(Code.UNAVAILABLE, "The database does not answer.")
        self.server.schedule.point()

    async def repeat(self, tenant: UUID, work: Callable[["PlayedTx"], Awaitable[T]]) -> T:
        last = Conflict()
        for _ in range(ATTEMPTS_MOST):
            try:
                async with self.bound(tenant) as tx:
                    return await work(tx)
            except Conflict as conflict:
                last = conflict
                self.server.schedule.sleep(self.server.schedule.chance.random() * 0.1)
        raise last


@dataclass(eq=False)
class PlayedTx:
    """One transaction."""

    server: Server
    process: Process
    written: dict[Key, Any] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    held: dict[Key, None] = field(default_factory=dict)  # in the order in which they were had
    entries: list[Entry] = field(default_factory=list)

    @property
    def tenant(self) -> UUID:
        return self.server.tenant

    def get(self, *key: Any) -> Any:
        """A row as this statement sees it; None where there is none."""
        if key in self.gone:
            return None
        return self.written.get(key, self.server.rows.get(key))

    def put(self, key: Key, row: Any) -> None:
        self.gone.discard(key)
        self.written[key] = row

    def hold(self, *key: Any, mode: str = "update") -> None:
        """Lock a row until the end, waiting for who holds it. Raises Conflict after the lock's time."""
        self.statement()

        def free() -> bool:
            others = {tx: held for tx, held in self.server.locks.get(key, {}).items() if tx is not self}
            return not others or (mode == "share" and set(others.values()) == {"share"})

        if not self.server.schedule.wait_for(free, LOCK_SECONDS):
            raise Conflict
        holders = self.server.locks.setdefault(key, {})
        if holders.get(self) != "update":
            holders[self] = mode
        self.held[key] = None

    def statement(self) -> None:
        if not self.process.alive:
            raise Killed
        self.server.schedule.point()

    async def find(self, proposal_id: UUID, *, lock: bool = False) -> Stored | None:
        if lock:
            self.statement()
            row = self.get("proposal", proposal_id)
            if row is not None and row.stored.parent is not None:
                self.hold("proposal", row.stored.parent)
            self.hold("proposal", proposal_id)
        else:
            self.statement()
        row = self.get("proposal", proposal_id)
        return None if row is None else self._stored(row)

    async def parts(self, proposal_id: UUID) -> Sequence[UUID]:
        self.statement()
        found = sorted(self.server.parts.get(proposal_id, ()))
        return [one for one in found if self.get("proposal", one).stored.state == "pending"]

    def _stored(self, row: Row) -> Stored:
        return replace(row.stored, expired=row.expires_at <= self.server.clock())

    async def approved(self, proposal_id: UUID) -> Approved | None:
        self.hold("proposal", proposal_id)
        row = self.get("proposal", proposal_id)
        if row is None or row.stored.state != "approved":
            return None
        decision = self.get("decision", proposal_id)
        return Approved(self._stored(row), row.objects, decision.committer, decision.person, decision.signature)

    async def work(self, proposal_id: UUID) -> Work | None:
        self.statement()
        row = self.get("proposal", proposal_id)
        if row is None:
            return None
        return Work(row.stored.state, row.stored.repository, self._place(row.stored.repository))

    async def staged(self, proposal_id: UUID) -> bytes:
        self.statement()
        return bytes(self.get("proposal", proposal_id).objects)

    async def place(self, repository_id: UUID) -> Place:
        self.statement()
        return self._place(repository_id)

    def _place(self, repository_id: UUID) -> Place:
        return Place(Path(str(repository_id)), 1)

    async def executing(self, repository_id: UUID) -> Sequence[UUID]:
        self.statement()
        found = [self.server.rows["proposal", one].stored for one in sorted(self.server.undecided)]
        return [one.id for one in found if (one.repository, one.state) == (repository_id, "executing")]

    async def stand(
        self, _proposer: Proposer, _repository: UUID, approver: UUID | None = None, *, lock: bool = False
    ) -> Standing:
        keys = [("right", what) for what in ("tenant", "project", "repository", "connection")]
        people = sorted({self.get("right", "connection").values["granter"], approver} - {None})
        for key in (*keys, *(("right", person) for person in people)):
            if lock:
                self.hold(*key, mode="share")
        self.statement()
        return self.standing(people)

    def standing(self, people: Sequence[UUID]) -> Standing:
        """The rights as they are."""
        rows = {what: self.get("right", what) for what in ("tenant", "project", "repository", "connection")}
        members = {person: self.get("right", person) for person in people}
        return Standing(
            now=EPOCH + timedelta(seconds=self.server.clock()),
            states={what: row.state for what, row in rows.items()},
            in_time=True,
            granted=True,
            granter=rows["connection"].values["granter"],
            by_owner=False,
            members={who: Member(row.values["role"], row.state) for who, row in members.items() if row},
            agents_may_propose=rows["repository"].values["agents_may_propose"],
            clauses=tuple(Clause("deny", "branch", name) for name in rows["connection"].values["denied"]),
            connection_name="Claude",
            pending_most=20,
            proposal_seconds=86_400,
            sign_commits=False,
            signed_approvals=False,
        )

    async def change(self, what: Change) -> bool:
        self.hold("proposal", what.proposal)
        row = self.get("proposal", what.proposal)
        if row is None:
            return False
        expired = row.expires_at <= self.server.clock()
        if row.stored.state != what.source or {"always": False, "in time": expired, "expired": not expired}[what.when]:
            return False
        outcome = row.stored.outcome if what.outcome is None else canonical(what.outcome).decode()
        self.put(
            ("proposal", what.proposal), replace(row, stored=replace(row.stored, state=what.target, outcome=outcome))
        )
        return True

    async def proof(self, _person: UUID, session: UUID | None) -> Proof:
        self.statement()
        return self.get("proof", session) or Proof(able=False, by=None)

    async def record(self, decision: Decision) -> None:
        self.hold("decision", decision.proposal)
        if self.get("decision", decision.proposal) is not None:
            raise ValueError("a proposal is decided once")
        self.put(("decision", decision.proposal), decision)

    async def credentials(self, _person: UUID) -> Sequence[Credential]:
        self.statement()
        return ()

    async def store_draft(self, draft: Draft, _seconds: int) -> None:
        raise NotImplementedError  # nobody here has a passkey

    async def take_draft(self, draft_id: UUID, proposal_id: UUID, session: UUID | None) -> Draft | None:
        raise NotImplementedError

    async def signed_with(self, person: UUID, email: str, credential: Credential, key: Passkey) -> None:
        raise NotImplementedError

    async def unsent(self, _proposal_id: UUID, _session: UUID | None, _digest: str) -> int:
        self.statement()
        return 0

    async def queue(self, proposal_id: UUID, repository_id: UUID) -> None:
        self.statement()
        self.put(("queue", "execute", proposal_id), Queued(repository_id, self.server.clock()))

    async def forget(self, proposal_id: UUID, *kinds: Kind) -> None:
        for kind in kinds:
            self.hold("queue", kind, proposal_id)
            self.gone.add(("queue", kind, proposal_id))

    async def postpone(self, proposal_id: UUID, seconds: float | None = None, kind: Kind = "execute") -> None:
        self.hold("queue", kind, proposal_id)
        row = self.get("queue", kind, proposal_id)
        if row is not None:
            pause = min(PAUSE_MOST, 2.0 ** min(row.attempts, 10)) if seconds is None else seconds
            self.put(("queue", kind, proposal_id), replace(row, due=self.server.clock() + pause))

    async def maintain(self, _repository_id: UUID) -> None:
        self.statement()

    async def live_key(self) -> None:
        self.statement()

    async def store_intent(self, proposal_id: UUID, epoch: int, intent: Intent, _signing_key: UUID | None) -> None:
        self.hold("intent", proposal_id)
        before = self.get("intent", proposal_id)
        attempts, since = (before[1], before[2]) if before else (1, self.server.clock())
        self.put(("intent", proposal_id), (intent, attempts, since, epoch))

    async def intent(self, proposal_id: UUID) -> StoredIntent | None:
        self.statement()
        found = self.get("intent", proposal_id)
        if found is None:
            return None
        objects = self.get("proposal", proposal_id).objects
        return StoredIntent(found[0], objects, found[1], self.server.clock() - found[2])

    async def count_attempt(self, proposal_id: UUID) -> None:
        self.hold("intent", proposal_id)
        intent, attempts, since, epoch = self.get("intent", proposal_id)
        self.put(("intent", proposal_id), (intent, attempts + 1, since, epoch))

    async def record_moves(self, cause: Cause, repository_id: UUID, moves: Sequence[MoveRef]) -> bool:
        self.hold("moves", cause.id)
        if self.get("moves", cause.id) is not None:
            return False
        self.put(("moves", cause.id), (cause, repository_id, tuple(moves)))
        return True

    async def keep(self, proposal_id: UUID, repository_id: UUID, moves: Sequence[MoveRef]) -> None:
        self.hold("restore point", proposal_id)
        if self.get("restore point", proposal_id) is None:
            until = self.server.clock() + RESTORE_SECONDS
            self.put(("restore point", proposal_id), (repository_id, tuple(moves), until))

    async def time_left(self, restore_point_id: UUID) -> float | None:
        self.statement()
        found = self.get("restore point", restore_point_id)
        return None if found is None else found[2] - self.server.clock()

    async def dropped(self, restore_point_id: UUID) -> bool:
        self.hold("restore point", restore_point_id)
        there = self.get("restore point", restore_point_id) is not None
        self.gone.add(("restore point", restore_point_id))
        return there

    async def recorded(self, cause: Cause, _moves: Sequence[MoveRef]) -> bool:
        self.statement()
        return self.get("moves", cause.id) is not None

    def append(self, actor: Actor, kind: str, subject: str, **details: Any) -> None:
        self.entries.append(Entry(kind, subject, actor, details))

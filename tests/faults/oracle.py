"""The oracle of every fault test: what must hold of a tenant, whatever was killed when (THREATS 5.2).

    I1  every approved proposal ends in exactly one of executed, stale, failed
    I2  executed means: its marker is there, and each ref of its intent had its new value
    I3  at most one commit per proposal, reachable or not
    I4  nothing executed that was declined, cancelled or expired, or whose rights had gone before the intent
    I5  an acknowledged answer is never contradicted
    I6  what was built is what was reviewed
    I7  the ledger verifies and has every state change once; one ref move per executed move
    I8  `git fsck --strict` is clean and no lock is left

It reads the real database as its owner, and the real repositories by stock git.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Table, select

from service.contract.data import NULL
from service.contract.plan import Manifest, MoveRef, Plan
from service.grants.policy import Clause, check_policy
from service.grants.standing import DECIDERS
from service.grants.tables import connection, membership
from service.kit.database import Bound, Database
from service.kit.errors import Refusal
from service.ledger.append import FIRST
from service.ledger.tables import ledger_entry, ledger_head, ref_move
from service.ledger.verify import Entry, verify
from service.proposals.decide import wanted
from service.proposals.planning import load_manifests, load_plan
from service.proposals.states import FINAL, MOVES, read_outcome
from service.proposals.tables import decision, intent, proposal, work_queue
from service.repositories.objects import decode
from service.repositories.placement import Storage
from service.repositories.tables import placement, repository
from service.writer.intent import MARKERS
from tests.faults.evidence import Evidence, Unreadable

WAITING = frozenset({"approved", "executing"})
ENDS = frozenset({"executed", "stale", "failed"})
UNDECIDED_ENDS = frozenset({"declined", "cancelled", "expired"})


@dataclass(frozen=True)
class Answer:
    """What somebody was told: that this proposal is in this state, and its commit where it was executed."""

    proposal: UUID
    state: str
    commit: str | None = None


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold of something."""

    invariant: str
    subject: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.subject}: {self.what}"


async def judge(
    database: Database, storage: Storage, tenant: UUID, answers: Collection[Answer] = (), *, over: bool = True
) -> list[Violation]:
    """Every violation in a tenant; empty when all is well.

    Args:
        database: as the role `placet_owner`.
        storage: where its repositories are.
        tenant: whose.
        answers: what was acknowledged to anybody.
        over: the faults have ended and everything had the time to end; before that, I1 and I8 and what a writer may
            be in the middle of are not judged.
    """
    async with database.bound(tenant) as tx:
        books = await _read(tx, storage)
    found = [*_ledger(books), *_answers(books, answers)]
    if over:
        found += [Violation("I8", str(one), said) for one, at in books.git.items() for said in at.complaints()]
    try:
        for row in books.proposals:
            found += _Case(books, row, over).violations()
        return found + list(_strangers(books))
    except Unreadable as error:
        return [*found, Violation("I8", str(tenant), str(error))]


@dataclass(frozen=True)
class _Books:
    """All that the database and the repositories say of a tenant, at one moment."""

    proposals: Sequence[Row[Any]]
    decisions: dict[UUID, Row[Any]]
    intents: dict[UUID, Row[Any]]
    moves: Sequence[Row[Any]]
    entries: Sequence[Row[Any]]
    head: Row[Any] | None
    queued: frozenset[UUID]
    homes: dict[UUID, UUID]  # repository -> project
    granters: dict[UUID, UUID]  # connection -> person
    members: dict[tuple[UUID, UUID], UUID]  # project, person -> membership
    git: dict[UUID, Evidence]

    def kinds(self, subject: UUID) -> list[Row[Any]]:
        return [one for one in self.entries if one.subject == str(subject) and one.kind.startswith("proposal.")]


async def _read(tx: Bound, storage: Storage) -> _Books:
    async def every(table: Table, *order: Any) -> Sequence[Row[Any]]:
        return (await tx.execute(select(table).order_by(*order))).all()

    queue = await tx.execute(
        select(work_queue.c.subject).where(work_queue.c.tenant == tx.tenant, work_queue.c.kind == "execute")
    )
    return _Books(
        proposals=await every(proposal, proposal.c.created_at),
        decisions={row.proposal: row for row in await every(decision)},
        intents={row.proposal: row for row in await every(intent)},
        moves=await every(ref_move, ref_move.c.at),
        entries=await every(ledger_entry, ledger_entry.c.seq),
        head=(await tx.execute(select(ledger_head))).one_or_none(),
        queued=frozenset(queue.scalars()),
        homes={row.id: row.project for row in await every(repository)},
        granters={row.id: row.granted_by for row in await every(connection)},
        members={(row.project, row.person): row.id for row in await every(membership)},
        git={
            row.repository: Evidence((await storage.place(tx, row.repository)).path) for row in await every(placement)
        },
    )


def _ledger(books: _Books) -> Iterator[Violation]:
    entries = [Entry(row.seq, row.kind, row.subject, row.body, row.previous, row.hash) for row in books.entries]
    head = (books.head.seq, books.head.hash) if books.head else (0, FIRST)
    verdict = verify(entries, *head)
    if not verdict.intact:
        yield Violation("I7", f"entry {verdict.broken_at}", verdict.why)


def _answers(books: _Books, answers: Collection[Answer]) -> Iterator[Violation]:
    rows = {row.id: row for row in books.proposals}
    for said in answers:
        row = rows.get(said.proposal)
        if row is None:
            yield Violation("I5", str(said.proposal), f"{said.state} was answered, and it is not there")
        elif row.state != said.state and row.state not in _after(said.state):
            yield Violation("I5", str(row.id), f"{said.state} was answered, and it is {row.state}")
        elif said.commit and read_outcome(row.outcome).get("commit") != said.commit:
            yield Violation("I5", str(row.id), f"{said.commit} was answered, and it is {row.outcome}")


def _after(state: str) -> set[str]:
    """The states that may still come after this one."""
    reached: set[str] = set()
    waiting = [state]
    while waiting:
        fresh = MOVES.get(waiting.pop(), frozenset()) - reached  # type: ignore[call-overload]
        reached |= fresh
        waiting += fresh
    return reached


def _strangers(books: _Books) -> Iterator[Violation]:
    """Markers and commits that belong to no proposal of this tenant."""
    known = {str(row.id) for row in books.proposals}
    for at in books.git.values():
        markers = {name.removeprefix(MARKERS) for name in at.refs if name.startswith(MARKERS)}
        for one in sorted((markers | set(at.named)) - known):
            yield Violation("I2", one, "a marker or a commit of a proposal that is not there")


@dataclass(frozen=True)
class _Case:
    """One proposal with everything that speaks of it."""

    books: _Books
    row: Row[Any]
    over: bool

    def violations(self) -> Iterator[Violation]:
        checks = (
            ("I1", self._ends),
            ("I2", self._marked),
            ("I3", self._one_commit),
            ("I4", self._allowed),
            ("I6", self._as_reviewed),
            ("I7", self._recorded),
        )
        for name, check in checks:
            yield from (Violation(name, str(self.row.id), what) for what in check())

    @property
    def _git(self) -> Evidence:
        return self.books.git[self.row.repository]

    @property
    def _marker(self) -> str:
        return self._git.refs.get(f"{MARKERS}{self.row.id}", NULL)

    @property
    def _moves(self) -> list[MoveRef]:
        stored = self.books.intents.get(self.row.id)
        return [MoveRef.model_validate(one) for one in json.loads(stored.moves)] if stored else []

    def _ends(self) -> Iterator[str]:
        kinds = [entry.kind.removeprefix("proposal.") for entry in self.books.kinds(self.row.id)]
        ends = [kind for kind in kinds if kind in FINAL]
        if len(ends) > 1:
            yield f"it ended more than once: {ends}"
        decided = self.books.decisions.get(self.row.id)
        if self.over and decided and decided.verdict == "approve" and self.row.state not in ENDS:
            yield f"it was approved and is {self.row.state}"
        if self.row.state in FINAL and self.row.id in self.books.queued:
            yield f"it is {self.row.state} and still in the queue"

    def _marked(self) -> Iterator[str]:
        if self.row.state != "executed":
            if self._marker != NULL and (self.over or self.row.state not in WAITING):
                yield f"it is {self.row.state} and has a marker"
            return
        commit = read_outcome(self.row.outcome).get("marker")
        stored = self.books.intents.get(self.row.id)
        if self._marker == NULL or self._marker != commit or (stored and stored.marker != commit):
            yield f"its outcome says {commit}, its marker {self._marker}, its intent {stored and stored.marker}"
        yield from (f"{move.ref} never was at {move.new}" for move in self._moves if not self._happened(move))

    def _happened(self, move: MoveRef) -> bool:
        now = self._git.refs.get(move.ref, NULL)
        return now == move.new or self._git.contains(now, move.new) or self._explained(move, now)

    def _explained(self, move: MoveRef, now: str) -> bool:
        """Whether later ref moves lead from what this one set to what is there."""
        mine = [row for row in self.books.moves if (row.repository, row.ref) == (self.row.repository, move.ref)]
        own = next((index for index, row in enumerate(mine) if row.proposal == self.row.id), len(mine))
        at = move.new
        for row in mine[own + 1 :]:
            at = row.new if row.old == at else at
        return own < len(mine) and at == now

    def _one_commit(self) -> Iterator[str]:
        made = self._git.named.get(str(self.row.id), [])
        if len(made) > len(self._plan.commits):
            yield f"{len(made)} commits carry its id: {sorted(one.oid for one in made)}"

    @property
    def _plan(self) -> Plan:
        return load_plan(self.row.plan)

    def _allowed(self) -> Iterator[str]:
        entries = self.books.kinds(self.row.id)
        kinds = {entry.kind.removeprefix("proposal.") for entry in entries}
        done = [
            self.row.state == "executed" or "executed" in kinds,
            self._marker != NULL,
            str(self.row.id) in self._git.named,
            any(one.proposal == self.row.id for one in self.books.moves),
        ]
        for end in sorted(kinds & UNDECIDED_ENDS):
            if any(done):
                yield f"it was {end}, and was executed"
        intended = [entry.seq for entry in entries if entry.kind == "proposal.executing"]
        decided = self.books.decisions.get(self.row.id)
        if any(done) and (decided is None or decided.verdict != "approve"):
            yield "it was executed and nobody approved it"
        elif decided and intended and self.row.state == "executed":
            yield from self._rights_gone(decided, intended[-1])

    def _rights_gone(self, decided: Row[Any], seq: int) -> Iterator[str]:
        """What the ledger had taken away before this entry. Entries have the order of their commits."""
        project = self.books.homes[self.row.repository]
        people = {self.row.person or self.books.granters[self.row.connection], decided.person}
        members = {str(self.books.members.get((project, person))) for person in people}
        chain = (self.row.tenant, project, self.row.repository, self.row.connection)
        subjects = members | {str(one) for one in chain if one}
        gone: dict[tuple[str, str], bool] = {}
        clauses: set[Clause] = set()
        for entry in self.books.entries:
            if entry.seq < seq and entry.subject in subjects:
                what, details = entry.kind.partition(".")[2], json.loads(entry.body)["details"]
                gone.update(_taken(entry.subject, what, details))
                _change_clauses(clauses, entry.kind, details)
        yield from (f"it was executed though {of} of {on} had gone before" for (on, of), lost in gone.items() if lost)
        try:
            check_policy(sorted(clauses, key=str), wanted(load_plan(self.row.plan), load_manifests(self.row.manifest)))
        except Refusal as refusal:
            yield f"it was executed against its policy: {refusal}"

    def _as_reviewed(self) -> Iterator[str]:
        made = self._git.named.get(str(self.row.id), [])
        stored = self.books.intents.get(self.row.id)
        if not made or (stored is None and self.row.state != "executed"):
            return
        oids = [one.oid for one in decode(stored.commits)] if stored else [self._marker]
        plan = self._plan
        real = {str(new.id): oid for new, oid in zip(plan.build, oids, strict=True)}
        for new in plan.commits:
            yield from self._commit_differs(new, real)
        for manifest in load_manifests(self.row.manifest):
            yield from self._manifest_differs(manifest, plan, real)

    def _commit_differs(self, new: Any, real: dict[str, str]) -> Iterator[str]:
        commit = self._git.commits.get(real[new.id])
        if commit is None:
            yield f"commit {real[new.id]} is not there"
            return
        parents = [real.get(parent, parent) for parent in new.parents]
        same = commit.header(b"tree") == [new.tree] and commit.header(b"parent") == parents
        if not same or commit.header(b"author") != [new.author.decode()]:
            yield f"commit {commit.oid} has another tree, parent or author than what was reviewed"
        if not commit.message.startswith(new.message.rstrip() + b"\n\n"):
            yield f"commit {commit.oid} has another message than what was reviewed"

    def _manifest_differs(self, manifest: Manifest, plan: Plan, real: dict[str, str]) -> Iterator[str]:
        ends = {move.ref: move.new for move in plan.effects}
        old, new = (real.get(one, one) for one in (manifest.old, ends.get(manifest.of, manifest.of)))
        reviewed = [(line.path, line.mode, line.sha256) for line in manifest.lines]
        built = self._git.difference(old, new)
        if built != reviewed:
            yield f"{manifest.of}: {len(reviewed)} paths were reviewed, git says {built}"

    def _recorded(self) -> Iterator[str]:
        entries = self.books.kinds(self.row.id)
        path = [entry.kind.removeprefix("proposal.") for entry in entries]
        sources = [json.loads(entry.body)["details"].get("was") for entry in entries]
        if path[:1] != ["pending"] or sources[1:] != path[:-1] or path[-1:] != [self.row.state]:
            yield f"it is {self.row.state}, and the ledger says {path} from {sources}"
        wanted_moves = Counter((one.ref, one.old, one.new) for one in self._moves)
        mine = Counter((one.ref, one.old, one.new) for one in self.books.moves if one.proposal == self.row.id)
        if mine != (wanted_moves if self.row.state == "executed" else Counter()):
            yield f"it is {self.row.state}, and its ref moves are {dict(mine)}"


def _taken(subject: str, what: str, details: dict[str, Any]) -> dict[tuple[str, str], bool]:
    """Which right of a subject an entry takes (True) or gives (False)."""
    if what in {"live", "paused", "revoked", "added"}:
        rights = {(subject, "the standing"): what in {"paused", "revoked"}}
        return rights | ({(subject, "the role"): details["role"] not in DECIDERS} if "role" in details else {})
    if what == "role":
        return {(subject, "the role"): details["role"] not in DECIDERS}
    if what == "agents_may_propose":
        return {(subject, "the switch"): not details["on"]}
    return {}


def _change_clauses(clauses: set[Clause], kind: str, details: dict[str, Any]) -> None:
    if kind in {"policy.added", "policy.removed"}:
        clause = Clause(*details["clause"].split(" ", 2))
        (clauses.add if kind == "policy.added" else clauses.discard)(clause)

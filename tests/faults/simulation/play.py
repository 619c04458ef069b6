"""A whole house played from one seed: agents, owners, an administrator, a pusher, writers, and everything that fails.

Deciding, executing, writing, reconciling, pushing and expiring are production's own; only what is under the ports is
played. The promises are checked at every commit of the database and at every rename of a ref, and once more at the end.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from service.contract.data import NULL, Draft, Oid
from service.contract.plan import Manifest, MoveRef, NewCommit, Note, Pin, Plan, RefAt, ReviewCard, Section
from service.kit.actor import Actor, system
from service.kit.canonical import canonical
from service.kit.errors import Code, Refusal
from service.proposals.decide import Decide, Decided, Decider, Verdicts
from service.proposals.execute import Execute
from service.proposals.expire import expire
from service.proposals.planning import MANIFESTS, PINS
from service.proposals.ports import Cause, Change, Stored, Tx
from service.proposals.push import Push
from service.proposals.states import FINAL, LostRace, move, read_outcome
from service.repositories.lease import LeaseBusy
from service.repositories.objects import Staged, build_commit, encode, staged
from service.repositories.reading import parse_commit
from service.repositories.refs import LockHeld, RefMoved
from service.writer.intent import marker_ref
from service.writer.write import manifests
from tests.faults.simulation.database import Queued, Right, Row, Server
from tests.faults.simulation.disk import Chances, Disk, Host, PlayedStore
from tests.faults.simulation.schedule import Process, Schedule, drive

TENANT = UUID(int=1)
OWNER, GRANTER = UUID(int=2), UUID(int=3)
CONNECTION = UUID(int=4)
BRANCHES = ("refs/heads/main", "refs/heads/next")
REPOSITORIES = (UUID(int=10), UUID(int=11))
AUTHOR = b"Claude (conn-0) <conn-0@localhost> 1700000000 +0000"
STORM = Chances(refused=0.003, killed=0.004, power=0.0004, lost_answer=0.01, unreachable=0.004, clock=0.0003)
CALM = Chances()
WIDTH = 10
PARTS = 0.3
"""Of how many proposals an owner chooses parts."""
TRIES_MOST = 60
LEGAL = {
    "pending": {"approved", "declined", "cancelled", "expired", "stale"},
    "approved": {"executing", "stale", "failed", "executed"},
    "executing": {"executed", "stale", "failed", "approved"},
}
RIGHTS: dict[str, Right] = {
    "tenant": Right(),
    "project": Right(),
    "repository": Right(values={"agents_may_propose": True}),
    "connection": Right(values={"granter": GRANTER, "denied": ()}),
}
# What an administrator takes away, for a while.
TAKEN: tuple[tuple[Any, Right], ...] = (
    ("tenant", Right("paused")),
    ("project", Right("paused")),
    ("repository", Right(values={"agents_may_propose": False})),
    ("connection", Right("paused", {"granter": GRANTER, "denied": ()})),
    ("connection", Right(values={"granter": GRANTER, "denied": ("main",)})),
    (OWNER, Right(values={"role": "reader"})),
    (GRANTER, Right("revoked", {"role": "owner"})),
)


class Lost(Exception):
    """The process that was asked died before it answered."""


@dataclass
class Play:
    """One run: so many lifecycles of proposals, all chances drawn from the seed."""

    seed: int
    lifecycles: int
    chances: Chances = STORM
    answers: list[tuple[UUID, str, Any]] = field(default_factory=list)
    started: int = 0
    callers: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.seed)
        self.chance = self.schedule.chance
        self.server = Server(self.schedule, self.chances, TENANT, committed=self._committed)
        self.host = Host(self.schedule, self.chances)
        self.outside = Process("outside")
        self.store = self.server.store(self.outside)
        for what, right in RIGHTS.items():
            self.server.rows["right", what] = right
        for person in (OWNER, GRANTER):
            self.server.rows["right", person] = Right(values={"role": "owner"})
        for repository in REPOSITORIES:
            self._found(repository)
        self.processes: dict[str, Process] = {}
        for name, begin in self._roles().items():
            begin(name)

    def run(self) -> "Play":
        """Play it to the end. Raises nothing: see `broken`."""
        self.schedule.start(self.outside, self._agents)
        self.schedule.start(self.outside, self._administrator)
        self.schedule.run(lambda: self.started < self.lifecycles or self.callers > 0, self._chaos)
        self._calm_down()
        self.schedule.run(lambda: bool(self.server.undecided or self.host.marked()), self._give_up)
        if not self.broken:
            self._check_the_end()
        self.schedule.close()
        return self

    @property
    def broken(self) -> list[str]:
        """The promises that were broken."""
        return self.schedule.broken

    # the world

    def _found(self, repository: UUID) -> None:
        disk = self.host.disks[Path(str(repository))] = Disk()
        blob = staged("blob", b"begin\n")
        tree = staged("tree", b"100644 f0\0" + bytes.fromhex(blob.oid))
        root = build_commit(tree.oid, (), author=AUTHOR, committer=AUTHOR, message=b"Begin\n")
        for objects in (disk.objects, disk.lasting_objects):
            objects.update({one.oid: one for one in (blob, tree, root)})
        for refs in (disk.refs, disk.lasting_refs):
            refs.update(dict.fromkeys(BRANCHES, root.oid))

    def _roles(self) -> dict[str, Callable[[str], None]]:
        return {"web": self._begin, "writer 1": self._writer, "writer 2": self._writer, "pusher": self._pusher}

    def _begin(self, name: str) -> None:
        self.processes[name] = Process(name)

    def _execute(self, process: Process) -> Execute:
        opened = self.host.opener(process)
        return Execute(self.server.store(process), opened, _unheard, lambda _name: self.schedule.point(), None)

    def _writer(self, name: str) -> None:
        self._begin(name)
        process = self.processes[name]
        execute = self._execute(process)
        self.schedule.start(process, lambda: self._write_for_ever(execute))

    def _write_for_ever(self, execute: Execute) -> None:
        self.schedule.sleep(self.chance.random() * 3)
        queued = {row.repository for key, row in self.server.queued.items() if key[1] == "execute"}
        for repository in sorted(queued | {UUID(str(path)) for path in self.host.marked()}):
            self._quietly(lambda repository=repository: drive(execute.recover(TENANT, repository)))
        while True:
            claimed = self.server.claim()
            if claimed is None:
                self.schedule.point()  # what is due may be held by somebody
                self.schedule.wait_for(self.server.due, 1 + self.server.until_due())
                continue
            kind, subject = claimed
            work = expire(execute.store, system(TENANT), subject) if kind == "expire" else execute(TENANT, subject)
            self._quietly(lambda work=work: drive(work))

    def _quietly(self, work: Callable[[], object]) -> None:
        """As the worker does: what fails is tried again when it is due again."""
        try:
            work()
        except (Refusal, OSError, LeaseBusy):
            self.schedule.point()

    def _pusher(self, name: str) -> None:
        self._begin(name)
        process = self.processes[name]
        execute = self._execute(process)
        push = Push(execute.store, execute.open, execute.lease, execute.step)
        self.schedule.start(process, lambda: self._push_for_ever(push))

    def _push_for_ever(self, push: Push) -> None:
        while True:
            self.schedule.sleep(self.chance.random() * 8)
            repository, ref = self.chance.choice(REPOSITORIES), self.chance.choice(BRANCHES)
            disk = self.host.disks[Path(str(repository))]
            head = disk.refs[ref]
            new = build_commit(self._tree_of(disk, head), (head,), author=AUTHOR, committer=AUTHOR, message=b"Pushed\n")
            for objects in (disk.objects, disk.lasting_objects):
                objects[new.oid] = new
            tag = MoveRef(ref=f"refs/tags/{new.oid[:12]}", old=NULL, new=new.oid)
            moves = [MoveRef(ref=ref, old=head, new=new.oid), tag]
            try:
                drive(push(Actor("owner", TENANT, OWNER, "olive"), repository, moves))
            except (Refusal, OSError, LeaseBusy, LockHeld, RefMoved):
                continue
            self.ends["pushed"] += 1
            self._check_pushed(disk, moves)

    def _check_pushed(self, disk: Disk, moves: Sequence[MoveRef]) -> None:
        for one in moves:
            if one.new not in disk.history.get(one.ref, ()):
                self.schedule.violated(f"a push of {one.ref} was acknowledged and did not happen")

    # agents and owners

    def _agents(self) -> None:
        while self.started < self.lifecycles:
            self.schedule.wait_for(lambda: self.callers < WIDTH, 60)
            proposal = self._propose(self.started)
            self.started += 1
            self._asked(proposal, (8, 2, 1, 1))
            if self.chance.random() < PARTS:
                for number in range(self.chance.choice((1, 1, 2))):
                    self._asked(self._choose(proposal, number), (8, 1, 0, 1))

    def _asked(self, proposal: UUID, weights: Sequence[int]) -> None:
        for act in self.chance.choices(self._acts(), weights=weights, k=self.chance.choice((1, 1, 2, 3))):
            self.callers += 1
            self.schedule.start(self.outside, partial(self._call, act, proposal))

    def _acts(self) -> tuple[Callable[[UUID], object], ...]:
        return (partial(self._decide, "approve"), partial(self._decide, "decline"), self._cancel, self._wait)

    def _propose(self, number: int) -> UUID:
        """What submit stores; that it is stored once is proved on the real database."""
        proposal = uuid5(TENANT, f"{self.seed}-{number}")
        repository, ref = self.chance.choice(REPOSITORIES), self.chance.choice(BRANCHES)
        disk = self.host.disks[Path(str(repository))]
        plan, objects = self._plan(disk, ref, number)
        pins = tuple(Pin(fact=RefAt(name=one.ref), seen=one.old) for one in plan.effects)
        played = PlayedStore(disk, {one.oid: one for one in objects}, {one.id: one for one in plan.build})
        card = ReviewCard(headline=Note(code="played"), agent_words={"reason": "r"}, sections=(), warnings=())
        stored = Stored(
            id=proposal,
            repository=repository,
            connection=CONNECTION,
            person=None,
            state="pending",
            digest=sha256(proposal.bytes).hexdigest(),
            pins=_text(PINS.dump_python(pins, mode="json")),
            plan=_text(plan.model_dump(mode="json")),
            card=_text(card.model_dump(mode="json")),
            manifest=_text(MANIFESTS.dump_python(manifests(played, plan), mode="json")),  # type: ignore[arg-type]
            outcome=None,
            expired=False,
        )
        expires = self.server.clock() + self.chance.choice((5, 60, 3600))
        self.server.store_row(("proposal", proposal), Row(stored, expires, encode(objects)))
        self.server.store_row(("queue", "expire", proposal), Queued(repository, expires))
        return proposal

    def _choose(self, proposal: UUID, number: int) -> UUID:
        """A part of a proposal that waits, as an owner chooses one; that it is chosen right is proved elsewhere."""
        whole = self.server.rows["proposal", proposal]
        part = uuid5(proposal, str(number))
        disk = self._disk(whole.stored)
        move = _plan(whole.stored).effects[0]
        plan, objects = self._commit(disk, move.ref, move.old, 1_000_000 + 10 * self.started + number)
        played = PlayedStore(disk, {one.oid: one for one in objects}, {one.id: one for one in plan.build})
        section = Section(code="part", notes=(Note(code="left_out", at="f9"),))
        card = ReviewCard(headline=Note(code="played"), agent_words={"reason": "r"}, sections=(section,), warnings=())
        stored = replace(
            whole.stored,
            id=part,
            parent=proposal,
            digest=sha256(part.bytes).hexdigest(),
            plan=_text(plan.model_dump(mode="json")),
            card=_text(card.model_dump(mode="json")),
            manifest=_text(MANIFESTS.dump_python(manifests(played, plan), mode="json")),  # type: ignore[arg-type]
        )
        self.server.store_row(("proposal", part), Row(stored, whole.expires_at, encode(objects)))
        self.ends["parts"] += 1
        return part

    def _plan(self, disk: Disk, ref: str, number: int) -> tuple[Plan, tuple[Staged, ...]]:
        head = disk.refs[ref]
        shape = self.chance.random()
        parents = parse_commit(head, disk.objects[head].content).parents
        if shape < 0.1 and parents:
            back = MoveRef(ref=ref, old=head, new=parents[0])
            return Plan(kinds=("reset",), build=(), effects=(back,), restorable=True), ()
        made = [name for name in disk.refs if name.startswith("refs/heads/made-")]
        if shape < 0.2 and made:
            gone = MoveRef(ref=made[0], old=disk.refs[made[0]], new=NULL)
            return Plan(kinds=("delete",), build=(), effects=(gone,), restorable=True), ()
        plan, objects = self._commit(disk, ref, head, number)
        if shape > 0.8:
            [new], [move] = plan.commits, plan.effects
            made_too = MoveRef(ref=f"refs/heads/made-{number}", old=NULL, new=new.id)
            plan = plan.model_copy(update={"effects": (move, made_too), "restorable": True})
        return plan, objects

    def _commit(self, disk: Disk, ref: str, head: Oid, number: int) -> tuple[Plan, tuple[Staged, ...]]:
        blob = staged("blob", b"%d\n" % number)
        entries = {b"f%d" % (number % 5): blob.oid, b"f9": self._blob_of(disk, head)}
        tree = staged(
            "tree", b"".join(b"100644 %s\0" % name + bytes.fromhex(entries[name]) for name in sorted(entries))
        )
        draft = Draft(Oid(sha256(b"%d" % number).hexdigest()[:40]))
        new = NewCommit(id=draft, parents=(head,), tree=tree.oid, author=AUTHOR, message=b"Change")
        return Plan(kinds=("import",), build=(new,), effects=(MoveRef(ref=ref, old=head, new=draft),)), (blob, tree)

    def _tree_of(self, disk: Disk, commit: Oid) -> Oid:
        return parse_commit(commit, disk.objects[commit].content).tree

    def _blob_of(self, disk: Disk, commit: Oid) -> Oid:
        content = disk.objects[self._tree_of(disk, commit)].content
        return Oid(content[-20:].hex())

    def _call(self, act: Callable[[UUID], object], proposal: UUID) -> None:
        """A caller who asks again until he has an answer, as every client should."""
        self.schedule.sleep(self.chance.random() * 4)
        for _ in range(TRIES_MOST):
            try:
                act(proposal)
                break
            except Lost:
                self.schedule.sleep(self.chance.random())
            except Refusal as refusal:
                self._heard(proposal, refusal)
                if refusal.code is not Code.UNAVAILABLE:
                    break
                self.schedule.sleep(self.chance.random())
        self.callers -= 1

    def _heard(self, proposal: UUID, refusal: Refusal) -> None:
        status = refusal.details.get("status")
        if status in FINAL:
            self.answers.append((proposal, status, None))

    def _in_web(self, work: Callable[[Process], object]) -> Any:
        """Let the web process do something. Raises Lost when it dies before the answer."""
        process = self.processes["web"]
        box: list[Any] = []

        def call() -> None:
            try:
                box.append(work(process))
            except Exception as error:  # noqa: BLE001  it is the caller's
                box.append(error)

        task = self.schedule.start(process, call)
        self.schedule.wait_for(lambda: task.over, 120)
        if not box:
            raise Lost
        if isinstance(box[0], Exception):
            raise box[0]
        return box[0]

    def _decide(self, verdict: Any, proposal: UUID) -> None:
        digest = sha256(proposal.bytes).hexdigest()
        who = Decider(Actor("owner", TENANT, OWNER, "olive@example.org"), "Olive Owner", "olive@example.org")

        def work(process: Process) -> Decided:
            waits = _Waits(self.schedule)
            decide = Decide(self.server.store(process), self.host.opener(process), _here, waits, _finds_nothing)
            return drive(decide(who, proposal, Verdicts(verdict, digest)))

        decided = self._in_web(work)
        if decided.known:
            self.answers.append((proposal, decided.state, decided.outcome.get("commit")))

    def _cancel(self, proposal: UUID) -> None:
        agent = Actor("agent", TENANT, CONNECTION, "Claude")
        cancelled = Change(proposal, "pending", "cancelled", {"code": "cancelled"})

        async def work(tx: Tx) -> bool:
            found = await tx.find(proposal)
            if found is None or found.state != "pending":
                return False
            await move(tx, agent, cancelled)
            return True

        def call(process: Process) -> bool:
            try:
                return bool(drive(self.server.store(process).repeat(TENANT, work)))
            except LostRace:
                return False

        if self._in_web(call):
            self.answers.append((proposal, "cancelled", None))

    def _wait(self, proposal: UUID) -> None:
        """Nobody decides: it expires."""

    # rights

    def _administrator(self) -> None:
        while self.server.chances is not CALM:
            self.schedule.sleep(self.chance.random() * 4)
            what, taken = self.chance.choice(TAKEN)
            for right in (taken, RIGHTS.get(what, Right(values={"role": "owner"}))):
                self._quietly(partial(self._change_right, what, right))
                self.schedule.sleep(self.chance.random() * 0.5)

    def _change_right(self, what: Any, right: Right) -> None:
        async def work(tx: Any) -> None:
            tx.hold("right", what)
            tx.put(("right", what), right)
            tx.append(system(TENANT), "right.changed", str(what))

        drive(self.store.repeat(TENANT, work))

    # what goes wrong

    def _chaos(self) -> None:
        chance = self.chance.random
        if chance() < self.chances.killed:
            self._kill(self.chance.choice(sorted(self.processes)))
        if chance() < self.chances.power:
            for name in sorted(self.processes):
                self._kill(name)
            for disk in self.host.disks.values():
                disk.lose_power(self.schedule)
        if chance() < self.chances.clock:
            self.server.skew += self.chance.uniform(-3_600, 3_600)

    def _kill(self, name: str) -> None:
        self.schedule.kill(self.processes[name])
        self.ends["killed"] += 1
        self._roles()[name](name)

    def _calm_down(self) -> None:
        """The faults end; from here on nobody helps."""
        self.server.chances = self.host.chances = CALM
        self.deadline = self.schedule.steps + 400 * (len(self.server.undecided) + 50)
        self.schedule.kill(self.processes.pop("pusher"))
        self._kill("writer 1")  # whoever starts finds what the dead left

    def _give_up(self) -> None:
        if self.schedule.steps > self.deadline:
            open_ones = [(one, self.server.rows["proposal", one].stored.state) for one in self.server.undecided]
            self.schedule.violated(f"without faults {open_ones} did not come to an end")

    # the promises

    def _committed(self, tx: Any) -> None:
        for key, row in tx.written.items():
            before = self.server.rows.get(key)
            if key[0] == "proposal" and before is not None and before.stored.state != row.stored.state:
                self._check_move(tx, before.stored, row.stored)
            if key[0] == "moves":
                self._check_recorded(*row)
        for entry in tx.entries:
            if entry.kind == "writer.alarm":
                self.schedule.violated(f"an alarm without a stranger: {entry.subject} {entry.details}")

    def _check_recorded(self, cause: Cause, repository: UUID, moves: Sequence[MoveRef]) -> None:
        disk = self.host.disks[Path(str(repository))]
        for one in moves:
            if one.new not in disk.history.get(one.ref, ()):
                self.schedule.violated(f"{cause.id} is recorded to have moved {one.ref} to {one.new[:8]}, and has not")

    def _check_move(self, tx: Any, before: Stored, after: Stored) -> None:
        name = f"proposal {after.id} from {before.state} to {after.state}"
        if after.state not in LEGAL.get(before.state, ()):
            self.schedule.violated(f"{name}: no such move")
        said = [one for one in tx.entries if one.subject == str(after.id) and one.kind == f"proposal.{after.state}"]
        if len(said) != 1:
            self.schedule.violated(f"{name}: {len(said)} entries in the ledger")
        self._check_family(tx, name, before, after)
        if after.state == "executing" and (refusal := self._hindrance(after)):
            self.schedule.violated(f"{name}: a right was gone before: {refusal}")
        if after.state == "executed":
            self._check_executed(name, after)
        if after.state in {"stale", "failed"} and self._disk(after).refs.get(marker_ref(after.id), NULL) != NULL:
            self.schedule.violated(f"{name}: its marker is there")

    def _check_family(self, tx: Any, name: str, before: Stored, after: Stored) -> None:
        """What waits no longer has no waiting part, and of a whole and its parts one is approved at most."""
        if before.state != "pending":
            return
        states = {one: tx.get("proposal", one).stored.state for one in self.server.parts.get(after.id, ())}
        if "pending" in states.values():
            self.schedule.violated(f"{name}: its parts are {states}")
        if after.state == "approved" and set(states.values()) - {"cancelled", "expired", "stale"}:
            self.schedule.violated(f"{name}: approved, and its parts are {states}")
        if after.state == "approved" and after.parent is not None:
            whole = tx.get("proposal", after.parent).stored
            told = (whole.state, read_outcome(whole.outcome).get("proposal_id"))
            self.ends["partly"] += 1
            if told != ("declined", str(after.id)):
                self.schedule.violated(f"{name}: approved, and the whole is {told}")

    def _hindrance(self, stored: Stored) -> str:
        values = {what: self.server.rows["right", what] for what in (*RIGHTS, OWNER, GRANTER)}
        for what, right in values.items():
            if right.state != "live":
                return f"{what} is {right.state}"
        branches = {one.ref.removeprefix("refs/heads/") for one in _plan(stored).effects}
        if not values["repository"].values["agents_may_propose"]:
            return "agents may not propose"
        if branches & set(values["connection"].values["denied"]):
            return "the policy denies it"
        readers = [who for who in (OWNER, GRANTER) if values[who].values["role"] == "reader"]
        return f"{readers} may not decide" if readers else ""

    def _check_executed(self, name: str, stored: Stored) -> None:
        disk = self._disk(stored)
        commit = read_outcome(stored.outcome).get("marker")
        marker = disk.lasting_refs.get(marker_ref(stored.id))
        if marker != commit or set(disk.history[marker_ref(stored.id)]) != {NULL, commit}:
            self.schedule.violated(f"{name}: its marker is {marker}, not {commit}, or was another one before")
        intent = self.server.rows["intent", stored.id][0]
        for one in intent.moves:
            if one.new not in disk.history.get(one.ref, ()):
                self.schedule.violated(f"{name}: {one.ref} never was at {one.new[:8]}")
            if disk.refs.get(one.ref, NULL) == one.new and disk.lasting_refs.get(one.ref, NULL) != one.new:
                self.schedule.violated(f"{name}: {one.ref} is not on the disk")
        self._check_content(name, disk, stored, intent.commits)

    def _check_content(self, name: str, disk: Disk, stored: Stored, commits: Sequence[Staged]) -> None:
        for built, reviewed in zip(commits, MANIFESTS.validate_python(json.loads(stored.manifest)), strict=False):
            if built.oid not in disk.lasting_objects:
                self.schedule.violated(f"{name}: its commit is not on the disk")
                continue
            commit = parse_commit(built.oid, built.content)
            played = PlayedStore(disk, {}, {})
            move = MoveRef(ref="refs/heads/x", old=commit.parents[0], new=built.oid)
            found = manifests(played, Plan(kinds=(), build=(), effects=(move,)))[0]  # type: ignore[arg-type]
            if found.lines != _lines(reviewed):
                self.schedule.violated(f"{name}: what was written is not what was reviewed")

    def _disk(self, stored: Stored) -> Disk:
        return self.host.disks[Path(str(stored.repository))]

    def _check_the_end(self) -> None:
        states = {key[1]: row.stored for key, row in self.server.rows.items() if key[0] == "proposal"}
        self.ends.update(stored.state for stored in states.values())
        for proposal, state, commit in self.answers:
            if states[proposal].state != state:
                self.schedule.violated(f"{proposal} was said to be {state} and is {states[proposal].state}")
            if commit is not None and read_outcome(states[proposal].outcome).get("commit") != commit:
                self.schedule.violated(f"{proposal} was said to have become {commit}")
        for stored in states.values():
            executed = stored.state == "executed"
            if (marker_ref(stored.id) in self._disk(stored).lasting_refs) != executed:
                self.schedule.violated(f"{stored.id} is {stored.state}, and its marker says another thing")
        self._check_commits()
        left = [key for key in self.server.queued if key[1] == "execute"]
        locks = [lock for disk in self.host.disks.values() for lock in disk.locks]
        if left or locks:
            self.schedule.violated(f"left over: {left} in the queue, locks {locks}")

    def _check_commits(self) -> None:
        """At most one commit of a proposal was ever on any ref, and none of one that was not executed."""
        for disk in self.host.disks.values():
            found: dict[bytes, set[Oid]] = {}
            for oid in {oid for values in disk.history.values() for oid in values if oid != NULL}:
                for line in parse_commit(oid, disk.objects[oid].content).message.splitlines():
                    if line.startswith(b"Proposal: "):
                        found.setdefault(line, set()).add(oid)
            for line, oids in found.items():
                state = self.server.rows["proposal", UUID(line.decode().partition(" ")[2])].stored.state
                if len(oids) > 1 or state != "executed":
                    self.schedule.violated(f"{line.decode()} is {state} and became {len(oids)} commits")


@dataclass(frozen=True)
class _Waits:
    """The waiter of a web process, which hears of nothing and looks again and again."""

    schedule: Schedule

    def expecting(self, _proposal_id: str) -> AbstractContextManager["_Waits"]:
        return nullcontext(self)

    async def until(self, look: Callable[[], Any], seconds: float) -> Any:
        until = self.schedule.now + seconds
        while (found := await look()) is None and self.schedule.now < until:
            self.schedule.sleep(self.schedule.chance.random())
        return found


def _unheard(_taken: bool) -> None:
    """Who hangs is not killed here: whoever is killed is killed by chance."""


def _finds_nothing(*_what: object) -> None:
    pass


async def _here(work: Callable[[], Any]) -> Any:
    return work()


def _text(value: Any) -> str:
    return canonical(value).decode()


def _plan(stored: Stored) -> Plan:
    return Plan.model_validate(json.loads(stored.plan))


def _lines(manifest: Manifest) -> Any:
    return manifest.lines

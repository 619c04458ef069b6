"""Execute what was approved, exactly once. Recovery calls the same functions as the normal path.

    lease    take the repository's lease; a mark that is still there means the last holder died: recover first
    intent   ONE transaction: lock the proposal, lock everything it hangs on, check rights and pins, fix every byte,
             approved -> executing. Its commit is the point of no return
    write    `writer/write`: its marker is the commit point
    row      executing -> executed, ref moves, ledger, one transaction

A crash anywhere leaves the row `executing` (or `approved`) and perhaps a marker; `writer/reconcile` tells which.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from service.contract.answers import State
from service.contract.data import NULL, Json, Oid
from service.contract.plan import Manifest, MoveRef, Plan
from service.kit.actor import system
from service.kit.errors import Code, Refusal
from service.kit.sealed import Sealer
from service.proposals.decide import stale_outcome, wanted
from service.proposals.planning import broken_pin, load_manifests, load_pins, load_plan
from service.proposals.ports import Approved, Cause, Change, Store, Tx
from service.proposals.push import push_cause, record_push
from service.proposals.states import LostRace, move
from service.repositories.lease import LeaseBusy
from service.repositories.objects import Damaged, Staged, decode
from service.repositories.placement import Place
from service.repositories.refs import BrokenRef, LockHeld, RefConflict, RefMoved
from service.writer.approval import OwnerSignature, signable
from service.writer.intent import Intent, marker_ref, seal, tip_of
from service.writer.keys import open_key
from service.writer.ports import Lease, Repository
from service.writer.push import Journal, finish, read_journal
from service.writer.reconcile import STRANGERS, Fate, reconcile
from service.writer.signature import Sign
from service.writer.write import ManifestDiffers, Step, write

log = logging.getLogger("placet.writer")
ATTEMPTS_MOST = 5
"""How often an execution may end without a word, before it is given up."""
WAIT_SECONDS = 86_400
"""For how long a proposal waits for a disk that refuses, before it is given up."""
LEASE_SECONDS = 0.5
BUSY_SECONDS = 0.5
"""After how long a proposal whose repository is busy is looked at again."""
ALARM_SECONDS = 3_600
HELD, REFUSED = b"held", b"refused"
# Why an approved proposal fails: a right that it hung on is gone.
RIGHT_GONE = frozenset({Code.FORBIDDEN, Code.PROPOSALS_OFF, Code.POLICY_DENIED, Code.NOT_FOUND, Code.SIGNATURE_NEEDED})
# What only the operator can mend; the sentence says so, to whoever reads it.
OPERATORS = frozenset({Code.SIGNING_KEY_UNUSABLE, Code.COULD_NOT_WRITE, Code.MANIFEST_DIFFERS, Code.SIGNATURE_DIFFERS})
FAILS = RIGHT_GONE | OPERATORS


@dataclass(frozen=True)
class _Job:
    """One proposal in its repository."""

    tenant: UUID
    proposal: UUID
    state: State
    repository: UUID
    place: Place
    git: Repository


@dataclass(frozen=True)
class _Ready:
    """A proposal past the point of no return, with what will be written."""

    objects: bytes
    plan: Plan
    reviewed: tuple[Manifest, ...]
    intent: Intent


@dataclass(frozen=True)
class Execute:
    """The executor of one writer process.

    Attributes:
        store: as the role `placet_writer`.
        open: gives the repository in a folder.
        holding: told True when a lease was taken and False when it was given back; the worker kills who holds too long.
        step: told the name of each step that was done.
        sealer: opens the tenants' signing keys; None: a tenant that asks for signatures gets nothing written.
    """

    store: Store
    open: Callable[[Path], Repository]
    holding: Callable[[bool], None]
    step: Step
    sealer: Sealer | None

    async def __call__(self, tenant: UUID, proposal_id: UUID) -> bool:
        """Bring an approved proposal to its end. False: not now, ask again."""
        job = await self._job(tenant, proposal_id)
        if job is None:
            return True
        try:
            suspect = job.state == "executing"  # a mark can be lost with the power
            async with self.lease(tenant, job.repository, job.place, suspect=suspect, but=proposal_id) as lease:
                ended = await self._run(job, lease)
                if ended:
                    lease.clear()
                return ended
        except LeaseBusy:
            return await self._later(job, BUSY_SECONDS)
        except BrokenRef as error:
            await self._alarm(job, f"{error} is no ref")
            return False
        except OSError as error:
            log.warning("the disk refuses %s, which waits: %s", proposal_id, error)
            return await self._later(job)

    async def _later(self, job: _Job, seconds: float | None = None) -> bool:
        async with self.store.bound(job.tenant) as tx:
            await tx.postpone(job.proposal, seconds)
        return False

    async def recover(self, tenant: UUID, repository_id: UUID) -> bool:
        """Finish what a dead holder of this repository's lease left. False: another process holds it."""
        async with self.store.bound(tenant) as tx:
            place = await tx.place(repository_id)
        try:
            async with self.lease(tenant, repository_id, place, suspect=True) as lease:
                lease.clear()
                return True
        except LeaseBusy:
            return False

    async def _job(self, tenant: UUID, proposal_id: UUID) -> _Job | None:
        async with self.store.bound(tenant) as tx:
            work = await tx.work(proposal_id)
            if work is None or work.state not in {"approved", "executing"}:
                await tx.forget(proposal_id, "execute")
                return None
        return _Job(tenant, proposal_id, work.state, work.repository, work.place, self.open(work.place.path))

    @asynccontextmanager
    async def lease(
        self,
        tenant: UUID,
        repository_id: UUID,
        place: Place,
        seconds: float = LEASE_SECONDS,
        *,
        suspect: bool = False,
        but: UUID | None = None,
    ) -> AsyncIterator[Lease]:
        """Hold a repository's lease, after its recovery where the mark of the last holder is still there.

        Whoever holds it clears the mark when all is in order; else the next holder knows.

        Args:
            tenant: whose repository it is.
            repository_id: which.
            place: where it lies.
            seconds: how long to wait for another holder.
            suspect: whether to recover without a mark too.
            but: the proposal that the caller brings to its end himself.

        Raises:
            LeaseBusy: another process holds it.
            OSError: the disk refuses the recovery.
        """
        git = self.open(place.path)
        with git.lease(seconds) as lease:
            self.holding(True)
            try:
                mark = lease.read()
                if mark or suspect:
                    await self._recover(tenant, repository_id, place, mark, but)
                lease.mark(REFUSED if mark == REFUSED else HELD)
                self.step("leased")
                yield lease
            finally:
                self.holding(False)

    async def _recover(self, tenant: UUID, repository_id: UUID, place: Place, mark: bytes, but: UUID | None) -> None:
        git = self.open(place.path)
        removed = git.remove_leftovers()
        if removed:
            log.warning("removed %d leftovers in %s", len(removed), repository_id)
        if journal := read_journal(mark):
            await self._finish_push(tenant, repository_id, git, journal)
        async with self.store.bound(tenant) as tx:
            left = await tx.executing(repository_id)
        for proposal_id in left:
            if proposal_id != but:
                job = _Job(tenant, proposal_id, "executing", repository_id, place, git)
                await self._finish(job, refused=mark == REFUSED)

    async def _finish_push(self, tenant: UUID, repository_id: UUID, git: Repository, journal: Journal) -> None:
        async with self.store.bound(tenant) as tx:
            if await tx.recorded(push_cause(journal), journal.moves):
                return  # a mark that was taken away came back when the power went
        try:
            finish(git, journal)
        except STRANGERS as error:
            log.critical("alarm: push %s in %s: %s", journal.id, repository_id, error)
            async with self.store.bound(tenant) as tx:
                tx.append(system(tenant), "writer.alarm", str(journal.id), why=str(error))
        else:
            await record_push(self.store, tenant, repository_id, journal)

    async def _run(self, job: _Job, lease: Lease) -> bool:
        # The marker is looked up for every proposal: a restored database may be older than Git.
        if job.state == "executing" or job.git.read_ref(marker_ref(job.proposal)) != NULL:
            refused = lease.read() == REFUSED
            ended = await self._finish(job, refused=refused)
            if ended or refused:
                return ended
        lease.mark(HELD)
        ready = await self.store.repeat(job.tenant, lambda tx: self._intend(tx, job))
        self.step("intended")
        return ready is None or await self._write(job, ready, lease)

    async def _write(self, job: _Job, ready: _Ready, lease: Lease) -> bool:
        try:
            write(job.git, ready.plan, ready.reviewed, decode(ready.objects), ready.intent, self.step)
        except (RefMoved, RefConflict) as error:
            head = error.head if isinstance(error, RefMoved) else NULL
            outcome = {"code": "stale", "ref": error.ref, "head": head}
            return await self._end(job, "executing", "stale", outcome)
        except (ManifestDiffers, Damaged):
            log.critical("alarm: proposal %s: what would be written is not what was reviewed", job.proposal)
            why = Refusal(Code.MANIFEST_DIFFERS, "What would be written is not what was reviewed.")
            return await self._end(job, "executing", "failed", _failure(why))
        except LockHeld as error:
            log.warning("could not write %s: somebody holds the lock of %s", job.proposal, error.ref)
            lease.mark(REFUSED)
            return await self._refused(job)
        except OSError as error:
            log.warning("could not write %s: %s", job.proposal, error)
            with suppress(OSError):
                lease.mark(REFUSED)  # so that nothing counts as an attempt, should the database refuse as well
            if job.git.read_ref(marker_ref(job.proposal)) != NULL:
                job.git.remove_leftovers()  # our own locks, past the commit point
            return await self._finish(job, refused=True)
        await self._landed(job, "executing", ready.intent, recovered=False)
        self.step("recorded")
        return True

    async def _finish(self, job: _Job, *, refused: bool = False) -> bool:
        """Bring a proposal with an intent, or with a marker, to where the marker says it is."""
        async with self.store.bound(job.tenant) as tx:
            stored = await tx.intent(job.proposal)
            now = await tx.work(job.proposal)
        if stored is None:
            return await self._adopt(job)
        state = now.state if now else job.state
        fate = reconcile(job.git, decode(stored.objects), stored.intent)
        if fate is Fate.LANDED:
            await self._landed(job, state, stored.intent, recovered=True)
        elif fate is Fate.ALARM:
            await self._alarm(job, "the marker or a ref is not what the intent says")
        elif state != "executing":
            return state != "approved"  # somebody else has given it back since it was claimed: it is asked again
        elif refused:
            return await self._refused(job)
        else:
            return await self._again(job, stored.attempts)
        return True

    async def _again(self, job: _Job, attempts: int) -> bool:
        """Nothing happened: back to approved, where rights are checked again; not for ever."""
        if attempts >= ATTEMPTS_MOST:
            why = Refusal(Code.COULD_NOT_WRITE, f"The writer died {attempts} times over it.", attempts=attempts)
            return await self._end(job, "executing", "failed", _failure(why))

        async def work(tx: Tx) -> None:
            await self._close(tx, job, "executing", "approved", None)
            await tx.count_attempt(job.proposal)

        await self.store.repeat(job.tenant, work)
        return False

    async def _refused(self, job: _Job) -> bool:
        """The disk, or somebody's lock, was in the way and nothing happened: that is no attempt, and it waits."""

        async def work(tx: Tx) -> bool:
            stored = await tx.intent(job.proposal)
            if stored is not None and stored.age > WAIT_SECONDS:
                why = Refusal(Code.COULD_NOT_WRITE, "For a whole day the repository could not be written.")
                await self._close(tx, job, "executing", "failed", _failure(why))
                return True
            await self._close(tx, job, "executing", "approved", None)
            await tx.postpone(job.proposal)
            return False

        return await self.store.repeat(job.tenant, work)

    async def _adopt(self, job: _Job) -> bool:
        """A marker without an intent: the database was restored to before it. Believe a commit or a tag that says so
        itself, and refs that only this execution leaves as they are.
        """
        async with self.store.bound(job.tenant) as tx:
            approved = await tx.approved(job.proposal)
        if approved is None:  # it came to its end since it was claimed
            return True
        marker = job.git.read_ref(marker_ref(job.proposal))
        sealed = _seal(approved, load_plan(approved.proposal.plan), None)
        if marker == sealed.marker[1]:
            kept = all(job.git.read_ref(one.ref) == one.new for one in sealed.moves if one not in sealed.effects)
            if _speaks(job, marker, approved) or (kept and all(_went(job.git, one) for one in sealed.effects)):
                found = sealed if kept else Intent(sealed.commits, sealed.effects, sealed.marker)
                await self._landed(job, "approved", found, recovered=True)
                return True
        elif _speaks(job, marker, approved):  # signed: which ids the other objects have, only the intent said
            return await self._end(
                job, "approved", "executed", {"code": "executed", "commit": marker, "marker": marker}
            )
        await self._alarm(job, "neither the marker nor the refs speak of this proposal")
        return True

    async def _intend(self, tx: Tx, job: _Job) -> _Ready | None:
        approved = await tx.approved(job.proposal)
        if approved is None:
            return None
        stored = approved.proposal
        plan, reviewed = load_plan(stored.plan), load_manifests(stored.manifest)
        try:
            standing = await tx.stand(stored.proposer, stored.repository, approved.approver, lock=True)
            standing.check(wanted(plan, reviewed))
            standing.check_decider(approved.approver)
            standing.check_signed(approved.signature)
            _check_signature(approved, plan)
            by_owner = approved.signature is not None and tip_of(plan) is not None  # a commit has one signature
            asked = standing.sign_commits and not by_owner
            signer = open_key(tx.tenant, await tx.live_key(), self.sealer) if asked else None
        except Refusal as refusal:
            if refusal.code not in FAILS:
                raise
            if refusal.code in OPERATORS:
                log.error("could not execute %s: %s", job.proposal, refusal)  # noqa: TRY400  a sentence says it all
            await self._close(tx, job, "approved", "failed", _failure(refusal))
            return None
        broken = broken_pin(job.git, load_pins(stored.pins))
        if broken:
            await self._close(tx, job, "approved", "stale", stale_outcome(*broken))
            return None
        sealed = _seal(approved, plan, signer)
        await tx.store_intent(job.proposal, job.place.epoch, sealed, signer.id if signer else None)
        if signer is not None:
            key = {"signing_key": str(signer.id), "fingerprint": signer.fingerprint}
            tx.append(system(tx.tenant), "proposal.signed", str(job.proposal), **key)
        await move(tx, system(tx.tenant), Change(job.proposal, "approved", "executing"))
        return _Ready(approved.objects, plan, reviewed, sealed)

    async def _landed(self, job: _Job, source: State, what: Intent, *, recovered: bool) -> None:
        slow = job.git.wants_maintenance()

        async def work(tx: Tx) -> None:
            await self._close(tx, job, source, "executed", _executed(what, recovered=recovered))
            await tx.record_moves(Cause(job.proposal, "writer", proposal=True), job.repository, what.moves)
            if what.keeps:
                await tx.keep(job.proposal, job.repository, what.effects)
            if slow:
                await tx.maintain(job.repository)

        if source in {"approved", "executing"}:
            await self.store.repeat(job.tenant, work)

    async def _end(self, job: _Job, source: State, target: State, outcome: Json | None) -> bool:
        try:
            await self.store.repeat(job.tenant, lambda tx: self._close(tx, job, source, target, outcome))
        except LostRace:
            log.warning("%s was no longer %s", job.proposal, source)
        return True

    async def _close(self, tx: Tx, job: _Job, source: State, target: State, outcome: Json | None) -> None:
        """Make the move; where it is the end, the queue forgets the proposal in the same transaction."""
        await move(tx, system(tx.tenant), Change(job.proposal, source, target, outcome))
        if target != "approved":
            await tx.forget(job.proposal, "execute", "expire")

    async def _alarm(self, job: _Job, why: str) -> None:
        """Somebody else moved what only the writer may move: touch nothing, say so, and look again in an hour."""
        log.critical("alarm: proposal %s: %s", job.proposal, why)
        async with self.store.bound(job.tenant) as tx:
            await tx.postpone(job.proposal, ALARM_SECONDS)
            tx.append(system(job.tenant), "writer.alarm", str(job.proposal), why=why)


def _seal(approved: Approved, plan: Plan, sign: Sign | None) -> Intent:
    """The intent of an approved proposal: all of it but the service's signature is fixed by the decision. A person's
    own signature of the last new object stands in it, and there is no other then.
    """
    if approved.signature is not None and tip_of(plan) is not None:
        sign = OwnerSignature(approved.signature).sign
    return seal(plan, approved.committer, approved.proposal.trailers(approved.committer), sign)


def _check_signature(approved: Approved, plan: Plan) -> None:
    """A person's own signature is of what is built now, byte for byte. Raises SIGNATURE_DIFFERS."""
    if approved.signature is None:
        return
    if not OwnerSignature(approved.signature).holds(
        signable(plan, approved.committer, approved.proposal.trailers(approved.committer))
    ):
        raise Refusal(Code.SIGNATURE_DIFFERS, "The approval's signature is not of what would be written.")


def _speaks(job: _Job, oid: Oid, approved: Approved) -> bool:
    """Whether a commit or a tag says that it is of this proposal, as it was reviewed."""
    said = {f"Proposal: {job.proposal}".encode(), f"Reviewed-digest: {approved.proposal.digest}".encode()}
    return said <= set(job.git.message(oid).splitlines())


def _went(git: Repository, move: MoveRef) -> bool:
    """Whether a ref is where a move leads, or has gone on from there."""
    head = git.read_ref(move.ref)
    return head == move.new or (NULL not in (head, move.new) and git.contains(head, move.new) and head != move.old)


def _executed(what: Intent, *, recovered: bool) -> Json:
    """The outcome of a proposal that was executed. Its commit is where the last move led; none where a ref went."""
    moves = [{"ref": one.ref, "old": one.old, "new": one.new} for one in what.effects]
    tagged = {one.oid: _target(one) for one in what.commits if one.kind == "tag"}
    last = what.effects[-1].new
    return {
        "code": "executed",
        **({} if last == NULL else {"commit": tagged.get(last, last)}),
        "commits": [one.oid for one in what.commits if one.kind == "commit"],
        "marker": what.marker[1],
        "moves": moves,
        "recovered": recovered,
        "restorable": what.keeps,
    }


def _target(tag: Staged) -> Oid:
    """The commit that a new tag is of."""
    return Oid(tag.content.partition(b"\n")[0].removeprefix(b"object ").decode())


def _failure(why: Refusal) -> Json:
    """The outcome of a proposal that fails."""
    wire = why.code.value
    message = f"{why.message} {wire.todo}" if why.code in OPERATORS else why.message
    return {**why.body(), "code": wire.name, "message": message}

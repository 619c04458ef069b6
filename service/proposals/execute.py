"""Execute what was approved, exactly once. Recovery calls the same functions as the normal path.

    lease    take the repository's lease; a mark that is still there means the last holder died: recover first
    intent   ONE transaction: lock the proposal, lock everything it hangs on, check rights and pins, fix every byte,
             approved -> executing. Its commit is the point of no return
    write    `writer/write`: its marker is the commit point
    row      executing -> executed, ref moves, ledger, one transaction

A crash anywhere leaves the row `executing` (or `approved`) and perhaps a marker; `writer/reconcile` tells which.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from service.contract.answers import State
from service.contract.data import NULL, Json, Oid
from service.contract.plan import MoveRef
from service.grants.standing import decider, stand
from service.kit.actor import system
from service.kit.canonical import canonical
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.ledger.tables import ref_move
from service.proposals.decide import stale_outcome, wanted
from service.proposals.planning import broken_pin, load_manifests, load_pins, load_plan, reopen
from service.proposals.states import LostRace, move
from service.proposals.tables import decision, intent, proposal, staging, work_queue
from service.repositories.lease import Lease, LeaseBusy, read_mark
from service.repositories.objects import decode, encode
from service.repositories.placement import Place, Storage
from service.repositories.reading import Objects
from service.repositories.refs import (
    LockHeld,
    RefConflict,
    RefMoved,
    flush_folders,
    read_ref,
    remove_leftover_locks,
)
from service.writer.intent import Intent, marker_ref, seal
from service.writer.provenance import Trailers, committer_email
from service.writer.reconcile import Fate, reconcile
from service.writer.write import ManifestDiffers, Step, write

log = logging.getLogger("placet.writer")
ATTEMPTS_MOST = 5
LEASE_SECONDS = 2.0
ALARM_SECONDS = 3_600
PAUSE_SECONDS_MOST = 30.0
# Why an approved proposal fails: a right that it hung on is gone.
RIGHT_GONE = frozenset({Code.FORBIDDEN, Code.PROPOSALS_OFF, Code.POLICY_DENIED, Code.NOT_FOUND})


@dataclass(frozen=True)
class Execute:
    """The executor of one writer process.

    Attributes:
        database: as the role `placet_writer`.
        holding: told True when a lease was taken and False when it was given back; the worker kills who holds too long.
        step: told the name of each step that was done.
    """

    database: Database
    storage: Storage
    holding: Callable[[bool], None]
    step: Step

    async def __call__(self, tenant: UUID, proposal_id: UUID) -> bool:
        """Bring an approved proposal to its end. False: not now, ask again."""
        async with self.database.bound(tenant) as tx:
            repository_id = await tx.scalar(select(proposal.c.repository).where(proposal.c.id == proposal_id))
            place = await self.storage.place(tx, repository_id)
        try:
            async with self._lease(tenant, repository_id, place) as lease:
                ended = await self._run(tenant, proposal_id, place)
                if ended:
                    lease.clear()
                return ended
        except LeaseBusy:
            return False
        except OSError as error:
            await self._wait(tenant, proposal_id, error)
            return False

    async def recover(self, tenant: UUID, repository_id: UUID) -> bool:
        """Finish what a dead holder of this repository's lease left. False: another process holds it."""
        async with self.database.bound(tenant) as tx:
            place = await self.storage.place(tx, repository_id)
        try:
            async with self._lease(tenant, repository_id, place) as lease:
                lease.clear()
                return True
        except LeaseBusy:
            return False

    @asynccontextmanager
    async def _lease(self, tenant: UUID, repository_id: UUID, place: Place) -> AsyncIterator[Lease]:
        """Hold the lease. Its mark stays until all is in order, so whoever comes after a crash knows."""
        with Lease.acquire(place.path, LEASE_SECONDS) as lease:
            self.holding(True)
            try:
                if read_mark(place.path):
                    await self._recover(tenant, repository_id, place)
                lease.mark(b"held\n")
                self.step("leased")
                yield lease
            finally:
                self.holding(False)

    async def _recover(self, tenant: UUID, repository_id: UUID, place: Place) -> None:
        removed = remove_leftover_locks(place.path)
        if removed:
            log.warning("removed %d leftovers in %s", len(removed), repository_id)
        flush_folders(place.path)
        async with self.database.bound(tenant) as tx:
            found = await tx.execute(
                select(proposal.c.id).where(proposal.c.repository == repository_id, proposal.c.state == "executing")
            )
            left = [row.id for row in found]
        for proposal_id in left:
            await self._finish(tenant, proposal_id, place)

    async def _run(self, tenant: UUID, proposal_id: UUID, place: Place) -> bool:
        async with self.database.bound(tenant) as tx:
            state = await tx.scalar(select(proposal.c.state).where(proposal.c.id == proposal_id))
        if state not in {"approved", "executing"}:
            return True
        # The marker is looked up for every proposal: a restored database may be older than Git.
        if state == "executing" or read_ref(place.path, marker_ref(proposal_id)) != NULL:
            return await self._finish(tenant, proposal_id, place)
        ready = await self.database.repeat(tenant, lambda tx: self._intend(tx, proposal_id, place))
        self.step("intended")
        return ready is None or await self._write(tenant, proposal_id, place, ready)

    async def _write(self, tenant: UUID, proposal_id: UUID, place: Place, ready: "_Ready") -> bool:
        row = ready.row
        plan = load_plan(row.plan)
        try:
            store = reopen(place.path, plan, row.objects)
            write(place.path, store, plan, load_manifests(row.manifest), decode(row.objects), ready.intent, self.step)
        except (RefMoved, RefConflict) as error:
            head = error.head if isinstance(error, RefMoved) else NULL
            outcome = {"code": "stale", "ref": error.ref, "head": head}
            return await self._end(tenant, proposal_id, "executing", "stale", outcome)
        except ManifestDiffers:
            return await self._end(tenant, proposal_id, "executing", "failed", {"code": "manifest_differs"})
        except LockHeld as error:
            log.warning("could not write %s: %s", proposal_id, error)
            return await self._finish(tenant, proposal_id, place)
        except OSError:
            remove_leftover_locks(place.path)
            if await self._finish(tenant, proposal_id, place, counted=False):
                return True
            raise
        await self._landed(tenant, proposal_id, ready.intent, recovered=False)
        self.step("recorded")
        return True

    async def _finish(self, tenant: UUID, proposal_id: UUID, place: Place, *, counted: bool = True) -> bool:
        """Bring a proposal with an intent, or with a marker, to where the marker says it is. `counted`: where it says
        that nothing happened, this was one of the few attempts.
        """
        async with self.database.bound(tenant) as tx:
            found = select(intent, staging.c.objects).join(staging, staging.c.proposal == intent.c.proposal)
            stored = (await tx.execute(found.where(intent.c.proposal == proposal_id))).one_or_none()
            state = await tx.scalar(select(proposal.c.state).where(proposal.c.id == proposal_id))
        if stored is None:
            return await self._adopt(tenant, proposal_id, place)
        what = _stored_intent(stored)
        fate = reconcile(place.path, decode(stored.objects), what)
        if fate is Fate.LANDED:
            await self._landed(tenant, proposal_id, what, recovered=True)
        elif fate is Fate.ALARM:
            await self._alarm(tenant, proposal_id, "the marker or a ref is not what the intent says")
        elif state == "executing":
            return await self._again(tenant, proposal_id, stored.attempts, counted=counted)
        return True

    async def _again(self, tenant: UUID, proposal_id: UUID, attempts: int, *, counted: bool) -> bool:
        """Nothing happened: back to approved, where rights are checked again; not for ever, unless the disk refuses."""
        if counted and attempts >= ATTEMPTS_MOST:
            outcome = {"code": "could_not_write", "attempts": attempts}
            return await self._end(tenant, proposal_id, "executing", "failed", outcome)
        async with self.database.bound(tenant) as tx:
            mine = update(intent).where(intent.c.proposal == proposal_id)
            await tx.execute(mine.values(attempts=attempts + counted))
        await self._end(tenant, proposal_id, "executing", "approved", None)
        return False

    async def _wait(self, tenant: UUID, proposal_id: UUID, error: OSError) -> None:
        """The disk refuses, full or read-only or broken: nothing is lost, so look again later, and later still."""
        log.warning("the disk refuses %s, which waits: %s", proposal_id, error)
        pause = func.least(PAUSE_SECONDS_MOST, func.power(2.0, func.least(work_queue.c.attempts, 10)))
        async with self.database.bound(tenant) as tx:
            await _look_again(tx, proposal_id, func.make_interval(0, 0, 0, 0, 0, 0, pause))

    async def _adopt(self, tenant: UUID, proposal_id: UUID, place: Place) -> bool:
        """A marker without an intent: the database was restored to before it. Believe a commit that says so itself."""
        commit = read_ref(place.path, marker_ref(proposal_id))
        async with self.database.bound(tenant) as tx:
            row = (await tx.execute(select(proposal.c.digest).where(proposal.c.id == proposal_id))).one()
        message = Objects(place.path).commit(commit).message
        own = (f"Proposal: {proposal_id}".encode(), f"Reviewed-digest: {row.digest}".encode())
        if not all(line in message.splitlines() for line in own):
            await self._alarm(tenant, proposal_id, "the marker's commit does not speak of this proposal")
            return True
        outcome = {"code": "executed", "commit": commit}
        return await self._end(tenant, proposal_id, "approved", "executed", outcome)

    async def _intend(self, tx: Bound, proposal_id: UUID, place: Place) -> "_Ready | None":
        row = await _hold(tx, proposal_id)
        if row is None:
            return None
        try:
            standing = await stand(tx, row.connection, row.repository, lock=True)
            await decider(tx, standing.repository.project, row.person, lock=True)
            standing.check(wanted(row))
        except Refusal as refusal:
            if refusal.code not in RIGHT_GONE:
                raise
            await self._close(
                tx, proposal_id, "approved", "failed", {**refusal.body(), "code": refusal.code.value.name}
            )
            return None
        broken = broken_pin(place.path, load_pins(row.pins))
        if broken:
            await self._close(tx, proposal_id, "approved", "stale", stale_outcome(*broken))
            return None
        trailers = Trailers(proposal_id, committer_email(row.committer), row.connection, row.digest)
        sealed = seal(load_plan(row.plan), row.committer, trailers)
        await _store_intent(tx, proposal_id, place, sealed)
        await move(tx, system(tx.tenant), proposal_id, "approved", "executing")
        return _Ready(row, sealed)

    async def _landed(self, tenant: UUID, proposal_id: UUID, what: Intent, *, recovered: bool) -> None:
        async def work(tx: Bound) -> None:
            row = (await tx.execute(select(proposal).where(proposal.c.id == proposal_id).with_for_update())).one()
            if row.state not in {"approved", "executing"}:
                return
            for one in what.moves:
                await tx.execute(ref_move.insert().values(**_move_values(row, one)))
            outcome: Json = {"code": "executed", "commit": what.marker[1], "recovered": recovered}
            await self._close(tx, proposal_id, row.state, "executed", outcome)

        await self.database.repeat(tenant, work)

    async def _end(
        self, tenant: UUID, proposal_id: UUID, source: State, target: State, outcome: dict[str, Any] | None
    ) -> bool:
        try:
            await self.database.repeat(tenant, lambda tx: self._close(tx, proposal_id, source, target, outcome))
        except LostRace:
            log.warning("%s was no longer %s", proposal_id, source)
        return True

    async def _close(
        self, tx: Bound, proposal_id: UUID, source: State, target: State, outcome: dict[str, Any] | None
    ) -> None:
        """Make the move; where it is the end, the queue forgets the proposal in the same transaction."""
        await move(tx, system(tx.tenant), proposal_id, source, target, outcome)
        if target != "approved":
            await tx.execute(
                delete(work_queue).where(work_queue.c.tenant == tx.tenant, work_queue.c.subject == proposal_id)
            )

    async def _alarm(self, tenant: UUID, proposal_id: UUID, why: str) -> None:
        """Somebody else moved what only the writer may move: touch nothing, say so, and look again in an hour."""
        log.critical("alarm: proposal %s: %s", proposal_id, why)
        async with self.database.bound(tenant) as tx:
            await _look_again(tx, proposal_id, timedelta(seconds=ALARM_SECONDS))
            await append(tx, system(tenant), "writer.alarm", str(proposal_id), why=why)


@dataclass(frozen=True)
class _Ready:
    """A proposal past the point of no return, with what will be written."""

    row: Row[Any]
    intent: Intent


async def _hold(tx: Bound, proposal_id: UUID) -> Row[Any] | None:
    """The approved proposal, locked, with its staged objects and its decision."""
    held = await tx.execute(
        select(proposal).where(proposal.c.id == proposal_id, proposal.c.state == "approved").with_for_update()
    )
    if held.one_or_none() is None:
        return None
    found = await tx.execute(
        select(proposal, staging.c.objects, decision.c.committer, decision.c.person)
        .join(staging, (staging.c.tenant == proposal.c.tenant) & (staging.c.proposal == proposal.c.id))
        .join(decision, (decision.c.tenant == proposal.c.tenant) & (decision.c.proposal == proposal.c.id))
        .where(proposal.c.id == proposal_id)
    )
    return found.one()


async def _look_again(tx: Bound, proposal_id: UUID, pause: ColumnElement[timedelta] | timedelta) -> None:
    waiting = (work_queue.c.tenant == tx.tenant) & (work_queue.c.subject == proposal_id)
    later = func.clock_timestamp() + pause
    await tx.execute(update(work_queue).where(waiting, work_queue.c.kind == "execute").values(due=later))


async def _store_intent(tx: Bound, proposal_id: UUID, place: Place, sealed: Intent) -> None:
    values = {
        "epoch": place.epoch,
        "moves": canonical([one.model_dump(mode="json") for one in sealed.moves]).decode(),
        "commits": encode(sealed.commits),
        "marker": sealed.marker[1],
    }
    stored = insert(intent).values(tenant=tx.tenant, proposal=proposal_id, **values)
    await tx.execute(stored.on_conflict_do_update(index_elements=["tenant", "proposal"], set_=values))


def _stored_intent(row: Row[Any]) -> Intent:
    moves = tuple(MoveRef.model_validate(one) for one in json.loads(row.moves))
    return Intent(decode(row.commits), moves, (marker_ref(row.proposal), Oid(row.marker)))


def _move_values(row: Row[Any], one: MoveRef) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        "id": uuid4(),
        "repository": row.repository,
        "ref": one.ref,
        "old": one.old,
        "new": one.new,
        "actor": "writer",
        "proposal": row.id,
    }

"""The store of proposals on PostgreSQL. Each method is one statement, because an approval is a chain of them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar
from uuid import UUID, uuid5

from sqlalchemy import ARRAY, ColumnElement, Row, Select, Text, bindparam, delete, func, select, true, update
from sqlalchemy.dialects.postgresql import array, insert
from sqlalchemy.sql import Executable

from service.contract.data import Oid
from service.contract.plan import MoveRef
from service.grants.proof import Proof, proof_of
from service.grants.standing import Proposer, Standing, stand
from service.grants.tables import person_credential, tenant
from service.kit.actor import Actor
from service.kit.canonical import canonical
from service.kit.database import Bound, Database
from service.ledger.append import append
from service.ledger.tables import ref_move
from service.proposals.maintain import ask_to_maintain
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
    Tx,
    Work,
)
from service.proposals.reading import count_unsent
from service.proposals.states import DONE, FINAL, WORK
from service.proposals.tables import decision, draft, intent, proposal, restore_point, staging, work_queue
from service.publish.tables import notice_queue
from service.repositories.objects import decode, encode
from service.repositories.placement import Place, Storage
from service.repositories.tables import placement
from service.writer.intent import Intent, marker_ref
from service.writer.keys import LiveKey, live_key, publish_key
from service.writer.passkey import Passkey

T = TypeVar("T")
TOLD: frozenset[str] = frozenset({"executed", "failed", "stale"})
"""The ends that people hear of."""
PAUSE_MOST = 30
"""Seconds between two tries of a proposal that waits for a disk."""

_STORED = (
    proposal.c.id,
    proposal.c.repository,
    proposal.c.connection,
    proposal.c.person,
    proposal.c.state,
    proposal.c.digest,
    proposal.c.pins,
    proposal.c.plan,
    proposal.c.card,
    proposal.c.manifest,
    proposal.c.outcome,
    (proposal.c.expires_at <= func.clock_timestamp()).label("expired"),
    proposal.c.parent,
)
_WHEN: dict[str, ColumnElement[bool]] = {
    "always": true(),
    "in time": proposal.c.expires_at > func.clock_timestamp(),
    "expired": proposal.c.expires_at <= func.clock_timestamp(),
}


# Built once: to put a statement together costs more than to run it.
_WHICH = proposal.c.id == bindparam("which")
_WHOLE = proposal.alias()
_FAMILY = array(
    [bindparam("which"), select(_WHOLE.c.parent).where(_WHOLE.c.id == bindparam("which")).scalar_subquery()]
)
_FIND = {
    False: select(*_STORED).where(_WHICH),
    True: select(*_STORED)
    .where(proposal.c.id == func.any(_FAMILY))
    .order_by(proposal.c.parent.nulls_first())  # PostgreSQL locks rows in the order in which it gives them
    .with_for_update(key_share=True),
}
_PARTS = (
    select(proposal.c.id)
    .where(proposal.c.parent == bindparam("which"), proposal.c.state == "pending")
    .order_by(proposal.c.id)
)
_APPROVED = (
    select(*_STORED, staging.c.objects, decision.c.committer, decision.c.person, decision.c.signature)
    .join(staging, (staging.c.tenant == proposal.c.tenant) & (staging.c.proposal == proposal.c.id))
    .join(decision, (decision.c.tenant == proposal.c.tenant) & (decision.c.proposal == proposal.c.id))
    .where(_WHICH, proposal.c.state == "approved")
    .with_for_update(of=proposal)
)
_WORK = (
    select(proposal.c.state, proposal.c.repository, placement.c.shard, placement.c.epoch)
    .join(placement, (placement.c.tenant == proposal.c.tenant) & (placement.c.repository == proposal.c.repository))
    .where(_WHICH)
)
_STAGED = select(staging.c.objects).where(staging.c.proposal == bindparam("which"))
_RECORD = insert(decision)
_RECORD_MOVE = insert(ref_move).on_conflict_do_nothing()
_QUEUE = insert(work_queue).returning(func.pg_notify(WORK, bindparam("told", type_=Text)))
_QUEUE_KEY = ["kind", "tenant", "subject"]
_FORGET = delete(work_queue).where(
    work_queue.c.kind == func.any(bindparam("kinds", type_=ARRAY(Text))),
    work_queue.c.tenant == bindparam("of"),
    work_queue.c.subject == bindparam("which"),
)
_NEW_INTENT = insert(intent)
_STORE_INTENT = _NEW_INTENT.on_conflict_do_update(
    index_elements=["tenant", "proposal"],
    set_={name: _NEW_INTENT.excluded[name] for name in ("epoch", "moves", "commits", "marker", "signing_key")},
)
_INTENT = (
    select(
        intent,
        staging.c.objects,
        func.extract("epoch", func.clock_timestamp() - intent.c.written_at).label("age"),
    )
    .join(staging, (staging.c.tenant == intent.c.tenant) & (staging.c.proposal == intent.c.proposal))
    .where(intent.c.proposal == bindparam("which"))
)


@cache
def _change(when: str, *, final: bool, ended: bool, told: bool) -> Executable:
    """The guarded UPDATE of a move; a final one wakes who waits, and one that people hear of (`told`) queues that."""
    values: dict[str, Any] = {"state": bindparam("target")}
    if final:
        values["ended_at"] = func.clock_timestamp()
    if ended:
        values["outcome"] = bindparam("said")
    woken = func.pg_notify(DONE, bindparam("told", type_=Text)) if final else proposal.c.id
    guarded = update(proposal).where(_WHICH, proposal.c.state == bindparam("source"), _WHEN[when])
    moved = guarded.values(**values).returning(woken.label("woken"), proposal.c.tenant, proposal.c.id)
    if not told:
        return moved
    found = moved.cte("moved")
    news = select(bindparam("target", type_=Text), found.c.tenant, found.c.id)
    queued = insert(notice_queue).from_select(["kind", "tenant", "subject"], news).on_conflict_do_nothing()
    return select(found.c.woken).add_cte(queued.cte("queued"))


@dataclass(frozen=True)
class ProposalStore:
    """The store of one process."""

    database: Database
    storage: Storage

    @asynccontextmanager
    async def bound(self, tenant: UUID) -> AsyncIterator[Tx]:
        """A transaction; commits at the end, rolls back on any exception."""
        async with self.database.bound(tenant) as tx:
            yield ProposalTx(tx, self.storage)

    async def repeat(self, tenant: UUID, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Do the whole of `work` in one transaction, again where PostgreSQL broke a deadlock."""
        return await self.database.repeat(tenant, lambda tx: work(ProposalTx(tx, self.storage)))


@dataclass(frozen=True)
class ProposalTx:
    """A transaction on PostgreSQL; see `ports.Tx`."""

    bound: Bound
    storage: Storage

    @property
    def tenant(self) -> UUID:
        return self.bound.tenant

    async def find(self, proposal_id: UUID, *, lock: bool = False) -> Stored | None:
        rows = await self.bound.execute(_FIND[lock], {"which": proposal_id})
        return next((Stored(*tuple(row)) for row in rows if row.id == proposal_id), None)

    async def parts(self, proposal_id: UUID) -> Sequence[UUID]:
        return list((await self.bound.execute(_PARTS, {"which": proposal_id})).scalars())

    async def approved(self, proposal_id: UUID) -> Approved | None:
        row = await self._one(_APPROVED, proposal_id)
        return None if row is None else Approved(Stored(*row[: len(_STORED)]), *row[len(_STORED) :])

    async def work(self, proposal_id: UUID) -> Work | None:
        row = await self._one(_WORK, proposal_id)
        if row is None:
            return None
        path = self.storage.path(row.shard, self.tenant, row.repository)
        return Work(row.state, row.repository, Place(path, row.epoch))

    async def staged(self, proposal_id: UUID) -> bytes:
        return bytes((await self.bound.execute(_STAGED, {"which": proposal_id})).scalar_one())

    async def place(self, repository_id: UUID) -> Place:
        return await self.storage.place(self.bound, repository_id)

    async def executing(self, repository_id: UUID) -> Sequence[UUID]:
        mine = (proposal.c.repository == repository_id) & (proposal.c.state == "executing")
        return list((await self.bound.execute(select(proposal.c.id).where(mine))).scalars())

    async def stand(
        self, proposer: Proposer, repository_id: UUID, approver: UUID | None = None, *, lock: bool = False
    ) -> Standing:
        return await stand(self.bound, proposer, repository_id, approver, lock=lock)

    async def change(self, what: Change) -> bool:
        final, ended = what.target in FINAL, what.outcome is not None
        values: dict[str, Any] = {"which": what.proposal, "source": what.source, "target": what.target}
        if ended:
            values["said"] = canonical(what.outcome).decode()
        if final:
            values["told"] = str(what.proposal)
        statement = _change(what.when, final=final, ended=ended, told=what.target in TOLD)
        moved = await self.bound.execute(statement, values)
        return len(moved.all()) == 1

    async def proof(self, person_id: UUID, session_id: UUID | None) -> Proof:
        return await proof_of(self.bound, person_id, session_id)

    async def record(self, one: Decision) -> None:
        await self.bound.execute(
            _RECORD,
            {
                "tenant": self.tenant,
                "proposal": one.proposal,
                "person": one.person,
                "session": one.session,
                "verdict": one.verdict,
                "digest": one.digest,
                "acknowledged": canonical(list(one.acknowledged)).decode(),
                "note": one.note,
                "reason": one.reason,
                "committer": one.committer,
                "decided_at": one.at,
                "signature": one.signature,
                "proof": one.proof,
            },
        )

    async def unsent(self, proposal_id: UUID, session: UUID | None, digest: str) -> int | None:
        return await count_unsent(self.bound, proposal_id, session, digest)

    async def credentials(self, person: UUID) -> Sequence[Credential]:
        mine = (person_credential.c.person == person) & person_credential.c.signs & person_credential.c.live
        columns = (person_credential.c.handle, person_credential.c.secret, person_credential.c.counter)
        rows = await self.bound.execute(select(*columns).where(mine).order_by(person_credential.c.created_at))
        return [Credential(row.handle, row.secret, row.counter) for row in rows]

    async def store_draft(self, one: Draft, seconds: int) -> None:
        until = func.clock_timestamp() + timedelta(seconds=seconds)
        row = {"id": one.id, "proposal": one.proposal, "person": one.person, "session": one.session}
        fixed = {"said": canonical(one.said).decode(), "committer": one.committer, "decided_at": one.at}
        earlier = (draft.c.proposal == one.proposal) & (draft.c.session == one.session)
        await self.bound.execute(delete(draft).where(earlier | (draft.c.expires_at < func.clock_timestamp())))
        await self.bound.execute(insert(draft).values(tenant=self.tenant, **row, **fixed, expires_at=until))

    async def take_draft(self, draft_id: UUID, proposal_id: UUID, session: UUID | None) -> Draft | None:
        asked = (draft.c.id == draft_id) & (draft.c.proposal == proposal_id) & (draft.c.session == session)
        good = draft.c.used_at.is_(None) & (draft.c.expires_at > func.clock_timestamp())
        columns = (draft.c.person, draft.c.said, draft.c.committer, draft.c.decided_at, good.label("good"))
        row = (await self.bound.execute(select(*columns).where(asked).with_for_update())).one_or_none()
        if row is None:
            return None
        await self.bound.execute(update(draft).where(draft.c.id == draft_id).values(used_at=func.clock_timestamp()))
        said = json.loads(row.said)
        return Draft(draft_id, proposal_id, row.person, session, said, row.committer, row.decided_at, row.good)

    async def signed_with(self, person: UUID, email: str, credential: Credential, key: Passkey) -> None:
        mine = (person_credential.c.handle == credential.id) & (person_credential.c.person == person)
        used = {"counter": credential.counter, "used_at": func.clock_timestamp()}
        await self.bound.execute(update(person_credential).where(mine).values(**used))
        await publish_key(self.bound, person, email, key)

    async def queue(self, proposal_id: UUID, repository_id: UUID) -> None:
        row = {"kind": "execute", "tenant": self.tenant, "subject": proposal_id, "repository": repository_id}
        await self.bound.execute(_QUEUE, {**row, "told": str(proposal_id)})

    async def forget(self, subject: UUID, *kinds: Kind) -> None:
        await self.bound.execute(_FORGET, {"which": subject, "of": self.tenant, "kinds": list(kinds)})

    async def postpone(self, subject: UUID, seconds: float | None = None, kind: Kind = "execute") -> None:
        grown = func.least(PAUSE_MOST, func.power(2, func.least(work_queue.c.attempts, 10)))
        pause = func.make_interval(0, 0, 0, 0, 0, 0, grown) if seconds is None else timedelta(seconds=seconds)
        queued = work_queue.c
        mine = (queued.kind == kind) & (queued.tenant == self.tenant) & (queued.subject == subject)
        later = update(work_queue).where(mine)
        await self.bound.execute(later.values(due=func.clock_timestamp() + pause))

    async def maintain(self, repository_id: UUID) -> None:
        await ask_to_maintain(self.bound, self.tenant, repository_id)

    async def live_key(self) -> LiveKey | None:
        return await live_key(self.bound)

    async def store_intent(self, proposal_id: UUID, epoch: int, sealed: Intent, signing_key: UUID | None) -> None:
        await self.bound.execute(
            _STORE_INTENT,
            {
                "tenant": self.tenant,
                "proposal": proposal_id,
                "epoch": epoch,
                "moves": canonical([one.model_dump(mode="json") for one in sealed.moves]).decode(),
                "commits": encode(sealed.commits),
                "marker": sealed.marker[1],
                "signing_key": signing_key,
            },
        )

    async def intent(self, proposal_id: UUID) -> StoredIntent | None:
        row = await self._one(_INTENT, proposal_id)
        if row is None:
            return None
        moves = tuple(MoveRef.model_validate(one) for one in json.loads(row.moves))
        known = Intent(decode(row.commits), moves, (marker_ref(proposal_id), Oid(row.marker)))
        return StoredIntent(known, row.objects, row.attempts, float(row.age))

    async def count_attempt(self, proposal_id: UUID) -> None:
        mine = update(intent).where(intent.c.proposal == proposal_id)
        await self.bound.execute(mine.values(attempts=intent.c.attempts + 1))

    async def record_moves(self, cause: Cause, repository_id: UUID, moves: Sequence[MoveRef]) -> bool:
        proposal_id = cause.id if cause.proposal else None
        same = {"tenant": self.tenant, "repository": repository_id, "actor": cause.actor, "proposal": proposal_id}
        stored = 0
        for one in moves:
            row = {**same, "id": uuid5(cause.id, one.ref), "ref": one.ref, "old": one.old, "new": one.new}
            stored += (await self.bound.execute(_RECORD_MOVE, row)).rowcount
        return stored > 0

    async def keep(self, proposal_id: UUID, repository_id: UUID, moves: Sequence[MoveRef]) -> None:
        seconds = select(tenant.c.restore_seconds).where(tenant.c.id == self.tenant).scalar_subquery()
        until = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
        kept = await self.bound.execute(
            insert(restore_point)
            .values(
                tenant=self.tenant,
                id=proposal_id,
                repository=repository_id,
                moves=canonical([one.model_dump(mode="json") for one in moves]).decode(),
                expires_at=until,
            )
            .on_conflict_do_nothing()
            .returning(restore_point.c.expires_at)
        )
        if (expires_at := kept.scalar_one_or_none()) is not None:
            row = {"kind": "drop", "tenant": self.tenant, "subject": proposal_id, "repository": repository_id}
            queued = insert(work_queue).values(**row, due=expires_at)
            in_time = queued.on_conflict_do_update(index_elements=_QUEUE_KEY, set_={"due": queued.excluded.due})
            await self.bound.execute(in_time)  # whoever had queued it before then was early

    async def time_left(self, restore_point_id: UUID) -> float | None:
        left = func.extract("epoch", restore_point.c.expires_at - func.clock_timestamp())
        kept = (restore_point.c.id == restore_point_id) & restore_point.c.dropped_at.is_(None)
        found = await self.bound.scalar(select(left).where(kept))
        return None if found is None else float(found)

    async def dropped(self, restore_point_id: UUID) -> bool:
        kept = (restore_point.c.id == restore_point_id) & restore_point.c.dropped_at.is_(None)
        gone = await self.bound.execute(update(restore_point).where(kept).values(dropped_at=func.clock_timestamp()))
        return bool(gone.rowcount)

    async def recorded(self, cause: Cause, moves: Sequence[MoveRef]) -> bool:
        ids = [uuid5(cause.id, one.ref) for one in moves]
        found = await self.bound.execute(select(func.count()).where(ref_move.c.id.in_(ids)))
        return int(found.scalar_one()) == len(ids)

    def append(self, actor: Actor, kind: str, subject: str, **details: Any) -> None:
        append(self.bound, actor, kind, subject, **details)

    async def _one(self, statement: Select[Any], proposal_id: UUID) -> Row[Any] | None:
        row: Row[Any] | None = (await self.bound.execute(statement, {"which": proposal_id})).one_or_none()
        return row

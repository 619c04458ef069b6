"""Submit: the key first, then rights, then planning beside the database, then one transaction that stores it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Row, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from service.grants.policy import Wanted
from service.grants.standing import Standing, stand
from service.grants.tables import connection, tenant
from service.kit.actor import Actor
from service.kit.canonical import canonical
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.proposals.conflicts import keep_conflict
from service.proposals.planners import Planners
from service.proposals.planning import Conflicted, Planned
from service.proposals.submission import Submission
from service.proposals.tables import proposal, staging, work_queue
from service.proposals.undone import undo_of
from service.proposals.words import searchable
from service.publish.tables import notice_queue
from service.repositories.placement import Storage
from service.writer.provenance import author_line


@dataclass(frozen=True)
class Submit:
    """The submit step of one web process.

    Attributes:
        database: as the role `placet_app`.
        storage: where repositories lie.
        host: stands in the author's address.
        planners: who plan.
        stored: told the tenant and the id of each proposal that has come to be.
    """

    database: Database
    storage: Storage
    host: str
    planners: Planners = field(default_factory=Planners)
    stored: Callable[[UUID, UUID], None] = lambda _tenant, _proposal: None

    async def __call__(self, actor: Actor, what: Submission) -> tuple[UUID, bool]:
        """Store a proposal. Gives its id, and whether it was there before (replayed).

        Raises:
            Refusal: KEY_REUSED for the same key with another body; rights, policy, blockers, limits.
        """
        async with self.database.bound(actor.tenant) as tx:
            if earlier := await _earlier(tx, what):
                return earlier, True
        async with self.planners.turn(what.proposer.id):
            made, replayed = await self._submit(actor, what)
        if not replayed:
            self.stored(actor.tenant, made)
        return made, replayed

    async def _submit(self, actor: Actor, what: Submission) -> tuple[UUID, bool]:
        repository_id = UUID(what.request.repository_id)
        async with self.database.bound(actor.tenant) as tx:
            if earlier := await _earlier(tx, what):  # the same call may have been quicker
                return earlier, True
            standing = await stand(tx, what.proposer, repository_id)
            standing.check(what.wanted)
            await _check_room(tx, what, standing)
            place = await self.storage.place(tx, repository_id)
        proposal_id = uuid4()
        try:
            planned = await self.planners.plan(place, what, proposal_id, self._author(what, standing))
        except Conflicted as conflicted:
            kept = partial(keep_conflict, what=what, conflicted=conflicted)
            raise await self.database.repeat(actor.tenant, kept) from None
        return await self.database.repeat(
            actor.tenant, lambda tx: _store(tx, actor, what, proposal_id, planned, repository_id)
        )

    def _author(self, what: Submission, standing: Standing) -> bytes:
        seconds = int(standing.now.timestamp())
        if what.author:
            return b"%s %d +0000" % (what.author, seconds)
        return author_line(standing.connection_name, what.proposer.id, self.host, seconds)


async def _earlier(tx: Bound, what: Submission) -> UUID | None:
    """The proposal that this key already stands for."""
    found = await tx.execute(
        select(proposal.c.id, proposal.c.body_hash).where(what.mine(proposal), proposal.c.key == what.key)
    )
    row: Row[Any] | None = found.one_or_none()
    if row is None:
        return None
    if row.body_hash != what.body_hash:
        message = "This idempotency key stands for a proposal with another body."
        raise Refusal(Code.KEY_REUSED, message, field="idempotency_key", proposal_id=str(row.id))
    return UUID(str(row.id))


async def _check_room(tx: Bound, what: Submission, standing: Standing) -> None:
    limit = standing.pending_most
    asked = (what.mine(proposal), proposal.c.state == "pending", proposal.c.parent.is_(None))
    waiting = await tx.scalar(select(func.count()).where(*asked))  # what an owner chose is no room of the proposer's
    if waiting >= limit:
        message = f"{waiting} proposals of the same proposer wait; {limit} is the most."
        raise Refusal(Code.TOO_MANY_PENDING, message, limit=limit, value=waiting)


async def _store(
    tx: Bound, actor: Actor, what: Submission, proposal_id: UUID, planned: Planned, repository_id: UUID
) -> tuple[UUID, bool]:
    """Insert, or find who was quicker. The proposer's row is held, so the count of waiting proposals is exact."""
    await _hold(tx, what)
    if earlier := await _earlier(tx, what):  # a statement of its own: FACTS, PostgreSQL
        return earlier, True
    if what.undoes and (earlier := await undo_of(tx, what.undoes)):
        return earlier, True
    standing = await stand(tx, what.proposer, repository_id)
    standing.check(Wanted(planned.kinds, planned.refs, planned.paths))
    await _check_room(tx, what, standing)
    lifetime = timedelta(seconds=standing.proposal_seconds)
    expires_at = await store_proposal(tx, what, proposal_id, planned, func.clock_timestamp() + lifetime)
    await tx.execute(
        insert(work_queue).values(
            kind="expire", tenant=tx.tenant, subject=proposal_id, repository=repository_id, due=expires_at
        )
    )
    await _tell(tx, proposal_id, expires_at, lifetime)
    append(tx, actor, "proposal.pending", str(proposal_id), operation=what.operation.kind, card_digest=planned.digest)
    return proposal_id, False


async def store_proposal(
    tx: Bound,
    what: Submission,
    proposal_id: UUID,
    planned: Planned,
    expires_at: ColumnElement[datetime],
    parent: UUID | None = None,
) -> datetime:
    """Insert a proposal with what was staged for it; gives when it expires. `parent`: the one that it is a part of."""
    stored = await tx.execute(
        insert(proposal)
        .values(
            tenant=tx.tenant,
            id=proposal_id,
            repository=UUID(what.request.repository_id),
            connection=what.proposer.connection,
            person=what.proposer.person,
            group_id=what.group_id,
            undoes=what.undoes,
            parent=parent,
            key=what.key,
            body_hash=what.body_hash,
            kind=what.operation.kind,
            kind_version=what.operation.version,
            request=canonical(what.request.model_dump(mode="json")).decode(),
            pins=planned.pins,
            plan=planned.plan,
            card=planned.card,
            manifest=planned.manifest,
            digest=planned.digest,
            **searchable(planned),
            expires_at=expires_at,
        )
        .returning(proposal.c.expires_at)
    )
    await tx.execute(insert(staging).values(tenant=tx.tenant, proposal=proposal_id, objects=planned.objects))
    found: datetime = stored.scalar_one()
    return found


async def _tell(tx: Bound, proposal_id: UUID, expires_at: datetime, lifetime: timedelta) -> None:
    """Have people told now, and again before its time is over, but not in the first half of it."""
    warned = func.make_interval(
        0, 0, 0, 0, 0, 0, select(tenant.c.warn_seconds).where(tenant.c.id == tx.tenant).scalar_subquery()
    )
    soon = func.greatest(literal(expires_at) - warned, literal(expires_at - lifetime / 2))
    row = {"tenant": tx.tenant, "subject": proposal_id}
    await tx.execute(insert(notice_queue).values({**row, "kind": "waiting"}))
    await tx.execute(insert(notice_queue).values({**row, "kind": "expiring", "due": soon}))


async def _hold(tx: Bound, what: Submission) -> None:
    """Let no other proposal of the same proposer be stored meanwhile, and no other that undoes the same."""
    proposer = what.proposer
    if what.undoes:
        await tx.alone(what.undoes)
    if proposer.kind == "agent":
        await tx.execute(select(connection.c.id).where(connection.c.id == proposer.id).with_for_update(key_share=True))
    else:  # the web may not lock a person
        await tx.alone(proposer.id)

"""Submit: the key first, then rights, then planning beside the database, then one transaction that stores it."""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, func, select
from sqlalchemy.dialects.postgresql import insert

from service.contract.data import Json
from service.contract.operation import Operation
from service.contract.world import OutOfTime
from service.grants.policy import Wanted
from service.grants.standing import Standing, stand
from service.grants.tables import connection
from service.kit.actor import Actor
from service.kit.canonical import canonical, digest
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.proposals.planning import Planned, plan_proposal
from service.proposals.tables import proposal, staging, work_queue
from service.repositories.placement import Place, Storage
from service.writer.provenance import author_line

PLAN_SECONDS = 20


@dataclass(frozen=True)
class Submission:
    """What a caller sent. `sent` is the arguments as they came, less the key: what the body hash is taken over."""

    operation: Operation[Any]
    request: Any
    key: str
    sent: Json

    @property
    def body_hash(self) -> str:
        return digest({"tool": self.operation.kind, "arguments": self.sent})


@dataclass(frozen=True)
class Submit:
    """The submit step of one web process. `host` stands in the author's address."""

    database: Database
    storage: Storage
    host: str

    async def __call__(self, actor: Actor, what: Submission) -> tuple[UUID, bool]:
        """Store a proposal. Gives its id, and whether it was there before (replayed).

        Raises:
            Refusal: KEY_REUSED for the same key with another body; rights, policy, blockers, limits.
        """
        repository_id = UUID(what.request.repository_id)
        wanted = _wanted(what)
        async with self.database.bound(actor.tenant) as tx:
            if earlier := await _earlier(tx, actor, what):
                return earlier, True
            standing = await stand(tx, actor.id, repository_id)
            standing.check(wanted)
            await _check_room(tx, actor, standing)
            place = await self.storage.place(tx, repository_id)
        proposal_id = uuid4()
        author = author_line(standing.connection_name, actor.id, self.host, int(standing.now.timestamp()))
        planned = await _planned(place, what, proposal_id, author)
        return await self.database.repeat(
            actor.tenant, lambda tx: _store(tx, actor, what, proposal_id, planned, repository_id)
        )


async def _planned(place: Place, what: Submission, proposal_id: UUID, author: bytes) -> Planned:
    deadline = time.monotonic() + PLAN_SECONDS
    try:
        return await asyncio.to_thread(
            plan_proposal, place.path, what.operation, what.request, proposal_id, author, deadline
        )
    except OutOfTime:
        message = f"Planning took longer than {PLAN_SECONDS} seconds."
        raise Refusal(Code.OUT_OF_TIME, message, limit=PLAN_SECONDS) from None


async def _earlier(tx: Bound, actor: Actor, what: Submission) -> UUID | None:
    """The proposal that this key already stands for."""
    found = await tx.execute(
        select(proposal.c.id, proposal.c.body_hash).where(proposal.c.connection == actor.id, proposal.c.key == what.key)
    )
    row: Row[Any] | None = found.one_or_none()
    if row is None:
        return None
    if row.body_hash != what.body_hash:
        message = "This idempotency key stands for a proposal with another body."
        raise Refusal(Code.KEY_REUSED, message, field="idempotency_key", proposal_id=str(row.id))
    return UUID(str(row.id))


async def _check_room(tx: Bound, actor: Actor, standing: Standing) -> None:
    limit = standing.pending_most
    waiting = await tx.scalar(
        select(func.count()).where(proposal.c.connection == actor.id, proposal.c.state == "pending")
    )
    if waiting >= limit:
        message = f"This connection has {waiting} proposals waiting; {limit} is the most."
        raise Refusal(Code.TOO_MANY_PENDING, message, limit=limit, value=waiting)


async def _store(
    tx: Bound, actor: Actor, what: Submission, proposal_id: UUID, planned: Planned, repository_id: UUID
) -> tuple[UUID, bool]:
    """Insert, or find who was quicker. The connection's row is held, so the count of waiting proposals is exact."""
    await tx.execute(select(connection.c.id).where(connection.c.id == actor.id).with_for_update(key_share=True))
    if earlier := await _earlier(tx, actor, what):  # a statement of its own: FACTS, PostgreSQL
        return earlier, True
    standing = await stand(tx, actor.id, repository_id)
    standing.check(Wanted((what.operation.kind,), planned.refs, planned.paths))
    await _check_room(tx, actor, standing)
    lifetime = timedelta(seconds=standing.proposal_seconds)
    stored = await tx.execute(
        insert(proposal)
        .values(
            tenant=tx.tenant,
            id=proposal_id,
            repository=repository_id,
            connection=actor.id,
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
            expires_at=func.clock_timestamp() + lifetime,
        )
        .returning(proposal.c.expires_at)
    )
    expires_at = stored.scalar_one()
    await tx.execute(insert(staging).values(tenant=tx.tenant, proposal=proposal_id, objects=planned.objects))
    await tx.execute(
        insert(work_queue).values(
            kind="expire", tenant=tx.tenant, subject=proposal_id, repository=repository_id, due=expires_at
        )
    )
    append(tx, actor, "proposal.pending", str(proposal_id), operation=what.operation.kind, card_digest=planned.digest)
    return proposal_id, False


def _wanted(what: Submission) -> Wanted:
    refs, paths = what.operation.targets(what.request)
    return Wanted((what.operation.kind,), refs, paths)

"""Restore points: what the refs were before an execution that did not go forward; kept for the tenant's time."""

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from pydantic import TypeAdapter
from sqlalchemy import Row, Select, select, tuple_

from service.contract.data import NULL
from service.contract.plan import MoveRef
from service.contract.ports import RestorePoint
from service.contract.undoing import RESTORE_POINTS
from service.grants.reach import reached_repositories
from service.kit.actor import Actor, system
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.ports import Kind, Store, Tx
from service.proposals.push import record_push
from service.proposals.tables import proposal, restore_point
from service.repositories.lease import LeaseBusy
from service.repositories.placement import Place
from service.repositories.refs import LockHeld, RefMoved
from service.repositories.tables import repository
from service.writer.ports import Lease, Repository
from service.writer.push import Journal, push
from service.writer.write import Step

log = logging.getLogger("placet.restore")
KIND: Kind = "drop"
AT_ONCE = 50
"""So many refs are dropped in one transaction: its journal must fit a mark."""
LATER_SECONDS = 600
MOVES = TypeAdapter(tuple[MoveRef, ...])


@dataclass(frozen=True)
class ReachedRestorePoints:
    """The restore points of the repositories that the calling connection may read: the port that tools use."""

    actor: Actor
    database: Database

    async def list(self, repository_id: str, before: str, most: int) -> list[RestorePoint]:
        """The newest first, older than the one with the id `before`, at most so many."""
        statement = self._reached(before).where(restore_point.c.repository == _uuid(repository_id))
        async with self.database.bound(self.actor.tenant) as tx:
            await self._check_reach(tx, repository_id)
            if before:
                await self._row(tx, before)
            return [point_of(row) for row in await tx.execute(statement.limit(most))]

    async def read(self, restore_point_id: str) -> RestorePoint:
        """One of them."""
        async with self.database.bound(self.actor.tenant) as tx:
            return point_of(await self._row(tx, restore_point_id))

    def _reached(self, before: str = "") -> Select[Any]:
        return kept_points(before).where(restore_point.c.repository.in_(reached_repositories(self.actor)))

    async def _check_reach(self, tx: Bound, repository_id: str) -> None:
        this = repository.c.id == _uuid(repository_id, "repository")
        if await tx.scalar(reached_repositories(self.actor).where(this)) is None:
            raise _unknown("repository")

    async def _row(self, tx: Bound, restore_point_id: str) -> Row[Any]:
        one = self._reached().where(restore_point.c.id == _uuid(restore_point_id))
        row = (await tx.execute(one)).one_or_none()
        if row is None:
            raise _unknown()
        return row


@dataclass(frozen=True)
class Drop:
    """Drops restore points whose time is over, in one writer process.

    Attributes:
        store: as the role `placet_writer`.
        open: gives the repository in a folder.
        lease: takes a repository's lease for a block, after recovery; see `Execute.lease`.
        step: told the name of each step that was done.
    """

    store: Store
    open: Callable[[Path], Repository]
    lease: Callable[[UUID, UUID, Place], AbstractAsyncContextManager[Lease]]
    step: Step

    async def __call__(self, tenant: UUID, restore_point_id: UUID, repository_id: UUID) -> bool:
        """Drop one restore point whose time is over. False: not now, ask again."""
        try:
            async with self.store.bound(tenant) as tx:
                left = await self._left(tx, restore_point_id)
                if left is None:
                    return True
                if left > 0:
                    return False
                place = await tx.place(repository_id)
            await self._drop(tenant, restore_point_id, repository_id, place)
        except (LeaseBusy, LockHeld):
            return False
        except (OSError, RefMoved) as error:
            log.warning("could not drop restore point %s; it is tried again: %s", restore_point_id, error)
            async with self.store.bound(tenant) as tx:
                await tx.postpone(restore_point_id, LATER_SECONDS, KIND)
            return False
        except Refusal as refusal:
            if refusal.code is not Code.NOT_FOUND:  # a repository that is gone keeps nothing
                raise
        async with self.store.bound(tenant) as tx:
            await tx.forget(restore_point_id, KIND)
            if await tx.dropped(restore_point_id):
                details = {"repository": str(repository_id)}
                tx.append(system(tenant), "restore_point.dropped", str(restore_point_id), **details)
        return True

    async def _left(self, tx: Tx, restore_point_id: UUID) -> float | None:
        """The seconds that a restore point has left, when it is asked again; None where there is none to be dropped.

        Anybody may have queued this. The queue's row is held before anything is looked up, so that an execution that
        keeps a restore point meanwhile queues its own after this.
        """
        await tx.postpone(restore_point_id, LATER_SECONDS, KIND)
        left = await tx.time_left(restore_point_id)
        if left is None:
            await tx.forget(restore_point_id, KIND)
        elif left > 0:
            await tx.postpone(restore_point_id, left, KIND)
        return left

    async def _drop(self, tenant: UUID, restore_point_id: UUID, repository_id: UUID, place: Place) -> None:
        async with self.lease(tenant, repository_id, place) as lease:
            git = self.open(place.path)
            kept = git.list_refs(f"{RESTORE_POINTS}{restore_point_id}/")
            for start in range(0, len(kept), AT_ONCE):
                moves = tuple(MoveRef(ref=ref, old=oid, new=NULL) for ref, oid in kept[start : start + AT_ONCE])
                journal = Journal(uuid4(), f"system:{system(tenant).id}", moves)
                push(git, lease, journal, self.step)
                await record_push(self.store, tenant, repository_id, journal)
            lease.clear()


def kept_points(before: str = "") -> Select[Any]:
    """What is kept and not dropped yet, the newest first; `before`: only what is older than the one with this id."""
    executed = (proposal.c.tenant == restore_point.c.tenant) & (proposal.c.id == restore_point.c.id)
    newest = (restore_point.c.made_at, restore_point.c.id)
    kept = select(restore_point, proposal.c.kind).join(proposal, executed).where(restore_point.c.dropped_at.is_(None))
    if before:
        last = restore_point.alias()
        place = select(last.c.made_at, last.c.id).where(last.c.id == _uuid(before)).scalar_subquery()
        kept = kept.where(tuple_(*newest) < place)
    return kept.order_by(*(one.desc() for one in newest))


def load_moves(text: str) -> Sequence[MoveRef]:
    """Stored moves."""
    return MOVES.validate_python(json.loads(text))


def point_of(row: Row[Any]) -> RestorePoint:
    """A row of `kept_points` as a value."""
    return RestorePoint(
        id=str(row.id),
        repository_id=str(row.repository),
        operation=row.kind,
        made_at=row.made_at.isoformat(),
        expires_at=row.expires_at.isoformat(),
        moves=tuple(load_moves(row.moves)),
    )


def _uuid(text: str, noun: str = "restore point") -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _unknown(noun) from None


def _unknown(noun: str = "restore point") -> Refusal:
    return Refusal(Code.NOT_FOUND, f"There is no such {noun}.")

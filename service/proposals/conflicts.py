"""What could not be proposed because two sides disagree: kept for a day, for who wanted it to read."""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

from pydantic import TypeAdapter
from sqlalchemy import and_, delete, func, insert, or_, select

from service.contract.changes import content_of
from service.contract.plan import Conflict
from service.contract.ports import KeptConflict
from service.grants.reach import reached_repositories
from service.kit.actor import Actor
from service.kit.canonical import canonical
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.planning import Conflicted
from service.proposals.submission import Submission
from service.proposals.tables import conflict
from service.repositories.bare import NOBODY
from service.repositories.objects import decode
from service.repositories.placement import Storage
from service.repositories.staging import Staging

KEPT_MOST = 20
"""So many of one proposer are kept; the oldest goes."""
KEPT = timedelta(days=1)
CONFLICTS = TypeAdapter(tuple[Conflict, ...])


async def keep_conflict(tx: Bound, what: Submission, conflicted: Conflicted) -> Refusal:
    """Keep it, and give the refusal that names it. Whosever day is over goes with it."""
    own, mine = uuid4(), what.mine(conflict)
    newest = select(conflict.c.id).where(mine).order_by(conflict.c.made_at.desc()).limit(KEPT_MOST - 1)
    old = conflict.c.made_at < func.clock_timestamp() - KEPT
    await tx.execute(delete(conflict).where(or_(old, and_(mine, conflict.c.id.not_in(newest)))))
    await tx.execute(
        insert(conflict).values(
            tenant=tx.tenant,
            id=own,
            repository=UUID(what.request.repository_id),
            connection=what.proposer.connection,
            person=what.proposer.person,
            kind=what.operation.kind,
            request=canonical(what.request.model_dump(mode="json")).decode(),
            paths=canonical(CONFLICTS.dump_python(conflicted.conflicts, mode="json")).decode(),
            objects=conflicted.objects,
        )
    )
    return Refusal(conflicted.code, conflicted.message, **conflicted.details, conflict_id=str(own))


@dataclass(frozen=True)
class OwnConflicts:
    """The calling connection's conflicts: the port that tools use."""

    actor: Actor
    database: Database
    storage: Storage

    async def read(self, conflict_id: str) -> KeptConflict:
        """One of them, while its repository is reached and the day is not over."""
        statement = select(conflict).where(
            conflict.c.id == _uuid(conflict_id),
            conflict.c.connection == self.actor.id,
            conflict.c.repository.in_(reached_repositories(self.actor)),
            conflict.c.made_at > func.clock_timestamp() - KEPT,
        )
        async with self.database.bound(self.actor.tenant) as tx:
            row = (await tx.execute(statement)).one_or_none()
            if row is None:
                raise _unknown()
            place = await self.storage.place(tx, row.repository)
        store = _Sides(place.path, row.objects)
        return KeptConflict(
            id=str(row.id),
            repository_id=str(row.repository),
            operation=row.kind,
            made_at=row.made_at.isoformat(),
            conflicts=CONFLICTS.validate_python(json.loads(row.paths)),
            content=lambda entry: content_of(store.open(), entry),
        )


@dataclass(frozen=True)
class _Sides:
    """The contents of a kept conflict: from the repository, or from what is kept with it."""

    path: Path
    objects: bytes

    def open(self) -> Staging:
        return Staging(self.path, NOBODY, objects=decode(self.objects))


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _unknown() from None


def _unknown() -> Refusal:
    return Refusal(Code.NOT_FOUND, "There is no such conflict.")

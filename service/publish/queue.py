"""The queue of what is to be told. A claim moves `due` on and nothing else: whoever dies with one loses nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, text, update
from sqlalchemy.dialects.postgresql import insert

from service.kit.database import Bound, Database
from service.publish.tables import notice_queue
from service.publish.words import Task

CLAIM_SECONDS: Final = 60
"""Longer than any attempt may take, so that two notifiers do not make the same one."""
_CLAIM: Final = text(
    """
    UPDATE notice_queue SET due = clock_timestamp() + make_interval(secs => :seconds), attempts = attempts + 1
    WHERE (kind, tenant, subject) = (
        SELECT kind, tenant, subject FROM notice_queue
        WHERE due <= clock_timestamp() AND tenant <> ALL (CAST(:busy AS uuid[]))
        ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING kind, tenant, subject, attempts
    """
)


@dataclass(frozen=True)
class Claimed:
    """A piece of work, and how often it was claimed, this time included."""

    kind: Task
    tenant: UUID
    subject: UUID
    attempts: int


async def claim(database: Database, busy: Iterable[UUID]) -> Claimed | None:
    """Claim what is due first, of a tenant that is not busy."""
    async with database.directory() as tx:
        found = await tx.execute(_CLAIM, {"seconds": CLAIM_SECONDS, "busy": list(busy)})
        row = found.one_or_none()
    return None if row is None else Claimed(row.kind, row.tenant, row.subject, row.attempts)


async def ask(tx: Bound, kind: Task, subject: UUID, due: datetime | None = None) -> None:
    """Have something done, at once or at a time; what is asked for already stays as it is."""
    values = {"kind": kind, "tenant": tx.tenant, "subject": subject}
    at = {} if due is None else {"due": due}
    await tx.execute(insert(notice_queue).values(**values, **at).on_conflict_do_nothing())


async def gather(tx: Bound, kind: Task, subject: UUID, due: datetime) -> None:
    """The same, where it may be ending in this very moment: waits for that, and asks anew."""
    values = {"kind": kind, "tenant": tx.tenant, "subject": subject, "due": due}
    key = ["kind", "tenant", "subject"]
    asked = insert(notice_queue).values(**values)
    await tx.execute(asked.on_conflict_do_update(index_elements=key, set_={"due": notice_queue.c.due}))


async def done(tx: Bound, claimed: Claimed) -> None:
    """Take it out of the queue."""
    await tx.execute(delete(notice_queue).where(_is(claimed)))


async def later(tx: Bound, claimed: Claimed, seconds: float) -> None:
    """Try again after so many seconds."""
    due = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    await tx.execute(update(notice_queue).where(_is(claimed)).values(due=due))


async def postpone(tx: Bound, claimed: Claimed, due: datetime) -> None:
    """Look again at a time; that was no attempt."""
    await tx.execute(update(notice_queue).where(_is(claimed)).values(due=due, attempts=0))


def _is(claimed: Claimed) -> ColumnElement[bool]:
    return (
        (notice_queue.c.kind == claimed.kind)
        & (notice_queue.c.tenant == claimed.tenant)
        & (notice_queue.c.subject == claimed.subject)
    )

"""What of a proposal was sent in full, and to which session: nothing else of it can be approved there.

A proposal never changes, so a place in its files means the same content for as long as its card has this digest.
"""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Integer, bindparam, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from service.kit.database import Bound
from service.proposals.tables import reading


async def record_sent(
    tx: Bound, proposal_id: UUID, session: UUID, digest: str, *, of: int, places: Collection[int]
) -> None:
    """Store that files were sent in full.

    Args:
        tx: the transaction.
        proposal_id: whose files.
        session: to whom.
        digest: of the card.
        of: how many files the proposal has.
        places: which of them, counted from 1.
    """
    added = insert(reading).values(
        tenant=tx.tenant, session=session, proposal=proposal_id, digest=digest, files=of, sent=sorted(places)
    )
    every = func.unnest(reading.c.sent.op("||")(added.excluded.sent)).column_valued("place")
    once = select(func.coalesce(func.array_agg(every.distinct()), literal([], ARRAY(Integer)))).scalar_subquery()
    await tx.execute(added.on_conflict_do_update(index_elements=["tenant", "session", "proposal"], set_={"sent": once}))


_SENT = select(reading.c.files, reading.c.sent).where(
    reading.c.session == bindparam("to"),
    reading.c.proposal == bindparam("which"),
    reading.c.digest == bindparam("at"),
)


async def sent_places(tx: Bound, proposal_id: UUID, session: UUID | None, digest: str) -> frozenset[int]:
    """Which of its files were sent in full to this session."""
    row = (await tx.execute(_SENT, {"to": session, "which": proposal_id, "at": digest})).one_or_none()
    return frozenset(row.sent) if row else frozenset()


async def count_unsent(tx: Bound, proposal_id: UUID, session: UUID | None, digest: str) -> int | None:
    """How many of its files were not; None where not even the card was."""
    row = (await tx.execute(_SENT, {"to": session, "which": proposal_id, "at": digest})).one_or_none()
    return row.files - len(row.sent) if row else None

"""What takes an execution back, and whether that stands."""

from uuid import UUID

from sqlalchemy import select

from service.kit.database import Bound
from service.proposals.tables import LIVE, proposal

_COLUMNS = (proposal.c.id, proposal.c.undoes, proposal.c.state, proposal.c.created_at)


async def undo_of(tx: Bound, proposal_id: UUID) -> UUID | None:
    """The undo of an execution that waits for its end, or that was executed and stands: was not taken back itself, or
    by something that was taken back. None where it may be undone (again).
    """
    below = select(*_COLUMNS).where(proposal.c.undoes == proposal_id).cte(recursive=True)
    below = below.union_all(select(*_COLUMNS).join(below, proposal.c.undoes == below.c.id))
    undone: set[UUID] = set()
    for row in await tx.execute(select(below).order_by(below.c.created_at.desc())):  # whatever undoes it came later
        if row.state not in LIVE and (row.state != "executed" or row.id in undone):
            continue
        if row.undoes == proposal_id:
            return UUID(str(row.id))
        if row.state == "executed":
            undone.add(row.undoes)
    return None


async def count_undos(tx: Bound, proposal_id: UUID) -> int:
    """How often the undo of an execution was proposed."""
    return len((await tx.execute(select(proposal.c.id).where(proposal.c.undoes == proposal_id))).all())

"""What a person has marked as seen: a help of his own, which no decision asks for.

A mark is on a change, not on a proposal: it holds wherever the same path goes from the same content to the same other.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import LargeBinary, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from service.kit.canonical import digest, sha256
from service.kit.database import Bound
from service.proposals.tables import seen
from service.proposals.view import FileView

KEPT: Final = timedelta(days=90)
_MARKED = select(seen.c.change).where(
    seen.c.person == bindparam("who"), seen.c.change == func.any(bindparam("changes", type_=ARRAY(LargeBinary)))
)


def change_of(file: FileView) -> bytes:
    """What a mark is on: SHA-256 over the path, the modes, and both contents."""
    sides = [None if content is None else sha256(content) for content in (file.old, file.new)]
    paths = [None if path is None else path.hex() for path in (file.old_path, file.path)]
    return bytes.fromhex(digest([paths, file.old_mode, file.new_mode, sides]))


async def marked(tx: Bound, person: UUID, changes: Collection[bytes]) -> frozenset[bytes]:
    """Which of these changes the person has marked."""
    return frozenset((await tx.execute(_MARKED, {"who": person, "changes": list(changes)})).scalars())


async def mark(tx: Bound, person: UUID, change: bytes, *, on: bool) -> None:
    """Mark a change as seen, or take the mark off. Marks of long ago go with it."""
    mine, old = seen.c.person == person, seen.c.marked_at < func.clock_timestamp() - KEPT
    await tx.execute(delete(seen).where(mine, old if on else seen.c.change == change))
    if on:
        row = {"tenant": tx.tenant, "person": person, "change": change}
        await tx.execute(insert(seen).values(row).on_conflict_do_nothing())

"""Colours of contents, kept so that the next page need not make them: a help, of which nothing depends.

They are stretches, never text: a row that is wrong colours wrongly, and says nothing else than the content does.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import LargeBinary, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import DBAPIError

from service.kit.database import Bound, Database
from service.kit.errors import Refusal
from service.proposals.tables import coloured
from service.repositories.colour import Key

log = logging.getLogger("placet.colours")
KEPT: Final = timedelta(days=30)
"""Colours that no page used for so long are removed."""
RENEWED: Final = timedelta(days=1)
"""So much may their use be written down too late, so that a page seldom writes."""

_KEY: Final = (coloured.c.content, coloured.c.lexer, coloured.c.version)
_KNOWN = select(
    *_KEY, coloured.c.stretches, (coloured.c.used_at < func.clock_timestamp() - RENEWED).label("due")
).where(coloured.c.content == func.any(bindparam("contents", type_=ARRAY(LargeBinary))))


@dataclass(frozen=True)
class KnownColours:
    """Packed colours; the use of those that are `due` is to be written down."""

    packed: Mapping[Key, bytes] = field(default_factory=dict)
    due: frozenset[Key] = frozenset()

    def to_keep(self, made: Mapping[Key, bytes]) -> Mapping[Key, bytes]:
        """What a page that made these leaves behind."""
        return {**made, **{key: self.packed[key] for key in self.due}}


NO_COLOURS: Final = KnownColours()


async def known_colours(tx: Bound, keys: Collection[Key]) -> KnownColours:
    """What is known of these contents."""
    rows = (await tx.execute(_KNOWN, {"contents": [key.content for key in keys]})).all() if keys else ()
    found = {Key(row.content, row.lexer, row.version): row for row in rows}
    mine = {key: row for key, row in found.items() if key in keys}
    return KnownColours(
        {key: row.stretches for key, row in mine.items()}, frozenset(key for key, row in mine.items() if row.due)
    )


async def keep_colours(database: Database, tenant: UUID, made: Mapping[Key, bytes]) -> None:
    """Keep colours, and remove those of long ago. Where the database takes nothing, the page goes without."""
    if not made:
        return
    try:
        await database.repeat(tenant, lambda tx: _keep(tx, made))
    except (Refusal, DBAPIError):
        log.warning("colours were not kept", exc_info=True)


async def _keep(tx: Bound, made: Mapping[Key, bytes]) -> None:
    rows = [
        {"tenant": tx.tenant, **key._asdict(), "stretches": packed}
        for key, packed in sorted(made.items())  # in one order, so that two pages do not wait for each other
    ]
    await tx.execute(delete(coloured).where(coloured.c.used_at < func.clock_timestamp() - KEPT))
    again = {"used_at": func.clock_timestamp()}
    await tx.execute(insert(coloured).on_conflict_do_update(index_elements=["tenant", *_KEY], set_=again), rows)

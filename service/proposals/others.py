"""Who else is at work in a repository: for an agent that proposes there to know of, never to be blocked by."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final

from sqlalchemy import Row, func, or_, select

from service.contract.data import Json
from service.contract.names import quote_path
from service.grants.tables import connection
from service.kit.database import Bound
from service.proposals.planning import load_card, load_manifests, load_plan
from service.proposals.tables import proposal

ACTIVE: Final = timedelta(days=1)
LOOKED_AT_MOST: Final = 200
AGENTS_MOST: Final = 20
OVERLAPS_MOST: Final = 5
PATHS_MOST: Final = 20


@dataclass(frozen=True)
class Touched:
    """The full names of the refs and the paths that a proposal changes."""

    refs: frozenset[str]
    paths: frozenset[bytes]


async def other_agents(tx: Bound, own: Row[Any]) -> list[Json]:
    """The other connections that proposed here in the last day or whose proposals wait, the latest first."""
    recent = or_(proposal.c.state == "pending", proposal.c.created_at > func.clock_timestamp() - ACTIVE)
    columns = (getattr(proposal.c, name) for name in ("connection", "state", "created_at", "plan", "manifest", "card"))
    found = await tx.execute(
        select(*columns, connection.c.name.label("connection_name"))
        .join(connection, (connection.c.tenant == proposal.c.tenant) & (connection.c.id == proposal.c.connection))
        .where(
            proposal.c.repository == own.repository,
            proposal.c.connection != own.connection,
            proposal.c.parent.is_(None),  # what an owner chose is no agent's work
            recent,
        )
        .order_by(proposal.c.created_at.desc(), proposal.c.id)
        .limit(LOOKED_AT_MOST)
    )
    by_connection: dict[Any, list[Row[Any]]] = defaultdict(list)
    for row in found:
        by_connection[row.connection].append(row)
    if not by_connection:
        return []
    mine = touched(own)
    return [_other(mine, rows) for rows in list(by_connection.values())[:AGENTS_MOST]]


def _other(mine: Touched, rows: Sequence[Row[Any]]) -> Json:
    waiting = [row for row in rows if row.state == "pending"]
    meeting = ((row, shared) for row in waiting if (shared := overlap(mine, touched(row))))
    return {
        "connection": rows[0].connection_name,
        "last_proposed_at": rows[0].created_at.isoformat(),
        "pending": len(waiting),
        "overlapping": [_told(row, shared) for row, shared in islice(meeting, OVERLAPS_MOST)],
    }


def _told(row: Row[Any], shared: Touched) -> Json:
    return {
        "headline": load_card(row.card).headline.model_dump(mode="json"),
        "refs": sorted(shared.refs),
        "paths": [quote_path(path) for path in sorted(shared.paths)[:PATHS_MOST]],
    }


def touched(row: Row[Any]) -> Touched:
    """What a stored proposal changes."""
    return Touched(
        frozenset(move.ref for move in load_plan(row.plan).effects),
        frozenset(line.path for manifest in load_manifests(row.manifest) for line in manifest.lines),
    )


def overlap(one: Touched, other: Touched) -> Touched | None:
    """What two proposals both touch; None where that is nothing."""
    shared = Touched(one.refs & other.refs, one.paths & other.paths)
    return shared if shared.refs or shared.paths else None

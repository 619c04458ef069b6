"""Who else is at work in a repository: for an agent that proposes there to know of, never to be blocked by."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
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


async def other_agents(tx: Bound, own: Row[Any]) -> list[Json]:
    """The other connections that proposed here in the last day or whose proposals wait, the latest first."""
    recent = or_(proposal.c.state == "pending", proposal.c.created_at > func.clock_timestamp() - ACTIVE)
    found = await tx.execute(
        select(proposal, connection.c.name.label("connection_name"))
        .join(connection, (connection.c.tenant == proposal.c.tenant) & (connection.c.id == proposal.c.connection))
        .where(proposal.c.repository == own.repository, proposal.c.connection != own.connection, recent)
        .order_by(proposal.c.created_at.desc(), proposal.c.id)
        .limit(LOOKED_AT_MOST)
    )
    by_connection: dict[Any, list[Row[Any]]] = defaultdict(list)
    for row in found:
        by_connection[row.connection].append(row)
    return [_other(own, rows) for rows in list(by_connection.values())[:AGENTS_MOST]]


def _other(own: Row[Any], rows: Sequence[Row[Any]]) -> Json:
    waiting = [row for row in rows if row.state == "pending"]
    overlaps = [shared for row in waiting if (shared := overlap(own, row))]
    return {
        "connection": rows[0].connection_name,
        "last_proposed_at": rows[0].created_at.isoformat(),
        "pending": len(waiting),
        "overlapping": overlaps[:OVERLAPS_MOST],
    }


def overlap(one: Row[Any], other: Row[Any]) -> Json | None:
    """What two proposals both touch; None where that is nothing."""
    refs, paths = _refs(one) & _refs(other), _paths(one) & _paths(other)
    if not refs and not paths:
        return None
    return {
        "headline": load_card(other.card).headline.model_dump(mode="json"),
        "refs": sorted(refs),
        "paths": [quote_path(path) for path in sorted(paths)[:PATHS_MOST]],
    }


def _refs(row: Row[Any]) -> set[str]:
    return {move.ref for move in load_plan(row.plan).effects}


def _paths(row: Row[Any]) -> set[bytes]:
    return {line.path for manifest in load_manifests(row.manifest) for line in manifest.lines}

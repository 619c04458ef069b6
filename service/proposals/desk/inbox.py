"""The inbox: which proposals wait, and which came to an end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from service.contract.data import Oid
from service.kit.actor import Actor
from service.kit.database import Database
from service.proposals.desk.reach import LINE, LINES_MOST, count_shown, memberships, now_of
from service.proposals.planning import holds, load_card, load_pins, read_fact
from service.proposals.tables import proposal
from service.proposals.view import (
    SHOWN,
    InboxLine,
    InboxView,
    Show,
)
from service.repositories.bare import BareRepository
from service.repositories.placement import Place, Storage
from service.repositories.tables import repository


@dataclass(frozen=True)
class OwnerInbox:
    """Implements `view.Inbox`."""

    database: Database
    storage: Storage

    async def read(self, actor: Actor, show: Show) -> InboxView:
        """One list of the inbox."""
        order = (proposal.c.created_at, proposal.c.id)
        async with self.database.bound(actor.tenant) as tx:
            mine = repository.c.project.in_(memberships(actor))
            statement = LINE.where(mine, proposal.c.state.in_(SHOWN[show])).limit(LINES_MOST + 1)
            waiting = show == "waiting"
            rows = (await tx.execute(statement.order_by(*(order if waiting else (one.desc() for one in order))))).all()
            counts = await count_shown(tx, actor)
            now = await now_of(tx)
            places = {row.repository: await self.storage.place(tx, row.repository) for row in rows} if waiting else {}
        moved = await asyncio.to_thread(_moved, rows, places)
        lines = tuple(_inbox_line(row, moved=row.id in moved) for row in rows[:LINES_MOST])
        return InboxView(now, show, counts, lines, len(rows) > LINES_MOST)


def _moved(rows: Sequence[Row[Any]], places: dict[UUID, Place]) -> set[UUID]:
    """The proposals whose pins no longer hold; a ref is read once however many wait on it."""
    now: dict[tuple[UUID, str], Oid] = {}
    moved: set[UUID] = set()
    for row in rows if places else ():
        for pin in load_pins(row.pins):
            key = (row.repository, pin.fact.name)
            git = BareRepository(places[row.repository].path)
            if key not in now:
                now[key] = read_fact(git, pin.fact)
            if not holds(git, pin, now[key]):
                moved.add(row.id)
    return moved


def _inbox_line(row: Row[Any], *, moved: bool) -> InboxLine:
    card = load_card(row.card)
    return InboxLine(
        id=row.id,
        project=row.project_name,
        repository=row.repository_name,
        connection=row.connection_name,
        client=row.client_name,
        state=row.state,
        created_at=row.created_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        headline=card.headline,
        message=card.agent_words.get("message") or card.agent_words["reason"],
        warnings=card.warnings,
        branch_moved=moved,
    )

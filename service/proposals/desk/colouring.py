"""Colours what was proposed before anybody looks at it, one proposal after the other, behind everything else."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import select

from service.kit.database import Database
from service.proposals.coloured import keep_colours
from service.proposals.desk.cards import files_of
from service.proposals.tables import proposal, staging
from service.repositories.colour import Palette
from service.repositories.placement import Storage

log = logging.getLogger("placet.colours")
WAITING_MOST: Final = 100
"""So many proposals wait for their colours; those that come then are coloured when they are looked at."""


@dataclass(frozen=True)
class Colouring:
    """What one web process has to colour."""

    database: Database
    storage: Storage
    _waiting: asyncio.Queue[tuple[UUID, UUID]] = field(default_factory=lambda: asyncio.Queue(WAITING_MOST))

    def soon(self, tenant: UUID, proposal_id: UUID) -> None:
        """Colour a proposal when there is time."""
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait((tenant, proposal_id))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Do so for as long as the block lasts."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            await self.next()

    async def next(self) -> None:
        """Colour the one that waits for longest, or the first that comes."""
        tenant, proposal_id = await self._waiting.get()
        try:
            await self._colour(tenant, proposal_id)
        except Exception:  # the proposal is there, and its page makes what it lacks
            log.exception("proposal %s was not coloured", proposal_id)

    async def _colour(self, tenant: UUID, proposal_id: UUID) -> None:
        """As far as a page would."""
        asked = select(proposal.c.plan, proposal.c.card, proposal.c.repository, staging.c.objects).join(
            staging, (staging.c.tenant == proposal.c.tenant) & (staging.c.proposal == proposal.c.id)
        )
        async with self.database.bound(tenant) as tx:
            row = (await tx.execute(asked.where(proposal.c.id == proposal_id))).one()
            place = await self.storage.place(tx, row.repository)
        palette = Palette()

        def work() -> None:
            for file in files_of(row, place.path, row.objects):
                palette.colours(file.old_path or file.path, file.old)
                palette.colours(file.path, file.new)

        await asyncio.to_thread(work)
        await keep_colours(self.database, tenant, palette.made)

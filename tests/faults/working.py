"""A proposal whose writer has a fault planned, and the wait for what comes of it."""

from dataclasses import dataclass
from pathlib import Path

import anyio
from sqlalchemy import func, select

from service.contract.data import Json
from service.ledger.tables import ledger_entry
from service.repositories.lease import lease_file, marked
from tests.stage import House, git

PATIENCE_SECONDS = 60
LEASE_SECONDS = 2.0
WAITING = frozenset({"approved", "executing"})


@dataclass
class Case:
    """An approved proposal whose writer has a fault planned."""

    house: House
    shown: Json
    planned: Path

    async def ended(self) -> Json:
        with anyio.fail_after(PATIENCE_SECONDS):
            while (found := await self.house.own.read(self.shown["proposal_id"], 5))["status"] in WAITING:
                pass
            assert await self.house.stage.waiter.until("", self._tidied, PATIENCE_SECONDS)
        return found

    async def _tidied(self) -> bool | None:
        """True when the lease has no mark; None asks again."""
        return None if marked(lease_file(self.house.path)) else True

    async def traces(self) -> tuple[bytes, int]:
        """All that an execution leaves: every ref, and how many entries there are."""
        async with self.house.stage.owner_db.bound(self.house.tenant) as tx:
            entries = await tx.scalar(select(func.count()).select_from(ledger_entry))
        return git(self.house.path, "for-each-ref"), entries

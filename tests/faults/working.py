"""Real workers, with faults planned for them, and the wait for what comes of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from sqlalchemy import func, select

from service.contract.data import Json
from service.ledger.tables import ledger_entry
from service.repositories.lease import lease_file, marked
from tests.faults.attack import ROOT
from tests.stage import House, Stage, git

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
            while marked(lease_file(self.house.path)):
                await anyio.to_thread.run_sync(os.sched_yield)
        return found

    async def traces(self) -> tuple[bytes, int]:
        """All that an execution leaves: every ref, and how many entries there are."""
        async with self.house.stage.owner_db.bound(self.house.tenant) as tx:
            entries = await tx.scalar(select(func.count()).select_from(ledger_entry))
        return git(self.house.path, "for-each-ref"), entries


@contextmanager
def worker(stage: Stage, url: str, executors: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    where = [url, str(stage.storage.root), str(LEASE_SECONDS), str(executors)]
    process = subprocess.Popen([sys.executable, "-m", "tests.faults.step_faults", *where], cwd=ROOT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)

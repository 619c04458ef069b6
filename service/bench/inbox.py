"""How long the inbox takes with many proposals waiting: its page over HTTP, and what the desk alone answers."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import insert, select

from service.bench.results import Results, Target, Times
from service.bench.stand import Stand, stand
from service.proposals.tables import proposal

WAITING: Final = 1_000
ROUNDS: Final = 30
MOST_MS: Final = 100.0
PAGES: Final = {
    "first page": "/",
    "with a search": "/?q=to+measure",
    "filtered": "/?warned=1",
    "as JSON": "/api/v1/proposals",
    "glance": "/api/v1/glance",
}


def inbox(folder: Path, waiting: int, rounds: int) -> Results:
    """Ask for each page by turns with so many proposals waiting."""
    times = asyncio.run(_measure(folder, waiting, rounds))
    first = times.median("first page")
    return Results(
        title=f"The inbox with {waiting:,} proposals waiting",
        rows=[times.row()],
        targets=[Target("The first page", first, most=MOST_MS, unit="ms")],
        note="Medians over HTTP, by turns; the proposals are copies of one, on one branch.",
    )


async def _measure(folder: Path, waiting: int, rounds: int) -> Times:
    times = Times()
    async with stand(folder) as met:
        await _fill(met, waiting)
        for _ in range(rounds):
            for name, address in PAGES.items():
                begun = time.perf_counter()
                answer = await met.owner.get(address)
                times.add(name, time.perf_counter() - begun)
                answer.raise_for_status()
    return times


async def _fill(met: Stand, waiting: int) -> None:
    where = await met.add(20)
    shown = await met.propose(where, {"new.txt": "new\n"})
    async with met.database.bound(met.tenant) as tx:
        row = (await tx.execute(select(proposal).where(proposal.c.id == UUID(shown.id)))).one()._asdict()
        begin = datetime.now(UTC)
        copies = [
            {**row, "id": one, "key": str(one), "created_at": begin + timedelta(milliseconds=place)}
            for place, one in enumerate(uuid4() for _ in range(waiting - 1))
        ]
        await tx.execute(insert(proposal), copies)

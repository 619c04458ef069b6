"""A PostgreSQL that a test may stop, kill and fill up, since nobody else uses it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psutil

from service.kit.database import Database
from service.kit.postgres import ADMIN, EmbeddedPostgres
from service.repositories.placement import Storage
from service.up.database import migrate
from tests.stage import Stage

PATIENCE_SECONDS = 30


@contextmanager
def own_server(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A server with the schema, for as long as the block lasts. Call it in the main thread, outside of a loop."""
    with EmbeddedPostgres(folder) as server:
        migrate(server.url(ADMIN))
        yield server


@asynccontextmanager
async def own_stage(url: str, folder: Path, *, behind: str = "") -> AsyncIterator[Stage]:
    """A stage on a database. `behind`: the URL that web and writer use instead, such as a proxy's."""
    own = Database(url, "placet_owner", size=2)
    app, writer = Database(behind or url, "placet_app", size=8), Database(behind or url, "placet_writer", size=2)
    try:
        yield Stage(own, app, writer, Storage(folder))
    finally:
        for one in (own, app, writer):
            await one.close()


@contextmanager
def hung(server: EmbeddedPostgres) -> Iterator[None]:
    """SIGSTOP for the postmaster, then for all that it has started."""
    postmaster = psutil.Process(server.pid)
    postmaster.suspend()
    stopped = postmaster.children()
    for one in stopped:
        with suppress(psutil.NoSuchProcess):
            one.suspend()
    try:
        yield
    finally:
        for one in (*stopped, postmaster):
            with suppress(psutil.NoSuchProcess):
                one.resume()


async def answers_again(database: Database) -> None:
    """Wait until the database takes calls."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with suppress(Exception):
                async with database.directory() as tx:
                    await tx.notify("placet_test", "")
                return
            await asyncio.sleep(0.01)

"""What every test may use: a real PostgreSQL with the real schema, one database per test process."""

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import make_url

from service.kit.database import Database
from service.repositories.placement import Storage
from tests.stage import House, Stage, Web, open_web

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def cluster_url() -> str:
    """A PostgreSQL in which databases can be made."""
    return os.environ["DATABASE_URL"]


@pytest.fixture(scope="session")
async def database_url(cluster_url: str) -> AsyncIterator[str]:
    """A fresh database with the whole schema, dropped at the end."""
    base = make_url(cluster_url)
    name = f"placet_test_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(dsn=base.set(drivername="postgresql").render_as_string(hide_password=False))
    await admin.execute(f"CREATE DATABASE {name}")
    url = base.set(database=name).render_as_string(hide_password=False)
    await migrate(url)
    yield url
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


async def migrate(url: str) -> None:
    import anyio.to_thread

    config = Config(ROOT / "migrations" / "alembic.ini")
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    await anyio.to_thread.run_sync(command.upgrade, config, "head")


@pytest.fixture
async def owner_db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, "placet_owner", size=4)
    yield database
    await database.close()


@pytest.fixture
async def app_db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, "placet_app", size=8)
    yield database
    await database.close()


@pytest.fixture
async def writer_db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, "placet_writer", size=4)
    yield database
    await database.close()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "repositories")


@pytest.fixture
async def stage(owner_db: Database, app_db: Database, writer_db: Database, storage: Storage) -> Stage:
    return Stage(owner_db, app_db, writer_db, storage)


@pytest.fixture
async def house(stage: Stage) -> House:
    """The tenant that a test is about."""
    return await stage.house()


@pytest.fixture
async def neighbour(stage: Stage) -> House:
    """The other tenant, who must never be seen."""
    return await stage.house()


@pytest.fixture
async def web(stage: Stage) -> AsyncIterator[Web]:
    """The whole web process."""
    async with open_web(stage) as opened:
        yield opened

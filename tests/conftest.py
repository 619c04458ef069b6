"""What every test may use: a real PostgreSQL with the real schema, one database per test process.

The controller of a run starts one embedded PostgreSQL for all of its processes, unless PLACET_TEST_DATABASE_URL names
a server where databases and roles may be made, and migrates a template once; each process copies that.
"""

import asyncio
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import settings
from sqlalchemy.engine import make_url

from service.kit.database import Database
from service.kit.postgres import ADMIN, EmbeddedPostgres
from service.repositories.placement import Storage
from service.up.database import migrate
from tests.stage import House, Stage, Web, open_web

ROOT = Path(__file__).parent.parent
CLUSTER, TEMPLATE = "PLACET_TEST_DATABASE_URL", "PLACET_TEST_TEMPLATE"
MEMORY_BYTES = 2_000_000_000
# Where the named program is missing, a test of it says so and is skipped; where everything was to be there, it fails.
NO_SKIP = "PLACET_NO_SKIP"
OPTIONAL = re.compile(r"\b(redis|chromium|strace|ssh-keygen)\b", re.IGNORECASE)


# The same inputs in every run: what one run finds, the next one shows.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", action="store_true", help="take the pictures under docs/pages anew")


def pytest_configure(config: pytest.Config) -> None:
    _know_localhost()
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    folder = tempfile.mkdtemp(prefix="placet-tests-", dir=_quick())
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    config.option.basetemp = config.option.basetemp or str(Path(folder, "tests"))
    if CLUSTER not in os.environ:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        config.add_cleanup(server.stop)
        _set(config, CLUSTER, server.url(ADMIN))
    name = f"placet_template_{secrets.token_hex(6)}"
    asyncio.run(administer(f"CREATE DATABASE {name}"))
    config.add_cleanup(lambda: asyncio.run(administer(f"DROP DATABASE {name} WITH (FORCE)")))
    migrate(_url(name))
    _set(config, TEMPLATE, name)


def _quick() -> str | None:
    """Where a flush costs nothing and is made all the same: the tests flush thousands of times."""
    memory = Path("/dev/shm")  # noqa: S108  a folder of our own is made in it
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_BYTES
    return str(memory) if roomy else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.skipped and NO_SKIP in os.environ and OPTIONAL.search(str(report.longrepr)):
        report.outcome, report.longrepr = "failed", f"skipped where nothing may be: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def cluster_url() -> str:
    """A PostgreSQL in which databases can be made."""
    return os.environ[CLUSTER]


@pytest.fixture(scope="session")
async def database_url(cluster_url: str) -> AsyncIterator[str]:
    """A fresh database with the whole schema, dropped at the end."""
    name = f"placet_test_{secrets.token_hex(6)}"
    await administer(f"CREATE DATABASE {name} TEMPLATE {os.environ[TEMPLATE]}")
    yield _url(name)
    await administer(f"DROP DATABASE {name} WITH (FORCE)")


async def administer(statement: str) -> None:
    url = make_url(os.environ[CLUSTER]).set(drivername="postgresql")
    admin = await asyncpg.connect(dsn=url.render_as_string(hide_password=False))
    try:
        await admin.execute(statement)
    finally:
        await admin.close()


def _url(database: str) -> str:
    return make_url(os.environ[CLUSTER]).set(database=database).render_as_string(hide_password=False)


def _know_localhost() -> None:
    """A bare container has no /etc/hosts; there as well `localhost` is the loopback (RFC 6761, section 6.3)."""
    ask = socket.getaddrinfo
    try:
        ask("localhost", None)
    except socket.gaierror:

        def answer(host: Any, *rest: Any, **more: Any) -> Any:
            return ask("127.0.0.1" if host in {"localhost", b"localhost"} else host, *rest, **more)

        socket.getaddrinfo = answer


def _set(config: pytest.Config, name: str, value: str) -> None:
    """Tell the other processes of this run."""
    os.environ[name] = value
    config.add_cleanup(lambda: os.environ.pop(name, None))


@pytest.fixture(scope="session")
async def owner_db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, "placet_owner", size=4)
    yield database
    await database.close()


@pytest.fixture(scope="session")
async def app_db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, "placet_app", size=8)
    yield database
    await database.close()


@pytest.fixture(scope="session")
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

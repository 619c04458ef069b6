"""One service per test, two tenants, a signed-in owner of each, and an agent that registered itself."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest
import uvicorn

from service.app import build_parts
from service.edge.parts import Parts
from service.kit.database import Database
from service.proposals.waiting import Waiter
from service.settings import Settings
from tests.identity.house import ISSUER, Agent, Browser, House, Tenant, build


@pytest.fixture
async def house(app_db: Database, owner_db: Database, tmp_path: Path) -> AsyncIterator[House]:
    parts = _parts(app_db, ISSUER, tmp_path)
    transport = httpx.ASGITransport(build(parts))
    async with httpx.AsyncClient(transport=transport, base_url=ISSUER) as http:
        yield House(parts, owner_db, http, transport)


@pytest.fixture
async def served(app_db: Database, owner_db: Database, tmp_path: Path) -> AsyncIterator[House]:
    """The service behind a real server on a port of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    issuer = f"http://localhost:{listener.getsockname()[1]}"
    parts = _parts(app_db, issuer, tmp_path)
    server = uvicorn.Server(
        uvicorn.Config(build(parts), log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    )
    async with anyio.create_task_group() as group, httpx.AsyncClient(base_url=issuer) as http:
        group.start_soon(server.serve, [listener])
        yield House(parts, owner_db, http, httpx.ASGITransport(build(parts)))
        server.should_exit = True


def _parts(database: Database, issuer: str, root: Path) -> Parts:
    return build_parts(Settings("", issuer, root, b"s" * 32, None), database, Waiter(database))


@pytest.fixture
async def home(house: House) -> Tenant:
    return await house.tenant(2)


@pytest.fixture
async def elsewhere(house: House) -> Tenant:
    return await house.tenant()


@pytest.fixture
async def ada(house: House, home: Tenant) -> Browser:
    """The owner of `home`, signed in."""
    return await house.browser(await house.person(home))


@pytest.fixture
async def bob(house: House, elsewhere: Tenant) -> Browser:
    """The owner of `elsewhere`, signed in."""
    return await house.browser(await house.person(elsewhere))


@pytest.fixture
async def agent(house: House) -> Agent:
    return await house.agent()

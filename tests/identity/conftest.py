"""One service per test, two tenants, a signed-in owner of each, and an agent that registered itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from service.app import build_parts
from service.kit.database import Database
from service.proposals.waiting import Waiter
from service.settings import Settings
from tests.identity.house import ISSUER, Agent, Browser, House, Tenant, build


@pytest.fixture
async def house(app_db: Database, owner_db: Database, tmp_path: Path) -> AsyncIterator[House]:
    parts = build_parts(Settings("", ISSUER, tmp_path, b"s" * 32, None), app_db, Waiter(app_db))
    transport = httpx.ASGITransport(build(parts))
    async with httpx.AsyncClient(transport=transport, base_url=ISSUER) as http:
        yield House(parts, owner_db, http)


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

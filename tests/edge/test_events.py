"""Server-sent events by the real server: told of every change, ended in time, and never in the way of a stop."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import httpx
import pytest
import uvicorn
from sqlalchemy import func, update

from service.app import build_parts, serve
from service.commands.bounded import Bounded
from service.commands.server import Server
from service.edge.parts import Parts
from service.edge.streams import SESSION_MOST
from service.grants.tables import membership, session
from service.settings import Settings
from tests.stage import House, Stage, Web

pytestmark = pytest.mark.anyio
T = TypeVar("T")
SECONDS = 20.0
"""Far more than anything here takes; a test that waits so long fails."""


@dataclass
class Served:
    """The service behind its own server."""

    http: httpx.AsyncClient
    parts: Parts
    server: Server
    running: "asyncio.Task[None]"
    web: Web = field(repr=False)

    @asynccontextmanager
    async def listening(self, browser: dict[str, str], **query: str) -> AsyncIterator[AsyncIterator[str]]:
        """The names of the events as they come; the first has come."""
        async with self.http.stream("GET", "/events", params=query, headers=browser) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            names = _names(answer)
            assert await soon(anext(names)) == "here"
            yield names


async def _names(answer: httpx.Response) -> AsyncIterator[str]:
    async for line in answer.aiter_lines():
        assert re.fullmatch(r"(event: (here|changed))?|data:|retry: \d+|:", line), line
        if line.startswith("event: "):
            yield line.removeprefix("event: ")


async def soon(awaitable: Awaitable[T]) -> T:
    """What comes within the bound."""
    return await asyncio.wait_for(awaitable, SECONDS)


async def rest(names: AsyncIterator[str]) -> list[str]:
    """What comes until the stream's end."""
    return [name async for name in names]


@pytest.fixture
async def served(stage: Stage) -> AsyncIterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    issuer = f"http://localhost:{listener.getsockname()[1]}"
    settings = Settings("", issuer, stage.storage.root, bytes(range(32)), None)
    async with stage.waiter.running():
        parts = build_parts(settings, stage.app_db, stage.waiter)
        config = uvicorn.Config(serve(parts), http=Bounded, ws="none", lifespan="off", log_config=None)
        server = Server(config, parts.streams.end)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        async with httpx.AsyncClient(base_url=issuer, timeout=SECONDS) as http:
            yield Served(http, parts, server, running, Web(stage, http, parts))
            server.should_exit = True
            await soon(running)


async def test_each_change_on_the_desk_is_told_and_another_tenants_is_not(
    served: Served, house: House, neighbour: House
) -> None:
    browser = await served.web.browser(house.owner)
    async with served.listening(browser) as names:
        shown = await house.propose()
        assert await soon(anext(names)) == "changed"
        await house.decide(shown, "decline")
        assert await soon(anext(names)) == "changed"
    theirs = await served.web.browser(neighbour.owner)
    async with served.listening(browser) as mine, served.listening(theirs) as names:
        await house.propose(house.arguments({"path": "b", "content": "1\n"}))
        assert await soon(anext(mine)) == "changed"
        served.parts.streams.end()
        assert await soon(rest(names)) == []


async def test_a_stream_ends_with_its_session(served: Served, stage: Stage, house: House) -> None:
    browser = await served.web.browser(house.owner)
    async with served.listening(browser) as names:
        async with stage.owner_db.directory() as tx:
            mine = update(session).where(session.c.person == house.owner.actor.id)
            await tx.execute(mine.values(ended_at=func.clock_timestamp()))
        await soon(rest(names))
    again = await served.http.get("/events", headers=browser)
    assert again.status_code == 401


async def test_a_stream_ends_with_the_membership_and_begins_no_more(served: Served, stage: Stage, house: House) -> None:
    browser = await served.web.browser(house.owner)
    async with served.listening(browser) as names:
        async with stage.owner_db.bound(house.tenant) as tx:
            await tx.execute(update(membership).values(state="revoked"))
        await soon(rest(names))
    assert (await served.http.get("/events", headers=browser)).status_code == 404


async def test_nobody_and_no_agent_listens_and_no_foreign_tenant_is_heard(
    served: Served, house: House, neighbour: House
) -> None:
    token = await served.web.token(house.agent)
    browser = await served.web.browser(house.owner)
    assert (await served.http.get("/events")).status_code == 401
    assert (await served.http.get("/events", headers={"authorization": f"Bearer {token}"})).status_code == 403
    foreign = await served.http.get("/events", params={"tenant": str(neighbour.tenant)}, headers=browser)
    assert foreign.status_code == 404
    assert (await served.http.head("/events", headers=browser)).status_code == 200


async def test_a_session_has_so_many_streams_and_no_more_and_one_that_left_makes_room(
    served: Served, house: House
) -> None:
    browser = await served.web.browser(house.owner)
    async with asyncio.timeout(SECONDS):
        tasks = [served.listening(browser) for _ in range(SESSION_MOST)]
        for one in tasks:
            await one.__aenter__()
        refused = await served.http.get("/events", headers=browser)
        assert (refused.status_code, refused.json()["error"]["limit"]) == (429, SESSION_MOST)
        assert refused.headers["retry-after"]
        await tasks.pop().__aexit__(None, None, None)
        while (answer := served.http.stream("GET", "/events", headers=browser)) is not None:
            async with answer as found:
                if found.status_code == 200:
                    break
            await asyncio.sleep(0.02)
        for one in tasks:
            await one.__aexit__(None, None, None)


async def test_the_server_stops_while_pages_listen(served: Served, house: House) -> None:
    browser = await served.web.browser(house.owner)
    async with served.listening(browser) as names, served.listening(browser) as others:
        served.server.should_exit = True
        assert await soon(rest(names)) == []
        assert await soon(rest(others)) == []
        await soon(served.running)

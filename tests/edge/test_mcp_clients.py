"""The official Python client lists and calls in both eras, over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

pytestmark = pytest.mark.anyio


class Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, app: Any) -> None:
        super().__init__(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
        self.listens = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.listens.set()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The application on a free port; gives its address."""
    server = Server(app)
    running = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(60):
            await server.listens.wait()
        yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def connected(url: str, token: str, mode: str) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
)
async def test_the_official_client_lists_and_calls(site: Any, mode: str, version: str) -> None:
    async with serving(site.app) as url, connected(url, await site.token(), mode) as client:
        assert client.session.protocol_version == version
        tools = (await client.list_tools()).tools
        assert [one.name for one in tools] == [one["name"] for one in site.parts.registry.catalogue({"core"})]
        assert all(one.output_schema and one.annotations and one.title for one in tools)
        result = await client.call_tool("list_repositories", {})
        (one,) = result.structured_content["repositories"]
        assert one["repository_id"] == str(site.house.repository)
        refused = await client.call_tool("list_repositories", {"limit": 0})
        assert refused.is_error
        assert (refused.meta or {})["placet/error"]["field"] == "limit"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_sees_the_catalogue_before_it_signs_in(site: Any, mode: str) -> None:
    async with serving(site.app) as url, connected(url, "", mode) as client:
        assert (await client.list_tools()).tools

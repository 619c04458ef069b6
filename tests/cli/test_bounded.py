"""What a connection may cost before a request is known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from service.commands import bounded

pytestmark = pytest.mark.anyio
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server with these limits and an application that says `ok`."""
    config = uvicorn.Config(answer, lifespan="off", log_config=None)
    config.load()
    state = uvicorn.server.ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: bounded.Bounded(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        server.close()
        await server.wait_closed()


async def status(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return (await reader.readline()).split()[1]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local"])
async def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(bounded, "HEAD_SECONDS", 0.1)
    async with connected() as (reader, writer):
        writer.write(sent)
        assert await status(reader) == b"408"
        assert (await reader.read()).endswith(b"\r\n\r\n")


async def test_a_head_without_end_is_cut_off() -> None:
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 300_000)
        assert await status(reader) == b"431"


async def test_the_next_request_of_a_connection_has_the_same_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected() as (reader, writer):
        writer.write(REQUEST)
        assert await status(reader) == b"200"
        assert (await reader.readuntil(b"ok")).endswith(b"ok")
        monkeypatch.setattr(bounded, "HEAD_SECONDS", 0.1)
        writer.write(REQUEST[:20])
        assert await status(reader) == b"408"


async def test_a_body_is_no_part_of_the_head() -> None:
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000)
        assert await status(reader) == b"200"

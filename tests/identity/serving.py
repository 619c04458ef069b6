"""A server on a port that is known before what it serves is built."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[socket.socket, Callable[[Any], None]]]:
    """The listening socket, and what serves an application on it until the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    servers: list[uvicorn.Server] = []
    async with anyio.create_task_group() as group:

        def run(app: Any) -> None:
            server = uvicorn.Server(
                uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=1)
            )
            servers.append(server)
            group.start_soon(server.serve, [listener])

        try:
            yield listener, run
        finally:
            for server in servers:
                server.should_exit = True

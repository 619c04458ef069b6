"""A proxy before PostgreSQL that sees the COMMITs go by, and cuts or stalls the connection at the one it is told.

It reads only what frontends send (PostgreSQL documentation, "Frontend/Backend Protocol", message formats).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sqlalchemy.engine import URL, make_url

PORT = 5432
PROTOCOL_3 = (196608).to_bytes(4, "big")
FAREWELL = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
CHUNK_BYTES = 65_536

How = Literal["before", "after", "stalled"]
"""BEFORE: the server never hears of the COMMIT. AFTER: it has committed and the client hears nothing but the end.
STALLED: the COMMIT and all after it, on every connection, wait until the proxy is armed anew."""


@dataclass
class Proxy:
    """One listening socket before one server.

    Attributes:
        url: for whoever goes through it.
        commits: how many were seen since it was armed.
        strikes: set when the armed one is seen.
        clients: who is connected.
    """

    url: str
    commits: int = 0
    strikes: asyncio.Event = field(default_factory=asyncio.Event)
    clients: set[asyncio.StreamWriter] = field(default_factory=set)
    _at: int = 0
    _how: How = "before"
    _blow: Callable[[], None] = field(default=lambda: None)
    _free: asyncio.Event = field(default_factory=asyncio.Event)

    def arm(self, at: int, how: How, blow: Callable[[], None] = lambda: None) -> None:
        """Strike at the commit with this number, from 1; 0 never. `blow` is called at the moment of the cut."""
        self.commits, self.strikes, self._at, self._how, self._blow = 0, asyncio.Event(), at, how, blow
        self._free.set()
        self._free = asyncio.Event()
        if how != "stalled":
            self._free.set()

    async def dismiss(self) -> None:
        """Tell everybody what a server says that ends, without the end of the connection that follows."""
        for client in self.clients:
            client.write(b"E" + (4 + len(FAREWELL)).to_bytes(4, "big") + FAREWELL)
            await client.drain()

    def is_due(self) -> bool:
        """Count a commit; whether it is the armed one."""
        self.commits += 1
        if self.commits == self._at:
            self.strikes.set()
        return self.commits == self._at

    async def upward(self, client: asyncio.StreamReader, server: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        """From the client to the server, message by message."""
        began = False
        while True:
            kind = await client.readexactly(1) if began else b""
            head = await client.readexactly(4)
            body = await client.readexactly(int.from_bytes(head, "big") - 4)
            began = began or body.startswith(PROTOCOL_3)
            if kind == b"Q" and body.startswith(b"COMMIT") and self.is_due() and self._how != "stalled":
                if self._how == "before":
                    self._blow()
                    return
                cut.set()
            if self.strikes.is_set() and self._how == "stalled":
                await self._free.wait()
            server.write(kind + head + body)
            await server.drain()

    async def downward(self, server: asyncio.StreamReader, client: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        """From the server to the client; after the cut, its first answer is the end."""
        while chunk := await server.read(CHUNK_BYTES):
            if cut.is_set():
                self._blow()
                return
            client.write(chunk)
            await client.drain()


@asynccontextmanager
async def proxy(folder: Path, url: str) -> AsyncIterator[Proxy]:
    """Listen on a Unix socket in the folder, whose path is short, before the server of this URL."""
    target = make_url(url)
    made = Proxy(_url(target, folder))
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        made.clients.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await _link(made, target, reader, writer)
        writer.close()
        made.clients.discard(writer)
        tasks.discard(task)

    server = await asyncio.start_unix_server(serve, folder / f".s.PGSQL.{PORT}")
    try:
        yield made
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks)


async def _link(made: Proxy, target: URL, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    up, down = await _reach(target)
    cut = asyncio.Event()
    pumps = [asyncio.create_task(made.upward(reader, down, cut)), asyncio.create_task(made.downward(up, writer, cut))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        down.close()


async def _reach(target: URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host = str(target.query.get("host", target.host or "localhost"))
    port = int(str(target.query.get("port", target.port or PORT)))
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, port)


def _url(target: URL, folder: Path) -> str:
    local = target.set(host=None, port=None, query={"host": str(folder), "port": str(PORT)})
    return local.render_as_string(hide_password=False)

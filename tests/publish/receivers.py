"""Receivers of notices on this machine: a mail server, and an HTTP server that answers as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP

WAIT_SECONDS = 40


@dataclass
class Mailbox:
    """What a mail server took. `refuses`: how many it refuses first, and with what."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    refuses: list[str] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802  aiosmtpd's name
        if self.refuses:
            return self.refuses.pop(0)
        parsed = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(parsed, EmailMessage)
        self.mails.append(parsed)
        return "250 OK"

    def of(self, text: str) -> list[EmailMessage]:
        """Those whose text or subject has this in it."""
        return [one for one in self.mails if text in one.get_body(("plain",)).get_content() or text in one["subject"]]


@dataclass
class Request:
    """What an HTTP receiver was sent."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """An HTTP server. `answer` gives the status of each request; `hold` keeps answers back while it is set."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)
    answer: Callable[[Request], str] = lambda _request: "204 No Content"
    hold: asyncio.Event | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Request(head[0].split()[1], headers, body)
            self.requests.append(request)
            if self.hold is not None:
                await self.hold.wait()
            writer.write(f"HTTP/1.1 {self.answer(request)}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked went away
        finally:
            writer.close()


@asynccontextmanager
async def mail_server() -> AsyncIterator[Mailbox]:
    """A mail server on the loopback."""
    box = Mailbox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(box, enable_SMTPUTF8=True), "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()


@asynccontextmanager
async def http_server() -> AsyncIterator[Receiver]:
    """An HTTP server on the loopback."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


async def until(found: Callable[[], Any]) -> Any:
    """What is found, as soon as it is; order and speed do not matter."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (result := found()):  # noqa: ASYNC110  it may come by several ways
            await asyncio.sleep(0.02)
    return result

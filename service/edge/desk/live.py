"""What keeps an open page up to date: `GET /events`, server-sent events that say only that something changed.

The page asks again for what it shows, with its own rights. Format: HTML, 9.2 "Server-sent events".
"""

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Any, Final

from starlette.responses import Response

from service.contract.answers import State
from service.edge.desk import asking
from service.edge.guard import Call, Endpoint
from service.edge.streams import Stream
from service.kit.canonical import digest
from service.kit.errors import Code, Refusal

KEEP_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 0.25
"""Between two events of one stream: a burst of changes is one."""
HELLO: Final = b"retry: 2000\nevent: here\ndata:\n\n"
CHANGED: Final = b"event: changed\ndata:\n\n"
KEEP: Final = b":\n\n"
HEADERS: Final = {
    "cache-control": "no-store",
    "content-type": "text/event-stream; charset=utf-8",
    "content-security-policy": "default-src 'none'",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}


def mark(state: State, refs: Iterable[tuple[str, str]]) -> str:
    """A short text that is another one when the state or any of the refs is."""
    return digest([state, *([ref, oid] for ref, oid in refs)])[:16]


async def events(call: Call) -> Response:
    """`/events`: one event for each change in the tenant, until the session or the membership ends."""
    actor = await asking.who(call, looks=True)
    if not await call.parts.desk.inbox.members(actor.tenant, [actor.id]):
        raise Refusal(Code.NOT_FOUND, asking.NO_TENANT)
    if call.request.method == "HEAD":
        return Response(headers=HEADERS)
    return EventStream(call)


class EventStream(Response):
    """Sends by itself: Starlette's streaming answer takes what uvicorn has for the request's body."""

    def __init__(self, call: Call) -> None:
        super().__init__(headers=HEADERS)
        self._until = ExitStack()
        self._stream: Stream = self._until.enter_context(call.parts.streams.open(call.owner))
        del self.headers["content-length"]

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        with self._until:
            telling = asyncio.create_task(self._tell(send))
            leaving = asyncio.create_task(_gone(receive))
            try:
                await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (telling, leaving):
                    task.cancel()
                await asyncio.wait({telling, leaving})
            if not telling.cancelled():
                await telling  # a fault in it is one of the answer

    async def _tell(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _send(send, HELLO)
        while not self._stream.over:
            text = KEEP
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stream.changed.wait(), KEEP_SECONDS)
                text = CHANGED
            if self._stream.over:
                break
            self._stream.changed.clear()
            await _send(send, text)
            await asyncio.sleep(PAUSE_SECONDS)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Any, text: bytes) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": True})


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


ENDPOINTS: Final = (Endpoint("GET", "/events", "proposal.view", events),)

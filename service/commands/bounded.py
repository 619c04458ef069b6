"""HTTP/1.1 with two limits that uvicorn does not have: how long a request's head may be, and how long it may take."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 65_536
HEAD_SECONDS = 10.0
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Bounded(HttpToolsProtocol):
    """One connection. The clock of the first request runs from the start, so that silence ends too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._clock is not None:  # the head is not complete yet
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._clock is None:
            self._start_clock()

    def on_headers_complete(self) -> None:
        self._stop_clock()
        super().on_headers_complete()

    def _start_clock(self) -> None:
        self._head_bytes = 0
        self._clock = self.loop.call_later(HEAD_SECONDS, self._refuse, TOO_SLOW)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _refuse(self, answer: bytes) -> None:
        self._stop_clock()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

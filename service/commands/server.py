"""uvicorn's server, but for the streams that never end by themselves: they are ended when it begins to stop.

uvicorn waits for every answer that is under way before it tells the application that it stops.
"""

import socket
from collections.abc import Callable

import uvicorn


class Server(uvicorn.Server):
    """One run of a server.

    Args:
        config: as uvicorn takes it.
        end: ends the open streams, and lets no other begin.
    """

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]) -> None:
        super().__init__(config)
        self._end = end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end()
        await super().shutdown(sockets)

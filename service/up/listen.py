"""The sockets of the web process. Whoever keeps it running holds them, so that a restart refuses no connection."""

import errno
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from service.up.place import UpRefused

BACKLOG = 512
ATTEMPTS_MOST = 20


@dataclass(frozen=True)
class Listening:
    """Sockets that listen on one port of the loopback."""

    port: int
    sockets: tuple[socket.socket, ...]

    def close(self) -> None:
        for one in self.sockets:
            one.close()


def listen(port: int) -> Listening:
    """Listen on 127.0.0.1 and, where there is one, ::1: `localhost` means both, and nobody else shall have one of them.

    Args:
        port: 0 for any that is free.

    Raises:
        UpRefused: the port is taken.
    """
    for _ in range(ATTEMPTS_MOST if port == 0 else 1):
        with ExitStack() as undo:
            try:
                first = undo.enter_context(_bound(socket.AF_INET, "127.0.0.1", port))
                number = first.getsockname()[1]
                second = undo.enter_context(_bound(socket.AF_INET6, "::1", number))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise UpRefused("port_refused", f"Port {port} cannot be used: {error.strerror}.") from None
                second = None
            undo.pop_all()
            return Listening(number, tuple(one for one in (first, second) if one is not None))
    raise UpRefused("port_taken", f"Port {port} is taken: choose another with --port, or any free one with --port 0.")


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made

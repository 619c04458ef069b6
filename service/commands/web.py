"""The web process."""

import gc
import logging
import os
import socket

import click

from service.settings import read_settings

HOST, PORT = "127.0.0.1", 8000
STOP_SECONDS = 10


@click.command
@click.option("--host", default=HOST, show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True)
@click.option("--fd", "sockets", type=int, multiple=True, help="Listen on this inherited socket instead.")
def web(host: str, port: int, sockets: tuple[int, ...]) -> None:
    """Serve agents and owners over HTTP. Settings: DATABASE_URL, PLACET_ISSUER, PLACET_REPOSITORIES,
    PLACET_SECRET_FILE, and REDIS_URL where there is more than one web process.
    """
    gc.disable()  # what is loaded stays: looking through it for garbage, now and later, is for nothing
    import uvicorn  # noqa: PLC0415  loaded without the search

    from service.app import create_app  # noqa: PLC0415  likewise
    from service.commands.bounded import Bounded  # noqa: PLC0415  likewise
    from service.commands.server import Server  # noqa: PLC0415  likewise

    gc.freeze()
    gc.enable()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    app = create_app(read_settings(dict(os.environ)))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=Bounded,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    Server(config, app.state.streams.end).run([socket.socket(fileno=number) for number in sockets] or None)

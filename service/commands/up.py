"""Start everything on this machine and keep it running until Ctrl-C."""

from pathlib import Path

import click
from rich.console import Console

from service.commands.options import as_json, data_dir
from service.up.progress import ForPeople, ForScripts
from service.up.run import Wanted
from service.up.run import up as run_up

PORT = 8765


@click.command
@data_dir
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any that is free.")
@as_json
def up(data_dir: Path, port: int, as_json: bool) -> None:
    """Start database, web and writer, and keep them running until Ctrl-C.

    The database is the one of DATABASE_URL, or an embedded PostgreSQL in the data directory.
    """
    wanted, out = Wanted(data_dir, port), Console()
    if as_json:
        run_up(wanted, ForScripts(out, Console(stderr=True)))
        return
    with out.status("Starting Placet") as status:
        run_up(wanted, ForPeople(out, status))

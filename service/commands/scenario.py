"""Play the whole story on a fresh server."""

import asyncio
import sys

import click
from rich.console import Console

from service.scenario.play import play


@click.command
def scenario() -> None:
    """Play the whole story over HTTP on a fresh server; one line per step with what came back.

    Exit status 0 only if every line is as it must be.
    """
    sys.exit(0 if asyncio.run(play(Console())) else 1)

"""Measure speed, and what the promises would cost to drop. Tables for people, JSON for scripts."""

import functools
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from service.bench.approve import CHANGED, FILES, ROUNDS
from service.bench.approve import approve as measure_approve
from service.bench.machine import IN_MEMORY, describe, file_system
from service.bench.results import Results, show
from service.bench.serve import ROUNDS as SERVE_ROUNDS
from service.bench.serve import SECONDS, SHARDS
from service.bench.serve import serve as measure_serve
from service.commands.options import as_json

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=".",
    show_default=True,
    help="Measure in a temporary folder made in here; it must be on a disk, where a flush costs something.",
)


@click.group
def bench() -> None:
    """Measure how fast approvals are. Nothing of yours is touched: everything happens in a temporary folder."""


def measures(work: Callable[..., Iterable[Results]]) -> Callable[..., None]:
    """Make a command of a measure that works in a folder of its own: adds --folder and --json, shows the results."""

    @folder_option
    @as_json
    @functools.wraps(work)
    def command(folder: Path, as_json: bool, **options: Any) -> None:
        if file_system(folder) in IN_MEMORY:
            raise click.BadParameter(f"{folder} is in memory, where a flush costs nothing.", param_hint="--folder")
        machine = describe(folder)
        with tempfile.TemporaryDirectory(prefix="placet-bench-", dir=folder) as scratch:
            found = list(work(Path(scratch).resolve(), **options))
        show(Console(), machine, found, as_json=as_json)

    return command


@bench.command
@click.option("--rounds", type=click.IntRange(1), default=ROUNDS, show_default=True, help="How often each way.")
@click.option("--files", type=click.IntRange(20), multiple=True, default=FILES, show_default=True, help="In a project.")
@click.option("--changed", type=click.IntRange(1, 20), multiple=True, default=CHANGED, show_default=True)
@measures
def approve(scratch: Path, rounds: int, files: tuple[int, ...], changed: tuple[int, ...]) -> list[Results]:
    """The Git part of an approval beside git's plumbing and the floor."""
    return [measure_approve(scratch, files, changed, rounds)]


@bench.command
@click.option("--rounds", type=click.IntRange(1), default=SERVE_ROUNDS, show_default=True, help="One by one.")
@click.option("--seconds", type=click.FloatRange(0.1), default=SECONDS, show_default=True, help="At once, of each.")
@click.option("--files", type=click.IntRange(20), multiple=True, default=FILES, show_default=True, help="In a project.")
@click.option(
    "--shards", type=click.IntRange(1), default=SHARDS, show_default=True, help="Repositories of two writers."
)
@measures
def serve(scratch: Path, rounds: int, seconds: float, files: tuple[int, ...], shards: int) -> list[Results]:
    """Whole approvals over HTTP, one by one and many at once; memory."""
    return measure_serve(scratch, files, rounds, seconds, shards)

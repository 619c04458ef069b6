"""Measure speed, and what the promises would cost to drop. Tables for people, JSON for scripts."""

import functools
import math
import signal
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from service.bench import approve as git_part
from service.bench import cost as costs
from service.bench import crash as crashes
from service.bench import desk as desks
from service.bench import inbox as inboxes
from service.bench import operations as every
from service.bench import past as pasts
from service.bench import race as races
from service.bench import saturate as saturated
from service.bench import serve as served
from service.bench import wear as worn
from service.bench.machine import IN_MEMORY, describe, file_system
from service.bench.results import Results, show
from service.bench.stand import own_database_only
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


def _finite(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("nan is no number of seconds.")
    return value


def measures(work: Callable[..., Iterable[Results]]) -> Callable[..., None]:
    """Make a command of a measure that works in a folder of its own: adds --folder and --json, shows the results."""

    @folder_option
    @as_json
    @functools.wraps(work)
    def command(folder: Path, as_json: bool, **options: Any) -> None:
        if file_system(folder) in IN_MEMORY:
            raise click.BadParameter(f"{folder} is in memory, where a flush costs nothing.", param_hint="--folder")
        machine = describe(folder)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)  # so that it tidies up as it does after Ctrl-C
        with tempfile.TemporaryDirectory(prefix="placet-bench-", dir=folder) as scratch:
            found = list(work(Path(scratch).resolve(), **options))
        show(Console(), machine, found, as_json=as_json)

    return command


files_option = click.option(
    "--files",
    type=click.IntRange(20),
    multiple=True,
    default=git_part.FILES,
    show_default=True,
    help="How many files a project has; may be given several times.",
)


@bench.command
@click.option(
    "--rounds", type=click.IntRange(1), default=git_part.ROUNDS, show_default=True, help="How often each way."
)
@files_option
@measures
def approve(scratch: Path, rounds: int, files: tuple[int, ...]) -> list[Results]:
    """The Git part of an approval beside git's plumbing and the floor."""
    return [git_part.approve(scratch, files, rounds=rounds)]


@bench.command
@click.option("--rounds", type=click.IntRange(1), default=served.ROUNDS, show_default=True, help="One by one.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    callback=_finite,
    default=served.SECONDS,
    show_default=True,
    help="Of each load.",
)
@files_option
@measures
def serve(scratch: Path, rounds: int, seconds: float, files: tuple[int, ...]) -> list[Results]:
    """Whole approvals over HTTP, one by one and many at once; memory; the Git part saturated."""
    return [
        *served.serve(scratch, files, rounds, seconds),
        saturated.saturate(scratch, files, min(seconds, saturated.SECONDS)),
    ]


@bench.command
@click.option("--rounds", type=click.IntRange(1), default=every.ROUNDS, show_default=True, help="How often each.")
@files_option
@measures
def operations(scratch: Path, rounds: int, files: tuple[int, ...]) -> list[Results]:
    """Planning and executing every operation on projects of different size; a merge of every file of the largest."""
    return [*every.operations(scratch, files, rounds), every.both_sides(scratch, max(files))]


def runs_option(runs: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--runs, with as many by default."""
    return click.option("--runs", type=click.IntRange(1), default=runs, show_default=True, help="Of each mode.")


def trials_option(trials: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--trials, with as many by default."""
    return click.option("--trials", type=click.IntRange(1), default=trials, show_default=True, help="In each run.")


@bench.command
@runs_option(races.RUNS)
@trials_option(races.TRIALS)
@measures
def race(scratch: Path, runs: int, trials: int) -> list[Results]:
    """Two approvals at once on one base, as it is and by a naive writer."""
    return [races.race(scratch, runs, trials)]


@bench.command
@runs_option(races.RUNS)
@trials_option(crashes.TRIALS)
@measures
def crash(scratch: Path, runs: int, trials: int) -> list[Results]:
    """Approvals whose writer is killed at a random point, as it is and by a naive writer."""
    return [crashes.crash(scratch, runs, trials)]


@bench.command
@runs_option(races.RUNS)
@click.option("--n", type=click.IntRange(1), default=costs.N, show_default=True, help="How often each call.")
@measures
def cost(scratch: Path, runs: int, n: int) -> list[Results]:
    """What each call takes over HTTP, as it is and with a naive writer."""
    return [costs.cost(scratch, runs, n)]


@bench.command
@click.option("--rounds", type=click.IntRange(1), default=pasts.ROUNDS, show_default=True, help="How often each.")
@click.option("--proposals", type=click.IntRange(1), default=pasts.ROWS[1], show_default=True, help="In the past.")
@click.option("--markers", type=click.IntRange(1), default=worn.MARKERS, show_default=True, help="In a repository.")
@click.option("--executions", type=click.IntRange(1), default=worn.EXECUTIONS, show_default=True, help="Behind it.")
@measures
def growth(scratch: Path, rounds: int, proposals: int, markers: int, executions: int) -> list[Results]:
    """Whether executions slow down with what lies behind: proposals in the database, markers and packs in Git."""
    own_database_only()  # it comes last, and would refuse only then
    return [
        worn.markers(scratch, markers, rounds),
        worn.executions(scratch, executions, rounds),
        pasts.past(scratch, (pasts.ROWS[0], proposals), rounds),
    ]


@bench.command
@click.option(
    "--rounds", type=click.IntRange(1), default=inboxes.ROUNDS, show_default=True, help="How often each page."
)
@click.option("--waiting", type=click.IntRange(1), default=inboxes.WAITING, show_default=True, help="Proposals.")
@measures
def inbox(scratch: Path, rounds: int, waiting: int) -> list[Results]:
    """The inbox's pages over HTTP with many proposals waiting."""
    return [inboxes.inbox(scratch, waiting, rounds)]


@bench.command
@click.option("--rounds", type=click.IntRange(1), default=desks.ROUNDS, show_default=True, help="How often each page.")
@measures
def desk(scratch: Path, rounds: int) -> list[Results]:
    """A card that shows a large change, when its code was coloured before and when it was not."""
    return [desks.desk(scratch, rounds)]

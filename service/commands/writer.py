"""The writer process."""

import gc
import logging
import os
import sys

import click

from service.settings import read_settings


@click.command
def writer() -> None:
    """Execute what was approved. Settings as for `placet web`; it serves the repositories of its own host."""
    gc.disable()  # what is loaded stays: looking through it for garbage, now and later, is for nothing
    from service.worker import run_worker  # noqa: PLC0415  loaded without the search

    gc.freeze()  # its memory stays shared with the executors, which are forked
    gc.enable()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(run_worker(read_settings(dict(os.environ))))

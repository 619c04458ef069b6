"""The writer process."""

import gc
import logging
import os
import sys

import click

from service.settings import read_sealer, read_settings


@click.command
def writer() -> None:
    """Execute what was approved; it serves the repositories of its own host. Settings as for `placet web`, and
    PLACET_KEYS_SECRET_FILE where a tenant's commits are signed.
    """
    gc.disable()  # what is loaded stays: looking through it for garbage, now and later, is for nothing
    from service.worker import run_worker  # noqa: PLC0415  loaded without the search

    gc.freeze()  # its memory stays shared with the executors, which are forked
    gc.enable()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    found = dict(os.environ)
    sys.exit(run_worker(read_settings(found), read_sealer(found)))

"""The writer process."""

import logging
import os
import sys

import click

from service.settings import read_settings
from service.worker import run_worker


@click.command
def writer() -> None:
    """Execute what was approved. Settings as for `placet web`; it serves the repositories of its own host."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(run_worker(read_settings(dict(os.environ))))

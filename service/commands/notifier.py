"""The notifier process."""

import logging
import os
import sys

import click

from service.settings import read_settings


@click.command
def notifier() -> None:
    """Tell people what happened. Settings as for `placet web`, and those of the channels: PLACET_SMTP_URL,
    PLACET_SMTP_PASSWORD_FILE, PLACET_MAIL_FROM, PLACET_APPRISE_FILE, PLACET_OUTGOING_HOSTS.
    """
    from service.notifier import run_notifier  # noqa: PLC0415  loaded when it runs

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(run_notifier(read_settings(dict(os.environ))))

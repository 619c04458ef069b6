"""Bring the database's schema up to date."""

from pathlib import Path

import click

from service.commands.options import data_dir
from service.up.database import migrate as bring_up_to_date
from service.up.place import Place


@click.command
@data_dir
def migrate(data_dir: Path) -> None:
    """Bring the database's schema up to date.

    The login of DATABASE_URL must be able to create roles, or be a member of placet_owner, placet_app,
    placet_writer and placet_notifier.
    """
    with Place(data_dir.resolve()).reach() as reach:
        bring_up_to_date(reach.database_url)
    click.echo("The schema is up to date.")

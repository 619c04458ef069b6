"""Options that several commands share."""

from pathlib import Path

import click

from service.up.place import DATA_DIR, DATA_DIR_VARIABLE

data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=DATA_DIR,
    envvar=DATA_DIR_VARIABLE,
    show_default=True,
    help="Where `placet up` keeps its data.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for scripts.")
project_option = click.option("--project", help="Name or id; not needed where there is only one.")
tenant_option = click.option("--tenant", help="Name or id; not needed where there is only one.")

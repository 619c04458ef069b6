"""Write the descriptions of the interfaces anew from the code; a test holds the committed ones against it."""

from pathlib import Path

import click

from service.edge.openapi import documents


@click.command
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default="openapi", show_default=True)
def openapi(folder: Path) -> None:
    """Write the owner API, the authorization server and the tools' catalogue."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (folder / name).write_text(text, "utf-8")
        click.echo(folder / name)

"""`placet openapi`: write the descriptions under openapi/ anew."""

from pathlib import Path

import click


@click.command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("openapi"), show_default=True)
def openapi(folder: Path) -> None:
    """Write the descriptions of the owner API, the authorization server and the tools."""
    from service.edge.openapi import documents  # noqa: PLC0415  help needs none of it

    folder.mkdir(exist_ok=True)
    for name, text in documents().items():
        (folder / name).write_text(text)
        click.echo(f"{folder / name}")

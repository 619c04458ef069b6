"""The `placet` command: finds the word that was said, and tells a person in one sentence what went wrong."""

import importlib
import sys

import click

WORDS = {
    "up": "Start everything on this machine and keep it running.",
    "web": "Serve agents and owners over HTTP.",
    "writer": "Execute what was approved.",
    "notifier": "Tell people what happened.",
    "migrate": "Bring the database's schema up to date.",
    "scenario": "Play the whole story on a fresh server and say how it went.",
    "tenant": "Whose repositories these are.",
    "project": "Groups of repositories and members.",
    "owner": "People who decide.",
    "repo": "Git repositories.",
    "connection": "What agents may do.",
    "keys": "What signs commits.",
    "ledger": "What happened.",
    "verify": "Say of every commit of a clone who signed it.",
    "bench": "Measure how fast approvals are.",
}
HIDDEN = ("openapi", "messages")  # for those who work on Placet


class Words(click.Group):
    """The commands by name. Help needs none of their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(WORDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        if cmd_name not in {*WORDS, *HIDDEN}:
            return None
        found = getattr(importlib.import_module(f"service.commands.{cmd_name}"), cmd_name)
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(WORDS.items()))


@click.command(cls=Words, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="placet")
def placet() -> None:
    """Agents propose; the owner says placet; only then does Git change."""


def main() -> None:
    """Run the command; exit status 1 for what failed, 2 for what was not understood."""
    try:
        placet(standalone_mode=True)
    except Exception as error:
        from service.commands.failures import explain  # noqa: PLC0415  what it knows is slow to load

        sentence = explain(error)
        if sentence is None:
            raise
        click.echo(f"placet: {sentence}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()

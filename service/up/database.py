"""The database of a fresh start: the schema brought up to date, and a login for each process."""

import logging
from pathlib import Path

import asyncpg
from alembic import command
from alembic.config import Config

import migrations
from service.kit.database import Role
from service.kit.postgres import EmbeddedPostgres


def migrate(url: str) -> None:
    """Bring the schema to this program's version. Runs an event loop of its own: call it outside of any."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config(Path(str(migrations.__file__)).with_name("alembic.ini"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    command.upgrade(config, "head")


async def give_logins(server: EmbeddedPostgres, admin_url: str) -> dict[Role, str]:
    """Let the web and the writer log in as what they are, so that neither can become the superuser.

    Returns the URL of each.
    """
    connection = await asyncpg.connect(admin_url.replace("postgresql+asyncpg", "postgresql", 1))
    roles: tuple[Role, ...] = ("placet_app", "placet_writer")
    try:
        for role in roles:
            await connection.execute(f"ALTER ROLE {role} LOGIN PASSWORD '{server.password(role)}'")  # hexadecimal
    finally:
        await connection.close()
    return {role: server.url(role) for role in roles}

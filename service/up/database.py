"""The database of a start: the schema brought up to date, and a login for each process."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

import migrations
from service.kit.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from service.kit.database import Role

FOLDER = Path(str(migrations.__file__)).parent


def migrate(url: str) -> None:
    """Bring the schema to this program's version. Runs an event loop of its own: call it outside of any."""
    # A start that finds the schema as it must be does not pay for loading them.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config(FOLDER / "alembic.ini")
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    command.upgrade(config, "head")


async def migrate_if_needed(url: str) -> None:
    """The same where the schema is not of this program's version."""
    newest = max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*_*.py"))
    if await _version(url) != newest:
        await asyncio.to_thread(migrate, url)


async def give_logins(server: EmbeddedPostgres, admin_url: str) -> "dict[Role, str]":
    """Let web, writer and notifier log in as what they are, so that neither can become the superuser.

    Returns the URL of each.
    """
    connection = await asyncpg.connect(_plain(admin_url))
    roles: tuple[Role, ...] = ("placet_app", "placet_writer", "placet_notifier")
    try:
        for role in roles:
            await connection.execute(f"ALTER ROLE {role} LOGIN PASSWORD '{server.password(role)}'")  # hexadecimal
    finally:
        await connection.close()
    return {role: server.url(role) for role in roles}


async def _version(url: str) -> str | None:
    """What Alembic noted, or None where it never ran."""
    connection = await asyncpg.connect(_plain(url))
    try:
        if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
            return None
        await connection.execute("SET ROLE placet_owner")
        found: str | None = await connection.fetchval("SELECT version_num FROM alembic_version")
        return found
    finally:
        await connection.close()


def _plain(url: str) -> str:
    """The URL without the name of SQLAlchemy's driver."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}{separator}{rest}"

"""The schema of signing in goes down and up again with rows in its tables."""

import os
import secrets
from uuid import uuid4

import anyio.to_thread
import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import make_url

from tests.conftest import ROOT, TEMPLATE, administer

pytestmark = pytest.mark.anyio
FILLED = (
    "INSERT INTO person (id, email, name) VALUES ('{who}', 'ada@example.org', 'Ada')",
    "INSERT INTO person_credential (id, person, kind, name) VALUES (gen_random_uuid(), '{who}', 'passkey', 'x')",
    "INSERT INTO login_counter (kind, subject) VALUES ('account', 'x')",
    "INSERT INTO login_challenge (hash, person, expires_at) VALUES ('link', '{who}', now())",
    "INSERT INTO login_challenge (hash, kind, browser, expires_at) VALUES ('a', 'sign_in', 'b', now())",
    """INSERT INTO session (id, hash, csrf, person, tenant, expires_at, way, proved_at, proved_by) VALUES
    (gen_random_uuid(), 'h', 'c', '{who}', '00000000-0000-0000-0000-000000000000', now(), 'oidc', now(), 'oidc')""",
)


async def test_links_and_sessions_stay_and_what_came_later_goes(cluster_url: str) -> None:
    name, who = f"placet_sign_in_{secrets.token_hex(6)}", str(uuid4())
    url = make_url(cluster_url).set(database=name)
    config = Config(ROOT / "migrations" / "alembic.ini")
    config.set_main_option("sqlalchemy.url", url.render_as_string(hide_password=False).replace("%", "%%"))
    await administer(f"CREATE DATABASE {name} TEMPLATE {os.environ[TEMPLATE]}")
    try:
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        connection = await asyncpg.connect(dsn=plain)
        for statement in FILLED:
            await connection.execute(statement.replace("{who}", who))
        await connection.close()
        for move, to in ((command.downgrade, "0008-1"), (command.upgrade, "head")):
            await anyio.to_thread.run_sync(move, config, to)
        await anyio.to_thread.run_sync(command.check, config)
        connection = await asyncpg.connect(dsn=plain)
        left = [tuple(row) for row in await connection.fetch("SELECT hash, kind FROM login_challenge")]
        ways = [row["way"] for row in await connection.fetch("SELECT way FROM session")]
        await connection.close()
        assert (left, ways) == ([(b"link", "link")], ["link"])
    finally:
        await administer(f"DROP DATABASE {name} WITH (FORCE)")

"""The schema of parts goes down and up again with rows in it: a part that waits is withdrawn, nothing else ends."""

import os
import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import anyio.to_thread
import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import select
from sqlalchemy.engine import make_url

from service.contract.data import Json
from service.kit.database import Database
from service.proposals.tables import proposal
from service.repositories.placement import Storage
from tests.conftest import ROOT, TEMPLATE, administer
from tests.stage import House, Stage

pytestmark = pytest.mark.anyio


async def part(house: House, name: str) -> Json:
    """Half of a proposal, chosen."""
    files = ({"path": f"{name}-{side}.txt", "content": "x\n"} for side in "ab")
    shown = await house.propose(house.arguments(*files))
    made = await house.stage.divide(house.owner, UUID(shown["proposal_id"]), ["1"])
    async with house.stage.app_db.bound(house.tenant) as tx:
        digest = await tx.scalar(select(proposal.c.digest).where(proposal.c.id == made))
    return {"proposal_id": str(made), "card_digest": digest}


async def lived_in(url: str, folder: Path) -> None:
    """One part that landed and one that waits."""
    async with AsyncExitStack() as stack:
        databases = [Database(url, role, size=2) for role in ("placet_owner", "placet_app", "placet_writer")]
        for one in databases:
            stack.push_async_callback(one.close)
        house = await Stage(*databases, Storage(folder)).house()
        await house.land(await part(house, "landed"))
        await part(house, "waits")


async def test_a_part_that_waits_is_withdrawn_and_what_landed_stays(cluster_url: str, tmp_path: Path) -> None:
    name = f"placet_parts_{secrets.token_hex(6)}"
    url = make_url(cluster_url).set(database=name)
    text = url.render_as_string(hide_password=False)
    config = Config(ROOT / "migrations" / "alembic.ini")
    config.set_main_option("sqlalchemy.url", text.replace("%", "%%"))
    await administer(f"CREATE DATABASE {name} TEMPLATE {os.environ[TEMPLATE]}")
    try:
        await lived_in(text, tmp_path)
        for move, to in ((command.downgrade, "0010"), (command.upgrade, "head")):
            await anyio.to_thread.run_sync(move, config, to)
        await anyio.to_thread.run_sync(command.check, config)
        connection = await asyncpg.connect(dsn=url.set(drivername="postgresql").render_as_string(hide_password=False))
        rows = await connection.fetch(
            "SELECT state, parent, key LIKE 'placet:%' AS part FROM proposal ORDER BY created_at"
        )
        await connection.close()
        assert [(row["state"], row["part"]) for row in rows] == [
            ("declined", False),
            ("executed", True),
            ("pending", False),
            ("cancelled", True),
        ]
        assert {row["parent"] for row in rows} == {None}
    finally:
        await administer(f"DROP DATABASE {name} WITH (FORCE)")

"""The walls in the database: read from PostgreSQL's own catalogue, and sabotaged to see that the reading is real."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio.to_thread
import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text
from sqlalchemy.engine import make_url

from service.kit.database import Database, metadata
from service.kit.errors import Refusal
from service.repositories.placement import Storage
from tests.conftest import ROOT, TEMPLATE, administer
from tests.stage import House, Stage, git

pytestmark = pytest.mark.anyio

# Read before a tenant is known; everything else belongs to one. This list may only grow with a decision record.
OPEN_TABLES = {
    "alembic_version",
    "login_challenge",
    "login_counter",
    "notice_queue",
    "oauth_client",
    "oauth_request",
    "person",
    "person_credential",
    "person_tenant",
    "session",
    "tenant",
    "work_queue",
}
TABLES = """
SELECT c.relname AS name, c.relrowsecurity AS enabled, c.relforcerowsecurity AS forced,
  pg_get_userbyid(c.relowner) AS owner,
  (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd = '*' AND p.polpermissive
     AND pg_get_expr(p.polqual, p.polrelid) LIKE '%app.tenant%'
     AND pg_get_expr(p.polwithcheck, p.polrelid) LIKE '%app.tenant%') AS walls,
  (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive) AS permissive,
  EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND a.attnotnull) AS tenant,
  (SELECT (SELECT attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = i.indkey[0])
     FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) AS first_key,
  (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique
     AND (SELECT attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = i.indkey[0]) <> 'tenant') AS leaky
FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
"""
ROLES = """
SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin FROM pg_roles
WHERE rolname IN ('placet_owner', 'placet_app', 'placet_writer', 'placet_notifier')
"""
SABOTAGE = (
    "ALTER TABLE proposal DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE proposal NO FORCE ROW LEVEL SECURITY",
    "DROP POLICY tenant_wall ON proposal",
    "CREATE POLICY door ON proposal USING (true)",
    "CREATE TABLE forgotten (id int PRIMARY KEY)",
    "CREATE UNIQUE INDEX leak ON proposal (id, key)",
    "ALTER TABLE proposal OWNER TO placet_app",
)


async def faults(connection: asyncpg.Connection) -> list[str]:
    """What is wrong with the walls."""
    found = []
    for row in await connection.fetch(TABLES):
        name = row["name"]
        if row["owner"] != "placet_owner":
            found.append(f"{name} is not owned by placet_owner")
        if name in OPEN_TABLES:
            continue
        if not (row["enabled"] and row["forced"] and row["tenant"]):
            found.append(f"{name} has no forced row security")
        if (row["walls"], row["permissive"]) != (1, 1):
            found.append(f"{name} has not exactly one wall")
        if row["first_key"] != "tenant" or row["leaky"]:
            found.append(f"{name} has a key that does not start with the tenant")
    return found


@pytest.fixture(scope="module")
async def superuser(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    url = make_url(database_url).set(drivername="postgresql")
    connection = await asyncpg.connect(dsn=url.render_as_string(hide_password=False))
    yield connection
    await connection.close()


@pytest.fixture
async def undone(superuser: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """The same, in a transaction that is rolled back."""
    transaction = superuser.transaction()
    await transaction.start()
    yield superuser
    await transaction.rollback()


async def test_every_table_stands_behind_forced_row_security_but_the_listed_ones(superuser: asyncpg.Connection) -> None:
    assert await faults(superuser) == []
    declared = {table.name for table in metadata.tables.values() if not table.info["tenant"]}
    assert declared | {"alembic_version"} == OPEN_TABLES


@pytest.mark.parametrize("statement", SABOTAGE)
async def test_each_gap_in_the_walls_is_found(undone: asyncpg.Connection, statement: str) -> None:
    await undone.execute(statement)
    assert await faults(undone) != []


async def test_no_role_can_pass_the_walls(superuser: asyncpg.Connection) -> None:
    rows = await superuser.fetch(ROLES)
    assert len(rows) == 4
    for row in rows:
        powers = ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb", "rolcanlogin")
        assert not any(row[power] for power in powers)


BORN_EXECUTED = """
INSERT INTO proposal SELECT (jsonb_populate_record(p, jsonb_build_object(
  'id', gen_random_uuid(), 'key', 'another-key', 'state', 'executed'))).* FROM proposal p
"""
RETIRED_AND_BACK = """
UPDATE signing_key SET state = 'retired', retired_at = now(), sealed = NULL;
UPDATE signing_key SET state = 'live', retired_at = NULL, sealed = ''
"""
FORBIDDEN = (
    ("placet_app", "UPDATE proposal SET state = 'executed'"),
    ("placet_app", "UPDATE proposal SET state = 'executing'"),
    ("placet_app", "UPDATE proposal SET state = 'failed'"),
    ("placet_app", BORN_EXECUTED),
    ("placet_writer", "UPDATE proposal SET state = 'declined'; UPDATE proposal SET state = 'pending'"),
    ("placet_app", "UPDATE connection SET state = 'revoked'; UPDATE connection SET state = 'live'"),
    ("placet_app", "UPDATE proposal SET digest = ''"),
    ("placet_app", "INSERT INTO intent (tenant) VALUES (gen_random_uuid())"),
    ("placet_app", "INSERT INTO ref_move (tenant) VALUES (gen_random_uuid())"),
    ("placet_app", "SELECT * FROM work_queue"),
    ("placet_app", "UPDATE decision SET verdict = 'approve'"),
    ("placet_app", "UPDATE membership SET role = 'owner'"),
    ("placet_app", "INSERT INTO membership (tenant) VALUES (gen_random_uuid())"),
    ("placet_app", "SELECT sealed FROM signing_key"),
    ("placet_app", "SELECT * FROM signing_key"),
    ("placet_app", "SELECT signing_key FROM signing_key"),  # the whole row as one value
    ("placet_app", "UPDATE tenant SET sign_commits = false"),
    ("placet_app", "INSERT INTO signing_key (tenant) VALUES (gen_random_uuid())"),
    ("placet_app", "UPDATE signing_key SET state = 'retired'"),
    ("placet_writer", "UPDATE tenant SET sign_commits = false"),
    ("placet_writer", "INSERT INTO signing_key (tenant) VALUES (gen_random_uuid())"),
    ("placet_writer", "UPDATE signing_key SET state = 'retired'"),
    ("placet_writer", "DELETE FROM signing_key"),
    ("placet_owner", "UPDATE signing_key SET public_key = ''"),
    ("placet_owner", "UPDATE signing_key SET fingerprint = ''"),
    ("placet_owner", "DELETE FROM signing_key"),
    ("placet_owner", RETIRED_AND_BACK),
    ("placet_writer", "INSERT INTO proposal (tenant) VALUES (gen_random_uuid())"),
    ("placet_writer", "INSERT INTO decision (tenant) VALUES (gen_random_uuid())"),
    ("placet_writer", "UPDATE connection SET state = 'live'"),
    ("placet_writer", "SELECT * FROM session"),
    ("placet_writer", "SELECT * FROM person_credential"),
    ("placet_writer", "SELECT * FROM login_counter"),
    ("placet_writer", "SELECT * FROM access_token"),
    *(("placet_notifier", statement) for statement in (
        "UPDATE proposal SET state = 'approved'", "UPDATE proposal SET state = state",
        "INSERT INTO proposal (tenant) VALUES (gen_random_uuid())", "SELECT plan FROM proposal",
        "SELECT request FROM proposal", "SELECT * FROM staging",
        "INSERT INTO decision (tenant) VALUES (gen_random_uuid())",
        "SELECT * FROM work_queue", "INSERT INTO work_queue (kind) VALUES ('execute')", "DELETE FROM work_queue",
        "SELECT * FROM session", "SELECT * FROM access_token", "SELECT * FROM login_challenge",
        "UPDATE membership SET role = 'owner'", "SELECT * FROM ledger_entry", "UPDATE webhook SET url = ''",
        "INSERT INTO webhook (tenant) VALUES (gen_random_uuid())", "UPDATE notice_choice SET zone = ''")),
    ("placet_app", "SELECT * FROM notice_queue"),
    ("placet_app", "UPDATE delivery SET state = 'sent'"),
    ("placet_writer", "SELECT * FROM notice_queue"),
    ("placet_writer", "SELECT * FROM webhook"),
    *((role, statement) for role in ("placet_app", "placet_writer", "placet_owner") for statement in (
        "UPDATE ledger_entry SET kind = ''", "DELETE FROM ledger_entry", "TRUNCATE ledger_entry",
        "DELETE FROM ref_move")),
)  # fmt: skip


@pytest.mark.parametrize(("role", "statement"), FORBIDDEN)
async def test_a_role_cannot_do_what_is_not_its_business(
    undone: asyncpg.Connection, house: House, role: str, statement: str
) -> None:
    if "proposal" in statement:
        await house.propose()  # row security has something to refuse
    if "signing_key" in statement:
        await house.sign()
    await undone.execute(f"SET LOCAL ROLE {role}")
    await undone.execute("SELECT set_config('app.tenant', $1, true)", str(house.tenant))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await undone.execute(statement)


async def test_the_schema_is_what_the_code_declares_after_up_down_and_up_again(cluster_url: str) -> None:
    name = f"placet_up_down_{secrets.token_hex(6)}"
    url = make_url(cluster_url).set(database=name).render_as_string(hide_password=False)
    config = Config(ROOT / "migrations" / "alembic.ini")
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    await administer(f"CREATE DATABASE {name}")
    try:
        for move, to in ((command.upgrade, "head"), (command.downgrade, "base"), (command.upgrade, "head")):
            await anyio.to_thread.run_sync(move, config, to)
        await anyio.to_thread.run_sync(command.check, config)
    finally:
        await administer(f"DROP DATABASE {name} WITH (FORCE)")


async def test_the_operations_schema_goes_down_and_up_again_with_everything_in_it(
    cluster_url: str, tmp_path: Path
) -> None:
    """What owners proposed, what was kept and what conflicted goes; what agents proposed stays."""
    name = f"placet_down_{secrets.token_hex(6)}"
    url = make_url(cluster_url).set(database=name).render_as_string(hide_password=False)
    config = Config(ROOT / "migrations" / "alembic.ini")
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    await administer(f"CREATE DATABASE {name} TEMPLATE {os.environ[TEMPLATE]}")
    try:
        await lived_in(url, tmp_path)
        for move, to in ((command.downgrade, "0003"), (command.upgrade, "head")):
            await anyio.to_thread.run_sync(move, config, to)
        await anyio.to_thread.run_sync(command.check, config)
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        connection = await asyncpg.connect(dsn=plain)
        try:
            rows = await connection.fetch("SELECT kind, connection IS NULL AS owners FROM proposal ORDER BY kind")
            assert [(row["kind"], row["owners"]) for row in rows] == [("propose_branch", False)]
        finally:
            await connection.close()
    finally:
        await administer(f"DROP DATABASE {name} WITH (FORCE)")


async def lived_in(url: str, folder: Path) -> None:
    """An agent's execution with a restore point, its undo, and a conflict."""
    async with AsyncExitStack() as stack:
        databases = [Database(url, role, size=2) for role in ("placet_owner", "placet_app", "placet_writer")]
        for database in databases:
            stack.push_async_callback(database.close)
        house = await Stage(*databases, Storage(folder / "repositories")).house()
        words = {"repository_id": str(house.repository), "reason": "Because."}
        shown = await house.propose({**words, "branch": "side", "source": "main"}, tool="propose_branch")
        assert (await house.land(shown)).state == "executed"
        await house.undo(shown)
        tree = git(house.path, "rev-parse", "main^{tree}").decode().strip()
        for branch, content in (("main", b"1\n"), ("side", b"2\n")):
            blob = git(house.path, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
            git(house.path, "read-tree", tree)
            git(house.path, "update-index", "--add", "--cacheinfo", f"100644,{blob},app.py")
            made = git(house.path, "write-tree").decode().strip()
            commit = git(house.path, "commit-tree", made, "-p", branch, "-m", "Grow").decode().strip()
            git(house.path, "update-ref", f"refs/heads/{branch}", commit)
        with pytest.raises(Refusal, match="Conflicts"):
            await house.propose({**words, "branch": "main", "source": "side"}, tool="propose_merge")


async def test_a_connection_comes_back_to_the_pool_without_a_tenant(house: House, app_db: Database) -> None:
    """After success, failure and cancellation alike: THREATS T05."""

    async def fail() -> None:
        async with app_db.bound(house.tenant) as tx:
            await tx.execute(text("SELECT 1"))
            raise ValueError

    async def hang() -> None:
        async with app_db.bound(house.tenant) as tx:
            await tx.execute(text("SELECT pg_sleep(5)"))

    for _ in range(6):
        with pytest.raises(ValueError):  # noqa: PT011  raised just above
            await fail()
        task = asyncio.create_task(hang())
        await asyncio.wait([task], timeout=0.02)
        task.cancel()
        await asyncio.wait([task])
    for _ in range(12):
        async with app_db.directory() as tx:
            assert await tx.scalar(text("SELECT nullif(current_setting('app.tenant', true), '')")) is None
            assert await tx.scalar(text("SELECT count(*) FROM project")) == 0


async def test_without_the_binding_nothing_is_seen_so_the_net_is_real(
    house: House, app_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app_db.bound(house.tenant) as tx:
        assert await tx.scalar(text("SELECT count(*) FROM project")) == 1

    async def forget(_connection: object, _tenant: object) -> None:
        pass

    monkeypatch.setattr("service.kit.database.bind", forget)
    async with app_db.bound(house.tenant) as tx:
        assert await tx.scalar(text("SELECT count(*) FROM project")) == 0

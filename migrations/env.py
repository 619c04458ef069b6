"""Run migrations as the role that owns the tables, creating the four roles first where they are missing."""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

import service.repositories.tables  # noqa: F401  every table must be known before they are compared
from service.kit.database import metadata

ROLES = """
DO $$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['placet_owner', 'placet_app', 'placet_writer', 'placet_notifier'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB', name);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
    IF NOT pg_has_role(session_user, name, 'MEMBER') THEN
      EXECUTE format('GRANT %I TO %I', name, session_user);
    END IF;
  END LOOP;
  EXECUTE 'GRANT USAGE, CREATE ON SCHEMA public TO placet_owner';
  EXECUTE 'GRANT USAGE ON SCHEMA public TO placet_app, placet_writer, placet_notifier';
END $$
"""


def run(connection: Connection) -> None:
    """Prepare the roles, then migrate in one transaction, one migrator at a time."""
    with connection.begin():
        connection.execute(text("SELECT pg_advisory_xact_lock(123610792682868)"))
        connection.execute(text(ROLES))
    connection.execute(text("SET lock_timeout = '2s'"))
    connection.execute(text("SET ROLE placet_owner"))
    connection.commit()
    context.configure(connection=connection, target_metadata=metadata, compare_server_default=False)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(123610792682868)"))
        context.run_migrations()


async def main() -> None:
    url = make_url(context.config.get_main_option("sqlalchemy.url") or os.environ["DATABASE_URL"])
    engine = create_async_engine(url.set(drivername="postgresql+asyncpg"))
    try:
        async with engine.connect() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


asyncio.run(main())

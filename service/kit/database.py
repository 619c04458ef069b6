"""PostgreSQL: one pool per process and role, and two kinds of transaction.

`Bound` sees exactly one tenant: `app.tenant` is set for the length of the transaction and every table with a tenant
has forced row security. `Directory` sees none of them, only the short list of tables that are read before a tenant is
known. There is no third way to a connection.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar
from uuid import UUID

import asyncpg
import asyncpg.exceptions
from sqlalchemy import Column, ForeignKeyConstraint, MetaData, PrimaryKeyConstraint, Table, Uuid, event, text
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.engine import URL, CursorResult, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql import Executable

from service.kit.errors import Code, Refusal

Role = Literal["placet_owner", "placet_app", "placet_writer", "placet_notifier"]
# A caller hears within 5 s of a database that hangs, whatever he waited for first.
COMMAND_SECONDS = 3.5
ANSWER_SECONDS = 4.0  # one transaction of the web, from the wait for a connection to the end of its last COMMIT
IDLE_SECONDS = {"placet_app": 5, "placet_owner": 20, "placet_writer": 20, "placet_notifier": 20}
"""After how long the server ends a transaction whose client is lost, with the locks that it holds."""
ATTEMPTS_MOST = 5
_RETRY = {"40001", "40P01", "55P03"}  # serialization failure, deadlock, lock timeout: the whole operation again
_UNREACHABLE = ("08", "53", "57P", "58")  # connection, resources, shutdown, system error classes
_FULL = {"53100"}
_BROKEN = (asyncpg.exceptions.PostgresError, asyncpg.exceptions.InterfaceError, OSError, TimeoutError)
# The last is what asyncpg says of a connection that went in the middle of an answer.
_LOST = (ConnectionError, TimeoutError, AsyncAdapt_asyncpg_dbapi.InternalClientError)
_BIND = text("SELECT set_config('app.tenant', :tenant, true)")
T = TypeVar("T")

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)


def tenant_table(name: str, *items: SchemaItem, key: tuple[str, ...] = ("id",)) -> Table:
    """A table under row security. Its primary key starts with the tenant, so that no key tells of another tenant."""
    return Table(
        name,
        metadata,
        Column("tenant", Uuid, nullable=False),
        *items,
        PrimaryKeyConstraint("tenant", *key),
        ForeignKeyConstraint(["tenant"], ["tenant.id"]),
        info={"tenant": True},
    )


def within(table: str, *columns: str, to: tuple[str, ...] = ("id",)) -> ForeignKeyConstraint:
    """A foreign key that stays inside the tenant."""
    return ForeignKeyConstraint(["tenant", *columns], [f"{table}.{name}" for name in ("tenant", *to)])


def directory_table(name: str, *items: SchemaItem) -> Table:
    """A table that is read before a tenant is known; the list of them is committed in a test."""
    return Table(name, metadata, *items, info={"tenant": False})


_BIGINT = 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True)
class Directory:
    """A transaction that sees no tenant's rows."""

    connection: AsyncConnection

    async def execute(self, statement: Executable, values: Any = None) -> CursorResult[Any]:
        return await self.connection.execute(statement, values)

    async def scalar(self, statement: Executable, values: Any = None) -> Any:
        return await self.connection.scalar(statement, values)

    async def alone(self, key: UUID) -> None:
        """Wait until no other transaction holds this key, and hold it until the end: for what no row stands for."""
        await self.connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key.int & _BIGINT})

    async def notify(self, channel: str, payload: str) -> None:
        """Wake who listens, when and if this transaction commits. Payloads are global: ids only."""
        await self.connection.execute(
            text("SELECT pg_notify(:channel, :payload)"), {"channel": channel, "payload": payload}
        )


@dataclass(frozen=True)
class Bound(Directory):
    """A transaction that sees one tenant's rows."""

    tenant: UUID
    kept: "dict[Keeper, list[Any]]" = field(default_factory=dict)

    def keep(self, keeper: "Keeper", item: Any) -> None:
        """Keep something until just before the commit, when its keeper gets all of its items at once."""
        self.kept.setdefault(keeper, []).append(item)


Keeper = Callable[[Bound, Sequence[Any]], Awaitable[None]]


class Database:
    """A pool of connections that all act as one role."""

    def __init__(self, url: str, role: Role, *, size: int = 10) -> None:
        self.url = make_url(url)
        self.role = role
        self.engine = _engine(self.url, role, size)

    @asynccontextmanager
    async def bound(self, tenant: UUID) -> AsyncIterator[Bound]:
        """A transaction bound to this tenant; commits at the end, rolls back on any exception."""
        async with self._bound(tenant, self._until()) as tx:
            yield tx

    @asynccontextmanager
    async def directory(self) -> AsyncIterator[Directory]:
        """A transaction bound to no tenant."""
        async with self._begin(self._until()) as connection:
            yield Directory(connection)

    async def repeat(self, tenant: UUID, work: Callable[[Bound], Awaitable[T]]) -> T:
        """Do the whole of `work` in one transaction, again when PostgreSQL broke a deadlock or a serialization."""
        last, until = Conflict(), self._until()
        for attempt in range(ATTEMPTS_MOST):
            try:
                async with self._bound(tenant, until) as tx:
                    return await work(tx)
            except Conflict as conflict:
                last = conflict
                await asyncio.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311  spread, not secrecy
        raise last

    @asynccontextmanager
    async def listen(self, *channels: str) -> AsyncIterator[asyncio.Queue[tuple[str, str]]]:
        """Notifications as (channel, payload), over a connection outside the pool; ("", "") is its end.

        Raises:
            Refusal: UNAVAILABLE, also while the server starts up or shuts down.
        """
        queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        connection = await self._connect_to_listen()
        try:
            connection.add_termination_listener(lambda _c: queue.put_nowait(("", "")))
            for channel in channels:
                await _hear(connection, channel, queue)
            yield queue
        finally:
            await _close(connection)

    async def _connect_to_listen(self) -> asyncpg.Connection:
        try:
            connection: asyncpg.Connection = await asyncpg.connect(
                dsn=self.url.set(drivername="postgresql").render_as_string(hide_password=False),
                timeout=COMMAND_SECONDS,
                command_timeout=COMMAND_SECONDS,
                server_settings={"role": self.role, "application_name": f"{self.role} listen"},
            )
        except _BROKEN as error:
            raise Refusal(Code.UNAVAILABLE, "The database does not answer.") from error
        return connection

    async def close(self) -> None:
        await self.engine.dispose()

    def _until(self) -> float | None:
        """When a transaction that begins now is cut off, by the loop's clock. Somebody waits for the web; the writer
        and the commands of an operator take the time that they need.
        """
        return asyncio.get_running_loop().time() + ANSWER_SECONDS if self.role == "placet_app" else None

    @asynccontextmanager
    async def _bound(self, tenant: UUID, until: float | None) -> AsyncIterator[Bound]:
        async with self._begin(until) as connection:
            await bind(connection, tenant)
            tx = Bound(connection, tenant)
            yield tx
            for keeper, items in tx.kept.items():
                await keeper(tx, items)

    @asynccontextmanager
    async def _begin(self, until: float | None) -> AsyncIterator[AsyncConnection]:
        try:
            async with AsyncExitStack() as stack:
                connection = await self._connect(stack, until)
                if until is not None:
                    stack.callback(await _cut_off(connection, until))
                await stack.enter_async_context(connection.begin())
                yield connection
        except DBAPIError as error:
            raise _translate(error) from error
        except (PoolTimeout, TimeoutError, ConnectionError) as error:  # another OSError is of a disk, and the caller's
            raise Refusal(Code.UNAVAILABLE, "The database does not answer.") from error

    async def _connect(self, stack: AsyncExitStack, until: float | None) -> AsyncConnection:
        try:
            async with asyncio.timeout_at(until):
                return await stack.enter_async_context(self.engine.connect())
        except (OSError, asyncpg.exceptions.PostgresError, asyncpg.exceptions.InterfaceError) as error:
            raise Refusal(Code.UNAVAILABLE, "The database does not answer.") from error


class Conflict(Refusal):
    """PostgreSQL ended this transaction so that another could go on; the whole of it may be tried again."""

    def __init__(self) -> None:
        super().__init__(Code.UNAVAILABLE, "Too many calls changed the same thing at once.")


async def bind(connection: AsyncConnection, tenant: UUID) -> None:
    """Let this transaction, and nothing after it, see this tenant's rows."""
    await connection.execute(_BIND, {"tenant": str(tenant)})


async def _cut_off(connection: AsyncConnection, until: float) -> Callable[[], None]:
    """Cut this connection at that time, whatever it waits for; gives what calls that off."""
    raw = (await connection.get_raw_connection()).driver_connection
    if raw is None:  # thrown away with its pool in this very moment
        raise Refusal(Code.UNAVAILABLE, "The database does not answer.")
    return asyncio.get_running_loop().call_at(until, raw.terminate).cancel


def _engine(url: URL, role: Role, size: int) -> AsyncEngine:
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        pool_size=size,
        max_overflow=0,
        pool_timeout=COMMAND_SECONDS,
        pool_pre_ping=False,
        hide_parameters=True,  # what is proposed, and whose, is in no log
        connect_args={
            "timeout": COMMAND_SECONDS,
            "command_timeout": COMMAND_SECONDS,
            "server_settings": {
                "role": role,
                "application_name": role,
                "idle_in_transaction_session_timeout": f"{IDLE_SECONDS[role]}s",
                "lock_timeout": "3000",
                "timezone": "UTC",
            },
        },
    )
    event.listen(engine.sync_engine, "handle_error", _forget_broken)
    return engine


def _forget_broken(context: Any) -> None:
    """A cut connection is thrown away, and so is every other one of its pool: the server went.

    What did not answer in time is not asked to close in order either: that wait would come on top.
    """
    if isinstance(context.original_exception, _LOST):
        context.is_disconnect = True
        held = context.connection
        if held is not None and not held.closed and not held.invalidated and held.connection.driver_connection:
            held.connection.driver_connection.terminate()


def _translate(error: DBAPIError) -> Exception:
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None) or ""
    if state in _RETRY:
        return Conflict()
    if state in _FULL:
        return Refusal(Code.STORAGE_FULL, "The database has no space left.")
    if (
        error.connection_invalidated
        or isinstance(error, (OperationalError, InterfaceError))
        or isinstance(error.orig, _LOST)
        or state.startswith(_UNREACHABLE)
    ):
        return Refusal(Code.UNAVAILABLE, "The database does not answer.")
    return error


async def _hear(connection: asyncpg.Connection, channel: str, queue: asyncio.Queue[tuple[str, str]]) -> None:
    try:
        await connection.add_listener(channel, lambda _c, _p, name, payload: queue.put_nowait((name, payload)))
    except _BROKEN as error:
        raise Refusal(Code.UNAVAILABLE, "The database does not answer.") from error


async def _close(connection: "asyncpg.Connection") -> None:
    try:
        await connection.close(timeout=1)
    except _BROKEN:
        connection.terminate()

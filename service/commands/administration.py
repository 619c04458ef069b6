"""What administration commands share: they reach the database as the role that owns it, and answer people with tables
and scripts with JSON.
"""

import asyncio
import functools
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import click
from rich.console import Console
from rich.table import Table as ShownTable
from sqlalchemy import Row, Table, select

from service.commands.options import as_json, data_dir
from service.grants.tables import project, tenant
from service.kit.actor import SERVICE_TENANT
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.repositories.placement import Storage
from service.up.place import Place, Reach

PIPE_WIDTH = 240
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Office:
    """Where a command works: the database as `placet_owner`, and the repositories of this host."""

    database: Database
    storage: Storage
    issuer: str | None


@dataclass(frozen=True)
class Answer:
    """What a command found or did: rows for a table, or one sentence; `data` is the same for scripts. A column is
    headed by its name unless `headings` has a clearer one.
    """

    data: list[dict[str, Any]] | dict[str, Any]
    sentence: str = ""
    headings: Mapping[str, str] = field(default_factory=dict)


Work = Callable[Concatenate[Office, P], Awaitable[Answer]]


def administers(work: Work[P]) -> Callable[..., None]:
    """Make a command of what works in the office: adds --data-dir and --json, shows the answer."""

    @data_dir
    @as_json
    @functools.wraps(work)
    def command(*args: Any, data_dir: Path, as_json: bool, **options: Any) -> None:
        with reach(data_dir) as found:
            answer = within(found, functools.partial(work, *args, **options))
        show(answer, as_json=as_json)

    return command


@contextmanager
def reach(data_dir: Path) -> Iterator[Reach]:
    """The service's state, wherever it is kept. Raises as `Place.reach`."""
    with Place(data_dir.resolve()).reach() as found:
        yield found


def within(found: Reach, work: Callable[[Office], Awaitable[T]]) -> T:
    """Do asynchronous work in the office."""

    async def run() -> T:
        database = Database(found.database_url, "placet_owner", size=2)
        try:
            return await work(Office(database, Storage(found.repositories), found.issuer))
        finally:
            await database.close()

    return asyncio.run(run())


def show(answer: Answer, *, as_json: bool) -> None:
    """Print the answer."""
    if as_json:
        click.echo(json.dumps(answer.data, ensure_ascii=False))
    elif isinstance(answer.data, list) and answer.data:
        Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(_table(answer.data, answer.headings))
    else:
        click.echo(answer.sentence or "Nothing there.")


async def the_tenant(office: Office, given: str | None) -> UUID:
    """The tenant with this name or id; without one, the only one that is not revoked.

    Raises:
        Refusal: NOT_FOUND; INVALID_ARGUMENT where there are several and none is named.
    """
    async with office.database.directory() as tx:
        ordered = select(tenant).where(tenant.c.id != SERVICE_TENANT).order_by(tenant.c.name)
        rows = (await tx.execute(ordered)).all()
    fitting = [row for row in rows if given in {row.name, str(row.id)}]
    if given is not None and not fitting:
        raise Refusal(Code.NOT_FOUND, "There is no such tenant.")
    found: UUID = (_the_only(rows, "tenant", "--tenant") if given is None else fitting[0]).id
    return found


async def find(tx: Bound, table: Table, given: str) -> Row[Any]:
    """The row with this name or id; a revoked one has the name only where no other has it.

    Raises:
        Refusal: NOT_FOUND; INVALID_ARGUMENT for a name that several have.
    """
    if not _is_text(given):
        raise Refusal(Code.NOT_FOUND, f"There is no such {table.name}.")
    which = table.c.id == UUID(given) if _is_id(given) else table.c.name == given
    rows = (await tx.execute(select(table).where(which))).all()
    fitting = _standing(rows) or rows
    if len(fitting) > 1:
        raise Refusal(Code.INVALID_ARGUMENT, f"Several have the name {given}: use the id.")
    if not fitting:
        raise Refusal(Code.NOT_FOUND, f"There is no such {table.name}.")
    return fitting[0]


def _is_text(given: str) -> bool:
    """Whether it can be stored at all: what a terminal sends need not be UTF-8."""
    try:
        return "\0" not in given.encode().decode()
    except UnicodeEncodeError:
        return False


async def the_project(tx: Bound, given: str | None) -> Row[Any]:
    """The project with this name or id; without one, the only one of the tenant that is not revoked.

    Raises:
        Refusal: NOT_FOUND; INVALID_ARGUMENT where there are several and none is named.
    """
    if given is not None:
        return await find(tx, project, given)
    return _the_only((await tx.execute(select(project).order_by(project.c.name))).all(), "project", "--project")


def _the_only(rows: Sequence[Row[Any]], what: str, option: str) -> Row[Any]:
    standing = _standing(rows)
    if not standing:
        raise Refusal(Code.NOT_FOUND, f"There is no {what}: add one first.")
    if len(standing) > 1:
        names = ", ".join(row.name for row in standing)
        raise Refusal(Code.INVALID_ARGUMENT, f"There is not exactly one {what}: name one with {option} ({names}).")
    return standing[0]


def _standing(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Without what was revoked, which is for ever and nobody's choice."""
    return [row for row in rows if row.state != "revoked"]


def _is_id(given: str) -> bool:
    try:
        UUID(given)
    except ValueError:
        return False
    return True


def _table(rows: list[dict[str, Any]], headings: Mapping[str, str]) -> ShownTable:
    table = ShownTable(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(headings.get(name, name.replace("_", " ")), overflow="fold", no_wrap=name.endswith("id"))
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "" if value is None else str(value).replace("[", "\\[")

"""Connections: what each agent may do here. The consent page makes them; here they are stopped and narrowed."""

from typing import Literal

import click
from sqlalchemy import select

from service.commands.administration import Answer, Office, administers, find, the_tenant
from service.commands.options import tenant_option
from service.commands.states import add_states
from service.grants.manage import add_clause, remove_clause
from service.grants.policy import Clause, Subject, check_pattern, read_clauses
from service.grants.tables import connection as connections
from service.grants.tables import person
from service.kit.actor import system
from service.tools.registry import discover

Effect = Literal["allow", "deny"]


@click.group
def connection() -> None:
    """What each agent may do. Connections are made on the consent page, by the person who grants them."""


@connection.command("list")
@tenant_option
@administers
async def list_(office: Office, tenant: str | None) -> Answer:
    """Show the connections of a tenant."""
    columns = connections.c
    chosen = select(
        columns.id, columns.name, columns.state, columns.scopes, person.c.email.label("granted_by"), columns.created_at
    ).join(person, person.c.id == columns.granted_by)
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        rows = (await tx.execute(chosen.order_by(columns.created_at))).mappings().all()
    plain = [
        {
            **row,
            "id": str(row["id"]),
            "scopes": " ".join(row["scopes"]),
            "created_at": row["created_at"].isoformat(timespec="seconds"),
        }
        for row in rows
    ]
    return Answer(plain, "No connection yet.")


add_states(connection, connections)


@connection.group("policy")
def policy() -> None:
    """What a connection may propose. A clause allows or denies an operation, a branch or a path; deny wins.

    In patterns * stands for anything within one path segment, ** for anything, ? for one character. Nothing else is
    special: [ and ] stand for themselves and { } are no list, so a pattern with [ { or } is refused; write ? for them.
    """


@policy.command("list")
@click.argument("name_or_id")
@tenant_option
@administers
async def policy_list(office: Office, name_or_id: str, tenant: str | None) -> Answer:
    """Show the clauses of a connection."""
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        row = await find(tx, connections, name_or_id)
        clauses = await read_clauses(tx, row.id)
    rows = [{"effect": one.effect, "subject": one.subject, "pattern": one.pattern} for one in clauses]
    return Answer(rows, "No clause: nothing is restricted.")


def _add_change(word: Literal["add", "remove"], text: str) -> None:
    @policy.command(word, help=text)
    @click.argument("name_or_id")
    @click.argument("effect", type=click.Choice(("allow", "deny")))
    @click.argument("subject", type=click.Choice(("operation", "branch", "path")))
    @click.argument("pattern")
    @tenant_option
    @administers
    async def change(
        office: Office, name_or_id: str, effect: Effect, subject: Subject, pattern: str, tenant: str | None
    ) -> Answer:
        clause = Clause(effect, subject, pattern)
        if word == "add":
            check_pattern(clause, discover().operations())
        tenant_id = await the_tenant(office, tenant)
        async with office.database.bound(tenant_id) as tx:
            row = await find(tx, connections, name_or_id)
            await (add_clause if word == "add" else remove_clause)(tx, system(tenant_id), row.id, clause)
        data = {"id": str(row.id), "effect": effect, "subject": subject, "pattern": pattern}
        return Answer(data, f"{row.name}: {clause} {'added' if word == 'add' else 'removed'}.")


_add_change("add", "Add a clause.")
_add_change("remove", "Take a clause away.")

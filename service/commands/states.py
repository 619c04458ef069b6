"""pause, resume and revoke: the same three words for everything that rights hang on."""

from uuid import UUID

import click
from sqlalchemy import ColumnElement, Table, select

from service.commands.administration import Answer, Office, administers, find, the_tenant
from service.commands.options import tenant_option
from service.grants.manage import State, change_state
from service.grants.tables import connection, membership, project
from service.kit.actor import system
from service.kit.database import Bound
from service.proposals.tables import proposal
from service.repositories.tables import repository

WORDS: dict[str, tuple[State, str]] = {
    "pause": ("paused", "Stop what hangs on it until it is resumed."),
    "resume": ("live", "Let it go on."),
    "revoke": ("revoked", "End it for ever."),
}


def add_states(group: click.Group, table: Table, argument: str = "NAME_OR_ID") -> None:
    """Give the group of a table its three words."""
    for word in WORDS:
        group.add_command(_command(word, table, argument))


def _command(word: str, table: Table, argument: str) -> click.Command:
    state, text = WORDS[word]

    @administers
    async def change(office: Office, given: str, tenant: str | None) -> Answer:
        tenant_id = await the_tenant(office, tenant)
        async with office.database.bound(tenant_id) as tx:
            row = await find(tx, table, given)
            return await changed(tx, table, row.id, state, given)

    command = tenant_option(click.argument("given", metavar=argument)(change))
    return click.command(word, help=text)(command)


async def changed(tx: Bound, table: Table, row_id: UUID, state: State, name: str) -> Answer:
    """Change the state, and say what is past the point of no return and could not be stopped."""
    await change_state(tx, system(tx.tenant), table, row_id, state)
    unstopped = [] if state == "live" else await _executing(tx, table, row_id)
    sentence = f"{name} is {state}."
    if unstopped:
        sentence += f" Already being executed and not stopped: {', '.join(unstopped)}."
    return Answer({"id": str(row_id), "state": state, "not_stopped": unstopped}, sentence)


async def _executing(tx: Bound, table: Table, row_id: UUID) -> list[str]:
    found = select(proposal.c.id).where(proposal.c.state == "executing").where(_hangs_on(table, row_id))
    return [str(row.id) for row in await tx.execute(found)]


def _hangs_on(table: Table, row_id: UUID) -> ColumnElement[bool]:
    if table is connection:
        return proposal.c.connection == row_id
    if table is repository:
        return proposal.c.repository == row_id
    inside = select(repository.c.id)
    if table is project:
        inside = inside.where(repository.c.project == row_id)
    elif table is membership:
        own = select(membership.c.project).where(membership.c.id == row_id).scalar_subquery()
        inside = inside.where(repository.c.project == own)
    return proposal.c.repository.in_(inside)

"""Tenants: whose repositories, connections and ledger these are."""

from uuid import UUID, uuid4

import click
from sqlalchemy import select

from service.commands.administration import Answer, Office, administers, the_tenant
from service.commands.states import WORDS, changed
from service.grants.manage import State, add_tenant, set_limits
from service.grants.tables import tenant as tenants
from service.kit.actor import SERVICE_TENANT, system
from service.kit.errors import Code, Refusal

HEADINGS = {
    "proposal_seconds": "proposals expire after (s)",
    "pending_most": "waiting at most",
    "restore_seconds": "restore points are kept (s)",
    "warn_seconds": "told before it expires (s)",
}


@click.group
def tenant() -> None:
    """Whose repositories, connections and ledger these are."""


@tenant.command("add")
@click.argument("name")
@administers
async def add(office: Office, name: str) -> Answer:
    """Make a tenant."""
    tenant_id: UUID = uuid4()
    async with office.database.bound(tenant_id) as tx:
        await add_tenant(tx, system(tenant_id), name)
    return Answer({"id": str(tenant_id), "name": name}, f"Tenant {name} added: {tenant_id}")


@tenant.command("list")
@administers
async def list_(office: Office) -> Answer:
    """Show all tenants."""
    columns = tenants.c
    limits = (columns.proposal_seconds, columns.pending_most, columns.restore_seconds, columns.warn_seconds)
    chosen = select(columns.id, columns.name, columns.state, *limits)
    async with office.database.directory() as tx:
        found = await tx.execute(chosen.where(columns.id != SERVICE_TENANT).order_by(columns.name))
        rows = found.mappings().all()
    return Answer([{**row, "id": str(row["id"])} for row in rows], "No tenant yet.", HEADINGS)


@tenant.command("set")
@click.argument("name_or_id")
@click.option("--proposal-seconds", type=int, help="For how long a proposal waits for a decision.")
@click.option("--pending-most", type=int, help="How many proposals of one connection, or of one owner, may wait.")
@click.option("--restore-seconds", type=int, help="For how long restore points that are made from now on are kept.")
@click.option("--warn-seconds", type=int, help="How long before a proposal expires people are told so.")
@administers
async def set_(office: Office, /, name_or_id: str, **limits: int | None) -> Answer:
    """Set a tenant's limits; what is not named stays as it is."""
    given = {name: value for name, value in limits.items() if value is not None}
    if not given:
        raise Refusal(Code.INVALID_ARGUMENT, "Name at least one limit; --help lists them.", field="limits")
    tenant_id = await the_tenant(office, name_or_id)
    async with office.database.bound(tenant_id) as tx:
        await set_limits(tx, system(tenant_id), **given)
    return Answer({"id": str(tenant_id), **given}, f"Set for {name_or_id}.")


def _add_state(word: str, state: State, text: str) -> None:
    @tenant.command(word, help=text)
    @click.argument("name_or_id")
    @administers
    async def change(office: Office, name_or_id: str) -> Answer:
        tenant_id = await the_tenant(office, name_or_id)
        async with office.database.bound(tenant_id) as tx:
            return await changed(tx, tenants, tenant_id, state, name_or_id)


for _word, (_state, _text) in WORDS.items():
    _add_state(_word, _state, _text)

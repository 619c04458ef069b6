"""Tenants: whose repositories, connections and ledger these are."""

from uuid import UUID, uuid4

import click
from sqlalchemy import select

from service.commands.administration import Answer, Office, administers, the_tenant
from service.commands.states import WORDS, changed
from service.grants.manage import State, add_tenant
from service.grants.tables import tenant as tenants
from service.kit.actor import SERVICE_TENANT, system

HEADINGS = {"proposal_seconds": "proposals expire after (s)", "pending_most": "waiting at most"}


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
    chosen = select(columns.id, columns.name, columns.state, columns.proposal_seconds, columns.pending_most)
    async with office.database.directory() as tx:
        found = await tx.execute(chosen.where(columns.id != SERVICE_TENANT).order_by(columns.name))
        rows = found.mappings().all()
    return Answer([{**row, "id": str(row["id"])} for row in rows], "No tenant yet.", HEADINGS)


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

"""The ledger: what happened, and whether its chain is whole."""

import json
from typing import Any
from uuid import UUID

import click
from sqlalchemy import select

from service.commands.administration import Answer, Office, administers, the_tenant
from service.commands.options import tenant_option
from service.grants.tables import tenant as tenants
from service.kit.database import Bound
from service.ledger.tables import ledger_entry, ledger_head
from service.ledger.verify import Entry, Verdict, verify
from service.up.place import UpRefused

LAST = 50


@click.group
def ledger() -> None:
    """What happened, in the order in which it happened."""


@ledger.command("list")
@click.option("--last", type=click.IntRange(1, 10_000), default=LAST, show_default=True, help="How many entries.")
@tenant_option
@administers
async def list_(office: Office, last: int, tenant: str | None) -> Answer:
    """Show the newest entries of a tenant."""
    chosen = select(ledger_entry.c.body).order_by(ledger_entry.c.seq.desc()).limit(last)
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        bodies = [row.body for row in await tx.execute(chosen)]
    return Answer([_shown(json.loads(body)) for body in reversed(bodies)], "Nothing happened yet.")


@ledger.command("verify")
@administers
async def verify_(office: Office) -> Answer:
    """Recompute the chain of every tenant and of the service itself. Fails where one is broken."""
    async with office.database.directory() as tx:
        rows = (await tx.execute(select(tenants.c.id, tenants.c.name).order_by(tenants.c.name))).all()
    verdicts = {row.name: await _verdict(office, row.id) for row in rows}
    broken = {name: verdict for name, verdict in verdicts.items() if not verdict.intact}
    if broken:
        told = "; ".join(f"{name} at entry {verdict.broken_at}: {verdict.why}" for name, verdict in broken.items())
        raise UpRefused("ledger_broken", f"The ledger is broken: {told}.")
    return Answer(
        [{"tenant": name, "entries": verdict.entries, "chain": "intact"} for name, verdict in verdicts.items()]
    )


async def _verdict(office: Office, tenant_id: UUID) -> Verdict:
    async with office.database.bound(tenant_id) as tx:
        # The head first, and locked: what is appended meanwhile waits, so the entries end where it says.
        head = (await tx.execute(select(ledger_head.c.seq, ledger_head.c.hash).with_for_update())).one_or_none()
        entries = await _entries(tx)
    return verify(entries, head.seq if head else 0, head.hash if head else bytes(32))


async def _entries(tx: Bound) -> list[Entry]:
    columns = ledger_entry.c
    chosen = select(columns.seq, columns.kind, columns.subject, columns.body, columns.previous, columns.hash)
    return [Entry(**row) for row in (await tx.execute(chosen.order_by(columns.seq))).mappings()]


def _shown(body: dict[str, Any]) -> dict[str, Any]:
    actor = f"{body['actor']['kind']} {body['actor']['id']}" if body["actor"]["kind"] != "system" else "system"
    return {
        "seq": body["seq"],
        "at": body["at"],
        "kind": body["kind"],
        "actor": actor,
        "subject": body["subject"],
        "details": body["details"],
    }

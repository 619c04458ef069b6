"""The tenant's ledger as a person reads it, and with what its commits are signed."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select

from service.grants.standing import DECIDERS
from service.grants.tables import connection, membership, person, tenant
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.tables import ledger_entry
from service.proposals.desk.reach import count_shown, memberships, now_of
from service.proposals.lists import LedgerLine, LedgerView, SigningView
from service.writer.keys import owner_keys, public_keys


@dataclass(frozen=True)
class OwnerLedger:
    """Implements `lists.Ledger`."""

    database: Database

    async def read(self, actor: Actor, before: int | None, most: int) -> LedgerView:
        """The tenant's ledger, newest first; for a person who may decide somewhere in it."""
        async with self.database.bound(actor.tenant) as tx:
            if not await tx.scalar(memberships(actor).where(membership.c.role.in_(DECIDERS)).limit(1)):
                raise Refusal(Code.NOT_FOUND, "There is no such page.")
            statement = select(ledger_entry).order_by(ledger_entry.c.seq.desc()).limit(most + 1)
            if before is not None:
                statement = statement.where(ledger_entry.c.seq < before)
            rows = (await tx.execute(statement)).all()
            names = await _names(tx)
            lines = tuple(_ledger_line(row, names) for row in rows[:most])
            after = lines[-1].seq if len(rows) > most else None
            return LedgerView(await now_of(tx), (await count_shown(tx, actor))["waiting"], lines, after)

    async def signing(self, actor: Actor) -> SigningView:
        """With what the tenant's commits are signed; for everybody who is in it."""
        async with self.database.bound(actor.tenant) as tx:
            if not await tx.scalar(memberships(actor).limit(1)):
                raise Refusal(Code.NOT_FOUND, "There is no such page.")
            on = await tx.scalar(select(tenant.c.sign_commits).where(tenant.c.id == actor.tenant))
            return SigningView(bool(on), tuple(await public_keys(tx)), tuple(await owner_keys(tx)))


async def _names(tx: Bound) -> dict[str, str]:
    """What the ids of this tenant's actors are called."""
    people = select(person.c.id, person.c.email.label("name")).where(person.c.id.in_(select(membership.c.person)))
    agents = select(connection.c.id, connection.c.name)
    return {str(row.id): row.name for statement in (people, agents) for row in await tx.execute(statement)}


def _ledger_line(row: Row[Any], names: dict[str, str]) -> LedgerLine:
    actor = json.loads(row.body)["actor"]
    name = names.get(actor["id"], "Placet" if actor["kind"] == "system" else actor["id"])
    return LedgerLine(row.seq, row.at, row.kind, row.subject, actor["kind"], name, row.hash.hex())

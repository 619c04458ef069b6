"""The tenant's ledger as a person reads it, and with what its commits are signed."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, select

from service.grants.standing import DECIDERS
from service.grants.tables import connection, membership, person, tenant
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.tables import ledger_entry
from service.proposals.desk.reach import count_shown, memberships, now_of
from service.proposals.lists import LedgerFilter, LedgerLine, LedgerView, SigningView
from service.writer.keys import owner_keys, public_keys


@dataclass(frozen=True)
class OwnerLedger:
    """Implements `lists.Ledger`."""

    database: Database

    async def read(self, actor: Actor, only: LedgerFilter, before: int | None, most: int) -> LedgerView:
        """The tenant's ledger, newest first; for a person who may decide somewhere in it."""
        async with self.database.bound(actor.tenant) as tx:
            if not await tx.scalar(memberships(actor).where(membership.c.role.in_(DECIDERS)).limit(1)):
                raise Refusal(Code.NOT_FOUND, "There is no such page.")
            statement = _asked(only).order_by(ledger_entry.c.seq.desc()).limit(most + 1)
            if before is not None:
                statement = statement.where(ledger_entry.c.seq < before)
            rows = (await tx.execute(statement)).all()
            names = await _names(tx)
            lines = tuple(_ledger_line(row, names) for row in rows[:most])
            after = lines[-1].seq if len(rows) > most else None
            waiting = (await count_shown(tx, actor))["waiting"]
            actors = tuple(sorted(names.items(), key=lambda one: one[1]))
            return LedgerView(await now_of(tx), waiting, lines, after, actors)

    async def signing(self, actor: Actor) -> SigningView:
        """With what the tenant's commits are signed; for everybody who is in it."""
        async with self.database.bound(actor.tenant) as tx:
            if not await tx.scalar(memberships(actor).limit(1)):
                raise Refusal(Code.NOT_FOUND, "There is no such page.")
            on = await tx.scalar(select(tenant.c.sign_commits).where(tenant.c.id == actor.tenant))
            return SigningView(bool(on), tuple(await public_keys(tx)), tuple(await owner_keys(tx)))


def _asked(only: LedgerFilter) -> Select[Any]:
    """The entries of a filter. Who did it stands in the canonical body alone, whose keys are in order."""
    columns = ledger_entry.c
    found = select(ledger_entry)
    if only.kind:
        found = found.where(columns.kind.startswith(f"{only.kind}.", autoescape=True))
    if only.actor:
        found = found.where(columns.body.contains(f'"actor":{{"id":"{only.actor}"', autoescape=True))
    if only.subject:
        found = found.where(columns.subject == only.subject)
    if only.since:
        found = found.where(columns.at >= only.since)
    if only.until:
        found = found.where(columns.at < only.until)
    return found


async def _names(tx: Bound) -> dict[str, str]:
    """What the ids of this tenant's actors are called."""
    people = select(person.c.id, person.c.email.label("name")).where(person.c.id.in_(select(membership.c.person)))
    agents = select(connection.c.id, connection.c.name)
    return {str(row.id): row.name for statement in (people, agents) for row in await tx.execute(statement)}


def _ledger_line(row: Row[Any], names: dict[str, str]) -> LedgerLine:
    body = json.loads(row.body)
    actor = body["actor"]
    name = names.get(actor["id"], "Placet" if actor["kind"] == "system" else actor["id"])
    return LedgerLine(row.seq, row.at, row.kind, row.subject, actor["kind"], name, row.hash.hex(), body["details"])

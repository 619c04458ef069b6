"""Append entries in the transaction of what they record.

They are written together as the last thing before the commit: the head row, which every state change of a tenant
needs, is held as briefly as can be and is the last lock that anybody takes. So a tenant's sequence has no gap and no
fork. An entry's hash is SHA-256 over its canonical body, which names the hash before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Row, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert

from service.contract.data import Json
from service.kit.actor import Actor
from service.kit.canonical import canonical, sha256
from service.kit.database import Bound
from service.ledger.tables import ledger_entry, ledger_head

FIRST = bytes(32)
"""What the first entry of a ledger names as the hash before it."""


_COLUMNS = [column for column in ledger_entry.c if column.name != "tenant"]
_ENTRIES = insert(ledger_entry).from_select(
    ["tenant", *(column.name for column in _COLUMNS)],
    select(
        bindparam("of", type_=ledger_entry.c.tenant.type),
        *(func.unnest(bindparam(f"all_{column.name}", type_=ARRAY(column.type))) for column in _COLUMNS),
    ),
)
_ADVANCE = (
    insert(ledger_head)
    .values(tenant=bindparam("of"), seq=bindparam("count"), hash=bindparam("first"))
    .on_conflict_do_update(
        index_elements=["tenant"], set_={"seq": ledger_head.c.seq + bindparam("count", type_=BigInteger)}
    )
    .returning(ledger_head.c.seq, ledger_head.c.hash, func.clock_timestamp().label("at"))
)
# One statement for any number of entries, so that the head is held for two round trips and no more.
_WRITE = update(ledger_head).values(hash=bindparam("last")).add_cte(_ENTRIES.cte("entries"))


@dataclass(frozen=True)
class Happened:
    """What an entry will say."""

    actor: Actor
    kind: str
    subject: str
    details: Json


def append(tx: Bound, actor: Actor, kind: str, subject: str, **details: Any) -> None:
    """Have one entry written when this transaction commits.

    Args:
        tx: the transaction of the state change itself.
        actor: who did it.
        kind: what happened, as `noun.verb`.
        subject: the id of what it happened to.
        details: JSON values; ids and hashes rather than content, never a secret.
    """
    tx.keep(_write, Happened(actor, kind, subject, details))


async def _write(tx: Bound, happened: Sequence[Happened]) -> None:
    head = await _advance(tx, len(happened))
    rows, last = [], head.hash
    for seq, one in enumerate(happened, head.seq - len(happened) + 1):
        rows.append(chained(tx.tenant, one, seq, head.at, last))
        last = rows[-1]["hash"]
    columns = {f"all_{column.name}": [row[column.name] for row in rows] for column in _COLUMNS}
    await tx.execute(_WRITE, {"of": tx.tenant, "last": last, **columns})


def chained(tenant: object, one: Happened, seq: int, at: datetime, previous: bytes) -> Json:
    """The row of an entry, less its tenant, that follows the one with the hash `previous`."""
    body = canonical(
        {
            "seq": seq,
            "at": at.isoformat(timespec="microseconds"),
            "tenant": str(tenant),
            "kind": one.kind,
            "subject": one.subject,
            "actor": {"kind": one.actor.kind, "id": str(one.actor.id)},
            "details": one.details,
            "previous": previous.hex(),
        }
    )
    return {
        "seq": seq,
        "at": at,
        "kind": one.kind,
        "subject": one.subject,
        "body": body.decode(),
        "previous": previous,
        "hash": bytes.fromhex(sha256(body)),
    }


async def _advance(tx: Bound, count: int) -> Row[Any]:
    """Take the next numbers; the head row is held from here to the commit."""
    return (await tx.execute(_ADVANCE, {"of": tx.tenant, "count": count, "first": FIRST})).one()

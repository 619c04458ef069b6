"""Append an entry in the transaction of what it records.

The head row is locked until that transaction ends, so a tenant's sequence has no gap and no fork; append last, when
every other lock is held. An entry's hash is SHA-256 over its canonical body, which names the hash before it.
"""

from typing import Any

from sqlalchemy import Row, func, literal, update
from sqlalchemy.dialects.postgresql import insert

from service.kit.actor import Actor
from service.kit.canonical import canonical, sha256
from service.kit.database import Bound
from service.ledger.tables import ledger_entry, ledger_head

FIRST = bytes(32)
"""What the first entry of a ledger names as the hash before it."""


async def append(tx: Bound, actor: Actor, kind: str, subject: str, **details: Any) -> int:
    """Write one entry and give its sequence number.

    Args:
        tx: the transaction of the state change itself.
        actor: who did it.
        kind: what happened, as `noun.verb`.
        subject: the id of what it happened to.
        details: JSON values; ids and hashes rather than content, never a secret.
    """
    head = await _next(tx)
    body = canonical(
        {
            "seq": head.seq,
            "at": head.at.isoformat(timespec="microseconds"),
            "tenant": str(tx.tenant),
            "kind": kind,
            "subject": subject,
            "actor": {"kind": actor.kind, "id": str(actor.id)},
            "details": details,
            "previous": head.hash.hex(),
        }
    )
    entry_hash = bytes.fromhex(sha256(body))
    await tx.execute(
        ledger_entry.insert().values(
            tenant=tx.tenant,
            seq=head.seq,
            at=head.at,
            kind=kind,
            subject=subject,
            body=body.decode(),
            previous=head.hash,
            hash=entry_hash,
        )
    )
    await tx.execute(update(ledger_head).values(hash=entry_hash))
    return int(head.seq)


async def _next(tx: Bound) -> Row[Any]:
    claim = insert(ledger_head).values(tenant=tx.tenant, seq=1, hash=FIRST)
    claim = claim.on_conflict_do_update(index_elements=["tenant"], set_={"seq": ledger_head.c.seq + literal(1)})
    found = await tx.execute(claim.returning(ledger_head.c.seq, ledger_head.c.hash, func.clock_timestamp().label("at")))
    return found.one()

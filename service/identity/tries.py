"""Tries to sign in with what can be guessed, counted in the database: it works without Redis, and for every process.

A try is counted before it is made, so that a thousand at once are not a thousand free ones. An account has its counter
whether it exists or not, and an address has one (of IPv6, the /64). Each try past the free ones locks for twice as
long.
"""

from dataclasses import dataclass
from typing import Final, Literal

from sqlalchemy import case, delete, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import insert

from service.identity.tables import login_counter
from service.kit.actor import SERVICE_TENANT, system
from service.kit.canonical import sha256
from service.kit.database import Bound
from service.ledger.append import append

Kind = Literal["account", "address"]
FREE: Final[dict[Kind, int]] = {"account": 5, "address": 30}
LOCK_SECONDS: Final = 30
LOCK_MOST_SECONDS: Final = 3600
FORGET_HOURS: Final = 24
DOUBLINGS_MOST: Final = 8
PRUNED_MOST: Final = 50
_NOW = func.clock_timestamp()
_OLD = text(f"interval '{FORGET_HOURS} hours'")


@dataclass(frozen=True)
class Try:
    """One try, by whom and from where."""

    account: str
    address: str

    def _subjects(self) -> tuple[tuple[Kind, bytes], tuple[Kind, bytes]]:
        # Always in this order, so that two tries wait for each other and never both.
        return (
            ("account", bytes.fromhex(sha256(self.account.strip().lower().encode("utf-8", "replace")))),
            ("address", bytes.fromhex(sha256(self.address.encode()))),
        )

    async def count(self, tx: Bound) -> bool:
        """Count it; False where account or address is locked, and then it must not be made."""
        await _prune(tx)
        return all([await _count(tx, kind, subject) for kind, subject in self._subjects()])

    async def forgive(self, tx: Bound) -> None:
        """It was right: the account starts anew, the address only has this one taken back."""
        (_, account), (_, address) = self._subjects()
        await tx.execute(
            delete(login_counter).where(login_counter.c.kind == "account", login_counter.c.subject == account)
        )
        free = login_counter.c.failures <= FREE["address"]
        back = update(login_counter).where(login_counter.c.kind == "address", login_counter.c.subject == address)
        lock = case((free, None), else_=login_counter.c.locked_until)
        await tx.execute(back.values(failures=login_counter.c.failures - 1, locked_until=lock))


async def _count(tx: Bound, kind: Kind, subject: bytes) -> bool:
    forgotten = login_counter.c.last_at < _NOW - _OLD
    failures = case((forgotten, 1), else_=login_counter.c.failures + 1)
    over = func.least(failures - FREE[kind], DOUBLINGS_MOST)
    seconds = func.least(LOCK_SECONDS * func.power(2, over), LOCK_MOST_SECONDS)
    until = _NOW + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    counted = insert(login_counter).values(kind=kind, subject=subject, failures=1)
    open_now = login_counter.c.locked_until.is_(None) | (login_counter.c.locked_until <= _NOW)
    counted_one = counted.on_conflict_do_update(
        index_elements=["kind", "subject"],
        set_={
            "failures": failures,
            "last_at": _NOW,
            "locked_until": case((failures >= literal(FREE[kind]), until), else_=None),
        },
        where=open_now,
    ).returning(login_counter.c.failures)
    found: int | None = await tx.scalar(counted_one)
    if found is not None and found >= FREE[kind]:
        append(tx, system(SERVICE_TENANT), "sign_in.locked", subject.hex()[:16], of=kind, failures=found)
    return found is not None


async def _prune(tx: Bound) -> None:
    old = select(login_counter.c.kind, login_counter.c.subject).where(login_counter.c.last_at < _NOW - _OLD)
    keys = old.limit(PRUNED_MOST).with_for_update(skip_locked=True).subquery()
    mine = (login_counter.c.kind == keys.c.kind) & (login_counter.c.subject == keys.c.subject)
    await tx.execute(delete(login_counter).where(mine))

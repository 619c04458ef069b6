"""The ways in which a person can sign in: listed, renamed, removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, Executable, delete, select, update

from service.contract.names import check_text
from service.grants.proof import Proof, proof_of
from service.grants.tables import person_credential, person_tenant
from service.identity.passkeys import NAME_MOST
from service.identity.sessions import Session, acting
from service.kit.actor import SERVICE_TENANT
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.writer.keys import retire_keys
from service.writer.passkey import Passkey

NO_WAY: Final = "There is no such way to sign in."
_NAMED: Final = ("passkey", "oidc")


@dataclass(frozen=True)
class WayLine:
    """A passkey, or an account at another service."""

    id: UUID
    name: str
    es256: bool
    signs: bool
    created_at: datetime
    used_at: datetime | None


@dataclass(frozen=True)
class Ways:
    """All of a person's, and what was proved in this session. `app`: whether an app shows codes."""

    passkeys: Sequence[WayLine]
    accounts: Sequence[WayLine]
    password: bool
    app: bool
    recovery_codes: int
    proof: Proof


async def list_ways(database: Database, current: Session) -> Ways:
    """What the person of this session can sign in with beside a link."""
    mine = select(person_credential).where(person_credential.c.person == current.person, person_credential.c.live)
    async with database.directory() as tx:
        rows = (await tx.execute(mine.order_by(person_credential.c.created_at))).all()
        proof = await proof_of(tx, current.person, current.id)
    lines: dict[str, list[WayLine]] = {kind: [] for kind in _NAMED}
    for row in rows:
        if row.kind in lines:
            lines[row.kind].append(WayLine(row.id, row.name, row.es256, row.signs, row.created_at, row.used_at))
    kinds = [row.kind for row in rows]
    return Ways(lines["passkey"], lines["oidc"], "password" in kinds, "totp" in kinds, kinds.count("recovery"), proof)


async def check_recent(database: Database, current: Session) -> None:
    """Let the ways be changed in a session that proved itself just now, or where there is nothing to prove with.

    Raises:
        Refusal: PROOF_NEEDED.
    """
    async with database.directory() as tx:
        able = (await proof_of(tx, current.person, current.id)).able
    if able and not current.recent:
        raise Refusal(Code.PROOF_NEEDED, "Show first that it is you.")


async def check_way(database: Database, current: Session, way: UUID) -> None:
    """Raises NOT_FOUND for what is no passkey or account of this person's."""
    async with database.directory() as tx:
        if await tx.scalar(select(person_credential.c.id).where(_mine(current, way))) is None:
            raise Refusal(Code.NOT_FOUND, NO_WAY)


async def rename_way(database: Database, current: Session, way: UUID, name: str) -> None:
    """Call it something else. Raises NOT_FOUND, TEXT_REJECTED."""
    check_text(name, "name", most=NAME_MOST)
    async with database.bound(SERVICE_TENANT) as tx:
        renamed = update(person_credential).where(_mine(current, way)).values(name=name)
        await _done(tx, renamed, current, way, "credential.renamed")


async def sign_with(database: Database, current: Session, way: UUID, *, on: bool) -> None:
    """Have approvals signed with a passkey from now on, or no longer. Raises NOT_FOUND for one that cannot sign."""
    async with database.bound(SERVICE_TENANT) as tx:
        able = update(person_credential).where(_mine(current, way), person_credential.c.es256).values(signs=on)
        await _done(tx, able, current, way, "credential.signs" if on else "credential.signs_no_more")


async def remove_way(database: Database, current: Session, way: UUID, host: str) -> None:
    """It opens nothing any more, and what it signs from now on does not verify. Raises NOT_FOUND.

    Args:
        database: the database.
        current: whose it is.
        way: which.
        host: for which passkeys are made.
    """
    async with database.bound(SERVICE_TENANT) as tx:
        row = (await tx.execute(select(person_credential).where(_mine(current, way)))).one_or_none()
        await _done(tx, delete(person_credential).where(_mine(current, way)), current, way, "credential.removed")
        tenants = select(person_tenant.c.tenant).where(person_tenant.c.person == current.person)
        looked_at = list((await tx.execute(tenants)).scalars())
    key = Passkey.from_cose(row.secret, host) if row and row.es256 else None
    if key is not None:
        for tenant in looked_at:
            async with database.bound(tenant) as tx:
                await retire_keys(tx, current.person, key)


async def _done(tx: Bound, statement: Executable, current: Session, way: UUID, kind: str) -> None:
    if not (await tx.execute(statement)).rowcount:
        raise Refusal(Code.NOT_FOUND, NO_WAY)
    append(tx, acting(current.person), kind, str(way))


def _mine(current: Session, way: UUID) -> ColumnElement[bool]:
    named = person_credential.c.kind.in_(_NAMED) & (person_credential.c.person == current.person)
    return named & (person_credential.c.id == way)

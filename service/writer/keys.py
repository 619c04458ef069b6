"""A tenant's signing keys: made, changed, ended; and the live one, opened for the length of one intent.

At most one key is live. Whoever changes keys takes the tenant's row FOR UPDATE, and an intent holds it FOR SHARE, so an
intent is signed by the key that was live at its moment. A retired key's private half is erased, its public half stays
for ever: what it signed must verify.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from service.grants.manage import sign_commits
from service.kit.actor import Actor
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.kit.sealed import Sealer, Unsealable
from service.ledger.append import append
from service.writer.passkey import Passkey
from service.writer.signature import OwnerKey, PublicKey, ed25519_blob, ed25519_signature, fingerprint, public_line
from service.writer.tables import approval_key, signing_key

_PUBLIC = (signing_key.c.public_key, signing_key.c.fingerprint, signing_key.c.created_at, signing_key.c.retired_at)
_STORED = (signing_key.c.id, signing_key.c.public_key, signing_key.c.fingerprint, signing_key.c.sealed)
_LIVE = signing_key.c.state == "live"


@dataclass(frozen=True)
class LiveKey:
    """The live key of a tenant as it is stored, its private half sealed."""

    id: UUID
    public_key: str
    fingerprint: str
    sealed: bytes = field(repr=False)


@dataclass(frozen=True)
class Signer:
    """The live key of a tenant, opened; a `Sign`."""

    id: UUID
    fingerprint: str
    private: Ed25519PrivateKey = field(repr=False)

    def __call__(self, commit: bytes) -> bytes:
        return ed25519_signature(self.private, commit)


async def live_key(tx: Bound) -> LiveKey | None:
    """The key that signs now, as it is stored. It stays so while the tenant's row is held."""
    row = (await tx.execute(select(*_STORED).where(_LIVE))).one_or_none()
    return None if row is None else LiveKey(row.id, row.public_key, row.fingerprint, row.sealed)


def open_key(tenant: UUID, key: LiveKey | None, sealer: Sealer | None) -> Signer:
    """What signs this tenant's commits.

    Raises:
        Refusal: SIGNING_KEY_UNUSABLE. Nothing may be written then: unsigned is not what was asked for.
    """
    if key is None:
        raise _unusable("There is no signing key.")
    if sealer is None:
        raise _unusable("The writer has no secret to open the signing key with.")
    try:
        private = Ed25519PrivateKey.from_private_bytes(sealer.open(key.sealed, tenant, key.id))
    except Unsealable as error:
        raise _unusable(f"The signing key does not open. {error}") from None
    if public_line(ed25519_blob(private)) != key.public_key:
        raise _unusable("The signing key is not the one that is published.")
    return Signer(key.id, key.fingerprint, private)


async def create_key(tx: Bound, actor: Actor, sealer: Sealer) -> PublicKey:
    """Make the tenant's key, and sign every commit from now on.

    Raises:
        Refusal: NAME_TAKEN where there is a live one.
    """
    await sign_commits(tx, actor, on=True)
    if await tx.scalar(select(signing_key.c.id).where(_LIVE)):
        raise Refusal(Code.NAME_TAKEN, "There is a signing key already: `placet keys rotate` makes another.")
    return await _add(tx, actor, sealer)


async def rotate_key(tx: Bound, actor: Actor, sealer: Sealer) -> PublicKey:
    """Retire the live key, whether it opens or not, and make another.

    Raises:
        Refusal: NOT_FOUND where none is live.
    """
    await sign_commits(tx, actor, on=True)
    if not await _retire(tx, actor):
        raise Refusal(Code.NOT_FOUND, "There is no signing key: `placet keys create` makes one.")
    return await _add(tx, actor, sealer)


async def stop_signing(tx: Bound, actor: Actor) -> bool:
    """Sign nothing from now on, and retire the live key. False where none was live."""
    await sign_commits(tx, actor, on=False)
    return await _retire(tx, actor)


async def public_keys(tx: Bound) -> Sequence[PublicKey]:
    """Every key that the tenant ever had, the oldest first."""
    rows = await tx.execute(select(*_PUBLIC).order_by(signing_key.c.created_at))
    return [PublicKey(row.public_key, row.fingerprint, row.created_at, row.retired_at) for row in rows]


async def publish_key(tx: Bound, person: UUID, email: str, key: Passkey) -> None:
    """Store with what a person signed an approval here, so that it can be verified for ever."""
    line, name = public_line(key.blob), fingerprint(key.blob)
    row = {"tenant": tx.tenant, "fingerprint": name, "person": person, "email": email, "public_key": line}
    await tx.execute(insert(approval_key).values(**row).on_conflict_do_nothing())


async def retire_keys(tx: Bound, person: UUID, key: Passkey) -> None:
    """A passkey was taken away: what it signed until now verifies, what it signs from now on does not."""
    mine = (approval_key.c.person == person) & (approval_key.c.fingerprint == fingerprint(key.blob))
    live = update(approval_key).where(mine, approval_key.c.retired_at.is_(None))
    await tx.execute(live.values(retired_at=func.clock_timestamp()))


async def owner_keys(tx: Bound) -> Sequence[OwnerKey]:
    """Everything with which people signed approvals in this tenant, the oldest first."""
    columns = (approval_key.c.email, approval_key.c.public_key, approval_key.c.retired_at)
    rows = await tx.execute(select(*columns).order_by(approval_key.c.used_at))
    return [OwnerKey(row.email, row.public_key, row.retired_at) for row in rows]


async def seal_anew(tx: Bound, actor: Actor, sealer: Sealer) -> bool:
    """Seal the live key with the secret in force. False where there is none or it is so already.

    Raises:
        Unsealable: the secret that sealed it is not at hand.
    """
    row = (await tx.execute(select(*_STORED).where(_LIVE).with_for_update())).one_or_none()
    if row is None or sealer.is_current(row.sealed):
        return False
    sealed = sealer.seal(sealer.open(row.sealed, tx.tenant, row.id), tx.tenant, row.id)
    await tx.execute(update(signing_key).where(signing_key.c.id == row.id).values(sealed=sealed))
    append(tx, actor, "signing_key.sealed_anew", str(row.id), fingerprint=row.fingerprint)
    return True


async def _add(tx: Bound, actor: Actor, sealer: Sealer) -> PublicKey:
    key_id, private = uuid4(), Ed25519PrivateKey.generate()
    blob = ed25519_blob(private)
    sealed = sealer.seal(private.private_bytes_raw(), tx.tenant, key_id)
    values = {"id": key_id, "public_key": public_line(blob), "fingerprint": fingerprint(blob), "sealed": sealed}
    made = signing_key.insert().values(tenant=tx.tenant, **values).returning(signing_key.c.created_at)
    created_at = await tx.scalar(made)
    append(tx, actor, "signing_key.added", str(key_id), fingerprint=fingerprint(blob))
    return PublicKey(public_line(blob), fingerprint(blob), created_at, None)


async def _retire(tx: Bound, actor: Actor) -> bool:
    ended = {"state": "retired", "sealed": None, "retired_at": func.clock_timestamp()}
    retired = update(signing_key).where(_LIVE).values(**ended).returning(signing_key.c.id, signing_key.c.fingerprint)
    row = (await tx.execute(retired)).one_or_none()
    if row is None:
        return False
    append(tx, actor, "signing_key.retired", str(row.id), fingerprint=row.fingerprint)
    return True


def _unusable(why: str) -> Refusal:
    return Refusal(Code.SIGNING_KEY_UNUSABLE, why)

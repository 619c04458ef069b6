"""Signing keys: a tenant's commits are signed with its own, and stock git verifies them."""

import os
from pathlib import Path
from uuid import UUID

import click
from sqlalchemy import select

from service.commands.administration import Answer, Office, administers, the_tenant
from service.commands.options import tenant_option
from service.grants.tables import tenant as tenants
from service.kit.actor import SERVICE_TENANT, system
from service.kit.sealed import Sealer, Unsealable
from service.settings import read_sealer
from service.up.place import Place, UpRefused
from service.writer.keys import create_key, owner_keys, public_keys, rotate_key, seal_anew, stop_signing
from service.writer.signature import OwnerKey, PublicKey, allowed_signers


@click.group
def keys() -> None:
    """What signs the commits of a tenant: an SSH key that only the writer can open."""


@keys.command("create")
@tenant_option
@administers
async def create(office: Office, tenant: str | None) -> Answer:
    """Make a tenant's key and sign every commit from now on."""
    tenant_id, sealer = await the_tenant(office, tenant), _sealer()
    async with office.database.bound(tenant_id) as tx:
        key = await create_key(tx, system(tenant_id), sealer)
    return _made(office, key)


@keys.command("rotate")
@tenant_option
@administers
async def rotate(office: Office, tenant: str | None) -> Answer:
    """Retire the key and make another. What the old one signed still verifies; its private half is erased."""
    tenant_id, sealer = await the_tenant(office, tenant), _sealer()
    async with office.database.bound(tenant_id) as tx:
        key = await rotate_key(tx, system(tenant_id), sealer)
    return _made(office, key)


@keys.command("off")
@tenant_option
@administers
async def off(office: Office, tenant: str | None) -> Answer:
    """Sign nothing from now on, and retire the key."""
    tenant_id = await the_tenant(office, tenant)
    async with office.database.bound(tenant_id) as tx:
        retired = await stop_signing(tx, system(tenant_id))
    return Answer({"sign_commits": False, "retired": retired}, "Commits are no longer signed.")


@keys.command("list")
@tenant_option
@administers
async def list_(office: Office, tenant: str | None) -> Answer:
    """Show every key that a tenant ever had."""
    found = await _keys(office, tenant)
    return Answer([_shown(key) for key in found], "No key: commits are not signed. `placet keys create` makes one.")


@keys.command("allowed-signers")
@tenant_option
@administers
async def allowed_signers_(office: Office, tenant: str | None) -> Answer:
    """Print the file that `git verify-commit` needs: git config gpg.ssh.allowedSignersFile FILE."""
    text = allowed_signers(await _keys(office, tenant), office.issuer, await _owners(office, tenant))
    return Answer({"allowed_signers": text}, text.rstrip("\n") or "# No key: commits are not signed.")


@keys.command("rewrap")
@administers
async def rewrap(office: Office) -> Answer:
    """Seal every key with the secret in force, so that the one before it can be thrown away."""
    sealer = _sealer()
    async with office.database.directory() as tx:
        chosen = select(tenants.c.id, tenants.c.name).where(tenants.c.id != SERVICE_TENANT)
        rows = (await tx.execute(chosen.order_by(tenants.c.name))).all()
    sealed = [row.name for row in rows if await _seal_anew(office, row.id, row.name, sealer)]
    return Answer({"sealed_anew": sealed}, f"Sealed anew: {len(sealed)}. A secret from before is needed no longer.")


async def _seal_anew(office: Office, tenant_id: UUID, name: str, sealer: Sealer) -> bool:
    async with office.database.bound(tenant_id) as tx:
        try:
            return await seal_anew(tx, system(tenant_id), sealer)
        except Unsealable as error:
            raise UpRefused("signing_key_unusable", f"The key of {name} does not open. {error}") from None


async def _keys(office: Office, tenant: str | None) -> list[PublicKey]:
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        return list(await public_keys(tx))


async def _owners(office: Office, tenant: str | None) -> list[OwnerKey]:
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        return list(await owner_keys(tx))


def _made(office: Office, key: PublicKey) -> Answer:
    line = allowed_signers([key], office.issuer).rstrip("\n")
    return Answer(
        {"fingerprint": key.fingerprint, "allowed_signers": line},
        f"Commits are signed with {key.fingerprint} from now on.\n{line}",
    )


def _shown(key: PublicKey) -> dict[str, str | None]:
    return {
        "fingerprint": key.fingerprint,
        "state": "retired" if key.retired_at else "live",
        "created_at": key.created_at.isoformat(timespec="seconds"),
        "retired_at": key.retired_at.isoformat(timespec="seconds") if key.retired_at else None,
    }


def _sealer() -> Sealer:
    """What the writer opens keys with: by the settings of the database's service, else of the data directory.

    Raises:
        UpRefused: there is no secret to seal with.
    """
    here: Path = click.get_current_context().params["data_dir"]
    given = dict(os.environ) if "DATABASE_URL" in os.environ else {}
    sealer = read_sealer(given) or read_sealer(Place(here.resolve()).keys_settings())
    if sealer is None:
        message = (
            f"There is no secret to seal keys with: PLACET_KEYS_SECRET_FILE is not set, and {here} has no keys-secret."
        )
        raise UpRefused("keys_secret_missing", message)
    return sealer

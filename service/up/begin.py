"""Where a start begins: the first tenant, made where there is none, and a link for its owner."""

from sqlalchemy import select

from service.grants.tables import tenant
from service.kit.database import Database
from service.kit.errors import Refusal
from service.kit.sealed import Sealer
from service.repositories.placement import Storage
from service.settings import read_sealer
from service.up.demo import find_first, first_start, link_for
from service.up.place import Place, UpRefused
from service.up.progress import Ready
from service.writer.keys import live_key, open_key


async def begin(place: Place, url: str, issuer: str) -> Ready:
    """The first tenant where there is none, and where to begin.

    Raises:
        UpRefused: what is there belongs to another data directory, or a key does not open with the secret in it.
        BadSetting: a secret is too short, or others can read it.
    """
    database, storage = Database(url, "placet_owner", size=1), Storage(place.repositories)
    try:
        sealer = read_sealer(place.keys_settings())
        if sealer is None:
            raise UpRefused("keys_secret_missing", f"There is no keys-secret in {place.data_dir}.")
        await first_start(database, storage, sealer)
        found = await find_first(database, storage)
        if found and not found.path.is_dir():
            message = f"The database belongs to another data directory: its repositories are not in {place.data_dir}."
            raise UpRefused("wrong_data_dir", message)
        await _check_keys(database, sealer, place)
        link = await link_for(database, found.owner, issuer) if found else None
    finally:
        await database.close()
    return Ready(
        mcp_url=f"{issuer}/mcp",
        issuer=issuer,
        owner_url=link,
        owner_email=found.email if found else None,
        repository_path=str(found.path) if found else None,
        tenant=str(found.tenant) if found else None,
        repository_id=str(found.repository) if found else None,
        database_url=url,
        data_dir=str(place.data_dir),
    )


async def _check_keys(database: Database, sealer: Sealer, place: Place) -> None:
    """Every tenant that has its commits signed has a key that opens: else each approval would fail."""
    async with database.directory() as tx:
        signing = (await tx.execute(select(tenant.c.id, tenant.c.name).where(tenant.c.sign_commits))).all()
    for row in signing:
        async with database.bound(row.id) as tx:
            try:
                open_key(row.id, await live_key(tx), sealer)
            except Refusal as refusal:
                why = f"The signing key of {row.name} cannot be used: {refusal.message}"
                mend = f"Put its secret back to {place.keys_secret}, or run `placet keys rotate --tenant {row.name}`."
                raise UpRefused(refusal.code.value.name, f"{why} {mend}") from None

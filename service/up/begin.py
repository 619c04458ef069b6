"""Where a start begins: the first tenant, made where there is none, and a link for its owner."""

from service.kit.database import Database
from service.kit.sealed import Sealer
from service.repositories.placement import Storage
from service.up.demo import find_first, first_start, link_for
from service.up.place import Place, UpRefused
from service.up.progress import Ready


async def begin(place: Place, url: str, issuer: str) -> Ready:
    """The first tenant where there is none, and where to begin.

    Raises:
        UpRefused: what is there belongs to another data directory.
    """
    database, storage = Database(url, "placet_owner", size=1), Storage(place.repositories)
    try:
        await first_start(database, storage, Sealer(place.keys_secret.read_bytes()))
        found = await find_first(database, storage)
        link = await link_for(database, found.owner, issuer) if found else None
    finally:
        await database.close()
    if found and not found.path.is_dir():
        message = f"The database belongs to another data directory: its repositories are not in {place.data_dir}."
        raise UpRefused("wrong_data_dir", message)
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

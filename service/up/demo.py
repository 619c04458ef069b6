"""What a first start finds: a tenant, a project, an owner, and a repository made from real files."""

import asyncio
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import select

from service.contract.names import check_name
from service.grants.manage import add_membership, add_project, add_repository, add_tenant, let_agents_propose
from service.grants.tables import membership, person, tenant
from service.identity.people import add_person, check_email, let_look
from service.identity.sessions import new_link
from service.kit.actor import SERVICE_TENANT, system
from service.kit.database import Bound, Database
from service.kit.errors import Refusal
from service.kit.sealed import Sealer
from service.repositories.intake import create_from_files
from service.repositories.placement import FIRST_SHARD, Storage
from service.repositories.tables import repository
from service.writer.keys import create_key

TENANT, PROJECT, REPOSITORY = "demo", "orchard", "storefront"
EMAIL, NAME = "owner@example.org", "Demo Owner"
AUTHOR = b"Robin Orchard <robin@example.org> 1793520000 +0000"
MESSAGE = b"The storefront as we sell from it\n"
_ASK_GIT_SECONDS = 5


@dataclass(frozen=True)
class Found:
    """Where a start begins: the tenant, its oldest repository, and its first owner."""

    tenant: UUID
    repository: UUID
    path: Path
    owner: UUID
    email: str


async def first_start(database: Database, storage: Storage, sealer: Sealer) -> None:
    """Make the demo where there is no tenant yet, with a key that signs its commits."""
    async with database.directory() as tx:
        if await tx.scalar(select(tenant.c.id).where(tenant.c.id != SERVICE_TENANT).limit(1)):
            return
    tenant_id, repository_id = uuid4(), uuid4()
    path = storage.path(FIRST_SHARD, tenant_id, repository_id)
    path.parent.mkdir(mode=0o700, parents=True)
    await asyncio.to_thread(create_from_files, path, "refs/heads/main", _files(), author=AUTHOR, message=MESSAGE)
    email, name = await asyncio.to_thread(_whoever_runs_git)
    try:
        async with database.bound(tenant_id) as tx:
            await _fill(tx, repository_id, email, name)
            await create_key(tx, system(tenant_id), sealer)
    except BaseException:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise


async def _fill(tx: Bound, repository_id: UUID, email: str, name: str) -> None:
    actor = system(tx.tenant)
    await add_tenant(tx, actor, TENANT)
    project = await add_project(tx, actor, PROJECT)
    person = await add_person(tx, email, name)
    await let_look(tx, person, tx.tenant)
    await add_membership(tx, actor, project, person, "owner")
    await add_repository(tx, actor, project, repository_id, REPOSITORY)
    await let_agents_propose(tx, actor, repository_id, on=True)


async def find_first(database: Database, storage: Storage) -> Found | None:
    """The oldest tenant with a repository and an owner."""
    async with database.directory() as tx:
        ordered = select(tenant.c.id).where(tenant.c.id != SERVICE_TENANT).order_by(tenant.c.created_at)
        tenants = [row.id for row in await tx.execute(ordered)]
    for tenant_id in tenants:
        async with database.bound(tenant_id) as tx:
            the_repository = await tx.scalar(select(repository.c.id).order_by(repository.c.created_at).limit(1))
            owners = select(person.c.id, person.c.email).join(membership, membership.c.person == person.c.id)
            owners = owners.where(membership.c.role == "owner", membership.c.state == "live")
            owner = (await tx.execute(owners.order_by(membership.c.created_at).limit(1))).one_or_none()
            if the_repository and owner:
                place = await storage.place(tx, the_repository)
                return Found(tenant_id, the_repository, place.path, owner.id, owner.email)
    return None


async def link_for(database: Database, person: UUID, issuer: str) -> str:
    """The address of a page that signs this person in: once, within ten minutes."""
    async with database.directory() as tx:
        return f"{issuer}/sign-in?link={await new_link(tx, person)}"


def _whoever_runs_git() -> tuple[str, str]:
    """Address and name from git's configuration, where they can stand in a commit; else the demo's own."""
    try:
        return check_email(_git_config("user.email")), check_name(_git_config("user.name"), "name")
    except Refusal:
        return EMAIL, NAME


def _git_config(key: str) -> str:
    asked = subprocess.run(
        ("git", "config", "--get", key),  # noqa: S607  the person's own git says who that is
        capture_output=True,
        check=False,
        timeout=_ASK_GIT_SECONDS,
    )
    return asked.stdout.decode("utf-8", "replace").strip()


def _files() -> Mapping[str, bytes]:
    """The files of the package `service/demo`, by path."""
    return dict(_walk(resources.files("service") / "demo", ""))


def _walk(folder: Traversable, above: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for item in folder.iterdir():
        path = f"{above}{item.name}"
        if item.is_dir():
            found += _walk(item, f"{path}/") if item.name != "__pycache__" else []
        else:
            found.append((path, item.read_bytes()))
    return found

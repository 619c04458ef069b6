"""Repositories: brought in whole, found by name, and the switch that lets agents propose."""

import os
import re
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from sqlalchemy import select

from service.commands.administration import (
    Answer,
    Office,
    administers,
    find,
    reach,
    show,
    the_project,
    the_tenant,
    within,
)
from service.commands.options import as_json, data_dir, project_option, tenant_option
from service.commands.states import add_states
from service.contract.names import check_name, quote_path
from service.grants.manage import add_repository, let_agents_propose, require_signatures
from service.grants.tables import project as projects
from service.kit.actor import system
from service.kit.errors import Code, Refusal
from service.proposals.maintain import ask_to_maintain
from service.repositories.intake import import_repository
from service.repositories.placement import FIRST_SHARD
from service.repositories.refs import head_branch, list_refs
from service.repositories.tables import repository


@click.group
def repo() -> None:
    """Git repositories."""


@repo.command("import")
@click.argument("source", metavar="PATH-OR-URL")
@click.option("--name", help="What it shall be called; without it, as its source.")
@project_option
@tenant_option
@data_dir
@as_json
def import_(
    source: str, name: str | None, project: str | None, tenant: str | None, data_dir: Path, as_json: bool
) -> None:
    """Bring a repository in, with all branches and tags. Agents may not propose in it until somebody says so."""
    chosen = _name_of(source) if name is None else name
    with reach(data_dir) as found:
        room = within(found, lambda office: _room_for(office, chosen, project, tenant))
        # Outside of any event loop, so that Ctrl-C ends it at once.
        _copy(source, room.path)
        try:
            answer = within(found, lambda office: _enter(office, room))
        except BaseException:
            shutil.rmtree(room.path, ignore_errors=True)
            raise
    show(answer, as_json=as_json)


@repo.command("list")
@tenant_option
@administers
async def list_(office: Office, tenant: str | None) -> Answer:
    """Show the repositories of a tenant."""
    columns = repository.c
    chosen = select(
        columns.id,
        columns.name,
        projects.c.name.label("project"),
        columns.state,
        columns.agents_may_propose,
        columns.signed_approvals,
    ).join(projects, projects.c.id == columns.project)
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        rows = (await tx.execute(chosen.order_by(projects.c.name, columns.name))).mappings().all()
    return Answer([{**row, "id": str(row["id"])} for row in rows], "No repository yet: placet repo import PATH-OR-URL")


@repo.command("agents-may-propose")
@click.argument("name_or_id")
@click.argument("switch", type=click.Choice(("on", "off")))
@tenant_option
@administers
async def agents_may_propose(office: Office, name_or_id: str, switch: str, tenant: str | None) -> Answer:
    """Let agents propose in a repository, or no longer."""
    repository_id, name = await _turn(office, name_or_id, tenant, let_agents_propose, on=switch == "on")
    data = {"id": repository_id, "agents_may_propose": switch == "on"}
    return Answer(data, f"Agents {'may' if switch == 'on' else 'may not'} propose in {name}.")


@repo.command("signed-approvals")
@click.argument("name_or_id")
@click.argument("switch", type=click.Choice(("on", "off")))
@tenant_option
@administers
async def signed_approvals(office: Office, name_or_id: str, switch: str, tenant: str | None) -> Answer:
    """Take only approvals signed with a passkey in a repository, or others too."""
    repository_id, name = await _turn(office, name_or_id, tenant, require_signatures, on=switch == "on")
    taken = "Only approvals signed with a passkey count" if switch == "on" else "Approvals need no signature"
    return Answer({"id": repository_id, "signed_approvals": switch == "on"}, f"{taken} in {name}.")


async def _turn(
    office: Office, name_or_id: str, tenant: str | None, turn: Callable[..., Awaitable[None]], *, on: bool
) -> tuple[str, str]:
    """Turn one of a repository's switches; gives its id and its name."""
    tenant_id = await the_tenant(office, tenant)
    async with office.database.bound(tenant_id) as tx:
        row = await find(tx, repository, name_or_id)
        await turn(tx, system(tenant_id), row.id, on=on)
    return str(row.id), row.name


@repo.command("maintain")
@click.argument("name_or_id")
@tenant_option
@administers
async def maintain(office: Office, name_or_id: str, tenant: str | None) -> Answer:
    """Let the writer put a repository in order now, and not only when it has become slow."""
    tenant_id = await the_tenant(office, tenant)
    async with office.database.bound(tenant_id) as tx:
        row = await find(tx, repository, name_or_id)
        await ask_to_maintain(tx, tenant_id, row.id)
    return Answer({"id": str(row.id)}, f"The writer puts {row.name} in order as soon as it is free.")


add_states(repo, repository)


@dataclass(frozen=True)
class _Room:
    """Where a new repository goes."""

    tenant: UUID
    project: UUID
    repository: UUID
    name: str
    path: Path


async def _room_for(office: Office, name: str, project: str | None, tenant: str | None) -> _Room:
    """Look for a free name before anything is copied."""
    tenant_id, repository_id = await the_tenant(office, tenant), uuid4()
    _check_name(name)
    async with office.database.bound(tenant_id) as tx:
        project_id = (await the_project(tx, project)).id
        taken = (repository.c.project == project_id) & (repository.c.name == name)
        if await tx.scalar(select(repository.c.id).where(taken)):
            raise Refusal(Code.NAME_TAKEN, f"There is a repository {name} already: choose another name with --name.")
    path = office.storage.path(FIRST_SHARD, tenant_id, repository_id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _Room(tenant_id, project_id, repository_id, name, path)


def _check_name(name: str) -> None:
    """A name stands in addresses, where a slash would divide it and a leading dot has a meaning."""
    if not name or name.startswith(".") or not {"/", "\\"}.isdisjoint(name):
        sentence = (
            "A repository's name is not empty, has no / and no \\, and begins with no dot: choose one with --name."
        )
        raise Refusal(Code.INVALID_ARGUMENT, sentence, field="name")
    check_name(name, "name")


async def _enter(office: Office, room: _Room) -> Answer:
    async with office.database.bound(room.tenant) as tx:
        await add_repository(tx, system(room.tenant), room.project, room.repository, room.name)
    came = {
        "branches": len(list_refs(room.path, "refs/heads/")),
        "tags": len(list_refs(room.path, "refs/tags/")),
        "default_branch": quote_path(os.fsencode(head_branch(room.path).removeprefix("refs/heads/"))),
    }
    data = {"id": str(room.repository), "name": room.name, "path": str(room.path), **came}
    return Answer(
        data,
        f"{room.name} is here: {room.repository}. Branches: {came['branches']}, tags: {came['tags']}, "
        f"default branch: {came['default_branch']}.",
    )


def _copy(source: str, path: Path) -> None:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        known: dict[str, TaskID] = {}

        def told(phase: str, done: int, of: int) -> None:
            if phase not in known:
                known[phase] = bars.add_task(phase)
            bars.update(known[phase], completed=done, total=of)

        import_repository(source, path, told)


def _name_of(source: str) -> str:
    """The last word of a path or an address, without `.git`."""
    words = re.split(r"[/:\\]", str(Path(source).resolve()) if Path(source).exists() else source.rstrip("/"))
    return words[-1].removesuffix(".git").removesuffix(".bundle") or words[-1]

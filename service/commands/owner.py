"""Owners: the people who decide, and how they sign in."""

from uuid import UUID

import click
from sqlalchemy import select

from service.commands.administration import Answer, Office, administers, the_project, the_tenant
from service.commands.options import project_option, tenant_option
from service.commands.states import WORDS, changed
from service.grants.manage import Role, State, add_membership, change_role
from service.grants.tables import membership, person
from service.grants.tables import project as projects
from service.identity.people import add_person, find_person, let_look
from service.identity.sessions import new_link
from service.kit.actor import system
from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.up.place import UpRefused
from service.up.typed import typed

ROLES = ("owner", "maintainer", "reader")


@click.group
def owner() -> None:
    """People who decide: owners and maintainers of a project; readers only look."""


@owner.command("add")
@click.argument("email")
@click.option("--name", required=True, help="As it shall stand in commits.")
@click.option("--role", type=click.Choice(ROLES), default="owner", show_default=True)
@project_option
@tenant_option
@administers
async def add(office: Office, email: str, name: str, role: Role, project: str | None, tenant: str | None) -> Answer:
    """Let a person into a project."""
    tenant_id = await the_tenant(office, tenant)
    async with office.database.bound(tenant_id) as tx:
        project_id = (await the_project(tx, project)).id
        person_id = await add_person(tx, email, name)
        await let_look(tx, person_id, tenant_id)
        await add_membership(tx, system(tenant_id), project_id, person_id, role)
    data = {"id": str(person_id), "email": email, "role": role}
    another = typed("owner", "link", email, data_dir=click.get_current_context().params["data_dir"])
    return Answer(data, f"{email} is {role}. To sign in: {another}")


@owner.command("list")
@tenant_option
@administers
async def list_(office: Office, tenant: str | None) -> Answer:
    """Show who is in which project of a tenant."""
    columns = (person.c.email, person.c.name, projects.c.name.label("project"), membership.c.role, membership.c.state)
    chosen = select(*columns).join(membership, membership.c.person == person.c.id)
    chosen = chosen.join(projects, projects.c.id == membership.c.project).order_by(person.c.email, projects.c.name)
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        rows = (await tx.execute(chosen)).mappings().all()
    return Answer([dict(row) for row in rows], "Nobody yet.")


@owner.command("role")
@click.argument("email")
@click.argument("role", type=click.Choice(ROLES))
@project_option
@tenant_option
@administers
async def role(office: Office, email: str, role: Role, project: str | None, tenant: str | None) -> Answer:
    """Give a person another role in a project."""
    tenant_id = await the_tenant(office, tenant)
    async with office.database.bound(tenant_id) as tx:
        who, where = await find_person(tx, email), await the_project(tx, project)
        await change_role(tx, system(tenant_id), where.id, who.id, role)
    return Answer({"email": email, "project": str(where.id), "role": role}, f"{email} is {role} in {where.name}.")


@owner.command("link")
@click.argument("email")
@administers
async def link(office: Office, email: str) -> Answer:
    """Print a fresh link that signs a person in once, within ten minutes."""
    if office.issuer is None:
        raise UpRefused("issuer_unknown", "Start the service first, or say where it is reached with PLACET_ISSUER.")
    async with office.database.directory() as tx:
        who = await find_person(tx, email)
        url = f"{office.issuer}/sign-in?link={await new_link(tx, who.id)}"
    return Answer({"email": email, "owner_url": url}, url)


def _add_state(word: str, state: State, text: str) -> None:
    @owner.command(word, help=text)
    @click.argument("email")
    @project_option
    @tenant_option
    @administers
    async def change(office: Office, email: str, project: str | None, tenant: str | None) -> Answer:
        tenant_id = await the_tenant(office, tenant)
        async with office.database.bound(tenant_id) as tx:
            member = await _member(tx, (await find_person(tx, email)).id, (await the_project(tx, project)).id)
            return await changed(tx, membership, member, state, email)


async def _member(tx: Bound, person_id: UUID, project_id: UUID) -> UUID:
    which = (membership.c.person == person_id) & (membership.c.project == project_id)
    found: UUID | None = await tx.scalar(select(membership.c.id).where(which))
    if found is None:
        raise Refusal(Code.NOT_FOUND, "This person is not in this project.")
    return found


for _word, (_state, _text) in WORDS.items():
    _add_state(_word, _state, _text)

"""Projects: groups of repositories and members inside a tenant."""

import click
from sqlalchemy import select

from service.commands.administration import Answer, Office, administers, the_tenant
from service.commands.options import tenant_option
from service.commands.states import add_states
from service.grants.manage import add_project
from service.grants.tables import project as projects
from service.kit.actor import system


@click.group
def project() -> None:
    """Groups of repositories and members inside a tenant."""


@project.command("add")
@click.argument("name")
@tenant_option
@administers
async def add(office: Office, name: str, tenant: str | None) -> Answer:
    """Make a project."""
    tenant_id = await the_tenant(office, tenant)
    async with office.database.bound(tenant_id) as tx:
        project_id = await add_project(tx, system(tenant_id), name)
    return Answer({"id": str(project_id), "name": name}, f"Project {name} added: {project_id}")


@project.command("list")
@tenant_option
@administers
async def list_(office: Office, tenant: str | None) -> Answer:
    """Show the projects of a tenant."""
    async with office.database.bound(await the_tenant(office, tenant)) as tx:
        rows = await tx.execute(select(projects.c.id, projects.c.name, projects.c.state).order_by(projects.c.name))
    return Answer([{"id": str(row.id), "name": row.name, "state": row.state} for row in rows], "No project yet.")


add_states(project, projects)

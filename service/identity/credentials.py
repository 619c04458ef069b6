"""From a bearer token to an Actor. Opaque tokens only: what is stored is a hash, and there is no token to parse."""

from sqlalchemy import func, select

from service.grants.tables import connection
from service.identity.tables import access_token
from service.kit.actor import Actor
from service.kit.database import Database
from service.kit.secrets import secret_hash, secret_tenant


async def find_agent(database: Database, token: str, resources: frozenset[str]) -> Actor | None:
    """The connection this access token speaks for; None when it is unknown, ended, or made for another resource."""
    tenant = secret_tenant(token)
    if tenant is None:
        return None
    now = func.clock_timestamp()
    statement = (
        select(access_token.c.scope, connection.c.id, connection.c.name, connection.c.scopes)
        .join(
            connection, (connection.c.tenant == access_token.c.tenant) & (connection.c.id == access_token.c.connection)
        )
        .where(access_token.c.tenant == tenant, access_token.c.hash == secret_hash(token))
        .where(access_token.c.revoked_at.is_(None), access_token.c.expires_at > now)
        .where(access_token.c.resource.in_(resources), connection.c.state == "live")
        .where(connection.c.expires_at.is_(None) | (connection.c.expires_at > now))
    )
    async with database.bound(tenant) as tx:
        row = (await tx.execute(statement)).one_or_none()
    if row is None:
        return None
    # A later consent may have narrowed what the connection may do; its older tokens follow.
    return Actor("agent", tenant, row.id, row.name, frozenset(row.scope.split()) & frozenset(row.scopes))

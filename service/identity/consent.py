"""A person's answer to an authorization request.

The request waits in a row bound to the browser session that saw it, found by a secret that only that page has. An
approval is one transaction in the person's current tenant: the connection, its repositories, what agents may propose,
the code, the ledger. The code is made from the page's secret, so a form that is sent twice gets the same answer twice
without the code being stored.
"""

import base64
import hashlib
import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import Row, Table, delete, func, select, update

from service.contract.names import check_name
from service.grants.manage import let_agents_propose
from service.grants.tables import connection, connection_repository, membership, oauth_client, project, tenant
from service.identity.authorization import Asking, respond
from service.identity.sessions import Session
from service.identity.tables import authorization_code, oauth_request
from service.identity.tokens import Standing
from service.identity.wire import Answer, Site
from service.kit.database import Bound, Database, Directory
from service.kit.errors import Code, Refusal
from service.kit.secrets import secret_hash
from service.ledger.append import append
from service.repositories.tables import repository

REQUEST_SECONDS: Final = 600
LIFETIMES: Final[Mapping[str, timedelta | None]] = MappingProxyType(
    {"1d": timedelta(days=1), "30d": timedelta(days=30), "1y": timedelta(days=365), "never": None}
)
"""How long a connection may last; `never`: until it is revoked."""
_NOW = func.clock_timestamp()


@dataclass(frozen=True)
class Offer:
    """A repository that this person can connect an agent to.

    Attributes:
        open: agents may propose there already.
        may_open: this person may let them.
    """

    id: UUID
    name: str
    project: str
    project_id: UUID
    membership: UUID
    open: bool
    may_open: bool


@dataclass(frozen=True)
class Choice:
    """What the person chose on the page.

    Attributes:
        name: what the connection is called.
        lifetime: a key of `LIFETIMES`.
        repositories: what it may read and propose for.
        opened: where agents may propose from now on.
    """

    name: str
    lifetime: str
    repositories: frozenset[UUID]
    opened: frozenset[UUID]


@dataclass(frozen=True)
class Waiting:
    """What the page shows about a request that waits for an answer; the client's name is hostile until escaped."""

    asking: Asking
    client_name: str
    tenant_name: str
    offers: tuple[Offer, ...]


async def remember(database: Database, session: Session, asking: Asking) -> str:
    """Keep a request for ten minutes, for this session alone, and give the secret that finds it.

    Raises:
        Refusal: INVALID_REQUEST when the client is gone.
    """
    secret = secrets.token_urlsafe(32)
    async with database.directory() as tx:
        client = select(oauth_client.c.id).where(oauth_client.c.id == asking.client)
        if await tx.scalar(client.with_for_update(read=True, key_share=True)) is None:
            raise _gone()  # it went since the request was judged
        await tx.execute(delete(oauth_request).where(oauth_request.c.expires_at < _NOW))
        await tx.execute(
            oauth_request.insert().values(
                hash=secret_hash(secret),
                session=session.id,
                expires_at=_NOW + timedelta(seconds=REQUEST_SECONDS),
                **asdict(asking),
            )
        )
    return secret


async def show(database: Database, session: Session, secret: str) -> Waiting:
    """What an unanswered request of this session is about.

    Raises:
        Refusal: INVALID_REQUEST when there is none.
    """
    async with database.bound(session.tenant) as tx:
        row = await _find(tx, session, secret)
        if row is None or row.answered_at is not None or not row.fresh:
            raise _gone()
        client_name = await tx.scalar(select(oauth_client.c.name).where(oauth_client.c.id == row.client))
        tenant_name = await tx.scalar(select(tenant.c.name).where(tenant.c.id == session.tenant))
        return Waiting(_asking(row), client_name, tenant_name, await _offers(tx, session.person))


async def approve(database: Database, site: Site, session: Session, secret: str, choice: Choice) -> Answer:
    """Grant what was chosen, and send the client its code. Asked again, the same answer.

    Raises:
        Refusal: INVALID_ARGUMENT or TEXT_REJECTED naming a field of the form; INVALID_REQUEST when the request is gone;
            FORBIDDEN when the person may not grant this.
    """
    check_name(choice.name, "name")
    if choice.lifetime not in LIFETIMES:
        raise Refusal(Code.INVALID_ARGUMENT, "Choose how long the connection lasts.", field="lifetime")

    async def work(tx: Bound) -> Answer:
        asking = await _claim(tx, session, secret)
        if asking is None:
            return await _repeat(tx, site, session, secret)
        standing = await _grant(tx, session, asking, choice)
        return await tx.connection.run_sync(respond, site, asking, standing, _code(session.tenant, secret))

    return await database.repeat(session.tenant, work)


async def deny(database: Database, site: Site, session: Session, secret: str) -> Answer:
    """Send the client `access_denied`. Asked again, the same answer.

    Raises:
        Refusal: INVALID_REQUEST when the request is gone.
    """

    async def work(tx: Bound) -> Answer:
        asking = await _claim(tx, session, secret)
        if asking is None:
            return await _repeat(tx, site, session, secret)
        append(tx, session.actor, "connection.denied", asking.client, scope=asking.scope)
        return await tx.connection.run_sync(respond, site, asking, None, "")

    return await database.repeat(session.tenant, work)


async def _claim(tx: Directory, session: Session, secret: str) -> Asking | None:
    """The request, answered from now on; None when it was answered or is gone."""
    mine = (oauth_request.c.hash == secret_hash(secret)) & (oauth_request.c.session == session.id)
    claimed = await tx.execute(
        update(oauth_request)
        .where(mine, oauth_request.c.answered_at.is_(None), oauth_request.c.expires_at > _NOW)
        .values(answered_at=_NOW)
        .returning(oauth_request)
    )
    row = claimed.one_or_none()
    return None if row is None else _asking(row)


async def _repeat(tx: Bound, site: Site, session: Session, secret: str) -> Answer:
    """The answer that was given before, unless its code was already used: bringing that back would end the tokens."""
    row = await _find(tx, session, secret)
    if row is None or row.answered_at is None:
        raise _gone()
    code = _code(session.tenant, secret)
    given = await tx.execute(select(authorization_code).where(authorization_code.c.hash == secret_hash(code)))
    before = given.one_or_none()
    if before is None:
        return await tx.connection.run_sync(respond, site, _asking(row), None, "")
    if before.used_at is not None:
        raise _gone()
    standing = Standing(session.tenant, before.connection, "", frozenset())
    return await tx.connection.run_sync(respond, site, _asking(row), standing, code)


async def _grant(tx: Bound, session: Session, asking: Asking, choice: Choice) -> Standing:
    """Write the connection with everything it stands for.

    The client's row is locked first, so that two consents for one client follow each other; then tenant, projects,
    repositories, connection and memberships, in the order of every change of rights.
    """
    used = update(oauth_client).where(oauth_client.c.id == asking.client).values(used_at=_NOW)
    if (await tx.execute(used)).rowcount == 0:
        raise _gone()
    picked = _picked(await _offers(tx, session.person), choice)
    opened = [offer for offer in picked if offer.id in choice.opened and not offer.open]
    await _lock(tx, tenant, {tx.tenant})
    await _lock(tx, project, {offer.project_id for offer in picked})
    await _lock(tx, repository, {offer.id for offer in picked}, change=bool(opened))
    before = await _find_connection(tx, session, asking)
    await _lock(tx, membership, {offer.membership for offer in picked})
    await _check_still(tx, session, picked)
    row = await _write_connection(tx, session, asking, choice, before)
    await _write_repositories(tx, row.id, picked)
    for offer in opened:
        await let_agents_propose(tx, session.actor, offer.id, on=True)
    await _record(tx, session, row, picked)
    return Standing(tx.tenant, row.id, row.name, frozenset(row.scopes))


def _picked(offers: Collection[Offer], choice: Choice) -> list[Offer]:
    picked = [offer for offer in offers if offer.id in choice.repositories]
    if not picked or len(picked) != len(choice.repositories):
        raise Refusal(Code.INVALID_ARGUMENT, "Choose at least one repository of the list.", field="repository")
    allowed = {offer.id for offer in picked if offer.open or offer.may_open}
    if not choice.opened <= allowed:
        raise Refusal(Code.FORBIDDEN, "Only an owner of the project can let agents propose in a repository.")
    return picked


async def _check_still(tx: Bound, session: Session, picked: Collection[Offer]) -> None:
    """Read again under the locks."""
    live = await tx.scalar(select(tenant.c.id).where(tenant.c.id == tx.tenant, tenant.c.state == "live"))
    now = {(offer.id, offer.may_open) for offer in await _offers(tx, session.person)}
    if live is None or not {(offer.id, offer.may_open) for offer in picked} <= now:
        raise Refusal(Code.FORBIDDEN, "Your rights changed while you looked at this page.")


async def _offers(tx: Bound, person: UUID) -> tuple[Offer, ...]:
    rows = await tx.execute(
        select(
            repository.c.id,
            repository.c.name,
            project.c.name.label("project"),
            project.c.id.label("project_id"),
            membership.c.id.label("membership"),
            repository.c.agents_may_propose.label("open"),
            (membership.c.role == "owner").label("may_open"),
        )
        .join(project, (project.c.tenant == repository.c.tenant) & (project.c.id == repository.c.project))
        .join(membership, (membership.c.tenant == project.c.tenant) & (membership.c.project == project.c.id))
        .where(membership.c.person == person, membership.c.role.in_(("owner", "maintainer")))
        .where(*(table.c.state == "live" for table in (repository, project, membership)))
        .order_by(project.c.name, repository.c.name)
    )
    return tuple(Offer(**row) for row in rows.mappings())


async def _lock(tx: Bound, table: Table, ids: Collection[UUID], *, change: bool = False) -> None:
    rows = select(table.c.id).where(table.c.id.in_(ids)).order_by(table.c.id)
    await tx.execute(rows.with_for_update(read=not change))


async def _find_connection(tx: Bound, session: Session, asking: Asking) -> Row[Any] | None:
    """The connection whose grants this consent replaces, locked. One that was revoked is never revived."""
    found = await tx.execute(
        select(connection)
        .where(connection.c.client == asking.client, connection.c.granted_by == session.person)
        .where(connection.c.state != "revoked")
        .with_for_update()
    )
    row = found.one_or_none()
    if row is not None and row.state == "paused":
        raise Refusal(Code.FORBIDDEN, f"The connection {row.name} of this application is paused; resume it first.")
    return row


async def _write_connection(
    tx: Bound, session: Session, asking: Asking, choice: Choice, before: Row[Any] | None
) -> Row[Any]:
    lifetime = LIFETIMES[choice.lifetime]
    granted = {
        "name": choice.name,
        "scopes": asking.scope.split(),
        "expires_at": None if lifetime is None else _NOW + lifetime,
    }
    if before is None:
        who = {"tenant": tx.tenant, "id": uuid4(), "client": asking.client, "granted_by": session.person}
        written = await tx.execute(connection.insert().values(**who, **granted).returning(connection))
    else:
        mine = connection.c.id == before.id
        changed = update(connection).where(mine).values(**granted, version=connection.c.version + 1)
        written = await tx.execute(changed.returning(connection))
    return written.one()


async def _write_repositories(tx: Bound, connection_id: UUID, picked: Collection[Offer]) -> None:
    await tx.execute(delete(connection_repository).where(connection_repository.c.connection == connection_id))
    rows = [{"tenant": tx.tenant, "connection": connection_id, "repository": offer.id} for offer in picked]
    await tx.execute(connection_repository.insert(), rows)


async def _record(tx: Bound, session: Session, row: Row[Any], picked: Collection[Offer]) -> None:
    append(
        tx,
        session.actor,
        "connection.granted",
        str(row.id),
        client=row.client,
        scopes=row.scopes,
        repositories=sorted(str(offer.id) for offer in picked),
        expires_at=row.expires_at and row.expires_at.isoformat(),
        version=row.version,
    )


async def _find(tx: Directory, session: Session, secret: str) -> Row[Any] | None:
    mine = (oauth_request.c.hash == secret_hash(secret)) & (oauth_request.c.session == session.id)
    found = await tx.execute(select(oauth_request, (oauth_request.c.expires_at > _NOW).label("fresh")).where(mine))
    return found.one_or_none()


def _asking(row: Row[Any]) -> Asking:
    return Asking(row.client, row.redirect_uri, row.scope, row.state, row.resource, row.code_challenge)


def _code(tenant_id: UUID, secret: str) -> str:
    """The code of a request, in the form of a secret (kit/secrets); its 256 bits are those of the page's secret."""
    made = hashlib.sha256(b"authorization code\0" + secret.encode("utf-8", "replace")).digest()
    return f"plt_{tenant_id.hex}_{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


def _gone() -> Refusal:
    return Refusal(
        Code.INVALID_REQUEST,
        "This request was answered, is older than ten minutes, or came from another browser. "
        "Go back to the application and connect again.",
    )

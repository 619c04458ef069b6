"""Browser sessions: opened by a one-time link, ended by time or by the person. Times are the database's."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import Row, TextClause, bindparam, func, select, text, update

from service.grants.tables import person, person_tenant
from service.identity.tables import login_challenge, session
from service.kit.actor import SERVICE_TENANT, Actor
from service.kit.database import Bound, Database, Directory
from service.kit.errors import Code, Refusal
from service.kit.secrets import new_secret, secret_hash
from service.ledger.append import append

LINK_SECONDS = 600
IDLE_SECONDS = 12 * 3600
SESSION_SECONDS = 7 * 24 * 3600
SEEN_EVERY_SECONDS = 60
_NOW = func.clock_timestamp()


def _seconds(count: int) -> TextClause:
    return text(f"interval '{count} seconds'")


@dataclass(frozen=True)
class Session:
    """A signed-in browser: the person, the tenant it looks at now, and the token its forms carry."""

    id: UUID
    person: UUID
    email: str
    name: str
    tenant: UUID
    csrf: str
    expires_at: datetime

    @property
    def actor(self) -> Actor:
        """The owner who acts in this session."""
        return Actor("owner", self.tenant, self.person, self.email, session=self.id)


async def new_link(tx: Directory, person_id: UUID) -> str:
    """The secret of a link that signs this person in once, within ten minutes."""
    secret = new_secret(SERVICE_TENANT)
    await tx.execute(
        login_challenge.insert().values(
            hash=secret_hash(secret), person=person_id, expires_at=_NOW + _seconds(LINK_SECONDS)
        )
    )
    return secret


async def open_session(database: Database, link: str, replaces: Session | None = None) -> str:
    """Use a sign-in link up and give the secret of the session it opens. What this browser had before ends.

    Raises:
        Refusal: UNAUTHENTICATED, one answer for a link that is unknown, used or too old.
    """
    async with database.bound(SERVICE_TENANT) as tx:
        who, tenant = await _use_link(tx, link)
        secret = new_secret(SERVICE_TENANT)
        session_id = uuid4()
        await tx.execute(
            session.insert().values(
                id=session_id,
                hash=secret_hash(secret),
                csrf=secrets.token_urlsafe(32),
                person=who,
                tenant=tenant,
                expires_at=_NOW + _seconds(SESSION_SECONDS),
            )
        )
        if replaces:
            await _end(tx, replaces)
        append(tx, _person(who), "session.opened", str(session_id))
    return secret


async def _use_link(tx: Directory, link: str) -> tuple[UUID, UUID]:
    found = await tx.execute(
        update(login_challenge)
        .where(login_challenge.c.hash == secret_hash(link))
        .where(login_challenge.c.used_at.is_(None), login_challenge.c.expires_at > _NOW)
        .values(used_at=_NOW)
        .returning(login_challenge.c.person)
    )
    who = found.scalar_one_or_none()
    tenant = await tx.scalar(
        select(person_tenant.c.tenant).where(person_tenant.c.person == who).order_by(person_tenant.c.tenant).limit(1)
    )
    if who is None or tenant is None:
        raise Refusal(Code.UNAUTHENTICATED, "This sign-in link was used, is older than ten minutes, or never was one.")
    return who, tenant


_LIVE = (  # built once, since every call of a browser needs it
    select(
        session,
        person.c.email,
        person.c.name,
        (session.c.seen_at < _NOW - _seconds(SEEN_EVERY_SECONDS)).label("unmarked"),
    )
    .join(person, person.c.id == session.c.person)
    .where(
        session.c.hash == bindparam("of"),
        session.c.ended_at.is_(None),
        session.c.expires_at > _NOW,
        session.c.seen_at > _NOW - _seconds(IDLE_SECONDS),
    )
)


async def find_session(database: Database, secret: str) -> Session | None:
    """The live session of this secret, or None. Marks it as seen, at most once a minute."""
    async with database.directory() as tx:
        row = (await tx.execute(_LIVE, {"of": secret_hash(secret)})).one_or_none()
        if row is None:
            return None
        if row.unmarked:
            await tx.execute(update(session).where(session.c.id == row.id).values(seen_at=_NOW))
    return _session(row)


async def end_session(database: Database, current: Session) -> None:
    """End this session now, in every process."""
    async with database.bound(SERVICE_TENANT) as tx:
        await _end(tx, current)


async def _end(tx: Bound, current: Session) -> None:
    await tx.execute(update(session).where(session.c.id == current.id).values(ended_at=_NOW))
    append(tx, _person(current.person), "session.ended", str(current.id))


def _person(person_id: UUID) -> Actor:
    """The person in the service's own ledger, where sessions belong."""
    return Actor("owner", SERVICE_TENANT, person_id, "")


async def is_in(database: Database, current: Session, tenant: UUID) -> bool:
    """Whether this session's person has anything in a tenant; the session stays where it is."""
    async with database.directory() as tx:
        mine = (person_tenant.c.person == current.person) & (person_tenant.c.tenant == tenant)
        return bool(await tx.scalar(select(person_tenant.c.tenant).where(mine)))


async def live_sessions(database: Database, ids: Iterable[UUID]) -> set[UUID]:
    """Those of these sessions that have not ended, by a person or by time. Marks none as seen."""
    async with database.directory() as tx:
        live = select(session.c.id).where(
            session.c.id.in_(list(ids)),
            session.c.ended_at.is_(None),
            session.c.expires_at > _NOW,
            session.c.seen_at > _NOW - _seconds(IDLE_SECONDS),
        )
        return set((await tx.execute(live)).scalars())


async def switch_tenant(database: Database, current: Session, tenant: UUID) -> None:
    """Let this session look at another tenant of its person's.

    Raises:
        Refusal: NOT_FOUND where the person has nothing in that tenant.
    """
    async with database.directory() as tx:
        found = await tx.scalar(
            select(person_tenant.c.tenant).where(
                person_tenant.c.person == current.person, person_tenant.c.tenant == tenant
            )
        )
        if found is None:
            raise Refusal(Code.NOT_FOUND, "There is no such tenant.")
        await tx.execute(update(session).where(session.c.id == current.id).values(tenant=tenant))


def _session(row: "Row[tuple[object, ...]]") -> Session:
    return Session(row.id, row.person, row.email, row.name, row.tenant, row.csrf, row.expires_at)

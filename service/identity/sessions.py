"""Browser sessions: opened by a link or a credential, ended by time or by the person. Times are the database's."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Row, TextClause, bindparam, func, or_, select, text, update

from service.grants.proof import FRESH, ProofWay
from service.grants.tables import person, person_tenant, session
from service.identity.tables import login_challenge
from service.kit.actor import SERVICE_TENANT, Actor
from service.kit.database import Bound, Database, Directory
from service.kit.errors import Code, Refusal
from service.kit.secrets import new_secret, secret_hash
from service.ledger.append import append

LINK_SECONDS = 600
IDLE_SECONDS = 12 * 3600
SESSION_SECONDS = 7 * 24 * 3600
SEEN_EVERY_SECONDS = 60
BROWSER_MOST: Final = 200
Way = Literal["link", "passkey", "password", "oidc"]
_NOBODY: Final = {
    True: "This sign-in link was used, is older than ten minutes, or never was one.",
    False: "You are known, but there is nothing here that you may see yet. Ask for an invitation.",
}
_NOW = func.clock_timestamp()


def _seconds(count: int) -> TextClause:
    return text(f"interval '{count} seconds'")


@dataclass(frozen=True)
class Session:
    """A signed-in browser: the person, the tenant it looks at now, and the token its forms carry.

    `recent`: a credential was shown within the last five minutes, or a link was used within the last ten; only then may
    the ways to sign in be changed where there are any.
    """

    id: UUID
    person: UUID
    email: str
    name: str
    tenant: UUID
    csrf: str
    expires_at: datetime
    recent: bool = False

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


@dataclass(frozen=True)
class SessionLine:
    """A live session as its person sees it; `browser` is what the browser says of itself."""

    id: UUID
    browser: str
    way: Way
    created_at: datetime
    seen_at: datetime
    mine: bool


async def open_session(database: Database, link: str, replaces: Session | None = None, browser: str = "") -> str:
    """Use a sign-in link up and give the secret of the session it opens. What this browser had before ends.

    Raises:
        Refusal: UNAUTHENTICATED, one answer for a link that is unknown, used or too old.
    """
    async with database.bound(SERVICE_TENANT) as tx:
        who = await _use_link(tx, link)
        return await begin(tx, who, "link", browser, replaces)


async def begin(tx: Bound, who: UUID | None, way: Way, browser: str, replaces: Session | None) -> str:
    """Open a session for somebody who showed who it is, in the service's own tenant; gives its secret.

    Raises:
        Refusal: UNAUTHENTICATED for nobody, and for a person whom no tenant knows.
    """
    mine = select(person_tenant.c.tenant).where(person_tenant.c.person == who).order_by(person_tenant.c.tenant)
    tenant = await tx.scalar(mine.limit(1))
    if who is None or tenant is None:
        raise Refusal(Code.UNAUTHENTICATED, _NOBODY[way == "link"])
    secret, session_id, proved = new_secret(SERVICE_TENANT), uuid4(), way != "link"
    await tx.execute(
        session.insert().values(
            id=session_id,
            hash=secret_hash(secret),
            csrf=secrets.token_urlsafe(32),
            person=who,
            tenant=tenant,
            way=way,
            browser=_cleaned(browser),
            proved_at=_NOW if proved else None,
            proved_by=way if proved else None,
            expires_at=_NOW + _seconds(SESSION_SECONDS),
        )
    )
    if replaces:
        await _end(tx, replaces.person, session.c.id == replaces.id)
    append(tx, acting(who), "session.opened", str(session_id), way=way)
    return secret


async def prove(tx: Bound, current: Session, by: ProofWay) -> str:
    """Note that this session's person showed a credential; it goes on under a new secret, which is given back.

    Raises:
        Refusal: SIGN_IN_REQUIRED where it ended meanwhile.
    """
    secret = new_secret(SERVICE_TENANT)
    mine = (session.c.id == current.id) & session.c.ended_at.is_(None)
    values = {"hash": secret_hash(secret), "proved_at": _NOW, "proved_by": by}
    if not (await tx.execute(update(session).where(mine).values(values))).rowcount:
        raise Refusal(Code.SIGN_IN_REQUIRED, "This session has ended.")
    append(tx, acting(current.person), "session.proved", str(current.id), by=by)
    return secret


async def _use_link(tx: Directory, link: str) -> UUID | None:
    found = await tx.execute(
        update(login_challenge)
        .where(login_challenge.c.hash == secret_hash(link), login_challenge.c.kind == "link")
        .where(login_challenge.c.used_at.is_(None), login_challenge.c.expires_at > _NOW)
        .values(used_at=_NOW)
        .returning(login_challenge.c.person)
    )
    who: UUID | None = found.scalar_one_or_none()
    return who


_STANDS = (
    session.c.ended_at.is_(None) & (session.c.expires_at > _NOW) & (session.c.seen_at > _NOW - _seconds(IDLE_SECONDS))
)
_LIVE = (  # built once, since every call of a browser needs it
    select(
        session,
        person.c.email,
        person.c.name,
        (session.c.seen_at < _NOW - _seconds(SEEN_EVERY_SECONDS)).label("unmarked"),
        func.coalesce(
            or_(FRESH, (session.c.way == "link") & (session.c.created_at > _NOW - _seconds(LINK_SECONDS))),
            text("false"),
        ).label("recent"),
    )
    .join(person, person.c.id == session.c.person)
    .where(session.c.hash == bindparam("of"), _STANDS)
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


async def list_sessions(database: Database, current: Session) -> Sequence[SessionLine]:
    """The live sessions of this person, the newest first."""
    columns = (session.c.id, session.c.browser, session.c.way, session.c.created_at, session.c.seen_at)
    mine = select(*columns).where(session.c.person == current.person, _STANDS).order_by(session.c.created_at.desc())
    async with database.directory() as tx:
        rows = (await tx.execute(mine)).all()
    return [
        SessionLine(row.id, row.browser, row.way, row.created_at, row.seen_at, row.id == current.id) for row in rows
    ]


async def end_session(database: Database, current: Session) -> None:
    """End this session now, in every process."""
    async with database.bound(SERVICE_TENANT) as tx:
        await _end(tx, current.person, session.c.id == current.id)


async def end_one(database: Database, current: Session, session_id: UUID) -> None:
    """End a session of the same person. Raises NOT_FOUND where it is not one, or has ended."""
    async with database.bound(SERVICE_TENANT) as tx:
        if not await _end(tx, current.person, session.c.id == session_id):
            raise Refusal(Code.NOT_FOUND, "There is no such session.")


async def end_others(tx: Bound, current: Session) -> int:
    """End every session of this person but this one; how many."""
    return await _end(tx, current.person, session.c.id != current.id)


async def _end(tx: Bound, person_id: UUID, which: ColumnElement[bool]) -> int:
    mine = (session.c.person == person_id) & session.c.ended_at.is_(None)
    ended = await tx.execute(update(session).where(mine, which).values(ended_at=_NOW).returning(session.c.id))
    found = list(ended.scalars())
    for one in found:
        append(tx, acting(person_id), "session.ended", str(one))
    return len(found)


def acting(person_id: UUID) -> Actor:
    """The person in the service's own ledger, where signing in belongs."""
    return Actor("owner", SERVICE_TENANT, person_id, "")


def _cleaned(browser: str) -> str:
    return "".join(char for char in browser if char.isascii() and char.isprintable())[:BROWSER_MOST]


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
    return Session(row.id, row.person, row.email, row.name, row.tenant, row.csrf, row.expires_at, row.recent)

"""Codes and tokens: issued, rotated, ended. Everything that one code led to is a family and ends together.

The functions run inside Authlib, so they are synchronous, on the connection of a transaction that is bound to the
tenant which the secret names. Times are the database's. Before anything of a family is read for a decision, the family
is held: a token that is being made cannot slip past a revocation.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, TokenMixin
from sqlalchemy import Connection, Row, Table, Text, cast, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from service.grants.tables import connection
from service.identity.clients import Client
from service.identity.tables import access_token, authorization_code, refresh_token
from service.identity.wire import SCOPES
from service.kit.secrets import new_secret, secret_hash

CODE_SECONDS: Final = 60
ACCESS_SECONDS: Final = 3_600
REFRESH_SECONDS: Final = 30 * 24 * 3_600
GRACE_SECONDS: Final = 10
"""How long a refresh token that was just used may be used once more, by a client that lost the answer or refreshed
twice at once."""
_NOW = func.clock_timestamp()


@dataclass(frozen=True)
class Standing:
    """A live connection: the `user` of Authlib's grants."""

    tenant: UUID
    id: UUID
    name: str
    scopes: frozenset[str]

    def allowed(self, scope: str) -> str:
        """What of a scope the connection has now: a later consent may have narrowed it."""
        return " ".join(name for name in SCOPES if name in self.scopes & set(scope.split()))


@dataclass(frozen=True)
class Credential(AuthorizationCodeMixin, TokenMixin):
    """A code or token that was found, and for a code what its redemption must agree with."""

    connection: UUID
    client: str
    scope: str
    family: UUID
    hash: bytes
    resource: str
    redirect_uri: str = ""
    code_challenge: str = ""

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def check_client(self, client: Client) -> bool:
        return client.id == self.client


class Issued(dict[str, object]):
    """A token response. Authlib writes it to its debug log, so it does not show itself."""

    def __repr__(self) -> str:
        return "Issued(…)"


@dataclass(frozen=True)
class Misuse:
    """A code or refresh token that came a second time: its family ended with it."""

    connection: UUID
    kind: str


def find_standing(db: Connection, connection_id: UUID) -> Standing | None:
    """The connection while it is live and has not expired."""
    row = db.execute(
        select(connection.c.tenant, connection.c.id, connection.c.name, connection.c.scopes)
        .where(connection.c.id == connection_id, connection.c.state == "live")
        .where(or_(connection.c.expires_at.is_(None), connection.c.expires_at > _NOW))
    ).one_or_none()
    return None if row is None else Standing(row.tenant, row.id, row.name, frozenset(row.scopes))


def store_code(db: Connection, code: str, standing: Standing, asked: dict[str, str]) -> None:
    """Store a code; storing the same one again changes nothing."""
    row = {
        "tenant": standing.tenant,
        "hash": secret_hash(code),
        "connection": standing.id,
        "family": uuid4(),
        "expires_at": _after(CODE_SECONDS),
        **asked,
    }
    db.execute(insert(authorization_code).values(row).on_conflict_do_nothing())


def take_code(db: Connection, code: str, client: Client) -> Credential | Misuse | None:
    """The unused code of this client, held until the transaction ends. A used one ends what it led to
    (RFC 6749, 4.1.2).
    """
    row = _held(db, authorization_code, code)
    if row is None or row.client != client.id:
        return None
    if row.used_at is not None:
        return Misuse(row.connection, "code") if end_family(db, row.family) else None
    found = replace(_credential(row), redirect_uri=row.redirect_uri, code_challenge=row.code_challenge)
    return found if row.fresh else None


def take_refresh(db: Connection, token: str, client: Client) -> Credential | Misuse | None:
    """The refresh token of this client that may be rotated now, held until the transaction ends (RFC 9700, 4.14.2).

    A used one may come back once within the grace; any other return ends the family.
    """
    row = _held(db, refresh_token, token)
    if row is None or row.client != client.id or row.revoked_at is not None or not row.fresh:
        return None
    if row.rotated_at is not None and not _spend_grace(db, row.hash):
        return Misuse(row.connection, "refresh token") if end_family(db, row.family) else None
    return _credential(row)


def find_token(db: Connection, token: str) -> Credential | None:
    """The access or refresh token of this string, whatever became of it."""
    for table in (access_token, refresh_token):
        row = _held(db, table, token)
        if row is not None:
            client = db.scalar(select(connection.c.client).where(connection.c.id == row.connection))
            return _credential(row, client=client)
    return None


def issue(standing: Standing, scope: str) -> Issued:
    """A token response (RFC 6749, 5.1) with new secrets of the connection's tenant; `store_tokens` makes them valid."""
    return Issued(
        access_token=new_secret(standing.tenant),
        token_type="Bearer",  # noqa: S106  the type of the token, not a token
        expires_in=ACCESS_SECONDS,
        refresh_token=new_secret(standing.tenant),
        scope=scope,
    )


def store_tokens(db: Connection, issued: Issued, standing: Standing, source: Credential) -> None:
    """Store what was issued. The refresh token keeps the scope of its source, however narrow the access token is
    (RFC 6749, 6).
    """
    shared = {
        "tenant": standing.tenant,
        "connection": standing.id,
        "family": source.family,
        "resource": source.resource,
    }
    access = {"hash": secret_hash(str(issued["access_token"])), "scope": issued["scope"]}
    refresh = {"hash": secret_hash(str(issued["refresh_token"])), "scope": source.scope, "client": source.client}
    db.execute(update(connection).where(connection.c.id == standing.id).values(used_at=_NOW))
    db.execute(access_token.insert().values(**shared, **access, expires_at=_after(ACCESS_SECONDS)))
    db.execute(refresh_token.insert().values(**shared, **refresh, expires_at=_after(REFRESH_SECONDS)))


def mark_code_used(db: Connection, code: Credential) -> None:
    """From now on the code is worth nothing but its replay's detection."""
    db.execute(update(authorization_code).where(authorization_code.c.hash == code.hash).values(used_at=_NOW))


def mark_rotated(db: Connection, token: Credential) -> None:
    """Note when a refresh token was first used, and drop what of its family has run out."""
    where = (refresh_token.c.hash == token.hash) & refresh_token.c.rotated_at.is_(None)
    db.execute(update(refresh_token).where(where).values(rotated_at=_NOW))
    for table in (access_token, refresh_token):
        db.execute(delete(table).where(table.c.family == token.family, table.c.expires_at < _NOW))


def end_family(db: Connection, family: UUID) -> bool:
    """Revoke every token of a family; whether one was still live."""
    ended = 0
    for table in (access_token, refresh_token):
        live = (table.c.family == family) & table.c.revoked_at.is_(None)
        ended += db.execute(update(table).where(live).values(revoked_at=_NOW)).rowcount
    return ended > 0


def _held(db: Connection, table: Table, secret: str) -> Row[Any] | None:
    """The row of this secret as it is once nobody else works on its family."""
    mine = table.c.hash == secret_hash(secret)
    key = func.hashtextextended(cast(table.c.family, Text), 0)
    if db.execute(select(func.pg_advisory_xact_lock(key)).where(mine)).first() is None:
        return None
    return db.execute(select(table, (table.c.expires_at > _NOW).label("fresh")).where(mine)).one_or_none()


def _spend_grace(db: Connection, token_hash: bytes) -> bool:
    spent = db.execute(
        update(refresh_token)
        .where(refresh_token.c.hash == token_hash, refresh_token.c.sibling_at.is_(None))
        .where(refresh_token.c.rotated_at > _NOW - timedelta(seconds=GRACE_SECONDS))
        .values(sibling_at=_NOW)
    )
    return spent.rowcount == 1


def _credential(row: Row[Any], client: str | None = None) -> Credential:
    return Credential(row.connection, client or row.client, row.scope, row.family, row.hash, row.resource)


def _after(seconds: int) -> Any:
    return _NOW + timedelta(seconds=seconds)

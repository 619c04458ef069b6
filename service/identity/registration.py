"""Dynamic client registration (RFC 7591): anybody may register, and being registered gives no right at all."""

import secrets
from datetime import timedelta
from typing import Any, Final

from authlib.oauth2 import OAuth2Error
from sqlalchemy import delete, extract, func, select

from service.contract.names import check_name
from service.grants.tables import oauth_client
from service.identity.clients import AUTH_METHODS, PUBLIC
from service.identity.redirects import check_redirects, is_local
from service.identity.tables import oauth_request
from service.identity.wire import SCOPES, Answer, error_answer
from service.kit.actor import SERVICE_TENANT, system
from service.kit.database import Bound, Database, Directory
from service.kit.errors import Refusal
from service.kit.secrets import secret_hash
from service.ledger.append import append

UNUSED_DAYS: Final = 1
PRUNE_MOST: Final = 500
UNNAMED: Final = "Unnamed application"
_NOW = func.clock_timestamp()


async def register(database: Database, issuer: str, metadata: Any) -> Answer:
    """Register a client and answer what was registered (RFC 7591, 3.2.1).

    Metadata that is not known here is ignored; grants, response types, scope and application type are ours to say.
    Registrations of more than a day ago that no owner ever granted anything are dropped.
    """
    try:
        client = _read(metadata)
    except OAuth2Error as error:
        return error_answer(issuer, error)
    public = client["token_endpoint_auth_method"] == PUBLIC
    secret = None if public else secrets.token_urlsafe(32)
    async with database.bound(SERVICE_TENANT) as tx:
        await _prune(tx)
        issued = await _store(tx, client, secret)
    proof = {} if secret is None else {"client_secret": secret, "client_secret_expires_at": 0}
    return Answer(201, {**issued, **proof, **client}, {"cache-control": "no-store"})


def _read(metadata: Any) -> dict[str, Any]:
    """The metadata that is registered."""
    if not isinstance(metadata, dict):
        raise _bad("The metadata is not a JSON object.")
    redirects = check_redirects(metadata.get("redirect_uris"))
    for field, wanted in (("grant_types", "authorization_code"), ("response_types", "code")):
        _check_offers(metadata, field, wanted)
    return {
        "client_name": _name(metadata.get("client_name")),
        "redirect_uris": redirects,
        "token_endpoint_auth_method": _auth_method(metadata.get("token_endpoint_auth_method")),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "scope": " ".join(SCOPES),
        "application_type": "native" if any(map(is_local, redirects)) else "web",
    }


def _name(given: Any) -> str:
    if given is None or given == "":
        return UNNAMED
    if not isinstance(given, str):
        raise _bad("client_name is not a string.")
    try:
        return check_name(given, "client_name")
    except Refusal as refusal:
        raise _bad(f"client_name is refused by the rule {refusal.details['rule']}.") from None


def _auth_method(given: Any) -> str:
    method = "client_secret_basic" if given is None else given  # the default of RFC 7591, 2
    if method not in AUTH_METHODS:
        raise _bad(f"token_endpoint_auth_method is none of {', '.join(AUTH_METHODS)}.")
    return str(method)


def _check_offers(metadata: dict[str, Any], field: str, wanted: str) -> None:
    given = metadata.get(field, [wanted])
    if not isinstance(given, list) or wanted not in given:
        raise _bad(f"{field} must contain {wanted}.")


async def _store(tx: Bound, client: dict[str, Any], secret: str | None) -> dict[str, Any]:
    row = {
        "id": secrets.token_urlsafe(24),
        "name": client["client_name"],
        "redirect_uris": client["redirect_uris"],
        "auth_method": client["token_endpoint_auth_method"],
        "secret_hash": None if secret is None else secret_hash(secret),
    }
    issued_at = extract("epoch", oauth_client.c.created_at)
    at = (await tx.execute(oauth_client.insert().values(row).returning(issued_at))).scalar_one()
    append(tx, system(SERVICE_TENANT), "client.registered", str(row["id"]), redirect_uris=client["redirect_uris"])
    return {"client_id": row["id"], "client_id_issued_at": int(at)}


async def _prune(tx: Directory) -> None:
    """Two statements: what is locked by the first cannot be asked for by a new request, and the second sees the
    requests that were committed before.
    """
    old = (oauth_client.c.created_at < _NOW - timedelta(days=UNUSED_DAYS)) & oauth_client.c.used_at.is_(None)
    locked = select(oauth_client.c.id).where(old).limit(PRUNE_MOST).with_for_update(skip_locked=True)
    ids = list((await tx.execute(locked)).scalars())
    if not ids:
        return
    await tx.execute(delete(oauth_request).where(oauth_request.c.client.in_(ids), oauth_request.c.expires_at < _NOW))
    waiting = select(oauth_request.c.client)
    await tx.execute(delete(oauth_client).where(oauth_client.c.id.in_(ids), old, oauth_client.c.id.not_in(waiting)))


def _bad(description: str) -> OAuth2Error:
    return OAuth2Error(error="invalid_client_metadata", description=description)

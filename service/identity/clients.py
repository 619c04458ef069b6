"""OAuth clients: software that registered itself and asks for a connection."""

import base64
import binascii
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final
from urllib.parse import unquote

from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.errors import InvalidRequestError
from sqlalchemy import Connection, select

from service.grants.tables import oauth_client
from service.identity.redirects import matches
from service.identity.wire import SCOPES, Request
from service.kit.secrets import secret_hash

PUBLIC: Final = "none"
AUTH_METHODS: Final = (PUBLIC, "client_secret_post", "client_secret_basic")
"""How a client may authenticate itself (RFC 7591, 2)."""


@dataclass(frozen=True)
class Client(ClientMixin):
    """A registered client, as Authlib asks about it. Its name is its own choice: hostile until escaped."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    secret_hash: bytes | None = field(repr=False)

    def get_client_id(self) -> str:
        return self.id

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return matches(redirect_uri, self.redirect_uris)

    def get_allowed_scope(self, scope: str | None) -> str:
        """What is asked, in our order and without repetition; everything when nothing is asked (RFC 6749, 3.3)."""
        asked = (scope or "").split() or SCOPES
        return " ".join(name for name in SCOPES if name in asked)

    def check_response_type(self, response_type: str | None) -> bool:
        """Judged with the other parameters, so that its error can be sent back with `iss`."""
        return True

    def check_grant_type(self, grant_type: str) -> bool:
        """Every client has both grants."""
        return True

    def proves(self, secret: str | None) -> bool:
        """Whether this is what the client authenticates itself with: nothing for a public one."""
        if self.secret_hash is None:
            return secret is None
        return secret is not None and compare_digest(secret_hash(secret), self.secret_hash)


def find_client(db: Connection, client_id: str) -> Client | None:
    """The client with this id, or None."""
    row = db.execute(select(oauth_client).where(oauth_client.c.id == client_id)).one_or_none()
    return None if row is None else Client(row.id, row.name, tuple(row.redirect_uris), row.secret_hash)


def presented(request: Request) -> tuple[str | None, str | None]:
    """The client id and secret of a request, from its header or its body (RFC 6749, 2.3.1).

    Raises:
        InvalidRequestError: when the header cannot be read, or header and body both authenticate.
    """
    form = request.form
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return form.get("client_id"), form.get("client_secret")
    client_id, secret = _basic(sent.strip())
    if "client_secret" in form or form.get("client_id", client_id) != client_id:
        raise InvalidRequestError("The client authenticates in two ways at once.")
    return client_id, secret


def _basic(sent: str) -> tuple[str, str | None]:
    try:
        name, _, secret = base64.b64decode(sent, validate=True).decode().partition(":")
        # Decoded twice, since both parts are form-encoded before they are joined.
        pair = unquote(name, errors="strict"), unquote(secret, errors="strict")
    except (binascii.Error, ValueError):
        raise InvalidRequestError("The Authorization header cannot be read.") from None
    if "\0" in "".join(pair):
        raise InvalidRequestError("The Authorization header cannot be read.")
    return pair[0], pair[1] or None

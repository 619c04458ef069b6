"""The authorization server: Authlib's grants (RFC 6749, 7009, 7636) with our stricter rules.

PKCE with S256 or nothing, an exact redirect address, one resource (RFC 8707), `iss` on every authorization response
(RFC 9207), refresh tokens that rotate and whose reuse ends the family. Authlib is synchronous: it runs inside the
caller's transaction, through `run_sync`, and what it finds out goes to the ledger in the same transaction.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final
from uuid import UUID

from authlib.oauth2 import AuthorizationServer, OAuth2Error
from authlib.oauth2.rfc6749.errors import (
    InvalidClientError,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, BaseGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from sqlalchemy import Connection

from service.identity import tokens
from service.identity.clients import AUTH_METHODS, Client, find_client, presented
from service.identity.redirects import URI_CHARACTERS_MOST
from service.identity.tokens import Credential, Issued, Misuse, Standing
from service.identity.wire import SCOPES, Answer, Posted, Request, Site, answer, error_answer
from service.kit.actor import SERVICE_TENANT, Actor, system
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.kit.secrets import secret_tenant
from service.ledger.append import append

STATE_CHARACTERS_MOST: Final = 2_000
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # 32 bytes of SHA-256 in base64url (RFC 7636, 4.2)
_GRANTS: Final = ("authorization_code", "refresh_token")


@dataclass(frozen=True)
class Asking:
    """An authorization request that was found right, and waits for a person's answer."""

    client: str
    redirect_uri: str
    scope: str
    state: str | None
    resource: str
    code_challenge: str


async def check_request(database: Database, site: Site, fields: Mapping[str, list[str]]) -> Asking | Answer:
    """Judge what a client's redirect asks; an `Answer` sends an error back to the client.

    Raises:
        Refusal: INVALID_REQUEST, for a page, when client or redirect address cannot be trusted with an answer.
    """
    async with database.directory() as tx:
        try:
            return await tx.connection.run_sync(_check, site, fields)
        except OAuth2Error as error:
            if error.redirect_uri:
                return error_answer(site.issuer, error)
            raise Refusal(Code.INVALID_REQUEST, str(error.description)) from None


def respond(db: Connection, site: Site, asking: Asking, standing: Standing | None, code: str) -> Answer:
    """Send the client the person's answer: this code for the connection, or `access_denied` without one.

    Repeating it stores and answers the same.
    """
    fields = {name: [value] for name, value in asdict(asking).items() if value is not None}
    fields |= {"client_id": fields.pop("client"), "response_type": ["code"], "code_challenge_method": ["S256"]}
    server = _Server(db, site)
    grant = server.get_consent_grant(Request("GET", f"{site.issuer}/oauth/authorize", fields), standing)
    grant.code = code
    response: Answer = server.create_authorization_response(grant.request, grant_user=standing, grant=grant)
    return response


async def exchange(database: Database, site: Site, posted: Posted) -> Answer:
    """The token endpoint (RFC 6749, 3.2): a code or a refresh token for new tokens."""
    secret = (posted.fields.get("code") or posted.fields.get("refresh_token") or [""])[0]
    return await _in_tenant(database, site, secret, lambda server: server.exchange(posted))


async def revoke(database: Database, site: Site, posted: Posted) -> Answer:
    """The revocation endpoint (RFC 7009): either token ends both, and all that came from the same code."""
    secret = (posted.fields.get("token") or [""])[0]
    return await _in_tenant(database, site, secret, lambda server: server.revoke(posted))


async def _in_tenant(database: Database, site: Site, secret: str, act: Callable[["_Server"], Answer]) -> Answer:
    """Act in the tenant that the secret names, and write down there what happened."""

    async def work(tx: Bound) -> Answer:
        def run(db: Connection) -> tuple[Answer, list[_Event]]:
            server = _Server(db, site)
            return act(server), server.events

        given, events = await tx.connection.run_sync(run)
        for event in events:
            append(tx, event.actor(tx.tenant), event.kind, str(event.connection), **event.details)
        return given

    return await database.repeat(secret_tenant(secret) or SERVICE_TENANT, work)


def _check(db: Connection, site: Site, fields: Mapping[str, list[str]]) -> Asking:
    request = Request("GET", f"{site.issuer}/oauth/authorize", fields)
    grant = _Server(db, site).get_consent_grant(request)
    return Asking(
        request.client.id,
        grant.redirect_uri,
        request.scope,
        request.payload.state,
        site.audience(request.payload.datalist.get("resource", [])),
        request.form["code_challenge"],
    )


@dataclass(frozen=True)
class _Event:
    """What goes to the ledger; the system acts when it defends a connection against a replay."""

    kind: str
    connection: UUID
    name: str | None
    details: dict[str, str]

    def actor(self, tenant: UUID) -> Actor:
        return system(tenant) if self.name is None else Actor("agent", tenant, self.connection, self.name)


class _CodeGrant(AuthorizationCodeGrant):
    """The authorization code grant (RFC 6749, 4.1)."""

    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar[list[str]] = list(AUTH_METHODS)
    server: "_Server"
    code = ""

    @staticmethod
    def validate_authorization_redirect_uri(request: Request, client: Client) -> str:
        uri: str | None = request.payload.redirect_uri
        if not uri or len(uri) > URI_CHARACTERS_MOST or not client.check_redirect_uri(uri):
            raise InvalidRequestError("The application named an address to return to that it did not register.")
        return uri

    def generate_authorization_code(self) -> str:
        return self.code

    def save_authorization_code(self, code: str, request: Request) -> None:
        asked = {
            "client": request.client.id,
            "redirect_uri": request.payload.redirect_uri,
            "scope": request.scope,
            "resource": self.server.site.audience(request.payload.datalist["resource"]),
            "code_challenge": request.form["code_challenge"],
        }
        tokens.store_code(self.server.db, code, request.user, asked)

    def query_authorization_code(self, code: str, client: Client) -> Credential | None:
        found = self.server.unless_misused(tokens.take_code(self.server.db, code, client))
        asked = self.request.payload.datalist.get("resource")
        if found and asked and self.server.site.audience(asked) != found.resource:
            raise InvalidGrantError("The code is for another resource.")
        return found

    def authenticate_user(self, authorization_code: Credential) -> Standing | None:
        return tokens.find_standing(self.server.db, authorization_code.connection)

    def delete_authorization_code(self, authorization_code: Credential) -> None:
        """Kept, and marked: a second use must be noticed."""
        tokens.mark_code_used(self.server.db, authorization_code)
        user = self.request.user
        self.server.note("connection.used_code", user.id, user.name, scope=authorization_code.scope)


class _RefreshGrant(RefreshTokenGrant):
    """The refresh token grant (RFC 6749, 6)."""

    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar[list[str]] = list(AUTH_METHODS)
    INCLUDE_NEW_REFRESH_TOKEN = True
    server: "_Server"
    _standing: Standing | None = None

    def authenticate_refresh_token(self, refresh_token: str) -> Credential | None:
        found = self.server.unless_misused(tokens.take_refresh(self.server.db, refresh_token, self.request.client))
        self._standing = found and tokens.find_standing(self.server.db, found.connection)
        if found is None or self._standing is None:
            return None
        asked = self.request.payload.datalist.get("resource")
        if asked and self.server.site.audience(asked) != found.resource:
            raise OAuth2Error(error="invalid_target", description="The token is for another resource.")
        return replace(found, scope=self._standing.allowed(found.scope))

    def authenticate_user(self, refresh_token: Credential) -> Standing | None:
        return self._standing

    def revoke_old_credential(self, refresh_token: Credential) -> None:
        tokens.mark_rotated(self.server.db, refresh_token)


class _Proof(CodeChallenge):
    """PKCE without its ways out (RFC 9700, 2.1.1): a challenge is required, and it is S256. Beside it the parameters
    that Authlib does not judge, or judges with an error that cannot be sent.
    """

    SUPPORTED_CODE_CHALLENGE_METHOD: ClassVar[list[str]] = ["S256"]

    def __init__(self) -> None:
        super().__init__(required=True)

    def validate_code_challenge(self, grant: BaseGrant, redirect_uri: str) -> None:
        data = grant.request.payload.data
        if data.get("response_type") != "code":
            raise OAuth2Error(error="unsupported_response_type", description="The only response_type is code.")
        if data.get("code_challenge_method") not in self.SUPPORTED_CODE_CHALLENGE_METHOD:
            raise InvalidRequestError("A code_challenge with the method S256 is required.")
        if not _CHALLENGE.fullmatch(data.get("code_challenge", "")):
            raise InvalidRequestError("The code_challenge is not 43 characters of base64url.")
        if len(data.get("state", "")) > STATE_CHARACTERS_MOST:
            raise InvalidRequestError(f"The state has more than {STATE_CHARACTERS_MOST} characters.")
        grant.server.site.audience(grant.request.payload.datalist.get("resource", []))

    def get_authorization_code_challenge_method(self, authorization_code: Credential) -> str:
        return "S256"


class _Revocation(RevocationEndpoint):
    """Ends the family of an access or refresh token; unknown ones and unknown hints are no error (RFC 7009, 2.2)."""

    CLIENT_AUTH_METHODS: ClassVar[list[str]] = list(AUTH_METHODS)
    server: "_Server"

    def check_params(self, request: Request, client: Client) -> None:
        if "token" not in request.form:
            raise InvalidRequestError("There is no token.")

    def query_token(self, token_string: str, token_type_hint: str | None) -> Credential | None:
        return tokens.find_token(self.server.db, token_string)

    def revoke_token(self, token: Credential, request: Request) -> None:
        if tokens.end_family(self.server.db, token.family):
            self.server.note("connection.tokens_revoked", token.connection, request.client.name)


class _Server(AuthorizationServer):
    """Authlib's server over one transaction."""

    def __init__(self, db: Connection, site: Site) -> None:
        super().__init__(scopes_supported=list(SCOPES))
        self.db = db
        self.site = site
        self.events: list[_Event] = []
        self.register_grant(_CodeGrant, [_Proof()])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_Revocation)

    def exchange(self, posted: Posted) -> Answer:
        return self._guarded(posted, "token", self._exchanged)

    def revoke(self, posted: Posted) -> Answer:
        return self._guarded(posted, "revoke", partial(self.create_endpoint_response, "revocation"))

    def unless_misused(self, found: Credential | Misuse | None) -> Credential | None:
        """What was found; of a replay only the ledger keeps a trace."""
        if isinstance(found, Misuse):
            self.note("connection.replay_stopped", found.connection, None, replayed=found.kind)
            return None
        return found

    def note(self, kind: str, connection: UUID, name: str | None, **details: str) -> None:
        self.events.append(_Event(kind, connection, name, details))

    def query_client(self, client_id: str) -> Client | None:
        return find_client(self.db, client_id)

    def authenticate_client(self, request: Request, methods: list[str], endpoint: str = "token") -> Client:
        """A secret may come in the header or in the body, whichever of the two the client registered."""
        client_id, secret = presented(request)
        client = self.query_client(client_id) if client_id else None
        if client is None or not client.proves(secret):
            raise InvalidClientError(status_code=401, description="The client is unknown or its secret is wrong.")
        request.client = client
        request.auth_method = "none" if secret is None else "client_secret_post"
        return client

    def get_authorization_grant(self, request: Request) -> _CodeGrant:
        """There is one; a wrong response_type is its own to refuse, once the redirect address is known."""
        grant = _CodeGrant(request, self)
        _Proof()(grant)
        return grant

    def validate_requested_scope(self, scope: str | None) -> None:
        if scope and not set(scope.split(" ")) <= set(SCOPES):
            raise InvalidScopeError

    def generate_token(self, *, user: Standing, scope: str, **_options: Any) -> Issued:
        return tokens.issue(user, user.allowed(scope))

    def save_token(self, token: Issued, request: Request) -> None:
        tokens.store_tokens(self.db, token, request.user, request.refresh_token or request.authorization_code)

    def create_oauth2_request(self, request: Request) -> Request:
        return request

    def handle_response(self, status: int, body: Any, headers: list[tuple[str, str]]) -> Answer:
        return answer(self.site.issuer, status, body, headers)

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nobody listens to Authlib's signals."""

    def _exchanged(self, request: Request) -> Answer:
        if request.payload.grant_type not in _GRANTS:
            raise OAuth2Error(error="unsupported_grant_type", description="Use authorization_code or refresh_token.")
        given: Answer = self.create_token_response(request)
        return given

    def _guarded(self, posted: Posted, path: str, act: Callable[[Request], Answer]) -> Answer:
        try:
            return act(Request("POST", f"{self.site.issuer}/oauth/{path}", posted.fields, posted.authorization))
        except OAuth2Error as error:
            return error_answer(self.site.issuer, error)

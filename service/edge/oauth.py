"""The authorization server's addresses: metadata, authorize and consent, token, registration, revocation."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Final, Literal
from urllib.parse import parse_qsl
from uuid import UUID

from starlette.responses import Response

from service.edge.cors import CORS_HEADERS, answer_preflight
from service.edge.errors import json_response, retry
from service.edge.guard import FIELDS_MOST, Call, Docs, Endpoint, Handler
from service.edge.limits import Quota, caller_address
from service.edge.oauth_docs import (
    Nothing,
    RegistrationAnswer,
    RegistrationRequest,
    ResourceMetadata,
    RevocationRequest,
    ServerMetadata,
    TokenAnswer,
    TokenRequest,
)
from service.edge.pages import PAGE_HEADERS, page
from service.edge.signin import sign_in_first
from service.identity import authorization, consent
from service.identity.clients import AUTH_METHODS
from service.identity.redirects import form_source, is_local, receiver
from service.identity.registration import register
from service.identity.wire import SCOPES, Answer, Posted
from service.kit.errors import Code, Refusal
from service.kit.language import gettext, later

REGISTRATIONS: Final = Quota("register", 30, 60)
LIFETIME_WORDS: Final = {
    "1d": later("1 day"),
    "30d": later("30 days"),
    "1y": later("1 year"),
    "never": later("Until you revoke it"),
}
SCOPE_WORDS: Final = {
    "repo:read": later("Read the files and the history of the repositories you choose below."),
    "repo:propose": later("Propose changes to them. Nothing changes until you, or another owner, approve it here."),
}
_ERRORS: Final = {
    Code.RATE_LIMITED: "too_many_requests",
    Code.UNAVAILABLE: "temporarily_unavailable",
    Code.STORAGE_FULL: "temporarily_unavailable",
    Code.PAYLOAD_TOO_LARGE: "invalid_request",
}
"""Refusals that keep their status; any other is 400 `invalid_request` to an OAuth client."""


async def server_metadata(call: Call) -> Response:
    """Authorization server metadata (RFC 8414)."""
    issuer = call.parts.issuer
    document = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "registration_endpoint": f"{issuer}/oauth/register",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": list(AUTH_METHODS),
        "revocation_endpoint_auth_methods_supported": list(AUTH_METHODS),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }
    return json_response(document, headers=CORS_HEADERS)


def resource_metadata(path: str) -> Handler:
    """Protected resource metadata (RFC 9728) of the endpoint at this path."""

    async def answer(call: Call) -> Response:
        """Protected resource metadata (RFC 9728)."""
        document = {
            "resource": call.parts.issuer + path,
            "resource_name": "Placet",
            "authorization_servers": [call.parts.issuer],
            "scopes_supported": list(SCOPES),
            "bearer_methods_supported": ["header"],
        }
        return json_response(document, headers=CORS_HEADERS)

    return answer


def oauth_answer(handler: Callable[[Call], Awaitable[Answer]]) -> Handler:
    """An endpoint for programs: its refusals have the form of RFC 6749, 5.2, and pages elsewhere may read it."""

    @wraps(handler)
    async def answer(call: Call) -> Response:
        try:
            given = await handler(call)
        except Refusal as refusal:
            body = {"error": _ERRORS.get(refusal.code, "invalid_request"), "error_description": refusal.message}
            status = refusal.code.value.status if refusal.code in _ERRORS else 400
            return json_response(body, status, {**CORS_HEADERS, **retry(refusal)})
        return json_response(given.body, given.status, {**CORS_HEADERS, **given.headers})

    return answer


@oauth_answer
async def exchange(call: Call) -> Answer:
    """The token endpoint."""
    return await authorization.exchange(call.parts.database, call.parts.site, await _posted(call))


@oauth_answer
async def revoke(call: Call) -> Answer:
    """The revocation endpoint."""
    return await authorization.revoke(call.parts.database, call.parts.site, await _posted(call))


@oauth_answer
async def register_client(call: Call) -> Answer:
    """The registration endpoint: 30 a minute from one address."""
    client = call.request.client
    await call.parts.limits.take(REGISTRATIONS, caller_address(client and client.host))
    return await register(call.parts.database, call.parts.issuer, await call.json())


async def authorize(call: Call) -> Response:
    """Where a client sends the browser: sign in first, then the consent page, always."""
    try:
        asking = await authorization.check_request(call.parts.database, call.parts.site, _query(call))
    except Refusal as refusal:
        return _refused_page(call, refusal)
    if isinstance(asking, Answer):
        return _go(asking)
    if call.session is None:
        return sign_in_first(call)
    secret = await consent.remember(call.parts.database, call.session, asking)
    waiting = await consent.show(call.parts.database, call.session, secret)
    form = {"name": [waiting.client_name], "lifetime": ["30d"], "repository": [str(one.id) for one in waiting.offers]}
    return _consent_page(call, secret, waiting, form if len(waiting.offers) == 1 else {**form, "repository": []})


async def decide(call: Call) -> Response:
    """The person's answer on the consent page."""
    database, site, session = call.parts.database, call.parts.site, call.owner
    form = await call.form()
    secret = _one(form, "request")
    try:
        if _one(form, "answer") != "approve":
            return _go(await consent.deny(database, site, session, secret))
        return _go(await consent.approve(database, site, session, secret, _choice(form)))
    except Refusal as refusal:
        if "field" not in refusal.details:
            return _refused_page(call, refusal)
        waiting = await consent.show(database, session, secret)
        return _consent_page(call, secret, waiting, form, refusal)


def _refused_page(call: Call, refusal: Refusal) -> Response:
    return page(call, "oauth_error.html", refusal.code.value.status, retry(refusal), error=refusal.body())


def _choice(form: Mapping[str, list[str]]) -> consent.Choice:
    return consent.Choice(
        _one(form, "name"), _one(form, "lifetime"), _ids(form.get("repository", [])), _ids(form.get("open", []))
    )


def _ids(values: list[str]) -> frozenset[UUID]:
    try:
        return frozenset(map(UUID, values))
    except ValueError:
        raise Refusal(Code.INVALID_ARGUMENT, "This is not the id of a repository.", field="repository") from None


def _consent_page(
    call: Call, secret: str, waiting: consent.Waiting, form: Mapping[str, list[str]], problem: Refusal | None = None
) -> Response:
    uri = waiting.asking.redirect_uri
    # A browser applies form-action to every redirect after the form, and callbacks go on to https pages.
    allowed = f"form-action 'self' https: {form_source(uri)};"
    policy = PAGE_HEADERS["content-security-policy"].replace("form-action 'self';", allowed)
    return page(
        call,
        "consent.html",
        problem.code.value.status if problem else 200,
        {"content-security-policy": policy},
        secret=secret,
        asked=waiting,
        receiver=receiver(uri),
        local=is_local(uri),
        scopes=[gettext(SCOPE_WORDS[name]) for name in waiting.asking.scope.split()],
        may_propose="repo:propose" in waiting.asking.scope.split(),
        lifetimes={value: gettext(words) for value, words in LIFETIME_WORDS.items()},
        form=form,
        problem=problem.said if problem else None,
    )


def _go(answer: Answer) -> Response:
    """Send the browser to the client."""
    headers = {**PAGE_HEADERS, **answer.headers, "location": str(answer.location)}
    return Response(status_code=answer.status, headers=headers)


def _query(call: Call) -> dict[str, list[str]]:
    try:
        raw = call.request.scope["query_string"].decode("ascii")
        pairs = parse_qsl(raw, keep_blank_values=True, max_num_fields=FIELDS_MOST, errors="strict")
    except ValueError:
        raise Refusal(Code.INVALID_REQUEST, "The address cannot be read.") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\0" in name + value:
            raise Refusal(Code.INVALID_REQUEST, "The address contains a NUL character.")
        found.setdefault(name, []).append(value)
    return found


def _one(form: Mapping[str, list[str]], name: str) -> str:
    values = form.get(name, [""])
    if len(values) != 1:
        raise Refusal(Code.INVALID_REQUEST, f"The form has the field {name} more than once.")
    return values[0]


async def _posted(call: Call) -> Posted:
    return Posted(await call.form(), call.request.headers.get("authorization", ""))


def _for_programs(
    method: Literal["GET", "POST"], path: str, permission: str, handler: Handler, docs: Docs
) -> tuple[Endpoint, ...]:
    preflight = Endpoint("OPTIONS", path, permission, answer_preflight)
    return Endpoint(method, path, permission, handler, docs=docs), preflight


def _resource(path: str, of: str) -> tuple[Endpoint, ...]:
    address = f"/.well-known/oauth-protected-resource{path}"
    return _for_programs("GET", address, "service.describe", resource_metadata(of), Docs({200: ResourceMetadata}))


_FORM: Final = "application/x-www-form-urlencoded"
ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *_for_programs(
        "GET",
        "/.well-known/oauth-authorization-server",
        "service.describe",
        server_metadata,
        Docs({200: ServerMetadata}),
    ),
    *_resource("", "/mcp"),
    *_resource("/mcp", "/mcp"),
    *_resource("/mcp/secure", "/mcp/secure"),
    *_for_programs("POST", "/oauth/token", "oauth.token", exchange, Docs({200: TokenAnswer}, TokenRequest, _FORM)),
    *_for_programs(
        "POST",
        "/oauth/register",
        "oauth.register",
        register_client,
        Docs({201: RegistrationAnswer}, RegistrationRequest),
    ),
    *_for_programs("POST", "/oauth/revoke", "oauth.revoke", revoke, Docs({200: Nothing}, RevocationRequest, _FORM)),
    Endpoint("GET", "/oauth/authorize", "oauth.authorize", authorize, page=True),
    Endpoint("POST", "/oauth/authorize", "oauth.consent", decide, page=True),
)

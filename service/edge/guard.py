"""Every request passes here: which credential it carries, and whether that kind may use the route's permission.

With an `Authorization` header the cookie is ignored, so that no agent can ride on a browser and no page on an agent.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from service.edge.errors import known, refusal_response, unknown
from service.edge.pages import error_page
from service.edge.parts import Parts
from service.identity.credentials import find_agent
from service.identity.permissions import Kind, admits
from service.identity.sessions import Session, find_session
from service.kit.actor import Actor
from service.kit.canonical import check_strings, read_json
from service.kit.errors import Code, Refusal
from service.kit.language import ENGLISH, LANGUAGES, preferred, speaking

COOKIE = "__Host-placet"
LANGUAGE_COOKIE = "__Host-placet-language"
BODY_MOST = 1_048_576
BODY_SECONDS = 10
FIELDS_MOST = 500
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


@dataclass
class Call:
    """One request with who asks. The body is read only through `body`, `form` or `json`: they keep the limits."""

    request: Request
    parts: Parts
    kind: Kind
    actor: Actor | None = None
    session: Session | None = None
    bad_token: bool = False
    _body: bytes | None = field(default=None, repr=False)

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            Refusal: PAYLOAD_TOO_LARGE above 1 MiB, before more than that is read.
        """
        if self._body is None:
            self._body = await _read(self.request)
        return self._body

    async def json(self) -> Any:
        """The body as strict JSON without NUL and lone surrogates."""
        value = read_json(await self.body())
        check_strings(value, "")
        return value

    async def form(self) -> dict[str, list[str]]:
        """The body as a urlencoded form: every value of every field."""
        try:
            pairs = parse_qsl(
                (await self.body()).decode(), keep_blank_values=True, max_num_fields=FIELDS_MOST, errors="strict"
            )
        except ValueError:
            raise Refusal(Code.INVALID_REQUEST, "The form cannot be read.", limit=FIELDS_MOST) from None
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            check_strings(value, name)
            found.setdefault(name, []).append(value)
        return found

    @property
    def owner(self) -> Session:
        """The signed-in person; only for routes that admit nothing but browsers."""
        if self.session is None:
            raise Refusal(Code.SIGN_IN_REQUIRED, "Nobody is signed in.")
        return self.session


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Docs:
    """What an endpoint for programs answers by status, and what it is sent, in which media type. `asks`: what may be in
    the address's query, each with what it is for.
    """

    answers: Mapping[int, type[BaseModel]]
    sends: type[BaseModel] | None = None
    media: str = "application/json"
    asks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Endpoint:
    """A method on a path, the permission it needs and what answers. `page`: its errors are pages for people.

    Endpoints with `docs` are described under openapi/.
    """

    method: Literal["GET", "POST", "DELETE", "OPTIONS"]
    path: str
    permission: str
    handler: Handler
    page: bool = False
    docs: Docs | None = None


def routes(endpoints: Iterable[Endpoint], parts: Parts) -> list[Route]:
    """Starlette routes, one per path, each behind the guard for every method."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        methods = by_path.setdefault(endpoint.path, {})
        if endpoint.method in methods:
            raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice")
        methods[endpoint.method] = endpoint
    return [Route(path, _Guarded(path, methods, parts)) for path, methods in by_path.items()]


class _Guarded:
    """The guard of one path; an ASGI application, so that Starlette lets every method through to it."""

    def __init__(self, path: str, methods: dict[str, Endpoint], parts: Parts) -> None:
        self.path = path
        self.methods = methods
        self.parts = parts
        self.browsers = any(admits(one.permission, "browser") for one in methods.values())
        # A probe calls the machine, not the service: it knows no name.
        self.named = not all(one.permission == "service.health" for one in methods.values()) or not methods

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        with speaking(_language(request)):
            response = await self.answer(request)
        if request.method == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        call = Call(request, self.parts, "none")
        endpoint = self.methods.get("GET" if request.method == "HEAD" else request.method)
        page = endpoint.page if endpoint else any(one.page for one in self.methods.values())
        try:
            await self._identify(call)
            endpoint = await self._admit(call, endpoint)
            return await endpoint.handler(call)
        except Refusal as refusal:
            return self._refused(call, known(refusal), page=page)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:  # noqa: BLE001  the last line before the wire
            return self._refused(call, unknown(error), page=page)

    async def _identify(self, call: Call) -> None:
        headers = call.request.headers
        if self.named:
            _check_host(headers, self.parts.issuer)
        given = headers.getlist("authorization")
        if len(given) > 1:
            raise Refusal(Code.INVALID_REQUEST, "There are two Authorization headers.")
        if given:
            await self._identify_bearer(call, given[0])
        elif self.browsers and (secret := call.request.cookies.get(COOKIE)):
            call.session = await find_session(self.parts.database, secret)
            if call.session:
                call.kind, call.actor = "browser", call.session.actor

    async def _identify_bearer(self, call: Call, header: str) -> None:
        scheme, _, token = header.strip().partition(" ")
        if scheme.lower() == "bearer":
            call.actor = await find_agent(self.parts.database, token.strip(), self.parts.resources)
            call.bad_token = call.actor is None
            call.kind = "agent" if call.actor else "none"

    async def _admit(self, call: Call, endpoint: Endpoint | None) -> Endpoint:
        asked = [endpoint] if endpoint else list(self.methods.values())
        if not any(admits(one.permission, call.kind) for one in asked):
            raise await self._denied(call)
        if endpoint is None:
            raise Refusal(Code.METHOD_NOT_ALLOWED, f"{call.request.method} is not for this address.")
        if call.request.method not in SAFE:
            await _check_forgery(call)
        return endpoint

    async def _denied(self, call: Call) -> Refusal:
        if call.kind == "agent" and call.actor:
            refusal = Refusal(Code.AGENT_SCOPE_DENIED, "No agent token reaches this address.")
            await self.parts.denials.record(self.parts.database, call.actor, self.path, refusal.code.value.name)
            return refusal
        if call.bad_token:
            return Refusal(Code.UNAUTHENTICATED, "This token is unknown, expired or revoked.")
        return Refusal(Code.SIGN_IN_REQUIRED, "Sign in to see this.")

    def _refused(self, call: Call, refusal: Refusal, *, page: bool) -> Response:
        headers = {"allow": ", ".join(sorted(self.methods))} if refusal.code is Code.METHOD_NOT_ALLOWED else {}
        if not page or call.kind == "agent" or call.bad_token:
            return refusal_response(refusal, headers)
        if refusal.code is Code.SIGN_IN_REQUIRED and call.request.method == "GET":
            here = call.request.url.path + (f"?{call.request.url.query}" if call.request.url.query else "")
            return RedirectResponse(f"/sign-in?next={quote(here, safe='')}", 303)
        return error_page(call, refusal, headers)


class Nowhere(_Guarded):
    """Every address that is none, behind the same checks: a page for a person, JSON for a program."""

    def __init__(self, parts: Parts) -> None:
        super().__init__("", {}, parts)
        self.browsers = True

    async def answer(self, request: Request) -> Response:
        call = Call(request, self.parts, "none")
        page = "text/html" in request.headers.get("accept", "")
        try:
            await self._identify(call)
        except Refusal as refusal:
            return self._refused(call, refusal, page=page)
        return self._refused(call, Refusal(Code.NOT_FOUND, "There is nothing at this address."), page=page)


def _language(request: Request) -> str:
    """What a person chose in this browser, or else what the browser asks for. Programs are answered in English."""
    if "authorization" in request.headers:
        return ENGLISH
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    return chosen if chosen in LANGUAGES else preferred(request.headers.get("accept-language", ""))


async def _check_forgery(call: Call) -> None:
    """A browser's change comes from our own page: same origin where it says one, and with its session's token."""
    origin = call.request.headers.get("origin")
    if call.kind != "browser" or call.session is None:
        return
    if origin is not None and origin != call.parts.issuer:
        raise Refusal(Code.ORIGIN_REJECTED, "This was sent from another site.")
    sent = call.request.headers.get("x-csrf-token") or (await call.form()).get("csrf", [""])[0]
    if not compare_digest(sent.encode(), call.session.csrf.encode()):
        raise Refusal(Code.CSRF_REJECTED, "This form is not from your session, or is too old.")


def _check_host(headers: Headers, issuer: str) -> None:
    """A name that is not ours is a page elsewhere that had its name point here (DNS rebinding)."""
    own = urlsplit(issuer).hostname or ""
    names = LOOPBACK if own in LOOPBACK else {own}
    named = headers.getlist("host")
    given = _HOST.fullmatch(named[0].lower()) if len(named) == 1 else None
    if given is None or given[1] not in names:
        raise Refusal(Code.HOST_REJECTED, "This service has another name.")


async def _read(request: Request) -> bytes:
    limit = Refusal(Code.PAYLOAD_TOO_LARGE, f"The body is larger than {BODY_MOST} bytes.", limit=BODY_MOST)
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > BODY_MOST:
        raise limit
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal(Code.INVALID_REQUEST, "Send the body without a content encoding.")
    chunks = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                chunks += chunk
                if len(chunks) > BODY_MOST:
                    raise limit
    except TimeoutError:
        message = f"The body took longer than {BODY_SECONDS} seconds."
        raise Refusal(Code.TOO_SLOW, message, limit=BODY_SECONDS) from None
    return bytes(chunks)

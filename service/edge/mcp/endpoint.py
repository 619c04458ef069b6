"""`POST /mcp` and its auth-required twin `POST /mcp/secure`: stateless, both eras of MCP, JSON only.

The order of checks is fixed: size and JSON, origin, version and headers, method, token, scope, arguments.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp_types.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from mcp_types.methods import validate_client_request
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError
from starlette.responses import Response

from service.edge.cors import CORS_HEADERS, answer_preflight
from service.edge.guard import Call, Endpoint
from service.edge.mcp.calls import call_tool
from service.edge.mcp.catalogue import Catalogue, catalogue_of, chosen_toolsets
from service.edge.mcp.doors import check_origin, check_scope, check_token
from service.edge.mcp.eras import Era, era_of
from service.edge.mcp.messages import Fault, Message, Reply, fault_reply, parse, readable_id, result_reply
from service.kit.canonical import read_json
from service.kit.errors import Code, Refusal

BATCH_MOST = 50
VERSION_HEADER = "mcp-protocol-version"
HEADERS = {**CORS_HEADERS, "cache-control": "no-store", "content-type": "application/json"}

PERMISSION = "mcp.call"

Answerer = Callable[[Call], Awaitable[Response]]
Runner = Callable[[Call, Message, Era], Awaitable[bytes]]


@dataclass(frozen=True)
class Method:
    """What answers a JSON-RPC method, and whether it needs a token on the open path."""

    run: Runner
    needs_token: bool = False


def _catalogue(call: Call) -> Catalogue:
    return catalogue_of(call.parts.registry)


async def _discover(call: Call, _message: Message, _era: Era) -> bytes:
    return _catalogue(call).discover


async def _initialize(call: Call, message: Message, _era: Era) -> bytes:
    hellos = _catalogue(call).initialize
    return hellos.get((message.params or {})["protocolVersion"], hellos[LATEST_HANDSHAKE_VERSION])


async def _ping(_call: Call, _message: Message, _era: Era) -> bytes:
    return b"{}"  # strict clients take nothing else


async def _list_tools(call: Call, message: Message, era: Era) -> bytes:
    if (message.params or {}).get("cursor") is not None:  # all tools stand on one page, so no cursor is ours
        raise Fault(INVALID_PARAMS, "This cursor is not one of ours.", status=_status(era, 400))
    try:
        chosen = chosen_toolsets(call.request.query_params.get("toolsets"))
    except Refusal as refusal:
        raise Fault(INVALID_PARAMS, refusal.message, status=_status(era, 400), data=refusal.body()) from None
    return (_catalogue(call).tools if era.modern else _catalogue(call).legacy_tools)[chosen]


_TOOLS = {"tools/list": Method(_list_tools), "tools/call": Method(call_tool, needs_token=True)}
METHODS: dict[bool, dict[str, Method]] = {
    True: {"server/discover": Method(_discover), **_TOOLS},
    False: {"initialize": Method(_initialize), "ping": Method(_ping), **_TOOLS},
}
"""What is served, by whether the message is modern. `needs_token` counts on the open path; the other always asks."""


async def post(call: Call) -> Response:
    """The open path: the catalogue is public, calls need a token."""
    return await _post(call, secure=False)


async def post_secure(call: Call) -> Response:
    """The path for hosts that need the 401 at the first request."""
    return await _post(call, secure=True)


async def _post(call: Call, *, secure: bool) -> Response:
    sent = None
    try:
        sent = await _read(call)
        check_origin(call)
    except Fault as fault:
        return _response(fault_reply(readable_id(sent), fault))
    if isinstance(sent, list):
        return _response(await _batch(call, sent, secure=secure))
    return _response(await _one(call, sent, secure=secure))


async def _read(call: Call) -> Any:
    try:
        return read_json(await call.body())
    except Refusal as refusal:
        code = PARSE_ERROR if refusal.code is Code.INVALID_JSON else INVALID_REQUEST
        raise Fault(code, refusal.message, status=refusal.code.value.status, data=refusal.body()) from None


async def _batch(call: Call, sent: list[Any], *, secure: bool) -> Reply:
    """The messages one after the other (MCP 2025-03-26 only). What HTTP must say of one, it says of all."""
    if VERSION_HEADER in call.request.headers or not 0 < len(sent) <= BATCH_MOST:
        fault = Fault(
            INVALID_REQUEST, f"A batch comes without MCP-Protocol-Version and has 1 to {BATCH_MOST} messages."
        )
        return fault_reply(None, fault)
    for value in sent:  # all of them before any: what HTTP refuses has done nothing
        if (denied := _denied(call, value, secure=secure)) is not None:
            return denied
    replies = [await _one(call, value, secure=secure) for value in sent]
    bodies = [reply.body for reply in replies if reply.body]
    return Reply(200, b"[" + b",".join(bodies) + b"]") if bodies else Reply(202)


def _denied(call: Call, value: Any, *, secure: bool) -> Reply | None:
    """The challenge that this message would get."""
    try:
        message = parse(value)
        called = message.method == "tools/call"
        check_token(call, needed=secure or called)
        name = (message.params or {}).get("name") if called else None
        entry = call.parts.registry.find(name) if isinstance(name, str) else None
        if entry is not None:
            check_scope(call, entry.scope)
    except Fault as fault:
        reply = fault_reply(readable_id(value), fault)
        return reply if "www-authenticate" in reply.headers else None
    return None


async def _one(call: Call, value: Any, *, secure: bool) -> Reply:
    try:
        message = parse(value)
        era = era_of(message, call.request.headers)
        if message.id is None:
            check_token(call, needed=secure)
            return Reply(202)
        return result_reply(message.id, await _answer(call, message, era, secure=secure))
    except Fault as fault:
        return fault_reply(readable_id(value), fault)


async def _answer(call: Call, message: Message, era: Era, *, secure: bool) -> bytes:
    method = METHODS[era.modern].get(message.method)
    if method is None:
        raise Fault(METHOD_NOT_FOUND, "There is no such method.", status=_status(era, 404))
    check_token(call, needed=secure or method.needs_token)
    _check_params(message, era)
    return await method.run(call, message, era)


def _check_params(message: Message, era: Era) -> None:
    try:
        validate_client_request(message.method, era.version, message.params)
    except ValidationError as error:
        places = [".".join(str(part) for part in one["loc"] if part in KNOWN) for one in error.errors()]
        raise Fault(
            INVALID_PARAMS, "The parameters do not fit the method.", status=_status(era, 400), data={"at": places[:10]}
        ) from None


KNOWN = frozenset({"params", "name", "arguments", "cursor", "_meta", "protocolVersion", "capabilities", "clientInfo"})
"""The names that an error may repeat: ours, not what a stranger made up."""


def _status(era: Era, modern: int) -> int:
    """The older clients take a JSON-RPC error with no other status."""
    return modern if era.modern else 200


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, {**HEADERS, **reply.headers})


async def refuse(_call: Call) -> Response:
    """There is no stream to open and no session to end (MCP 2026-07-28, Transports)."""
    return Response(b"", 405, {**HEADERS, "allow": "POST"})


async def refuse_secure(call: Call) -> Response:
    """The same, to those who have a token."""
    try:
        check_token(call, needed=True)
    except Fault as fault:
        return _response(fault_reply(None, fault))
    return await refuse(call)


def _endpoints(path: str, answer: Answerer, refusal: Answerer) -> tuple[Endpoint, ...]:
    return (
        Endpoint("POST", path, PERMISSION, answer),
        Endpoint("GET", path, PERMISSION, refusal),
        Endpoint("DELETE", path, PERMISSION, refusal),
        Endpoint("OPTIONS", path, PERMISSION, answer_preflight),
    )


ENDPOINTS = (*_endpoints("/mcp", post, refuse), *_endpoints("/mcp/secure", post_secure, refuse_secure))

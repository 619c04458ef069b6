"""`tools/call`: the tool runs for this connection, and its answer or refusal becomes a result."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from mcp_types.jsonrpc import INVALID_PARAMS
from starlette.requests import ClientDisconnect, Request

from service.contract.answers import ProposalAnswer
from service.contract.data import Json
from service.contract.ports import Answer
from service.edge.errors import known, unknown
from service.edge.guard import Call
from service.edge.mcp.catalogue import SERVER_META
from service.edge.mcp.doors import check_scope
from service.edge.mcp.eras import Era
from service.edge.mcp.messages import Fault, Message, compact
from service.kit.canonical import check_strings
from service.kit.errors import Code, Refusal
from service.tools.registry import Entry

ERROR_META = "placet/error"
WRITTEN_DOWN = frozenset({Code.POLICY_DENIED, Code.PROPOSALS_OFF, Code.FORBIDDEN})
"""Refusals that an owner wants to know of: the agent asked for what it may not."""
T = TypeVar("T")


async def call_tool(call: Call, message: Message, era: Era) -> bytes:
    """The result of one call, as JSON.

    Raises:
        Fault: -32602 for an unknown tool, 403 for a token without the tool's scope.
    """
    params = message.params or {}
    entry = call.parts.registry.find(params["name"])
    if entry is None:
        raise Fault(INVALID_PARAMS, "There is no such tool.", status=400 if era.modern else 200)
    check_scope(call, entry.scope)
    answer = await _unless_gone(call.request, lambda: _run(call, entry, params.get("arguments") or {}))
    return compact(_refused(answer, era) if isinstance(answer, Refusal) else _answered(answer, era))


async def _run(call: Call, entry: Entry, arguments: Json) -> Answer | Refusal:
    if call.actor is None:
        raise RuntimeError("a tool is called by nobody")  # check_scope has let no such call through
    try:
        _check_strings(arguments)
        return await entry.call(arguments, call.parts.ports(call.actor))
    except Refusal as refusal:
        if refusal.code in WRITTEN_DOWN:
            await call.parts.denials.record(call.parts.database, call.actor, entry.name, refusal.code.value.name)
        return known(refusal)
    except Exception as error:  # noqa: BLE001  the last line before the wire
        return unknown(error)


def _check_strings(arguments: Json) -> None:
    """A path is refused with one code, whatever is wrong with it."""
    try:
        check_strings(arguments, "")
    except Refusal as refusal:
        if refusal.details["field"].endswith("path"):
            raise Refusal(Code.PATH_REJECTED, refusal.message, **refusal.details) from None
        raise


def _answered(answer: Answer, era: Era) -> Json:
    data = answer.model_dump(mode="json", exclude_none=True)
    content: list[Json] = [{"type": "text", "text": compact(data).decode()}]
    if isinstance(answer, ProposalAnswer) and answer.status == "pending" and era.links():
        content.append({"type": "resource_link", "uri": answer.review_url, "name": "review", "title": "Review page"})
    return _result({"content": content, "structuredContent": data, "isError": False}, era)


def _refused(refusal: Refusal, era: Era) -> Json:
    """No structuredContent: what is there must conform to the tool's output schema, and an error does not."""
    body = refusal.body()
    text = {"type": "text", "text": compact({"error": body}).decode()}
    return _result({"content": [text], "isError": True}, era, {ERROR_META: body})


def _result(result: Json, era: Era, meta: Json | None = None) -> Json:
    if era.modern:
        return {"resultType": "complete", **result, "_meta": {**SERVER_META, **(meta or {})}}
    return {**result, "_meta": meta} if meta else result


async def _unless_gone(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work unless the client hangs up, which cancels it (MCP 2026-07-28, Transports, Cancellation).

    Raises:
        ClientDisconnect: nobody waits for the answer any more.
    """
    done: list[T] = []
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        done.append(await work())
        group.cancel_scope.cancel()
    if not done:
        raise ClientDisconnect
    return done[0]

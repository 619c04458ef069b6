"""JSON-RPC 2.0 over HTTP: reading one message, and writing the answer with its id and status."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types.jsonrpc import INVALID_REQUEST

from service.contract.data import Json
from service.kit.canonical import check_strings
from service.kit.errors import Refusal

ID_CHARACTERS = 256
MessageId = int | str | None


class Fault(Exception):
    """A message is answered with a JSON-RPC error.

    Args:
        code: the JSON-RPC error code.
        message: one sentence.
        status: the HTTP status.
        data: what a program may want to know.
        headers: HTTP headers that go with it.
    """

    def __init__(
        self, code: int, message: str, *, status: int = 400, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.data = data
        self.headers = dict(headers or {})


@dataclass(frozen=True)
class Reply:
    """What goes back for one message; a notification gets a status and no body."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """A request, or a notification, which has no id and gets no answer."""

    id: MessageId
    method: str
    params: Json | None

    @property
    def meta(self) -> Json:
        """The request's `_meta`, empty when there is none."""
        meta = (self.params or {}).get("_meta")
        return meta if isinstance(meta, dict) else {}


def compact(value: object) -> bytes:
    """A JSON value in UTF-8 without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def readable_id(value: object) -> MessageId:
    """The id of what was sent, as far as it has one that can be sent back."""
    given = value.get("id") if isinstance(value, dict) else None
    return given if _is_id(given) else None


def parse(value: object) -> Message:
    """Read one message. A response (we ask clients for nothing) reads as a notification that does nothing.

    Raises:
        Fault: -32600 for what is no JSON-RPC 2.0 message; an id is a string of at most 256 characters or an integer.
    """
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise Fault(INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.")
    if "method" not in value and ("result" in value or "error" in value):
        return Message(None, "", None)
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str):
        raise Fault(INVALID_REQUEST, "The message has no method.")
    if params is not None and not isinstance(params, dict):
        raise Fault(INVALID_REQUEST, "params must be an object.")
    if "id" in value and not _is_id(value["id"]):
        raise Fault(INVALID_REQUEST, f"An id is an integer or a string of at most {ID_CHARACTERS} characters.")
    _check_text({"method": method, "params": {**(params or {}), "arguments": None}})
    return Message(value.get("id"), method, params)


def result_reply(message_id: MessageId, result: bytes) -> Reply:
    """A result that is JSON already, so that what never changes is written once."""
    return Reply(200, b'{"jsonrpc":"2.0","id":' + compact(message_id) + b',"result":' + result + b"}")


def fault_reply(message_id: MessageId, fault: Fault) -> Reply:
    """The error with the id of the message it answers, null where it has none that can be read."""
    error = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return Reply(fault.status, compact({"jsonrpc": "2.0", "id": message_id, "error": error}), fault.headers)


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= ID_CHARACTERS and _is_text(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: str) -> bool:
    try:
        check_strings(value, "id")
    except Refusal:
        return False
    return True


def _check_text(value: Json) -> None:
    """Everything but a tool's arguments: what is wrong there is the tool's answer."""
    try:
        check_strings(value, "")
    except Refusal as refusal:
        raise Fault(INVALID_REQUEST, "The message has text that cannot be stored.", data=refusal.body()) from None

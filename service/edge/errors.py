"""How a refusal leaves over HTTP: JSON for programs, a page for people. Of the unforeseen only the log has more."""

import json
import logging
from uuid import uuid4

from starlette.responses import Response

from service.kit.errors import Code, Refusal

log = logging.getLogger("placet.edge")
OPERATORS = frozenset({Code.REPOSITORY_DAMAGED})
RETRY_SECONDS = {429: "5", 503: "2", 507: "60"}


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer that no cache keeps."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(body, status, {"cache-control": "private, no-store", **(headers or {})}, "application/json")


def refusal_response(refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    """The refusal as the owner API shows it."""
    return json_response({"error": refusal.body()}, refusal.code.value.status, {**retry(refusal), **(headers or {})})


def retry(refusal: Refusal) -> dict[str, str]:
    """When to try again, for the codes that will pass."""
    status = refusal.code.value.status
    seconds = refusal.details.get("retry_after", RETRY_SECONDS.get(status))
    return {} if seconds is None else {"retry-after": str(seconds)}


def known(refusal: Refusal) -> Refusal:
    """A refusal on its way out; what an operator must see to is in the log."""
    if refusal.code in OPERATORS:
        log.error("refused with %s", refusal.code.value.name, exc_info=refusal)
    return refusal


def unknown(error: BaseException) -> Refusal:
    """What a caller sees of an error nobody foresaw: an id that the log knows."""
    error_id = uuid4().hex
    log.error("internal error %s", error_id, exc_info=error)
    return Refusal(Code.INTERNAL, "Something went wrong inside the service.", error_id=error_id)

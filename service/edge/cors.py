"""Which answers a page of another origin may read: those that no cookie has a part in.

The origin is `*`, so a browser sends no cookie along; what authenticates is in the request itself.
"""

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

if TYPE_CHECKING:
    from service.edge.guard import Call

CORS_HEADERS: Final[dict[str, str]] = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "WWW-Authenticate, Retry-After",
}
"""For every answer of such an endpoint, errors too: a client that cannot read the challenge cannot log in."""

_PREFLIGHT: Final = {
    **CORS_HEADERS,
    "access-control-allow-methods": "GET, POST, OPTIONS",
    # `*` covers every header but Authorization; the others are named for browsers that do not know it.
    "access-control-allow-headers": (
        "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, "
        "Last-Event-ID, *"
    ),
    "access-control-max-age": "7200",
}


def preflight() -> Response:
    """The answer to an OPTIONS request (Fetch standard, CORS-preflight)."""
    return Response(status_code=204, headers=_PREFLIGHT)


async def answer_preflight(_call: "Call") -> Response:
    """`preflight` as a handler."""
    return preflight()

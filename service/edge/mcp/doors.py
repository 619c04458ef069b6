"""Who may come in: the Origin rule, and the challenges that send a client to the authorization server."""

import re
from urllib.parse import urlsplit

from service.contract.ports import Scope
from service.edge.guard import LOOPBACK, Call
from service.edge.mcp.messages import Fault
from service.kit.errors import Code, Refusal

SCOPES: tuple[Scope, ...] = ("repo:read", "repo:propose")
"""The scopes of the normal flow, in the order in which they are always named."""

REFUSED = -32000
"""Our own JSON-RPC code for what HTTP's status says; -32000 to -32019 are an implementation's (MCP 2026-07-28)."""


def check_origin(call: Call) -> None:
    """A browser page of another site is refused; a local service also takes pages of this machine.

    Raises:
        Fault: 403.
    """
    for origin in call.request.headers.getlist("origin"):
        if not _is_allowed(origin, call.parts.issuer):
            raise _refused(Refusal(Code.ORIGIN_REJECTED, "Pages of this origin may not call the service."), {})


def check_token(call: Call, *, needed: bool) -> None:
    """A token that is there must be good, and where one is needed it must be there.

    Raises:
        Fault: 401 with the challenge of RFC 9728; `error` is named only when a token came (RFC 6750, 3.1).
    """
    if call.bad_token:
        refusal = Refusal(Code.UNAUTHENTICATED, "This token is unknown, expired or revoked.")
        raise _refused(refusal, _challenge(call, SCOPES, "invalid_token"))
    if needed and call.actor is None:
        raise _refused(Refusal(Code.UNAUTHENTICATED, "This call needs an access token."), _challenge(call, SCOPES))


def check_scope(call: Call, needed: Scope) -> None:
    """The token has the scope. The challenge names those it has as well, so that a step-up forgets none.

    Raises:
        Fault: 403.
    """
    had = call.actor.scopes if call.actor else frozenset()
    if needed not in had:
        union = tuple(scope for scope in SCOPES if scope in had or scope == needed)
        refusal = Refusal(Code.INSUFFICIENT_SCOPE, f"This tool needs the scope {needed}.", scope=needed)
        raise _refused(refusal, _challenge(call, union, "insufficient_scope"))


_LOCAL = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?")
"""An origin as a browser writes it (RFC 6454, 6.2), of a page on this machine."""


def _is_allowed(origin: str, issuer: str) -> bool:
    if origin == issuer:
        return True
    return urlsplit(issuer).hostname in LOOPBACK and _LOCAL.fullmatch(origin) is not None


def _challenge(call: Call, scopes: tuple[Scope, ...], error: str = "") -> dict[str, str]:
    """Each path has metadata of its own, since clients compare its `resource` with the address they called."""
    named = {
        "error": error,
        "resource_metadata": f"{call.parts.issuer}/.well-known/oauth-protected-resource{call.request.scope['path']}",
        "scope": " ".join(scopes),
    }
    return {"www-authenticate": "Bearer " + ", ".join(f'{name}="{value}"' for name, value in named.items() if value)}


def _refused(refusal: Refusal, headers: dict[str, str]) -> Fault:
    return Fault(REFUSED, refusal.message, status=refusal.code.value.status, data=refusal.body(), headers=headers)

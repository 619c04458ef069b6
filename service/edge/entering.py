"""What all ways in have in common: the cookies, where the person wanted to go, and that a page of ours asks."""

import re
import secrets
from typing import Final

from starlette.responses import RedirectResponse, Response

from service.edge.guard import COOKIE, Call
from service.edge.limits import Quota, caller_address
from service.identity.sessions import SESSION_SECONDS
from service.kit.errors import Code, Refusal

NEXT_COOKIE: Final = "__Host-placet-next"
NEXT_SECONDS: Final = 900
NEXT_CHARACTERS_MOST: Final = 4_000  # browsers keep 4,096 bytes of a cookie, its name and attributes included
TRY_COOKIE: Final = "__Host-placet-try"
TRY_SECONDS: Final = 900
TRIES: Final = Quota("sign-in", 60, 60)
# An address of ours: one slash, and only characters that a cookie can hold as they are.
_LOCAL = re.compile(r"/(?!/)[A-Za-z0-9/?&=%:+~@!$'()*._-]*")
_ROOM: Final = NEXT_CHARACTERS_MOST - len(NEXT_COOKIE)
_TRY = re.compile(r"[A-Za-z0-9_-]{43}")


def local(address: str) -> str | None:
    """An address of ours, or None."""
    return address if len(address) <= _ROOM and _LOCAL.fullmatch(address) else None


def wanted(call: Call) -> str:
    """Where this browser was going before it was asked to sign in."""
    return local(call.request.cookies.get(NEXT_COOKIE, "")) or "/"


def agent(call: Call) -> str:
    """What the browser says of itself."""
    return call.request.headers.get("user-agent", "")


def caller(call: Call) -> str:
    """What stands for the address of who asks."""
    client = call.request.client
    return caller_address(client and client.host)


async def take(call: Call) -> None:
    """Count a request of somebody who may be nobody. Raises RATE_LIMITED."""
    await call.parts.limits.take(TRIES, caller(call))


def check_origin(call: Call, *, stated: bool = False) -> None:
    """Without a session there is no token to compare; another site must not sign a browser in as somebody else.

    Raises:
        Refusal: ORIGIN_REJECTED for another site, or for no word of it where it must be `stated`.
    """
    origin = call.request.headers.get("origin")
    if origin != call.parts.issuer and (stated or origin is not None):
        raise Refusal(Code.ORIGIN_REJECTED, "This was sent from another site.")


def trying(call: Call) -> str:
    """What only this browser holds before it is signed in; new where it held nothing."""
    held = call.request.cookies.get(TRY_COOKIE, "")
    return held if _TRY.fullmatch(held) else secrets.token_urlsafe(32)


def keep_trying(response: Response, held: str) -> Response:
    """Let the browser hold it for a while."""
    keep(response, TRY_COOKIE, held, TRY_SECONDS)
    return response


def entered(response: Response, secret: str) -> Response:
    """The browser is signed in: it holds the session's secret, and nothing of what was before."""
    keep(response, COOKIE, secret, SESSION_SECONDS)
    keep(response, NEXT_COOKIE, "", 0)
    keep(response, TRY_COOKIE, "", 0)
    return response


def see(address: str) -> Response:
    """Go on there with a GET."""
    return RedirectResponse(address, 303, {"cache-control": "no-store"})


def keep(response: Response, name: str, value: str, seconds: int) -> None:
    """Set a cookie of this host alone."""
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")

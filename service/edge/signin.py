"""Signing in with a one-time link, and out again.

Opening the link shows a button and uses nothing up, so that a program that looks at links in mails cannot spend it.
Where the person wanted to go waits in a cookie of the same browser.
"""

import re
from typing import Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from service.edge.guard import COOKIE, Call, Endpoint
from service.edge.pages import page
from service.identity.sessions import SESSION_SECONDS, end_session, open_session
from service.kit.errors import Code, Refusal

NEXT_COOKIE: Final = "__Host-placet-next"
NEXT_SECONDS: Final = 900
NEXT_CHARACTERS_MOST: Final = 4_000  # browsers keep 4,096 bytes of a cookie, its name and attributes included
# An address of ours: one slash, and only characters that a cookie can hold as they are.
_LOCAL = re.compile(r"/(?!/)[A-Za-z0-9/?&=%:+~@!$'()*._-]*")
_ROOM: Final = NEXT_CHARACTERS_MOST - len(NEXT_COOKIE)


def sign_in_first(call: Call) -> Response:
    """Send the browser to sign in, and then back to what it asked for."""
    url = call.request.url
    here = f"{url.path}?{url.query}" if url.query else url.path
    return RedirectResponse(f"/sign-in?next={quote(here, safe='')}", 303, {"cache-control": "no-store"})


async def show_sign_in(call: Call) -> Response:
    """The page with the button of a link, or how to get a link."""
    query = call.request.query_params
    wanted = _local(query.get("next", ""))
    if call.session and wanted and "link" not in query:
        return RedirectResponse(wanted, 303)
    response = page(call, "signin.html", link=query.get("link", ""), problem=None)
    if wanted:
        _keep(response, NEXT_COOKIE, wanted, NEXT_SECONDS)
    return response


async def sign_in(call: Call) -> Response:
    """Use the link up and open a session under a new id."""
    origin = call.request.headers.get("origin")
    if origin is not None and origin != call.parts.issuer:
        # Without a session there is no token to compare; another site must not sign a browser in as somebody else.
        raise Refusal(Code.ORIGIN_REJECTED, "This was sent from another site.")
    link = (await call.form()).get("link", [""])[0]
    try:
        secret = await open_session(call.parts.database, link, call.session)
    except Refusal as refusal:
        if refusal.code is not Code.UNAUTHENTICATED:
            raise
        return page(call, "signin.html", refusal.code.value.status, link="", problem=refusal.message)
    response = RedirectResponse(_local(call.request.cookies.get(NEXT_COOKIE, "")) or "/", 303)
    _keep(response, COOKIE, secret, SESSION_SECONDS)
    _keep(response, NEXT_COOKIE, "", 0)
    return response


async def sign_out(call: Call) -> Response:
    """End the session of this browser."""
    await end_session(call.parts.database, call.owner)
    response = RedirectResponse("/sign-in", 303)
    _keep(response, COOKIE, "", 0)
    return response


def _local(address: str) -> str | None:
    return address if len(address) <= _ROOM and _LOCAL.fullmatch(address) else None


def _keep(response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/sign-in", "session.open", show_sign_in, page=True),
    Endpoint("POST", "/sign-in", "session.open", sign_in, page=True),
    Endpoint("POST", "/sign-out", "session.close", sign_out, page=True),
)

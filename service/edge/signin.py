"""Signing in and out, and proving in between that it is still the same person.

A link's page shows a button and uses nothing up, so that a program that looks at links in mails cannot spend it. Where
the person wanted to go waits in a cookie of the same browser.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from service.edge import ways
from service.edge.entering import (
    NEXT_COOKIE,
    NEXT_SECONDS,
    agent,
    caller,
    check_origin,
    entered,
    keep,
    keep_trying,
    local,
    see,
    take,
    trying,
    wanted,
)
from service.edge.errors import json_response
from service.edge.guard import COOKIE, Call, Endpoint, Handler
from service.edge.pages import page
from service.identity.oidc import Elsewhere
from service.identity.passwords import Shown
from service.identity.sessions import end_session, open_session
from service.identity.ways import list_ways
from service.kit.errors import Code, Refusal

_SHOWN_AGAIN: Final = frozenset({Code.UNAUTHENTICATED, Code.SIGN_IN_REFUSED, Code.UNREACHABLE, Code.RATE_LIMITED})
Page = Callable[..., Awaitable[Response]]


def sign_in_first(call: Call) -> Response:
    """Send the browser to sign in, and then back to what it asked for."""
    url = call.request.url
    here = f"{url.path}?{url.query}" if url.query else url.path
    return RedirectResponse(f"/sign-in?next={quote(here, safe='')}", 303, {"cache-control": "no-store"})


async def show_sign_in(call: Call) -> Response:
    """The page with the button of a link, or with the ways in."""
    query = call.request.query_params
    going = local(query.get("next", ""))
    if call.session and going and "link" not in query:
        return RedirectResponse(going, 303)
    response = await _sign_in_page(call, link=query.get("link", ""))
    if going:
        keep(response, NEXT_COOKIE, going, NEXT_SECONDS)
    return response


async def _sign_in_page(call: Call, refusal: Refusal | None = None, link: str = "") -> Response:
    elsewhere = call.parts.doors.elsewhere
    values: dict[str, Any] = {"link": link, "elsewhere": elsewhere.provider.name if elsewhere else ""}
    problem = refusal.said if refusal else None
    return page(call, "signin.html", refusal.code.value.status if refusal else 200, problem=problem, **values)


def _or_again(shown: Page) -> Callable[[Handler], Handler]:
    """Show what can be mended on the page where it was tried."""

    def wrap(handler: Handler) -> Handler:
        @wraps(handler)
        async def answer(call: Call) -> Response:
            try:
                return await handler(call)
            except Refusal as refusal:
                if refusal.code not in _SHOWN_AGAIN:
                    raise
                return await shown(call, refusal)

        return answer

    return wrap


@_or_again(_sign_in_page)
async def sign_in(call: Call) -> Response:
    """Use the link up and open a session under a new id."""
    check_origin(call)
    link = (await call.form()).get("link", [""])[0]
    secret = await open_session(call.parts.database, link, call.session, agent(call))
    return entered(see(wanted(call)), secret)


@_or_again(_sign_in_page)
async def sign_in_with_password(call: Call) -> Response:
    """The form with address, password and code."""
    check_origin(call)
    await take(call)
    shown = await _shown(call)
    secret = await call.parts.doors.passwords.sign_in(shown, agent(call), call.session)
    return entered(see(wanted(call)), secret)


async def _shown(call: Call) -> Shown:
    form = await call.form()
    email, password, code = (form.get(name, [""])[0] for name in ("email", "password", "code"))
    return Shown(call.session.email if call.session and not email else email, password, code, caller(call))


async def ask_passkey(call: Call) -> Response:
    """What the browser must ask of a passkey."""
    check_origin(call, stated=True)
    await take(call)
    await ways.asked(call)
    held = trying(call)
    return keep_trying(json_response(await call.parts.doors.passkeys.ask_to_sign_in(held)), held)


async def sign_in_with_passkey(call: Call) -> Response:
    """What a passkey answered."""
    check_origin(call, stated=True)
    await take(call)
    answer = await ways.answered(call)
    secret = await call.parts.doors.passkeys.sign_in(trying(call), answer.credential, agent(call), call.session)
    return entered(json_response({"next": wanted(call)}), secret)


def _elsewhere(call: Call) -> Elsewhere:
    if call.parts.doors.elsewhere is None:
        raise Refusal(Code.NOT_FOUND, "There is nothing at this address.")
    return call.parts.doors.elsewhere


@_or_again(_sign_in_page)
async def go_elsewhere(call: Call) -> Response:
    """Send the browser to the other service."""
    await take(call)
    held = trying(call)
    return keep_trying(see(await _elsewhere(call).start(held, wanted(call))), held)


@_or_again(_sign_in_page)
async def come_back(call: Call) -> Response:
    """The browser came back from the other service (OpenID Connect Core 1.0, 3.1.2.5)."""
    await take(call)
    sent = dict(call.request.query_params)
    secret, going = await _elsewhere(call).finish(trying(call), sent, agent(call), call.session)
    return entered(see(local(going) or "/"), secret)


async def sign_out(call: Call) -> Response:
    """End the session of this browser."""
    await end_session(call.parts.database, call.owner)
    response = RedirectResponse("/sign-in", 303)
    keep(response, COOKIE, "", 0)
    return response


# Proving -------------------------------------------------------------------------------------------------------------


async def show_prove(call: Call) -> Response:
    """`/prove?next=…`: show that it is still you, and go back with nothing decided yet."""
    return await _prove_page(call)


async def _prove_page(call: Call, refusal: Refusal | None = None) -> Response:
    elsewhere = call.parts.doors.elsewhere
    found = await list_ways(call.parts.database, call.owner)
    values: dict[str, Any] = {
        "ways": found,
        "elsewhere": elsewhere.provider.name if elsewhere and found.accounts else "",
        "going": _going(call),
        "problem": refusal.said if refusal else None,
    }
    return page(call, "prove.html", refusal.code.value.status if refusal else 200, **values)


def _going(call: Call) -> str:
    return local(call.request.query_params.get("next", "")) or "/"


@_or_again(_prove_page)
async def prove_with_password(call: Call) -> Response:
    """The same form, for who is signed in."""
    await take(call)
    secret = await call.parts.doors.passwords.prove(call.owner, await _shown(call))
    return entered(see(_going(call)), secret)


async def ask_to_prove(call: Call) -> Response:
    """What the browser must ask of a passkey of this person."""
    await ways.asked(call)
    return json_response(await call.parts.doors.passkeys.ask_to_prove(call.owner))


async def prove_with_passkey(call: Call) -> Response:
    """What it answered."""
    await take(call)
    answer = await ways.answered(call)
    secret = await call.parts.doors.passkeys.prove(call.owner, answer.credential)
    return entered(json_response({"next": _going(call)}), secret)


@_or_again(_prove_page)
async def prove_elsewhere(call: Call) -> Response:
    """Send the browser to the other service, which must ask again."""
    await take(call)
    held = trying(call)
    return keep_trying(see(await _elsewhere(call).start(held, _going(call), call.owner)), held)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/sign-in", "session.open", show_sign_in, page=True),
    Endpoint("POST", "/sign-in", "session.open", sign_in, page=True),
    Endpoint("POST", "/sign-in/password", "session.open", sign_in_with_password, page=True),
    Endpoint("POST", "/sign-in/passkey/options", "session.open", ask_passkey),
    Endpoint("POST", "/sign-in/passkey", "session.open", sign_in_with_passkey),
    Endpoint("GET", "/sign-in/oidc", "session.open", go_elsewhere, page=True),
    Endpoint("GET", "/sign-in/oidc/callback", "session.open", come_back, page=True),
    Endpoint("POST", "/sign-out", "session.close", sign_out, page=True),
    Endpoint("GET", "/prove", "session.prove", show_prove, page=True),
    Endpoint("POST", "/prove", "session.prove", prove_with_password, page=True),
    Endpoint("GET", "/prove/oidc", "session.prove", prove_elsewhere, page=True),
    Endpoint("POST", "/prove/passkey/options", "session.prove", ask_to_prove),
    Endpoint("POST", "/prove/passkey", "session.prove", prove_with_passkey),
    *ways.ENDPOINTS,
)

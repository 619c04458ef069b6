"""`/settings/sign-in`: a person's passkeys, password, app and recovery codes, accounts elsewhere, and sessions.

They are changed only in a session that showed a credential, or used a link, just now.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final, Literal
from urllib.parse import quote

import segno
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.edge.desk.asking import checked, read_id
from service.edge.desk.when import moment
from service.edge.entering import see, take
from service.edge.errors import json_response
from service.edge.guard import Call, Endpoint, Handler
from service.edge.pages import page
from service.identity.passkeys import NAME_MOST
from service.identity.passwords import PASSWORD_LEAST, Setup
from service.identity.sessions import SessionLine, end_one, end_others, list_sessions
from service.identity.ways import NO_WAY, check_recent, check_way, list_ways, remove_way, rename_way, sign_with
from service.kit.actor import SERVICE_TENANT
from service.kit.errors import Code, Refusal
from service.kit.language import gettext, later

HERE: Final = "/settings/sign-in"
NO_SESSION: Final = "There is no such session."
_SHOWN_AGAIN: Final = frozenset(
    {Code.INVALID_ARGUMENT, Code.TEXT_REJECTED, Code.NAME_TAKEN, Code.SIGN_IN_REFUSED, Code.RATE_LIMITED}
)
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"),
    ("Chrome", "Chrome"),
    ("CriOS", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS: Final = (
    *(("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad")),
    *(("Windows", "Windows"), ("Mac OS", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)
_WAYS: Final = {
    "link": later("a link"),
    "passkey": later("a passkey"),
    "password": later("password and code"),
    "oidc": later("another service"),
}


class Answered(BaseModel):
    """What `navigator.credentials` gave, as JSON (WebAuthn Level 3, 5.1), and for a new one its name."""

    model_config = ConfigDict(extra="forbid")
    credential: dict[str, Any]
    name: str = Field(default="", max_length=NAME_MOST)


class Question(BaseModel):
    """What is sent to be told what to ask of a passkey: nothing."""

    model_config = ConfigDict(extra="forbid")


class Change(BaseModel):
    """What to do with a way."""

    action: Literal["rename", "remove", "sign", "sign_no_more"]
    name: str = ""


async def answered(call: Call) -> Answered:
    """The body of a passkey's answer. Raises INVALID_ARGUMENT."""
    return checked(Answered, await call.json())


async def asked(call: Call) -> None:
    """The body of a question: an empty object. Raises INVALID_ARGUMENT for anything else."""
    checked(Question, await call.json())


async def meant(call: Call, action: str) -> None:
    """That the button of this action was pressed. Raises INVALID_ARGUMENT for another form, or none."""
    if (await call.form()).get("action") != [action]:
        raise Refusal(Code.INVALID_ARGUMENT, "The form does not say what to do.", field="action", allowed=[action])


async def show(call: Call) -> Response:
    """The page."""
    return await _show(call)


async def _show(
    call: Call, refusal: Refusal | None = None, setup: Setup | None = None, codes: list[str] | None = None
) -> Response:
    now = datetime.now(UTC)
    found = await list_ways(call.parts.database, call.owner)
    sessions = await list_sessions(call.parts.database, call.owner)
    elsewhere = call.parts.doors.elsewhere
    values: dict[str, Any] = {
        "ways": found,
        "passkeys": [_line(one, now) for one in found.passkeys],
        "accounts": [_line(one, now) for one in found.accounts],
        "sessions": [_session(one, now) for one in sessions],
        "elsewhere": elsewhere.provider.name if elsewhere else "",
        "setup": setup,
        "qr": _qr(setup) if setup else "",
        "codes": codes or [],
        "least": PASSWORD_LEAST,
        "name_most": NAME_MOST,
        "problem": refusal.said if refusal else None,
    }
    return page(call, "sign_in_settings.html", refusal.code.value.status if refusal else 200, **values)


def _changing(handler: Handler) -> Handler:
    """Let it be done in a session that proved itself just now; else send there first, and back."""

    @wraps(handler)
    async def answer(call: Call) -> Response:
        try:
            await take(call)
            await check_recent(call.parts.database, call.owner)
            return await handler(call)
        except Refusal as refusal:
            if refusal.code is Code.PROOF_NEEDED:
                return see(f"/prove?next={quote(HERE, safe='')}")
            if refusal.code not in _SHOWN_AGAIN:
                raise
            return await _show(call, refusal)

    return answer


async def ask_to_add(call: Call) -> Response:
    """What the browser must ask of an authenticator to make a passkey."""
    await asked(call)
    await check_recent(call.parts.database, call.owner)
    return json_response(await call.parts.doors.passkeys.ask_to_add(call.owner))


async def add_passkey(call: Call) -> Response:
    """The passkey that was made."""
    await take(call)
    await check_recent(call.parts.database, call.owner)
    answer = await answered(call)
    name = answer.name.strip() or browser_words(call.request.headers.get("user-agent", ""))
    made = await call.parts.doors.passkeys.add(call.owner, answer.credential, name)
    return json_response({"id": str(made), "next": HERE})


async def change_way(call: Call) -> Response:
    """Rename or remove a passkey or an account. What is not this person's is not there."""
    way = read_id(call.request.path_params["id"], NO_WAY)
    await check_way(call.parts.database, call.owner, way)
    return await _change_way(call)


@_changing
async def _change_way(call: Call) -> Response:
    way = read_id(call.request.path_params["id"], NO_WAY)
    sent = await _sent(call)
    database, owner = call.parts.database, call.owner
    if sent.action == "rename":
        await rename_way(database, owner, way, sent.name.strip())
    elif sent.action == "remove":
        await remove_way(database, owner, way, call.parts.doors.passkeys.id)
    else:
        await sign_with(database, owner, way, on=sent.action == "sign")
    return see(HERE)


async def _sent(call: Call) -> Change:
    form = await call.form()
    return checked(Change, {name: form[name][0] for name in Change.model_fields if form.get(name)})


@_changing
async def set_password(call: Call) -> Response:
    """Set or change the password."""
    form = await call.form()
    await call.parts.doors.passwords.set_password(call.owner, form.get("password", [""])[0])
    return see(HERE)


@_changing
async def remove_password(call: Call) -> Response:
    """Remove password, app and recovery codes."""
    await meant(call, "remove")
    await call.parts.doors.passwords.remove(call.owner)
    return see(HERE)


@_changing
async def begin_app(call: Call) -> Response:
    """Show the secret for an app, as a picture and as text."""
    await meant(call, "begin")
    return await _show(call, setup=await call.parts.doors.passwords.begin_app(call.owner))


@_changing
async def finish_app(call: Call) -> Response:
    """The app's first code; then the recovery codes, this once."""
    form = await call.form()
    codes = await call.parts.doors.passwords.finish_app(call.owner, form.get("code", [""])[0])
    return await _show(call, codes=codes)


@_changing
async def new_codes(call: Call) -> Response:
    """New recovery codes in place of the old, shown this once."""
    await meant(call, "renew")
    return await _show(call, codes=await call.parts.doors.passwords.new_recovery_codes(call.owner))


async def end_a_session(call: Call) -> Response:
    """End one session of this person."""
    await end_one(call.parts.database, call.owner, read_id(call.request.path_params["id"], NO_SESSION))
    return see(f"{HERE}#sessions")


async def end_other_sessions(call: Call) -> Response:
    """End all but this one."""
    await meant(call, "end")
    async with call.parts.database.bound(SERVICE_TENANT) as tx:
        await end_others(tx, call.owner)
    return see(f"{HERE}#sessions")


def browser_words(agent: str) -> str:
    """Browser and system, roughly, of what a browser calls itself; nothing is taken over from it."""
    browser = next((word for sign, word in _BROWSERS if sign in agent), gettext("A browser"))
    system = next((word for sign, word in _SYSTEMS if sign in agent), "")
    return gettext("{browser} on {system}", browser=browser, system=system) if system else browser


def _line(one: Any, now: datetime) -> dict[str, Any]:
    used = moment(one.used_at, now) if one.used_at else None
    return {
        "id": one.id,
        "name": one.name,
        "es256": one.es256,
        "signs": one.signs,
        "made": moment(one.created_at, now),
        "used": used,
    }


def _session(one: SessionLine, now: datetime) -> dict[str, Any]:
    return {
        "id": one.id,
        "browser": browser_words(one.browser),
        "way": gettext(_WAYS[one.way]),
        "made": moment(one.created_at, now),
        "seen": moment(one.seen_at, now),
        "mine": one.mine,
    }


def _qr(setup: Setup) -> Markup:
    """An SVG of our own making, without style, so that it stands in the page itself."""
    code = segno.make(setup.uri, error="m", micro=False)
    return Markup(code.svg_inline(scale=4, border=4, dark="#000", light="#fff", omitsize=False))  # noqa: S704


def _post(path: str, handler: Callable[[Call], Awaitable[Response]]) -> Endpoint:
    return Endpoint("POST", path, "credential.manage", handler, page=True)


ENDPOINTS: Final = (
    Endpoint("GET", HERE, "credential.view", show, page=True),
    Endpoint("POST", f"{HERE}/passkey/options", "credential.manage", ask_to_add),
    Endpoint("POST", f"{HERE}/passkey", "credential.manage", add_passkey),
    _post(f"{HERE}/ways/{{id}}", change_way),
    _post(f"{HERE}/password", set_password),
    _post(f"{HERE}/password/remove", remove_password),
    _post(f"{HERE}/app", begin_app),
    _post(f"{HERE}/app/code", finish_app),
    _post(f"{HERE}/recovery", new_codes),
    Endpoint("POST", "/settings/sessions", "session.close", end_other_sessions, page=True),
    Endpoint("POST", "/settings/sessions/{id}", "session.close", end_a_session, page=True),
)

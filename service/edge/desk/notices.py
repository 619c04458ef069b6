"""`/settings/notifications`: what a person wants to hear, where, and how the last messages went."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field
from starlette.responses import RedirectResponse, Response

from service.contract.ports import Arguments
from service.edge.desk import asking
from service.edge.desk.when import moment
from service.edge.guard import Call, Endpoint, Handler
from service.edge.pages import page
from service.kit.actor import Actor
from service.kit.language import ENGLISH, gettext, later
from service.publish.choices import Choices
from service.publish.choosing import NewChoices, NoticesView, ShownDelivery, WebhookAction
from service.publish.words import EVENTS, Event

PATH: Final = "/settings/notifications"
_EVENT_WORDS: Final[dict[Event, str]] = {
    "waiting": later("A proposal waits for your decision"),
    "expiring": later("A proposal that waits expires soon"),
    "executed": later("A proposal was executed"),
    "failed": later("An approved proposal failed"),
    "stale": later("The branch overtook a proposal"),
    "test": later("A test message"),
}
_CHANNELS: Final = {
    "mail": later("E-mail"),
    "push": later("Browser"),
    "webhook": later("Webhook"),
    "chat": later("Chat"),
}
_STATES: Final = {
    "waiting": later("on its way"),
    "collected": later("waits for the next collected mail"),
    "sent": later("sent"),
    "failed": later("not delivered"),
    "overtaken": later("no longer needed"),
}


class _Choices(Arguments):
    """The form of the choices, as a browser sends it."""

    zone: str  # every form has one, so that a body which says nothing chooses nothing
    mail: Annotated[list[str], Field(default_factory=list, max_length=len(EVENTS))]
    push: Annotated[list[str], Field(default_factory=list, max_length=len(EVENTS))]
    quiet_from: str = ""
    quiet_to: str = ""
    digest: str = ""
    language: str = ENGLISH


class _Keys(Arguments):
    p256dh: Annotated[str, Field(max_length=200)]
    auth: Annotated[str, Field(max_length=100)]


class _Subscription(Arguments):
    """A push subscription, as a browser describes it."""

    endpoint: Annotated[str, Field(max_length=2_000)]
    keys: _Keys


class _Test(Arguments):
    action: Literal["send"]


class _NewWebhook(Arguments):
    url: str = ""


class _WebhookChange(Arguments):
    action: WebhookAction


class _BrowserChange(Arguments):
    action: Literal["revoke"]


async def shown(call: Call) -> Response:
    """The page."""
    actor = await asking.who(call)
    return await _page(call, actor)


async def choose(call: Call) -> Response:
    """Store the choices."""
    actor = await asking.who(call)
    sent = await asking.form(call, _Choices)
    quiet = f"{sent.quiet_from}-{sent.quiet_to}" if sent.quiet_from or sent.quiet_to else ""
    values: dict[str, Any] = {"mail": sent.mail, "push": sent.push, "zone": sent.zone, "quiet": quiet}
    new = asking.checked(NewChoices, {**values, "digest": sent.digest or None, "language": sent.language})
    await call.parts.notices.choose(actor, new)
    return _back(actor)


async def send_test(call: Call) -> Response:
    """Have a test message sent."""
    actor = await asking.who(call)
    await asking.form(call, _Test)
    await call.parts.notices.test(actor)
    return _back(actor)


async def add_browser(call: Call) -> Response:
    """A script's: notify this browser."""
    actor = await asking.who(call)
    sent = asking.checked(_Subscription, await call.json())
    await call.parts.notices.add_browser(actor, sent.endpoint, sent.keys.p256dh, sent.keys.auth)
    return Response(status_code=204)


async def change_browser(call: Call) -> Response:
    """Notify a browser no more."""
    actor = await asking.who(call)
    which = asking.read_id(call.request.path_params["id"], "There is no such browser.")
    await asking.form(call, _BrowserChange)
    await call.parts.notices.remove_browser(actor, which)
    return _back(actor)


async def add_webhook(call: Call) -> Response:
    """Name a webhook, and show its secret this once."""
    actor = await asking.who(call)
    sent = await asking.form(call, _NewWebhook)
    _, secret = await call.parts.notices.add_webhook(actor, sent.url.strip())
    return await _page(call, actor, secret)


async def change_webhook(call: Call) -> Response:
    """Take a webhook away, or switch it on again."""
    actor = await asking.who(call)
    which = asking.read_id(call.request.path_params["id"], "There is no such webhook.")
    sent = await asking.form(call, _WebhookChange)
    await call.parts.notices.change_webhook(actor, which, sent.action)
    return _back(actor)


async def _page(call: Call, actor: Actor, secret: str = "") -> Response:
    notices = call.parts.notices
    view = await notices.read(actor)
    values = notices_page(view, str(actor.tenant))
    return page(call, "settings_notifications.html", push_key=notices.push_key, secret=secret, **values)


def notices_page(view: NoticesView, tenant: str) -> dict[str, Any]:
    """The values of the template."""
    return {
        "here": PATH,
        "tenant": tenant,
        "path": PATH,
        "mail": view.mail,
        "events": [_event(event, view.choices) for event in EVENTS],
        **_times(view.choices),
        "browsers": [
            {"id": one.id, "service": one.service, "when": moment(one.made_at, view.now)} for one in view.browsers
        ],
        "webhooks": view.webhooks,
        "deliveries": [_delivery(one, view, tenant) for one in view.deliveries],
    }


def _event(event: Event, choices: Choices) -> dict[str, Any]:
    return {
        "name": event,
        "words": gettext(_EVENT_WORDS[event]),
        "mail": event in choices.mail,
        "push": event in choices.push,
    }


def _times(choices: Choices) -> dict[str, Any]:
    begin, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in choices.quiet) if choices.quiet else ("", "")
    return {
        "zone": choices.zone,
        "quiet_from": begin,
        "quiet_to": end,
        "digest": choices.digest_hour,
        "told_in": choices.language,
    }


def _delivery(one: ShownDelivery, view: NoticesView, tenant: str) -> dict[str, Any]:
    return {
        "words": gettext(_EVENT_WORDS.get(one.event, one.event)),  # type: ignore[call-overload]
        "link": f"/proposals/{one.proposal}?tenant={tenant}" if one.proposal else "",
        "channel": gettext(_CHANNELS[one.channel]),
        "state": gettext(_STATES[one.state]),
        "failed": one.state == "failed" or bool(one.error),
        "error": one.error,
        "when": moment(one.made_at, view.now),
    }


def _back(actor: Actor) -> Response:
    return RedirectResponse(f"{PATH}?tenant={actor.tenant}", 303)


def _post(path: str, handler: Handler) -> Endpoint:
    return Endpoint("POST", f"{PATH}{path}", "notice.choose", handler, page=True)


ENDPOINTS: Final = (
    Endpoint("GET", PATH, "notice.choose", shown, page=True),
    _post("", choose),
    _post("/test", send_test),
    Endpoint("POST", f"{PATH}/browsers", "notice.choose", add_browser),
    _post("/browsers/{id}", change_browser),
    _post("/webhooks", add_webhook),
    _post("/webhooks/{id}", change_webhook),
)

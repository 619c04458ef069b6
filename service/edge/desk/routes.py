"""The owner's pages: what is asked, of whom, and with which template it is answered."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response

from service.contract.pictures import picture_of
from service.edge.desk import asking
from service.edge.desk.card import Attempt, card_page, file_page, marked_piece, places_sent
from service.edge.desk.inbox import inbox_page
from service.edge.desk.lists import connection_page, connections_page, ledger_page, repositories_page, unstopped
from service.edge.entering import keep
from service.edge.guard import Call, Endpoint, Handler
from service.edge.pages import page
from service.kit.actor import Actor
from service.kit.errors import Code, Refusal
from service.proposals.view import Decider
from service.repositories.colour import Key, Palette

LEDGER_MOST: Final = 100
LAYOUT_SECONDS: Final = 365 * 24 * 3600
PICTURE_HEADERS: Final = {
    "cache-control": "private, no-store",
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
NO_CONNECTION: Final = "There is no such connection."
NO_REPOSITORY: Final = "There is no such repository."
_SHOWN_AGAIN: Final = frozenset(
    {
        Code.NOT_SHOWN,
        Code.TEXT_REJECTED,
        Code.WARNINGS_OPEN,
        Code.CONFIRMATION_OPEN,
        Code.PROOF_NEEDED,
        Code.CARD_CHANGED,
        Code.PROPOSAL_ENDED,
        Code.FORBIDDEN,
        Code.POLICY_DENIED,
        Code.PROPOSALS_OFF,
    }
)

_LOST: Final = frozenset({Code.NOT_FOUND, Code.UNAVAILABLE, Code.CSRF_REJECTED})


async def inbox(call: Call) -> Response:
    """`/`: what waits."""
    actor = await asking.who(call)
    show, only = asking.show(call), asking.only(call)
    view = await call.parts.desk.inbox.read(actor, show, only, asking.after(call))
    return page(call, "inbox.html", **inbox_page(view, str(actor.tenant), only, first=not asking.after(call)))


async def card(call: Call) -> Response:
    """`/proposals/<id>`: what would happen, and the decision."""
    actor = await asking.who(call)
    return await _card(call, actor, asking.proposal_id(call))


async def file(call: Call) -> Response:
    """`/proposals/<id>/files/<place>`: one file whole; for a script, the piece that takes its folded head's place."""
    actor, proposal, layout = await asking.who(call), asking.proposal_id(call), asking.layout(call)
    one = await call.parts.desk.cards.file(actor, proposal, asking.place(call))
    palette = Palette(one.colours.packed)
    values: dict[str, Any] = await asyncio.to_thread(file_page, one, palette, layout)
    if call.request.method != "HEAD":
        await call.parts.desk.cards.sent(actor, proposal, one.digest, of=one.of, places={one.place})
    if _in_place(call):
        shown = page(call, "file_part.html", swapped=True, **values)
    else:
        shown = page(call, "file_page.html", **values)
    return _keeping(call, shown, actor, one.colours.to_keep(palette.made))


async def picture(call: Call) -> Response:
    """`/proposals/<id>/files/<place>/<old or new>/picture`: a picture as it is, fit for nothing but to be shown."""
    actor = await asking.who(call)
    one = await call.parts.desk.cards.file(actor, asking.proposal_id(call), asking.place(call))
    content = {"old": one.file.old, "new": one.file.new}[asking.side(call)] or b""
    found = picture_of(content)
    if found is None or not found.shown:
        raise Refusal(Code.NOT_FOUND, "There is no such picture.")
    headers = {**PICTURE_HEADERS, "content-disposition": f'inline; filename="picture.{found.kind.lower()}"'}
    return Response(content, 200, headers, found.media)


async def mark(call: Call) -> Response:
    """Mark a file as seen, or take the mark off; for a script, the piece that takes the file's place."""
    actor, proposal, place = await asking.who(call), asking.proposal_id(call), asking.place(call)
    sent = await asking.form(call, asking.Mark)
    one = await call.parts.desk.cards.mark(actor, proposal, place, on=sent.seen == "yes")
    if not _in_place(call):
        return RedirectResponse(f"/proposals/{proposal}?tenant={actor.tenant}#file-{place}", 303)
    palette = Palette(one.colours.packed)
    values: dict[str, Any] = await asyncio.to_thread(marked_piece, one, palette, asking.layout(call))
    return page(call, "file_marked.html", swapped=True, **values)


def _in_place(call: Call) -> bool:
    """Whether a script asks, which puts the answer in the place of what is there."""
    return "hx-request" in call.request.headers


async def decide(call: Call) -> Response:
    """The card's form. What can be mended there is shown there again, as it was sent."""
    who = await asking.decider(call)
    proposal = asking.proposal_id(call)
    sent = await asking.form(call, asking.Decision)
    try:
        await call.parts.desk.cards.decide(who, proposal, sent.verdicts)
    except Refusal as refusal:
        if refusal.code not in _SHOWN_AGAIN:
            raise
        return await _card(call, who.actor, proposal, Attempt(refusal, sent.verdicts))
    return _see(f"/proposals/{proposal}", who.actor)


async def undo(call: Call) -> Response:
    """Propose what takes this back, and go to its card."""
    await call.form()
    return await _then(call, call.parts.desk.cards.undo)


async def ask_again(call: Call) -> Response:
    """Ask the agent to propose again what came too late."""
    sent = await asking.form(call, asking.Again)

    async def ask(who: Decider, proposal: UUID) -> UUID:
        await call.parts.desk.cards.ask_again(who, proposal, sent.note)
        return proposal

    return await _then(call, ask)


async def _then(call: Call, act: Callable[[Decider, UUID], Awaitable[UUID]]) -> Response:
    """Do something with a proposal and go to the card that it leads to; a refusal is shown on the card it stood on."""
    who = await asking.decider(call)
    proposal = asking.proposal_id(call)
    try:
        shown = await act(who, proposal)
    except Refusal as refusal:
        if refusal.code in _LOST:
            raise
        return await _card(call, who.actor, proposal, Attempt(refusal))
    return _see(f"/proposals/{shown}", who.actor)


async def connections(call: Call) -> Response:
    """`/connections`: which agents may do what, and since when."""
    actor = await asking.who(call)
    view = await call.parts.desk.connections.list(actor)
    return page(call, "connections.html", **connections_page(view, str(actor.tenant)))


async def connection(call: Call) -> Response:
    """`/connections/<id>`: what one agent may do, and its record."""
    actor = await asking.who(call)
    return await _connection(call, actor, asking.read_id(call.request.path_params["id"], NO_CONNECTION))


async def change_connection(call: Call) -> Response:
    """Pause, resume or revoke, and say what could not be stopped any more."""
    actor = await asking.who(call)
    which = asking.read_id(call.request.path_params["id"], NO_CONNECTION)
    sent = await asking.form(call, asking.ConnectionChange)
    late = await call.parts.desk.connections.change(actor, which, sent.action)
    return await _connection(call, actor, which, unstopped(len(late))) if late else _see(f"/connections/{which}", actor)


async def repositories(call: Call) -> Response:
    """`/repositories`: where agents may propose."""
    actor = await asking.who(call)
    view = await call.parts.desk.repositories.list(actor)
    return page(call, "repositories.html", **repositories_page(view, str(actor.tenant)))


async def change_repository(call: Call) -> Response:
    """Let agents propose in a repository, or not."""
    actor = await asking.who(call)
    repository = asking.read_id(call.request.path_params["id"], NO_REPOSITORY)
    sent = await asking.form(call, asking.RepositoryChange)
    await call.parts.desk.repositories.change(actor, repository, sent.action)
    return _see("/repositories", actor)


async def ledger(call: Call) -> Response:
    """`/ledger`: everything that happened."""
    actor = await asking.who(call)
    before, only = asking.before(call), asking.entries(call)
    view = await call.parts.desk.ledger.read(actor, only, before, LEDGER_MOST)
    return page(call, "ledger.html", **ledger_page(view, str(actor.tenant), only, newest=before is not None))


async def _card(call: Call, actor: Actor, proposal: UUID, attempt: Attempt | None = None) -> Response:
    view = await call.parts.desk.cards.read(actor, proposal)
    palette = Palette(view.colours.packed)
    values: dict[str, Any] = await asyncio.to_thread(card_page, view, palette, asking.layout(call), attempt)
    if call.request.method != "HEAD":  # of which nothing is sent
        await call.parts.desk.cards.sent(
            actor, proposal, view.digest, of=len(view.files), places=places_sent(values["files"])
        )
    status = attempt.refusal.code.value.status if attempt else 200
    return _keeping(call, page(call, "card.html", status, **values), actor, view.colours.to_keep(palette.made))


def _keeping(call: Call, shown: Response, actor: Actor, made: Mapping[Key, bytes]) -> Response:
    """The same page. What it had to colour is kept once it is sent, and how its lines are to lie, in the browser."""
    shown.background = BackgroundTask(call.parts.desk.cards.keep_colours, actor, made)
    if asking.LAYOUT_FIELD in call.request.query_params:
        keep(shown, asking.LAYOUT_COOKIE, asking.layout(call), LAYOUT_SECONDS)
    return shown


async def _connection(call: Call, actor: Actor, which: UUID, notice: str = "") -> Response:
    view = await call.parts.desk.connections.read(actor, which)
    return page(call, "connection.html", **connection_page(view, str(actor.tenant), notice))


def _see(path: str, actor: Actor) -> Response:
    return RedirectResponse(f"{path}?tenant={actor.tenant}", 303)


def _get(path: str, permission: str, handler: Handler) -> Endpoint:
    return Endpoint("GET", path, permission, handler, page=True)


def _post(path: str, permission: str, handler: Handler) -> Endpoint:
    return Endpoint("POST", path, permission, handler, page=True)


ENDPOINTS: Final = (
    _get("/", "proposal.view", inbox),
    _get("/proposals/{id}", "proposal.view", card),
    _get("/proposals/{id}/files/{place}", "proposal.view", file),
    _get("/proposals/{id}/files/{place}/{side}/picture", "proposal.view", picture),
    _post("/proposals/{id}/files/{place}/seen", "proposal.view", mark),
    _post("/proposals/{id}/decision", "proposal.decide", decide),
    _post("/proposals/{id}/again", "proposal.decide", ask_again),
    _post("/proposals/{id}/undo", "proposal.decide", undo),
    _get("/connections", "connection.view", connections),
    _get("/connections/{id}", "connection.view", connection),
    _post("/connections/{id}", "connection.manage", change_connection),
    _get("/repositories", "repository.view", repositories),
    _post("/repositories/{id}", "repository.manage", change_repository),
    _get("/ledger", "ledger.view", ledger),
)

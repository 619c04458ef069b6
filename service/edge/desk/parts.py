"""The page on which an owner chooses what of a proposal to approve, and the same as JSON.

What is chosen becomes a proposal of its own: nothing is decided here.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from markupsafe import Markup
from pydantic import Field
from starlette.responses import RedirectResponse, Response

from service.contract.hidden import decode
from service.contract.lines import Span, lines_of
from service.contract.names import quote_path
from service.contract.parts import Hunk
from service.contract.ports import Answer, Arguments
from service.edge.advice import for_people
from service.edge.desk import asking
from service.edge.desk.answers import ProposedAnswer
from service.edge.desk.diffview import FilePanel, folded_panel, panel, size_of
from service.edge.desk.lines import FILE_ENDS
from service.edge.desk.sentences import html, plain, sentence
from service.edge.desk.visible import Visible, line_end
from service.edge.errors import json_response
from service.edge.guard import Call, Docs, Endpoint
from service.edge.pages import page
from service.kit.errors import Code, Refusal
from service.kit.language import figure, gettext, later, ngettext
from service.proposals.view import Decider, FileView, PartsView, PartView
from service.repositories import diff
from service.repositories.colour import Palette

KEEP_MOST: Final = 500
CONTEXT: Final = 3
PAGE_BYTES: Final = 600_000
_TITLES: Final = {
    (False, False): later("Line {old} taken away"),
    (False, True): later("Line {old} changed"),
    (True, False): later("Lines {old} to {last} taken away"),
    (True, True): later("Lines {old} to {last} changed"),
}
"""What happens to lines that were there, by whether they are several and whether others come."""
"""So much of files that are chosen whole is shown; the card has the others."""
_MENDED: Final = frozenset({Code.CHOOSE_SOME, Code.INVALID_ARGUMENT, Code.BASE_MOVED, Code.POLICY_DENIED})
"""What is said on the page itself."""


class Choice(Arguments):
    """What is chosen: the ids of parts, and of single groups of lines."""

    keep: Annotated[list[str], Field(default_factory=list, max_length=KEEP_MOST)]


class HunkAnswer(Answer):
    """A group of lines: on either side the first line, from 1, and how many."""

    id: str
    old: tuple[int, int]
    new: tuple[int, int]


class PartAnswer(Answer):
    """What can be chosen: paths that are chosen together, or groups of lines of one; its id stands for all of them."""

    id: str
    paths: list[str]
    hunks: list[HunkAnswer]


class PartsAnswer(Answer):
    """What can be chosen of a proposal."""

    proposal_id: str
    parts: list[PartAnswer]


async def choosing(call: Call) -> Response:
    """`/proposals/<id>/parts`: every file, and every group of lines, to be chosen."""
    who = await asking.decider(call)
    return await _choosing(call, who, ())


async def choose(call: Call) -> Response:
    """Make a proposal of what was chosen, and go to its card."""
    who = await asking.decider(call)
    subject = asking.proposal_id(call)
    sent = await asking.form(call, Choice)
    try:
        made = await call.parts.desk.parts.choose(who, subject, sent.keep)
    except Refusal as refusal:
        if refusal.code not in _MENDED:
            raise
        return await _choosing(call, who, sent.keep, refusal)
    return RedirectResponse(f"/proposals/{made}?tenant={who.actor.tenant}", 303)


async def withdraw(call: Call) -> Response:
    """Withdraw a part, and go to the card of what it is a part of."""
    who = await asking.decider(call)
    await call.form()
    whole = await call.parts.desk.parts.withdraw(who, asking.proposal_id(call))
    return RedirectResponse(f"/proposals/{whole}?tenant={who.actor.tenant}", 303)


async def list_parts(call: Call) -> Response:
    """What can be chosen of a proposal."""
    who = await asking.decider(call)
    view = await call.parts.desk.parts.read(who, asking.proposal_id(call))
    answer = PartsAnswer(proposal_id=str(view.id), parts=[_answer(part) for part in view.parts])
    return json_response(answer.model_dump(mode="json"))


async def choose_parts(call: Call) -> Response:
    """Make a proposal of what was chosen, or find the one that waits with the same. It is decided like any other."""
    who = await asking.decider(call)
    subject = asking.proposal_id(call)
    sent = asking.checked(Choice, await call.json())
    return _proposed(str(await call.parts.desk.parts.choose(who, subject, sent.keep)))


async def withdraw_part(call: Call) -> Response:
    """Withdraw a part; answers with what it is a part of, which waits on."""
    who = await asking.decider(call)
    return _proposed(str(await call.parts.desk.parts.withdraw(who, asking.proposal_id(call))))


def _proposed(proposal_id: str) -> Response:
    return json_response(ProposedAnswer(proposal_id=proposal_id).model_dump(mode="json"))


def _answer(part: PartView) -> PartAnswer:
    hunks = [
        HunkAnswer(id=one.id, old=(one.span.old, one.span.gone), new=(one.span.new, one.span.come))
        for one in part.hunks
    ]
    return PartAnswer(id=part.id, paths=[quote_path(file.path) for file in part.files], hunks=hunks)


async def _choosing(call: Call, who: Decider, ticked: Collection[str], refusal: Refusal | None = None) -> Response:
    view = await call.parts.desk.parts.read(who, asking.proposal_id(call))
    values: dict[str, Any] = await asyncio.to_thread(parts_page, view, frozenset(ticked), refusal)
    return page(call, "parts.html", refusal.code.value.status if refusal else 200, **values)


# The page ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of a group, with its number on either side."""

    kind: str
    old: int | None
    new: int | None
    text: Markup


def parts_page(view: PartsView, ticked: Collection[str], refusal: Refusal | None = None) -> dict[str, Any]:
    """The values of the template. Compares and colours what is chosen whole: call it in a thread."""
    visible = Visible()
    headline = sentence("headline", view.headline)
    return {
        "here": "",
        "waiting": view.waiting,
        "title": gettext("Choose: {what}", what=plain(headline)),
        "headline": html(headline, Visible()),
        "id": str(view.id),
        "tenant": str(view.tenant),
        "link": f"/proposals/{view.id}?tenant={view.tenant}",
        "place": visible.line(f"{view.project} / {view.repository}"),
        "branch": visible.line(view.branch),
        "refused": f"{refusal.said} {for_people(refusal)}" if refusal else "",
        "parts": list(_parts(view.parts, ticked, Palette(view.colours.packed))),
    }


def _parts(parts: Sequence[PartView], ticked: Collection[str], palette: Palette) -> Iterator[dict[str, Any]]:
    room = PAGE_BYTES
    for part in parts:
        size = sum(size_of(file) for file in part.files)
        yield {
            "id": part.id,
            "name": Visible().path(part.files[0].path),
            "ticked": part.id in ticked,
            "files": list(_whole(part, palette if size <= room and not part.hunks else None)),
            "hunks": [_hunk(part.files[0], hunk, hunk.id in ticked) for hunk in part.hunks],
        }
        room -= size if size <= room else 0


def _whole(part: PartView, palette: Palette | None) -> Iterator[FilePanel]:
    """Its files; without a palette only their heads."""
    for number, file in enumerate(part.files, int(part.id) * 1_000 + 1):
        yield panel(file, number, palette) if palette else folded_panel(file, number)


def _hunk(file: FileView, hunk: Hunk, ticked: bool) -> dict[str, Any]:
    return {
        "id": hunk.id,
        "ticked": ticked,
        "title": _title(hunk.span),
        "lines": list(_lines(lines_of(file.old or b""), lines_of(file.new or b""), hunk.span)),
    }


def _title(span: Span) -> str:
    """Where it is, by the lines as they are now."""
    old = figure(span.old)
    if not span.gone:
        return ngettext(
            "{count} line added before line {old}", "{count} lines added before line {old}", span.come, old=old
        )
    message = _TITLES[span.gone > 1, bool(span.come)]
    return gettext(message, old=old, last=figure(span.old + span.gone - 1))


def _lines(old: Sequence[bytes], new: Sequence[bytes], span: Span) -> Iterator[Line]:
    """The group with what stands around it before."""
    first, end = span.old - 1, span.old - 1 + span.gone
    ends = {diff.line_end(line) for line in (*old, *new)} - {b""}
    for place in range(max(0, first - CONTEXT), first):
        yield Line("", place + 1, None, _text(old[place], ends))
    for place in range(first, end):
        yield Line("del", place + 1, None, _text(old[place], ends))
    for place in range(span.new - 1, span.new - 1 + span.come):
        yield Line("add", None, place + 1, _text(new[place], ends))
    for place in range(end, min(len(old), end + CONTEXT)):
        yield Line("", place + 1, None, _text(old[place], ends))


def _text(line: bytes, ends: Collection[bytes]) -> Markup:
    """A line with its end marked where the file has several kinds, or none is there."""
    end = diff.line_end(line)
    text = Visible().text(decode(line[: len(line) - len(end)]))
    if end and len(ends) < 2:  # noqa: PLR2004  all are alike
        return text
    return text + line_end(FILE_ENDS.get(end) or gettext("no newline at the end"))


API: Final = (
    Endpoint("GET", "/api/v1/proposals/{id}/parts", "proposal.decide", list_parts, docs=Docs({200: PartsAnswer})),
    Endpoint(
        "POST",
        "/api/v1/proposals/{id}/parts",
        "proposal.decide",
        choose_parts,
        docs=Docs({200: ProposedAnswer}, Choice),
    ),
    Endpoint(
        "POST", "/api/v1/proposals/{id}/withdrawal", "proposal.decide", withdraw_part, docs=Docs({200: ProposedAnswer})
    ),
)
ENDPOINTS: Final = (
    Endpoint("GET", "/proposals/{id}/parts", "proposal.decide", choosing, page=True),
    Endpoint("POST", "/proposals/{id}/parts", "proposal.decide", choose, page=True),
    Endpoint("POST", "/proposals/{id}/withdrawal", "proposal.decide", withdraw, page=True),
    *API,
)

"""The review card as a page: what would happen, what the agent says, what to mind, the whole change, and the decision.

Every sentence comes from codes; everything that an agent or a repository wrote passes through `Visible`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from markupsafe import Markup, escape

from service.contract.data import NULL
from service.contract.plan import Note
from service.contract.undoing import RESTORE_POINTS
from service.edge.advice import for_people
from service.edge.desk.asking import NOTE_MOST
from service.edge.desk.diffview import FilePanel, file_name, folded_panel, panel, size_of
from service.edge.desk.inbox import first_line
from service.edge.desk.lines import Layout
from service.edge.desk.live import mark
from service.edge.desk.pieces import phrase
from service.edge.desk.sentences import (
    ENDINGS,
    OWNER_WORDS,
    PART_OF,
    PARTS_WAIT,
    SECTIONS,
    WORDS,
    html,
    plain,
    sentence,
)
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment
from service.kit.errors import Code, Refusal
from service.kit.language import gettext, later, ngettext
from service.proposals.view import CardView, FileView, Marked, OneFile, Outcome, PinView, Verdicts
from service.repositories.colour import Palette

_CODE: Final = Markup('<code title="{whole}">{short}</code>')
_SHORT: Final = 8
_FEW: Final = 3
PINS_SHOWN: Final = 8
FILE_BYTES: Final = 150_000
"""A file with more to compare folds."""
CARD_BYTES: Final = 600_000
"""Files fold once so much is shown of the ones before."""
_KINDS: Final = {"refs/heads/": later("branch"), "refs/tags/": later("tag")}
_COLOURS: Final = {"executed": "good", "stale": "mind", "failed": "lost"}
_SAID: Final = {
    "approve": later("Approved by {person} {when}."),
    "decline": later("Declined by {person} {when}."),
    "changes": later("Sent back for changes by {person} {when}."),
}
_AT_WORK: Final = frozenset({"approved", "executing"})


@dataclass(frozen=True)
class Attempt:
    """What was refused, and the decision as it was sent, so that the form can be shown again."""

    refusal: Refusal
    sent: Verdicts | None = None


@dataclass(frozen=True)
class Say:
    """Something to be said above all else; `kind` is its colour, `alert` reads it out at once."""

    kind: str
    lead: str
    text: str
    facts: tuple[Markup, ...] = ()
    alert: bool = False
    again: bool = False
    prove: bool = False


def card_page(
    view: CardView, palette: Palette, layout: Layout = "unified", attempt: Attempt | None = None
) -> dict[str, Any]:
    """The values of the card template. Compares and colours every file: call it in a thread."""
    counting = Visible()  # only what is the agent's own counts; sentences repeat it
    files = _panels(view.files, palette, layout)
    agent = _agent(view, counting)
    hidden = counting.hidden + sum(file.hidden for file in files)
    headline = sentence("headline", view.card.headline)
    return {
        **_head(view, files),
        "digest": view.digest,
        "unseen": len(files) - len(view.sent.union(places_sent(files))),
        "here": "",
        "waiting": view.waiting,
        "title": plain(headline),
        "headline": html(headline, Visible()),
        "says": list(_says(view, attempt)),
        "agent": agent,
        "hides": list(_hides(hidden)),
        "warnings": [_warning(note, attempt) for note in view.card.warnings],
        "warnings_title": ngettext(
            "{count} warning to acknowledge", "{count} warnings to acknowledge", len(view.card.warnings)
        ),
        "to_do": len(view.card.warnings)
        + sum("confirm" in note.params for note in view.card.warnings)
        + any(note.params.get("reason") for note in view.card.warnings),
        "wants_reason": next((note.name for note in reversed(view.card.warnings) if note.params.get("reason")), None),
        "reason": attempt.sent.reason if attempt and attempt.sent else "",
        "sections": list(_sections(view, files)),
        "files": files,
        "sent": view.sent,
        "layout": layout,
        "marked": sum(file.seen for file in files),
        "markable": len(files),
        "form": _open(view),
        "part_of": view.part_of is not None,
        "divisible": view.divisible,
        "note": attempt.sent.note if attempt and attempt.sent else "",
        "note_most": NOTE_MOST,
        "decision": _decision(view),
        "may_undo": view.may_undo,
        "signs": view.signs,
        "signature_missing": view.signature_wanted and not view.signs,
        "may_ask_again": view.may_ask_again and view.wanted_again is None,
        "wanted_again": view.wanted_again and Visible().text(view.wanted_again),
        **_pins(view),
        "expiry": _expiry(view),
        "commit": Visible().text(view.commit_preview),
        "commit_title": gettext("The tag") if view.commit_preview.startswith("object ") else gettext("The commit"),
        "around": _around(view),
    }


def file_page(one: OneFile, palette: Palette, layout: Layout = "unified") -> dict[str, Any]:
    """The values of a page with one file, whole. Compares and colours it: call it in a thread."""
    shown = panel(one.file, one.place, palette, layout)
    path = Visible()
    return {
        "unseen": one.unsent,
        "signs": one.signs,
        "file": shown,
        "alone": True,
        "layout": layout,
        "id": str(one.proposal),
        "tenant": str(one.tenant),
        "link": f"/proposals/{one.proposal}?tenant={one.tenant}",
        "title": gettext("File {place} of {of}", place=one.place, of=one.of),
        "name": path.path(one.file.path),
        "here": "",
    }


def marked_piece(one: Marked, palette: Palette, layout: Layout) -> dict[str, Any]:
    """The values of a file's panel after it was marked. One that was not sent yet stays folded: no mark opens it."""
    whole = one.sent or not size_of(one.file)
    return {
        "file": panel(one.file, one.place, palette, layout) if whole else folded_panel(one.file, one.place),
        "sent": frozenset((one.place,) if one.sent else ()),
        "id": str(one.proposal),
        "tenant": str(one.tenant),
        "marked": one.count,
        "markable": one.of,
    }


def _panels(files: Sequence[FileView], palette: Palette, layout: Layout) -> list[FilePanel]:
    """Every file, whole as long as the page has room; a browser and a reader stop at some point."""
    panels, room = [], CARD_BYTES
    for place, file in enumerate(files, 1):
        size = size_of(file)
        fits = size <= min(FILE_BYTES, room)
        panels.append(panel(file, place, palette, layout) if fits else folded_panel(file, place))
        room -= size if fits else 0
    return panels


def places_sent(files: Iterable[FilePanel]) -> frozenset[int]:
    """The files that a page carries in full."""
    return frozenset(file.place for file in files if not file.folded)


def _open(view: CardView) -> bool:
    return view.state == "pending" and view.may_decide and view.expires_at > view.now


def _head(view: CardView, files: Sequence[FilePanel]) -> dict[str, Any]:
    visible = Visible()
    counts = [(file.added, file.removed) for file in files]
    folded = any(file.folded for file in files)  # what is not compared cannot be counted
    return {
        "id": str(view.id),
        "tenant": str(view.tenant),
        "link": f"/proposals/{view.id}?tenant={view.tenant}",
        "mark": mark(view.state, ((pin.ref, pin.current) for pin in view.pins)),
        "place": visible.line(f"{view.project} / {view.repository}"),
        "repository_link": f"/repositories/{view.repository_id}?tenant={view.tenant}",
        "branch": visible.line(view.branch),
        "more_branches": len(view.refs) - 1,
        "asked": moment(view.created_at, view.now),
        "client": visible.line(view.client),
        "connection": visible.line(view.connection) if view.connection != view.client else "",
        "subject": visible.line(first_line(view.card.agent_words.get("message", ""))),
        "added": 0 if folded else sum(added for added, _ in counts),
        "removed": 0 if folded else sum(removed for _, removed in counts),
    }


# What is said first --------------------------------------------------------------------------------------------------


def _says(view: CardView, attempt: Attempt | None) -> Iterator[Say]:
    if attempt:
        text = f"{attempt.refusal.said} {for_people(attempt.refusal)}"
        prove = attempt.refusal.code is Code.PROOF_NEEDED
        yield Say("lost", gettext("Nothing was decided."), text, alert=True, prove=prove)
    if view.part_of:
        yield _say("plain", PART_OF, facts=(_proposal_link(gettext("Proposal {id}"), view.part_of, view),))
    if view.state in ENDINGS:
        yield _ending(view)
    elif view.expires_at <= view.now:
        yield _say("mind", ENDINGS["expired"])
    else:
        yield from (_moved(pin) for pin in view.pins if not pin.holds)
        if view.hindrance and not attempt:
            text = f"{view.hindrance.said} {for_people(view.hindrance)}"
            yield Say("mind", gettext("This cannot be approved now."), text)
        if view.parts:
            facts = tuple(_proposal_link(gettext("Part {id}"), one, view) for one in view.parts)
            yield _say("plain", PARTS_WAIT, facts=facts)
        if not view.may_decide:
            yield _say("plain", _READER)


def _say(kind: str, words: tuple[str, str], *, facts: tuple[Markup, ...] = (), again: bool = False) -> Say:
    """What is said in a few words, and then what it means."""
    lead, text = words
    return Say(kind, gettext(lead), gettext(text), facts, again=again)


def _hides(hidden: int) -> Iterator[Say]:
    if hidden:
        lead = ngettext(
            "{count} hidden character is in this proposal.", "{count} hidden characters are in this proposal.", hidden
        )
        mark = Visible().line("\u202e")
        yield Say("hides", lead, phrase(gettext("You see each as a mark such as {mark}."), mark=mark))


def _ending(view: CardView) -> Say:
    part = view.outcome.part if view.outcome else None
    facts = (
        *_outcome(view, view.outcome or Outcome()),
        *(fact for pin in view.pins if view.state == "stale" and not pin.holds for fact in _came(pin)),
        *((_proposal_link(gettext("Part {id}"), part, view),) if part else ()),
    )
    return _say(_COLOURS.get(view.state, "plain"), ENDINGS[_end(view)], facts=facts, again=view.state in _AT_WORK)


def _end(view: CardView) -> str:
    """Which ending it is, where a state has several."""
    if view.decision is not None and view.decision.verdict == "changes":
        return "changes"
    if view.outcome is not None and view.outcome.part is not None:
        return "partly"
    return "part_withdrawn" if view.part_of and view.state == "cancelled" else view.state


def _proposal_link(message: str, proposal: UUID, view: CardView) -> Markup:
    link = Markup('<a href="/proposals/{}?tenant={}"><code>{}</code></a>')
    return phrase(message, id=link.format(proposal, view.tenant, str(proposal)[:_SHORT]))


def _outcome(view: CardView, outcome: Outcome) -> Iterator[Markup]:
    if outcome.commit:
        link = Markup('<a href="/repositories/{}/commits/{}?tenant={}">{}</a>')
        at = link.format(view.repository_id, outcome.commit, view.tenant, _oid(outcome.commit))
        yield phrase(gettext("Commit {id}"), id=at)
    if outcome.head == NULL:
        yield phrase(gettext("The branch is not there any more."))
    elif outcome.head:
        yield phrase(gettext("The head is now {id}"), id=_oid(outcome.head))
    if view.state == "failed":
        yield Markup("{} {}").format(Visible().line(outcome.message), _as_code(outcome.code))


_TOO_LATE: Final = later(
    "If you approve this now, nothing changes: it ends as stale. Ask the agent to propose again on the new head."
)
_OVERLAPS: Final = {
    True: later("What they changed overlaps with this."),
    False: later("Nothing in them overlaps with this."),
}
_READER: Final = (later("You may read this."), later("An owner or maintainer of the project decides it."))


def _moved(pin: PinView) -> Say:
    if pin.current == NULL:
        return _say("mind", (later("The branch is gone."), _TOO_LATE))
    lead = gettext("The branch has moved since this was proposed.")
    if pin.ahead:
        lead = ngettext(
            "The branch has moved by {count} commit since this was proposed.",
            "The branch has moved by {count} commits since this was proposed.",
            pin.ahead,
        )
    told = [] if pin.overlaps is None else [gettext(_OVERLAPS[pin.overlaps])]
    return Say("mind", lead, " ".join((*told, gettext(_TOO_LATE))), _came(pin))


def _came(pin: PinView) -> tuple[Markup, ...]:
    """What moved a branch: its newest commits, and the paths that this changes too."""
    commits = [Markup("{} <bdi>{}</bdi>").format(_oid(oid), Visible().line(subject)) for oid, subject in pin.came]
    more = (pin.ahead or 0) - len(commits)
    if more > 0 and commits:
        commits.append(escape(ngettext("and {count} commit before", "and {count} commits before", more)))
    if pin.touched:
        paths = Markup(", ").join(Markup("<code>{}</code>").format(Visible().path(path)) for path in pin.touched)
        commits.append(phrase(gettext("Changed there as well: {paths}"), paths=paths))
    return tuple(commits)


# What the agent wrote, and what was computed -------------------------------------------------------------------------


def _agent(view: CardView, visible: Visible) -> list[dict[str, Any]]:
    """The words of who proposes, reason first. A message of one line is in the head of the card already."""
    words, titles = view.card.agent_words, OWNER_WORDS if view.by_owner else WORDS
    order = sorted(words, key=lambda key: (key != "reason", key))
    marked = {key: visible.text(words[key]) for key in order}
    return [
        {"title": _word_title(key, titles), "text": marked[key], "mono": key.startswith("message")}
        for key in order
        if key != "message" or "\n" in words[key].strip()
    ]


def _word_title(key: str, titles: Mapping[str, str]) -> str | Markup:
    """What words of the proposer's are called; those of a step by its number."""
    name, _, number = key.rpartition("_")
    if name == "message" and number.isdecimal():
        return gettext("The message of step {number}", number=number)
    return gettext(titles[key]) if key in titles else _as_code(key)


def _warning(note: Note, attempt: Attempt | None) -> dict[str, Any]:
    return {
        "name": note.name,
        "text": html(sentence("warning", note), Visible()),
        "ticked": bool(attempt and attempt.sent and note.name in attempt.sent.acknowledged),
        "confirm": _confirm(note),
    }


def _confirm(note: Note) -> dict[str, Any] | None:
    """What must be typed, and as a pattern by which a browser knows it."""
    if "confirm" not in note.params:
        return None
    text = str(note.params["confirm"])
    pattern = "".join(char if char.isascii() and char.isalnum() else f"\\u{{{ord(char):x}}}" for char in text)
    return {"text": Visible().line(text), "pattern": pattern}


def _sections(view: CardView, files: Iterable[FilePanel]) -> Iterator[dict[str, Any]]:
    """The notes as lists. A few that the files below say as well are left to the files."""
    anchors = {file_name(file): shown.anchor for file, shown in zip(view.files, files, strict=True)}
    for section in view.card.sections:
        notes = [_note(note, anchors) for note in section.notes]
        if len(notes) > _FEW or not all(note["anchor"] for note in notes):
            known = SECTIONS.get(section.code)
            yield {"title": gettext(known) if known else _as_code(section.code), "notes": notes}


def _as_code(name: str) -> Markup:
    """A name that has no words yet."""
    return Markup("<code>{}</code>").format(Visible().line(name))


def _note(note: Note, anchors: Mapping[str, str]) -> dict[str, Any]:
    return {"text": html(sentence("note", note), Visible()), "anchor": anchors.get(note.at)}


# The rail ------------------------------------------------------------------------------------------------------------


def _decision(view: CardView) -> dict[str, Any]:
    """What stands in the place of the form."""
    if view.decision is None:
        return {"title": gettext("Decision"), "text": _undecided(view), "note": ""}
    made = view.decision
    person = Markup("<bdi>{}</bdi>").format(Visible().line(made.email))
    text = phrase(gettext(_SAID[made.verdict]), person=person, when=moment(made.at, view.now))
    return {"title": gettext("Decision"), "text": text, "note": Visible().text(made.note)}


def _undecided(view: CardView) -> Markup:
    if view.state == "pending" and view.expires_at > view.now:
        place = Markup("<bdi>{}</bdi>").format(Visible().line(view.project))
        return phrase(gettext("An owner or maintainer of {project} decides this. You may read it."), project=place)
    if _end(view) == "partly":
        return escape(gettext("A part of it was approved, and the rest declined with that."))
    return escape(gettext("Nobody decided this while it could be decided."))


def _pins(view: CardView) -> dict[str, Any]:
    """Each ref once: those that are somewhere, or are no longer as they were; then the names that must stay free."""
    once = {pin.ref: pin for pin in reversed(view.pins)}
    moves = [pin for pin in reversed(once.values()) if pin.seen != NULL or not pin.holds]
    free = [pin for pin in reversed(once.values()) if pin.seen == NULL and pin.holds]
    single = free if not moves else []  # the one fact of a new branch is that it is new
    return {
        "pins": [_pin(pin, view) for pin in (*single[:1], *moves[:PINS_SHOWN])],
        "more_pins": [_pin(pin, view) for pin in moves[PINS_SHOWN:]],
        "free": [_pin_name(pin.ref) for pin in free[len(single[:1]) :]],
    }


def _pin(pin: PinView, view: CardView) -> dict[str, Any]:
    kind, ref = _pin_name(pin.ref)
    return {
        "kind": kind,
        "ref": ref,
        "seen": gettext("not there") if pin.seen == NULL else _oid(pin.seen),
        "holds": pin.holds,
        "word": _word(pin) if view.state in {"pending", "stale"} else "",
    }


def _pin_name(ref: str) -> tuple[str, Markup]:
    """What kind of ref it is, and its name; of what a restore point keeps, that of the ref that it was."""
    if ref.startswith(RESTORE_POINTS):
        return gettext("restore point"), Visible().line(ref.split("/", 5)[-1])
    prefix = next((prefix for prefix in _KINDS if ref.startswith(prefix)), "")
    return gettext(_KINDS[prefix]) if prefix else "ref", Visible().line(ref.removeprefix(prefix))


def _word(pin: PinView) -> str:
    if pin.holds:
        if pin.seen == NULL:
            return gettext("still so")
        return gettext("still the tip") if pin.current == pin.seen else gettext("moved on, which is fine")
    if pin.current == NULL:
        return gettext("the ref is gone")
    return ngettext("moved by {count}", "moved by {count}", pin.ahead) if pin.ahead else gettext("moved")


def _expiry(view: CardView) -> dict[str, Any]:
    if view.state == "pending":
        word = gettext("expires") if view.expires_at > view.now else gettext("expired")
        return {"word": word, "when": moment(view.expires_at, view.now)}
    return {"word": gettext("asked"), "when": moment(view.created_at, view.now)}


def _around(view: CardView) -> list[dict[str, Any]]:
    return [
        {
            "link": f"/proposals/{other.id}?tenant={view.tenant}",
            "headline": html(sentence("headline", other.headline), Visible()),
            "connection": Visible().line(other.connection),
            "overlap": other.overlap,
            "grouped": other.grouped,
        }
        for other in view.around
    ]


def _oid(oid: str) -> Markup:
    return _CODE.format(whole=oid, short=oid[:_SHORT])

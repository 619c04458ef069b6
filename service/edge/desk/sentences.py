"""Codes to English, in one place: what would happen, what to mind, how it ended.

An operation gives codes and parameters; the words are made here, so that no agent's text ever passes for ours. A code
or a parameter that is not known is shown as it is: never hidden, and never a reason to fail.
"""

import json
from collections.abc import Mapping
from typing import Final, Literal

from markupsafe import Markup

from service.contract.hidden import readable
from service.contract.plan import Note
from service.edge.desk import operations
from service.edge.desk.pieces import Lead, Maker, Mono, Params, Pieces, Quoted, at_text, counted, mode_text, number
from service.edge.desk.visible import Visible

LINES_SHOWN: Final = 20
Chapter = Literal["headline", "note", "warning", "brief"]


def waiting(count: int) -> str:
    """The inbox's own headline."""
    if not count:
        return "Nothing waits for you."
    return f"{number(count).capitalize()} {'thing waits' if count == 1 else 'things wait'} for you"


def sentence(chapter: Chapter, note: Note) -> Pieces:
    """What a note says, in pieces: plain words, and those to be set otherwise."""
    maker = _CHAPTERS[chapter].get(note.code)
    if maker is not None:
        try:
            return maker(note.at, note.params)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            pass  # parameters that this version does not know
    return _as_it_is(note)


def html(pieces: Pieces, visible: Visible) -> Markup:
    """A sentence as HTML, its parameters made visible."""
    return Markup("").join(_TAGS.get(type(piece), _PLAIN).format(visible.line(piece)) for piece in pieces)


def plain(pieces: Pieces) -> str:
    """A sentence as text, for titles and for programs; hidden characters read `[U+202E RLO]`."""
    return readable("".join(f"“{piece}”" if isinstance(piece, Quoted) else piece for piece in pieces))


_PLAIN: Final = Markup("{}")
_TAGS: Final = {
    Mono: Markup("<code>{}</code>"),
    Lead: Markup("<strong>{}</strong>"),
    Quoted: Markup("“<bdi>{}</bdi>”"),
}


def _as_it_is(note: Note) -> Pieces:
    told = (note.code, at_text(note.at), json.dumps(note.params, ensure_ascii=False, sort_keys=True))
    return (Mono(" ".join(part for part in told if part not in {"", "{}"})),)


# Headlines -----------------------------------------------------------------------------------------------------------

_DONE: Final = {
    "created": ("Create", "created"),
    "updated": ("Change", "changed"),
    "deleted": ("Delete", "deleted"),
    "renamed": ("Rename", "renamed"),
    "mode_changed": ("Change the mode of", "with another mode"),
}


def _files_change(_at: str, params: Params) -> Pieces:
    done = {kind: int(params.get(kind, 0)) for kind in _DONE}
    done = {kind: count for kind, count in done.items() if count}
    total = sum(done.values())
    verb = _DONE[next(iter(done))][0] if len(done) == 1 else "Change"
    head = (f"{verb} {counted(total, 'file')} on ", Mono(params["branch"]))
    listed = ", ".join(f"{count:,} {_DONE[kind][1]}" for kind, count in done.items())
    return (*head, *((f": {listed}",) if len(done) > 1 else ()), *_executable(int(params.get("executable", 0)), total))


def _executable(count: int, total: int) -> Pieces:
    if not count:
        return ()
    subject = "it" if total == 1 else number(count)
    return (f"; {subject} {'becomes' if count == 1 else 'become'} executable",)


# Notes of the section "files" ----------------------------------------------------------------------------------------


def _lines(params: Params) -> str:
    if params.get("binary"):
        return f", {counted(int(params['bytes']), 'byte')} that are not text"
    added, removed = (int(params.get(name) or 0) for name in ("added", "removed"))
    told = [text for count, text in ((added, f"+{added:,}"), (removed, f"\N{MINUS SIGN}{removed:,}")) if count]
    return f", {' '.join(told)}" if told else ""


def _mode_move(params: Params) -> Pieces:
    old, new = (params.get(name) for name in ("old_mode", "new_mode"))
    return (", mode ", Mono(f"{old} → {new}")) if old and new and old != new else ()


def _where(params: Params) -> Pieces:
    """On which branch, in which tag or commit, where a proposal changes several."""
    return (" in ", Quoted(params["branch"])) if params.get("branch") else ()


def _file(verb: str) -> Maker:
    def make(at: str, params: Params) -> Pieces:
        return (f"{verb} ", Mono(at_text(at)), _lines(params), *_mode_move(params), *_where(params))

    return make


def _file_renamed(at: str, params: Params) -> Pieces:
    old = Mono(at_text(params["old_path"]))
    return ("Rename ", old, " to ", Mono(at_text(at)), _lines(params), *_mode_move(params), *_where(params))


def _mode_changed(at: str, params: Params) -> Pieces:
    return ("Change the mode of ", Mono(at_text(at)), *_mode_move(params), *_where(params))


def _left_out(at: str, params: Params) -> Pieces:
    """A path, or of a file that is taken in part, where the groups of lines are that are not."""
    if "hunks" not in params:
        return ("Left out: ", Mono(at_text(at)))
    first = [int(one[0]) for one in params["hunks"]]
    shown = ", ".join(f"{line:,}" for line in first[:LINES_SHOWN])
    more = f" and {len(first) - LINES_SHOWN:,} more" if len(first) > LINES_SHOWN else ""
    places = f" {counted(len(first), 'change')}, at {'line' if len(first) == 1 else 'lines'} {shown}{more}"
    return ("Left out of ", Mono(at_text(at)), f":{places}")


# Warnings ------------------------------------------------------------------------------------------------------------


def _warning(lead: str, *rest: str) -> Maker:
    """A warning of fixed words; in `rest` an `@` stands for the path."""

    def make(at: str, _params: Params) -> Pieces:
        return (Lead(lead), " ", *(Mono(at_text(at)) if piece == "@" else piece for piece in rest))

    return make


_HIDING_PLACES: Final = {
    "content": "the content of ",
    "path": "the path ",
    "message": "the commit message",
    "reason": "the reason that the agent gives",
}


def _hidden_characters(at: str, params: Params) -> Pieces:
    count = int(params["count"])
    where = _HIDING_PLACES[params["where"]]
    path = (Mono(at_text(at)),) if where.endswith(" ") else ()
    marked = f" {'It is' if count == 1 else 'Each is'} marked where it stands."
    return (Lead(counted(count, "hidden character")), f" in {where}", *path, f".{marked}")


def _mixed_scripts(at: str, params: Params) -> Pieces:
    where = _HIDING_PLACES[params["where"]]
    path = (Mono(at_text(at)),) if where.endswith(" ") else ()
    names = " and ".join(str(name) for name in params["scripts"])
    lead = Lead(f"{counted(int(params['count']), 'word')} may not be what it looks like.")
    return (lead, f" In {where}", *path, f", letters of {names} stand in one word.")


def _becomes_executable(at: str, params: Params) -> Pieces:
    mode = params["mode"] if isinstance(params["mode"], str) else mode_text(int(params["mode"]))
    return (Lead("Runs on your machines."), " ", Mono(at_text(at)), " becomes executable (mode ", Mono(mode), ").")


def _line_ends_change(at: str, params: Params) -> Pieces:
    count = counted(int(params["lines"]), "line")
    return (Lead("Line ends change"), f" on {count} of ", Mono(at_text(at)), "; they are marked below.")


_RISKS: Final[Mapping[str, Maker]] = {
    "workflow": _warning("Runs code.", "@", " is a workflow: your build service runs it as soon as it lands."),
    "hook": _warning("Runs code.", "@", " is a hook: it runs on the machine of whoever commits."),
    "package_script": _warning("Runs code.", "@", " names scripts that a package manager runs when it installs."),
    "build": _warning("Runs code.", "@", " tells a build what to run."),
    "attributes": _warning("Redirects.", "@", " decides how Git reads, compares and merges files."),
    "agent_instructions": _warning("Instructs agents.", "@", " is read by agents that work here, as orders."),
    "codeowners": _warning("Redirects.", "@", " decides who is asked to review."),
    "submodules": _warning("Redirects.", "@", " decides from where submodules are fetched."),
}


def _runs_or_redirects(at: str, params: Params) -> Pieces:
    return _RISKS[params["kind"]](at, params)


def _binary_content(at: str, params: Params) -> Pieces:
    size = counted(int(params["bytes"]), "byte")
    return (Lead("Not text."), " ", Mono(at_text(at)), f" holds {size} that cannot be shown as lines.")


# The same warnings in two or three words, for a list -----------------------------------------------------------------


def _brief(words: str) -> Maker:
    return lambda _at, _params: (words,)


def _brief_risk(_at: str, params: Params) -> Pieces:
    return (_BRIEF_RISKS[params["kind"]],)


_BRIEF_RISKS: Final = {
    **dict.fromkeys(("workflow", "hook", "package_script", "build"), "runs code"),
    "attributes": "changes how Git reads files",
    "agent_instructions": "instructs agents",
    "codeowners": "changes who reviews",
    "submodules": "changes where submodules come from",
}

# Of operations that hold others -----------------------------------------------------------------------------------


def _plan(_at: str, params: Params) -> Pieces:
    refs = operations.listed(params["refs"])
    lost = int(params.get("destructive", 0))
    ends = f"; {number(lost)} of them {'takes' if lost == 1 else 'take'} something away" if lost else ""
    return (f"{counted(int(params['steps']), 'step')} on ", *refs, ends)


def _step(at: str, params: Params) -> Pieces:
    return (f"{at}. ", *sentence("headline", Note.model_validate(params["headline"])))


def _many_alike(at: str, params: Params) -> Pieces:
    paths, count = params["paths"], int(params["count"])
    what = plain(_brief_of(at, params))
    more = f" and {count - len(paths):,} more" if count > len(paths) else ""
    return (Lead(f"{count:,} times: {what}."), " ", *operations.listed(paths), f"{more}.")


def _brief_many(at: str, params: Params) -> Pieces:
    return _brief_of(at, params)


def _brief_of(code: str, params: Params) -> Pieces:
    return sentence("brief", Note(code=code, params=params.get("first", {})))


_CHAPTERS: Final[Mapping[Chapter, Mapping[str, Maker]]] = {
    "headline": {"files_change": _files_change, **operations.HEADLINES, "plan": _plan},
    "note": {
        "file_created": _file("Create"),
        "file_updated": _file("Change"),
        "file_deleted": _file("Delete"),
        "file_renamed": _file_renamed,
        "mode_changed": _mode_changed,
        "part_of": lambda at, _params: ("Part of proposal ", Mono(at)),
        "left_out": _left_out,
        **operations.NOTES,
        "step": _step,
    },
    "warning": {
        "becomes_executable": _becomes_executable,
        "hidden_characters": _hidden_characters,
        "line_ends_change": _line_ends_change,
        "runs_or_redirects": _runs_or_redirects,
        "mixed_scripts": _mixed_scripts,
        "looks_like_base64": _warning(
            "Looks like base64.", "@", " would hold this very text, not what it may stand for."
        ),
        "binary_content": _binary_content,
        "deletes_file": _warning("Deletes", "@", ". After this, what it holds is in the history only."),
        **operations.WARNINGS,
        "many_alike": _many_alike,
    },
    "brief": {
        "becomes_executable": _brief("becomes executable"),
        "hidden_characters": _brief("hidden character"),
        "line_ends_change": _brief("line ends change"),
        "runs_or_redirects": _brief_risk,
        "mixed_scripts": _brief("mixed alphabets"),
        "looks_like_base64": _brief("looks like base64"),
        "binary_content": _brief("not text"),
        "deletes_file": _brief("deletes files"),
        **{code: _brief(words) for code, words in operations.BRIEFS.items()},
        "many_alike": _brief_many,
    },
}

SECTIONS: Final[Mapping[str, str]] = {"files": "Files", "part": "A part of another proposal", **operations.SECTIONS}
"""What a section of the card is called; an unknown one by its code."""

OWNER_WORDS: Final[Mapping[str, str]] = {"reason": "The owner says", "message": "The commit message"}
"""What an owner's words are called on a proposal of his own."""

WORDS: Final[Mapping[str, str]] = {"reason": "The agent says", "message": "Its commit message"}
"""What the agent's own words are called."""

STATES: Final[Mapping[str, str]] = {
    "pending": "waits for you",
    "approved": "approved",
    "executing": "approved",
    "executed": "executed",
    "stale": "stale",
    "failed": "failed",
    "declined": "declined",
    "cancelled": "withdrawn",
    "expired": "expired",
}
"""A state in a list."""

PART_OF: Final = (
    "Part of another proposal.",
    "It was chosen there; what was left out is listed below. Approving this declines the rest.",
)
PARTS_WAIT: Final = ("A part of this waits too.", "Whichever is approved first ends the other.")
"""What the cards of a part and of the whole say of each other: a few words, then what it means."""

ENDINGS: Final[Mapping[str, tuple[str, str]]] = {
    "approved": ("The writer is at work.", "You approved this. Look again in a moment to see how it ended."),
    "executing": ("The writer is at work.", "You approved this. Look again in a moment to see how it ended."),
    "executed": ("Done.", "What you see below has been done."),
    "stale": ("Stale: the branch moved first.", "Nothing was changed. The agent can propose it again on the new head."),
    "failed": ("Failed.", "It was approved, but could not be executed. Nothing was changed."),
    "declined": ("Declined.", "Nothing was changed, and nothing will be."),
    "changes": ("Sent back for changes.", "Nothing was changed. The agent reads your note and may propose again."),
    "partly": ("Approved in part.", "A part of it was approved. The rest was declined: nothing of that will change."),
    "part_withdrawn": ("Withdrawn.", "An owner took this part back, or the whole ended first. Nothing was changed."),
    "cancelled": ("Withdrawn.", "The agent took this back before it was decided. Nothing was changed."),
    "expired": ("Expired.", "Nobody decided in time. Nothing was changed. The agent may propose it again."),
}
"""What a card says first when nothing waits on it any more: a few words, then what it means."""

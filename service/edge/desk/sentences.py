"""Codes to words, in one place: what would happen, what to mind, how it ended.

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
from service.edge.desk.pieces import (
    Lead,
    Maker,
    Mono,
    Params,
    Pieces,
    Quoted,
    at_text,
    capital,
    listed,
    mode_text,
    number,
    said,
)
from service.edge.desk.visible import Visible
from service.kit.language import figure, gettext, later, ngettext, plural

LINES_SHOWN: Final = 20
Chapter = Literal["headline", "note", "warning", "brief"]


def waiting(count: int) -> str:
    """The inbox's own headline."""
    if not count:
        return gettext("Nothing waits for you.")
    text = ngettext("{number} thing waits for you", "{number} things wait for you", count, number=number(count))
    return capital(text)


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

_ALONE: Final = {
    "created": plural("Create {count} file on {branch}{more}", "Create {count} files on {branch}{more}"),
    "updated": plural("Change {count} file on {branch}{more}", "Change {count} files on {branch}{more}"),
    "deleted": plural("Delete {count} file on {branch}{more}", "Delete {count} files on {branch}{more}"),
    "renamed": plural("Rename {count} file on {branch}{more}", "Rename {count} files on {branch}{more}"),
    "mode_changed": plural(
        "Change the mode of {count} file on {branch}{more}", "Change the mode of {count} files on {branch}{more}"
    ),
}
_AMONG: Final = {
    "created": plural("{count} created", "{count} created"),
    "updated": plural("{count} changed", "{count} changed"),
    "deleted": plural("{count} deleted", "{count} deleted"),
    "renamed": plural("{count} renamed", "{count} renamed"),
    "mode_changed": plural("{count} with another mode", "{count} with another mode"),
}


def _files_change(_at: str, params: Params) -> Pieces:
    done = {kind: int(params.get(kind, 0)) for kind in _ALONE}
    done = {kind: count for kind, count in done.items() if count}
    total = sum(done.values())
    one, many = _ALONE[next(iter(done)) if len(done) == 1 else "updated"]
    among = ", ".join(ngettext(*_AMONG[kind], count) for kind, count in done.items())
    listing = f": {among}" if len(done) > 1 else ""
    more = listing + _executable(int(params.get("executable", 0)), total)
    return said(ngettext(one, many, total), branch=Mono(params["branch"]), more=more)


def _executable(count: int, total: int) -> str:
    if not count:
        return ""
    if total == 1:
        return gettext("; it becomes executable")
    return ngettext("; {number} becomes executable", "; {number} become executable", count, number=number(count))


# Notes of the section "files" ----------------------------------------------------------------------------------------


def _lines(params: Params) -> str:
    if params.get("binary"):
        return ngettext(", {count} byte that is not text", ", {count} bytes that are not text", int(params["bytes"]))
    added, removed = (int(params.get(name) or 0) for name in ("added", "removed"))
    told = [
        text for count, text in ((added, f"+{figure(added)}"), (removed, f"\N{MINUS SIGN}{figure(removed)}")) if count
    ]
    return f", {' '.join(told)}" if told else ""


def _mode_move(params: Params) -> Pieces:
    old, new = (params.get(name) for name in ("old_mode", "new_mode"))
    return said(gettext(", mode {modes}"), modes=Mono(f"{old} → {new}")) if old and new and old != new else ()


def _where(params: Params) -> Pieces:
    """On which branch, in which tag or commit, where a proposal changes several."""
    return said(gettext(" in {place}"), place=Quoted(params["branch"])) if params.get("branch") else ()


def _file(message: str) -> Maker:
    def make(at: str, params: Params) -> Pieces:
        old = {"old": Mono(at_text(params["old_path"]))} if "{old}" in message else {}
        told = said(gettext(message), path=Mono(at_text(at)), **old)
        return (*told, _lines(params), *_mode_move(params), *_where(params))

    return make


def _mode_changed(at: str, params: Params) -> Pieces:
    told = said(gettext("Change the mode of {path}"), path=Mono(at_text(at)))
    return (*told, *_mode_move(params), *_where(params))


def _left_out(at: str, params: Params) -> Pieces:
    """A path, or of a file that is taken in part, where the groups of lines are that are not."""
    path = Mono(at_text(at))
    if "hunks" not in params:
        return said(gettext("Left out: {path}"), path=path)
    first = [int(one[0]) for one in params["hunks"]]
    rest = len(first) - LINES_SHOWN
    message = ngettext(
        "Left out of {path}: {count} change, at line {lines}{more}",
        "Left out of {path}: {count} changes, at lines {lines}{more}",
        len(first),
    )
    shown = ", ".join(figure(line) for line in first[:LINES_SHOWN])
    more = ngettext(" and {count} more", " and {count} more", rest) if rest > 0 else ""
    return said(message, path=path, lines=shown, more=more)


# Warnings ------------------------------------------------------------------------------------------------------------


def _warning(message: str) -> Maker:
    """A warning of fixed words about a path."""
    return lambda at, _params: said(gettext(message), path=Mono(at_text(at)))


_HIDDEN: Final = {
    "content": plural(
        "<b>{count} hidden character</b> in the content of {path}. It is marked where it stands.",
        "<b>{count} hidden characters</b> in the content of {path}. Each is marked where it stands.",
    ),
    "path": plural(
        "<b>{count} hidden character</b> in the path {path}. It is marked where it stands.",
        "<b>{count} hidden characters</b> in the path {path}. Each is marked where it stands.",
    ),
    "message": plural(
        "<b>{count} hidden character</b> in the commit message. It is marked where it stands.",
        "<b>{count} hidden characters</b> in the commit message. Each is marked where it stands.",
    ),
    "reason": plural(
        "<b>{count} hidden character</b> in the reason that the agent gives. It is marked where it stands.",
        "<b>{count} hidden characters</b> in the reason that the agent gives. Each is marked where it stands.",
    ),
}
_MIXED: Final = {
    "content": later(" In the content of {path}, letters of {scripts} stand in one word."),
    "path": later(" In the path {path}, letters of {scripts} stand in one word."),
    "message": later(" In the commit message, letters of {scripts} stand in one word."),
    "reason": later(" In the reason that the agent gives, letters of {scripts} stand in one word."),
}


def _hidden_characters(at: str, params: Params) -> Pieces:
    told = said(ngettext(*_HIDDEN[params["where"]], int(params["count"])), path=Mono(at_text(at)))
    more = gettext(" Such characters make code read otherwise than it runs.") if "confirm" in params else ""
    return (*told, more) if more else told


_SECRET: Final = {
    "content": plural(
        "<b>{count} possible secret</b> in {path}: {found}. What lands stays in the history.",
        "<b>{count} possible secrets</b> in {path}: {found}. What lands stays in the history.",
    ),
    "path": plural(
        "<b>{count} possible secret</b> in the new paths: {found}. What lands stays in the history.",
        "<b>{count} possible secrets</b> in the new paths: {found}. What lands stays in the history.",
    ),
    "message": plural(
        "<b>{count} possible secret</b> in the commit message: {found}. What lands stays in the history.",
        "<b>{count} possible secrets</b> in the commit message: {found}. What lands stays in the history.",
    ),
    "reason": plural(
        "<b>{count} possible secret</b> in the reason that the agent gives: {found}.",
        "<b>{count} possible secrets</b> in the reason that the agent gives: {found}.",
    ),
}


def _secret(at: str, params: Params) -> Pieces:
    found = [(str(kind), figure(int(line))) for kind, line in params["found"]]
    told = ", ".join(gettext("{kind} on line {line}", kind=kind, line=line) for kind, line in found)
    return said(ngettext(*_SECRET[params["where"]], len(found)), path=Mono(at_text(at)), found=told)


def _not_searched(at: str, params: Params) -> Pieces:
    message = ngettext(
        "<b>Not searched for secrets.</b> {path} holds {count} byte that is not text.",
        "<b>Not searched for secrets.</b> {path} holds {count} bytes that are not text.",
        int(params["bytes"]),
    )
    return said(message, path=Mono(at_text(at)))


_LOOKS_ALIKE: Final = {
    "letters": later("<b>Looks like another.</b> {path} reads like {other}, and is not the same."),
    "case": later("<b>Looks like another.</b> Some file systems take {path} and {other} for one."),
    "form": later("<b>Looks like another.</b> {path} and {other} are the same letters, written in two ways."),
}


def _looks_alike(at: str, params: Params) -> Pieces:
    message = gettext(_LOOKS_ALIKE[params["how"]])
    return said(message, path=Mono(at_text(at)), other=Mono(at_text(params["other"])))


def _mixed_scripts(at: str, params: Params) -> Pieces:
    lead = ngettext(
        "<b>{count} word may not be what it looks like.</b>",
        "<b>{count} words may not be what they look like.</b>",
        int(params["count"]),
    )
    first, *rest = (str(name) for name in params["scripts"])
    names = first
    for name in rest:
        names = gettext("{several} and {last}", several=names, last=name)
    return (*said(lead), *said(gettext(_MIXED[params["where"]]), path=Mono(at_text(at)), scripts=names))


def _becomes_executable(at: str, params: Params) -> Pieces:
    mode = params["mode"] if isinstance(params["mode"], str) else mode_text(int(params["mode"]))
    message = gettext("<b>Runs on your machines.</b> {path} becomes executable (mode {mode}).")
    return said(message, path=Mono(at_text(at)), mode=Mono(mode))


def _line_ends_change(at: str, params: Params) -> Pieces:
    message = ngettext(
        "<b>Line ends change</b> on {count} line of {path}; it is marked below.",
        "<b>Line ends change</b> on {count} lines of {path}; they are marked below.",
        int(params["lines"]),
    )
    return said(message, path=Mono(at_text(at)))


_RISKS: Final[Mapping[str, Maker]] = {
    "workflow": _warning(
        later("<b>Runs code.</b> {path} is a workflow: your build service runs it as soon as it lands.")
    ),
    "hook": _warning(later("<b>Runs code.</b> {path} is a hook: it runs on the machine of whoever commits.")),
    "package_script": _warning(
        later("<b>Runs code.</b> {path} names scripts that a package manager runs when it installs.")
    ),
    "build": _warning(later("<b>Runs code.</b> {path} tells a build what to run.")),
    "attributes": _warning(later("<b>Redirects.</b> {path} decides how Git reads, compares and merges files.")),
    "agent_instructions": _warning(
        later("<b>Instructs agents.</b> {path} is read by agents that work here, as orders.")
    ),
    "codeowners": _warning(later("<b>Redirects.</b> {path} decides who is asked to review.")),
    "submodules": _warning(later("<b>Redirects.</b> {path} decides from where submodules are fetched.")),
}


def _runs_or_redirects(at: str, params: Params) -> Pieces:
    return _RISKS[params["kind"]](at, params)


def _binary_content(at: str, params: Params) -> Pieces:
    message = ngettext(
        "<b>Not text.</b> {path} holds {count} byte that cannot be shown as lines.",
        "<b>Not text.</b> {path} holds {count} bytes that cannot be shown as lines.",
        int(params["bytes"]),
    )
    return said(message, path=Mono(at_text(at)))


# The same warnings in two or three words, for a list -----------------------------------------------------------------


def _brief(message: str) -> Maker:
    return lambda _at, _params: (gettext(message),)


def _brief_risk(_at: str, params: Params) -> Pieces:
    return (gettext(_BRIEF_RISKS[params["kind"]]),)


_BRIEF_RISKS: Final = {
    **dict.fromkeys(("workflow", "hook", "package_script", "build"), later("runs code")),
    "attributes": later("changes how Git reads files"),
    "agent_instructions": later("instructs agents"),
    "codeowners": later("changes who reviews"),
    "submodules": later("changes where submodules come from"),
}

# Of operations that hold others -----------------------------------------------------------------------------------


def _plan(_at: str, params: Params) -> Pieces:
    lost = int(params.get("destructive", 0))
    ends = ngettext("; {number} of them takes something away", "; {number} of them take something away", lost)
    message = ngettext("{count} step on {refs}{ends}", "{count} steps on {refs}{ends}", int(params["steps"]))
    told = said(ends, number=number(lost)) if lost else ()
    return said(message, refs=listed(params["refs"]), ends=told)


def _step(at: str, params: Params) -> Pieces:
    return (f"{at}. ", *sentence("headline", Note.model_validate(params["headline"])))


def _many_alike(at: str, params: Params) -> Pieces:
    paths, count = params["paths"], int(params["count"])
    message = ngettext(
        "<b>{count} time: {what}.</b> {paths}{more}.", "<b>{count} times: {what}.</b> {paths}{more}.", count
    )
    rest = count - len(paths)
    more = ngettext(" and {count} more", " and {count} more", rest) if rest > 0 else ""
    return said(message, what=plain(_brief_of(at, params)), paths=listed(paths), more=more)


def _brief_many(at: str, params: Params) -> Pieces:
    return _brief_of(at, params)


def _brief_of(code: str, params: Params) -> Pieces:
    return sentence("brief", Note(code=code, params=params.get("first", {})))


_CHAPTERS: Final[Mapping[Chapter, Mapping[str, Maker]]] = {
    "headline": {"files_change": _files_change, **operations.HEADLINES, "plan": _plan},
    "note": {
        "file_created": _file(later("Create {path}")),
        "file_updated": _file(later("Change {path}")),
        "file_deleted": _file(later("Delete {path}")),
        "file_renamed": _file(later("Rename {old} to {path}")),
        "mode_changed": _mode_changed,
        "part_of": lambda at, _params: said(gettext("Part of proposal {proposal}"), proposal=Mono(at)),
        "left_out": _left_out,
        **operations.NOTES,
        "step": _step,
    },
    "warning": {
        "becomes_executable": _becomes_executable,
        "hidden_characters": _hidden_characters,
        "secret": _secret,
        "not_searched": _not_searched,
        "looks_alike": _looks_alike,
        "line_ends_change": _line_ends_change,
        "runs_or_redirects": _runs_or_redirects,
        "mixed_scripts": _mixed_scripts,
        "looks_like_base64": _warning(
            later("<b>Looks like base64.</b> {path} would hold this very text, not what it may stand for.")
        ),
        "binary_content": _binary_content,
        "deletes_file": _warning(later("<b>Deletes</b> {path}. After this, what it holds is in the history only.")),
        **operations.WARNINGS,
        "many_alike": _many_alike,
    },
    "brief": {
        "becomes_executable": _brief(later("becomes executable")),
        "hidden_characters": _brief(later("hidden character")),
        "secret": _brief(later("possible secrets")),
        "not_searched": _brief(later("not searched for secrets")),
        "looks_alike": _brief(later("looks like another name")),
        "line_ends_change": _brief(later("line ends change")),
        "runs_or_redirects": _brief_risk,
        "mixed_scripts": _brief(later("mixed alphabets")),
        "looks_like_base64": _brief(later("looks like base64")),
        "binary_content": _brief(later("not text")),
        "deletes_file": _brief(later("deletes files")),
        **{code: _brief(words) for code, words in operations.BRIEFS.items()},
        "many_alike": _brief_many,
    },
}

SECTIONS: Final[Mapping[str, str]] = {
    "files": later("Files"),
    "part": later("A part of another proposal"),
    **operations.SECTIONS,
}
"""What a section of the card is called; an unknown one by its code."""

OWNER_WORDS: Final[Mapping[str, str]] = {"reason": later("The owner says"), "message": later("The commit message")}
"""What an owner's words are called on a proposal of his own."""

WORDS: Final[Mapping[str, str]] = {"reason": later("The agent says"), "message": later("Its commit message")}
"""What the agent's own words are called."""

STATES: Final[Mapping[str, str]] = {
    "pending": later("waits for you"),
    "approved": later("approved"),
    "executing": later("approved"),
    "executed": later("executed"),
    "stale": later("stale"),
    "failed": later("failed"),
    "declined": later("declined"),
    "cancelled": later("withdrawn"),
    "expired": later("expired"),
}
"""A state in a list."""

PART_OF: Final = (
    later("Part of another proposal."),
    later("It was chosen there; what was left out is listed below. Approving this declines the rest."),
)
PARTS_WAIT: Final = (later("A part of this waits too."), later("Whichever is approved first ends the other."))
"""What the cards of a part and of the whole say of each other: a few words, then what it means."""

ENDINGS: Final[Mapping[str, tuple[str, str]]] = {
    "approved": (
        later("The writer is at work."),
        later("You approved this. Look again in a moment to see how it ended."),
    ),
    "executing": (
        later("The writer is at work."),
        later("You approved this. Look again in a moment to see how it ended."),
    ),
    "executed": (later("Done."), later("What you see below has been done.")),
    "stale": (
        later("Stale: the branch moved first."),
        later("Nothing was changed. The agent can propose it again on the new head."),
    ),
    "failed": (later("Failed."), later("It was approved, but could not be executed. Nothing was changed.")),
    "declined": (later("Declined."), later("Nothing was changed, and nothing will be.")),
    "changes": (
        later("Sent back for changes."),
        later("Nothing was changed. The agent reads your note and may propose again."),
    ),
    "partly": (
        later("Approved in part."),
        later("A part of it was approved. The rest was declined: nothing of that will change."),
    ),
    "part_withdrawn": (
        later("Withdrawn."),
        later("An owner took this part back, or the whole ended first. Nothing was changed."),
    ),
    "cancelled": (later("Withdrawn."), later("The agent took this back before it was decided. Nothing was changed.")),
    "expired": (
        later("Expired."),
        later("Nobody decided in time. Nothing was changed. The agent may propose it again."),
    ),
}
"""What a card says first when nothing waits on it any more: a few words, then what it means."""

"""Connections, repositories and the ledger as plain lists."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from service.contract.answers import State
from service.contract.hidden import readable
from service.edge.desk import entries
from service.edge.desk.inbox import TABS
from service.edge.desk.pieces import capital, number, phrase
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment
from service.grants.policy import Clause
from service.kit.language import figure, gettext, later, ngettext, plural
from service.proposals.lists import (
    ConnectionLine,
    ConnectionsView,
    ConnectionView,
    LedgerFilter,
    LedgerLine,
    LedgerView,
    RepositoriesView,
    RepositoryLine,
)
from service.proposals.view import SHOWN, Show

_MAY: Final = {
    ("repo:read",): later("May read"),
    ("repo:propose",): later("May propose"),
    ("repo:propose", "repo:read"): later("May read and propose"),
}
_ACTIONS: Final = {
    "live": ({"value": "pause", "name": later("Pause")},),
    "paused": ({"value": "resume", "name": later("Resume")},),
    "revoked": (),
}
_KINDS: Final = {"live": "good", "paused": "mind", "revoked": ""}
STANDINGS: Final = {"live": later("live"), "paused": later("paused"), "revoked": later("revoked")}
_TOLD: Final[Mapping[State, tuple[str, str]]] = {
    "pending": plural("{count} waiting", "{count} waiting"),
    "executed": plural("{count} executed", "{count} executed"),
    "declined": plural("{count} declined", "{count} declined"),
    "stale": plural("{count} stale", "{count} stale"),
    "failed": plural("{count} failed", "{count} failed"),
}
_CONNECTIONS: Final = (
    later("No live connection"),
    plural("{number} live connection", "{number} live connections"),
)
_REPOSITORIES: Final = (later("No repository"), plural("{number} repository", "{number} repositories"))
_RECORD: Final[tuple[Show, ...]] = ("waiting", "decided", "stale", "missed", "ended")
_CLAUSES: Final[Mapping[tuple[str, str], str]] = {
    ("allow", "operation"): later("It may ask for {pattern}, and for what other such lines say."),
    ("allow", "branch"): later("It may change the branch {pattern}, and what other such lines say."),
    ("allow", "path"): later("It may change {pattern}, and what other such lines say."),
    ("deny", "operation"): later("It may not ask for {pattern}."),
    ("deny", "branch"): later("It may not change the branch {pattern}."),
    ("deny", "path"): later("It may not change {pattern}."),
}
_EVERYTHING: Final = later("Everything that happened, newest first")
_FOUND: Final = later("What happened, newest first")
_SUBJECT_MOST: Final = 13


def connections_page(view: ConnectionsView, tenant: str) -> dict[str, Any]:
    """The values of the template of connections."""
    live = sum(line.state == "live" for line in view.lines)
    return {
        "here": "/connections",
        "waiting": view.waiting,
        "tenant": tenant,
        "title": _counted(live, _CONNECTIONS),
        "lines": [_connection(line, view.now) for line in view.lines],
    }


def connection_page(view: ConnectionView, tenant: str, notice: str = "") -> dict[str, Any]:
    """The values of the template of one connection."""
    line = view.line
    return {
        "here": "/connections",
        "waiting": view.waiting,
        "tenant": tenant,
        "notice": notice,
        "line": _connection(line, view.now),
        "clauses": [_clause(one) for one in view.clauses],
        "lists": [
            {
                "link": f"/?{urlencode({'show': show, 'proposer': line.id, 'tenant': tenant})}",
                "name": gettext(TABS[show]),
                "count": figure(sum(line.counts.get(state, 0) for state in SHOWN[show])),
            }
            for show in _RECORD
        ],
    }


def _clause(one: Clause) -> Markup:
    pattern = Markup("<code>{}</code>").format(Visible().line(one.pattern))
    return phrase(gettext(_CLAUSES[one.effect, one.subject]), pattern=pattern)


def _counted(count: int, words: tuple[str, tuple[str, str]]) -> str:
    """A headline that counts: what is said of none, and of one or several."""
    none, some = words
    return capital(ngettext(*some, count, number=number(count))) if count else gettext(none)


def unstopped(count: int) -> str:
    """What a revocation or a pause says about proposals that it came too late for."""
    if not count:
        return ""
    return ngettext(
        "Done. {count} approved proposal was already being executed and could not be stopped.",
        "Done. {count} approved proposals were already being executed and could not be stopped.",
        count,
    )


def _connection(line: ConnectionLine, now: datetime) -> dict[str, Any]:
    visible = Visible()
    return {
        "id": str(line.id),
        "name": visible.line(line.name),
        "client": visible.line(line.client),
        "granted_by": visible.line(line.granted_by),
        "granted": moment(line.created_at, now),
        "expires": moment(line.expires_at, now) if line.expires_at else "",
        "may": _may(line.scopes),
        "repositories": visible.line(", ".join(line.repositories) or gettext("no repository")),
        "proposals": _proposals(line),
        "last": moment(line.last_at, now) if line.last_at else "",
        "used": moment(line.used_at, now) if line.used_at else "",
        "state": gettext(STANDINGS[line.state]),
        "kind": _KINDS[line.state],
        "actions": [{**one, "name": gettext(one["name"])} for one in _ACTIONS[line.state] if line.may_manage],
        "revocable": line.may_manage and line.state != "revoked",
    }


def _proposals(line: ConnectionLine) -> str:
    total = sum(line.counts.values())
    told = [ngettext(*messages, line.counts[state]) for state, messages in _TOLD.items() if line.counts.get(state)]
    if not total:
        return gettext("No proposals yet")
    proposals = ngettext("{count} proposal", "{count} proposals", total)
    return f"{proposals}{': ' if told else ''}{', '.join(told)}"


def _may(scopes: tuple[str, ...]) -> str:
    known = _MAY.get(tuple(sorted(scopes)))
    return gettext(known) if known else gettext("May {scopes}", scopes=readable(", ".join(scopes)))


def repositories_page(view: RepositoriesView, tenant: str) -> dict[str, Any]:
    """The values of the template of repositories."""
    count = len(view.lines)
    return {
        "here": "/repositories",
        "waiting": view.waiting,
        "tenant": tenant,
        "title": _counted(count, _REPOSITORIES),
        "lines": [_repository(line) for line in view.lines],
    }


def _repository(line: RepositoryLine) -> dict[str, Any]:
    waiting = ngettext("{count} proposal waits here.", "{count} proposals wait here.", line.waiting)
    return {
        "id": str(line.id),
        "name": Visible().line(f"{line.project} / {line.name}"),
        "state": line.state,
        "admits": line.agents_may_propose,
        "signed": line.signed_approvals,
        "waiting": waiting if line.waiting else gettext("Nothing waits here."),
        "may_manage": line.may_manage and line.state != "revoked",
    }


def ledger_page(view: LedgerView, tenant: str, only: LedgerFilter, *, newest: bool) -> dict[str, Any]:
    """The values of the template of the ledger; `newest`: there is a way back to the newest entries."""
    asked = _asked(tenant, only)
    filtered = only != LedgerFilter()
    return {
        "here": "/ledger",
        "waiting": view.waiting,
        "tenant": tenant,
        "title": gettext("What happened, newest first")
        if filtered
        else gettext("Everything that happened, newest first"),
        "filtered": filtered,
        "kinds": [
            {"value": kind, "name": gettext(name), "on": kind == only.kind} for kind, name in entries.SUBJECTS.items()
        ],
        "actors": [{"value": who, "name": readable(name), "on": who == str(only.actor)} for who, name in view.actors],
        "subject": readable(only.subject),
        "since": asked.get("since", ""),
        "until": asked.get("until", ""),
        "lines": [_entry(line, view.now, tenant) for line in view.lines],
        "older": f"/ledger?{urlencode({**asked, 'before': view.before})}" if view.before else "",
        "newest": f"/ledger?{urlencode(asked)}" if newest else "",
    }


def _asked(tenant: str, only: LedgerFilter) -> dict[str, str]:
    """The address's query for this filter."""
    given = {
        "tenant": tenant,
        "kind": only.kind,
        "actor": str(only.actor or ""),
        "subject": only.subject,
        "since": f"{only.since:%Y-%m-%d}" if only.since else "",
        "until": f"{only.until - timedelta(days=1):%Y-%m-%d}" if only.until else "",
    }
    return {name: value for name, value in given.items() if value}


def _entry(line: LedgerLine, now: datetime, tenant: str) -> dict[str, Any]:
    subject = readable(line.subject)
    place = entries.PLACES.get(line.kind.partition(".")[0])
    return {
        "seq": figure(line.seq),
        "when": moment(line.at, now),
        "kind": readable(line.kind),
        "words": entries.words(line.kind, line.details),
        "link": f"{place}{quote(line.subject)}?tenant={tenant}" if place else "",
        "subject": subject,
        "subject_short": subject if len(subject) <= _SUBJECT_MOST else f"{subject[:8]}…",
        "actor": Visible().line(line.actor),
        "hash": line.hash,
    }

"""Connections, repositories and the ledger as plain lists."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from service.contract.answers import State
from service.contract.hidden import readable
from service.edge.desk.pieces import capital, number
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment, stamp
from service.kit.language import gettext, later, ngettext, plural
from service.proposals.lists import (
    ConnectionLine,
    ConnectionsView,
    LedgerLine,
    LedgerView,
    RepositoriesView,
    RepositoryLine,
)

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
_SUBJECT_MOST: Final = 13


def connections_page(view: ConnectionsView, tenant: str, notice: str = "") -> dict[str, Any]:
    """The values of the template of connections."""
    live = sum(line.state == "live" for line in view.lines)
    return {
        "here": "/connections",
        "waiting": view.waiting,
        "tenant": tenant,
        "title": capital(ngettext("{number} live connection", "{number} live connections", live, number=number(live))),
        "notice": notice,
        "lines": [_connection(line, view.now) for line in view.lines],
    }


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
        "title": capital(ngettext("{number} repository", "{number} repositories", count, number=number(count))),
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


def ledger_page(view: LedgerView, *, newest: bool) -> dict[str, Any]:
    """The values of the template of the ledger; `newest`: there is a way back to the newest entries."""
    return {
        "here": "/ledger",
        "waiting": view.waiting,
        "lines": [_entry(line) for line in view.lines],
        "older": view.before,
        "newest": newest,
    }


def _entry(line: LedgerLine) -> dict[str, Any]:
    subject = readable(line.subject)
    return {
        "seq": line.seq,
        "when": stamp(line.at),
        "kind": Visible().line(line.kind),
        "subject": subject,
        "subject_short": subject if len(subject) <= _SUBJECT_MOST else f"{subject[:8]}…",
        "actor": Visible().line(line.actor),
        "actor_kind": Visible().line(line.actor_kind),
        "hash": line.hash,
    }

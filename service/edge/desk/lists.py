"""Connections, repositories and the ledger as plain lists."""

from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from service.contract.hidden import readable
from service.edge.desk.pieces import counted, number
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment, stamp
from service.proposals.lists import (
    ConnectionLine,
    ConnectionsView,
    LedgerLine,
    LedgerView,
    RepositoriesView,
    RepositoryLine,
)

_SCOPES: Final = {"repo:read": "read", "repo:propose": "propose"}
_ACTIONS: Final = {
    "live": ({"value": "pause", "name": "Pause"},),
    "paused": ({"value": "resume", "name": "Resume"},),
    "revoked": (),
}
_KINDS: Final = {"live": "good", "paused": "mind", "revoked": ""}
_TOLD: Final = ("pending", "executed", "declined", "stale", "failed")
_TOLD_AS: Final = {"pending": "waiting"}
_SUBJECT_MOST: Final = 13


def connections_page(view: ConnectionsView, tenant: str, notice: str = "") -> dict[str, Any]:
    """The values of the template of connections."""
    live = sum(line.state == "live" for line in view.lines)
    return {
        "here": "/connections",
        "waiting": view.waiting,
        "tenant": tenant,
        "title": f"{number(live).capitalize()} live {'connection' if live == 1 else 'connections'}",
        "notice": notice,
        "lines": [_connection(line, view.now) for line in view.lines],
    }


def unstopped(count: int) -> str:
    """What a revocation or a pause says about proposals that it came too late for."""
    if not count:
        return ""
    was = "proposal was" if count == 1 else "proposals were"
    return f"Done. {number(count).capitalize()} approved {was} already being executed and could not be stopped."


def _connection(line: ConnectionLine, now: datetime) -> dict[str, Any]:
    visible = Visible()
    return {
        "id": str(line.id),
        "name": visible.line(line.name),
        "client": visible.line(line.client),
        "granted_by": visible.line(line.granted_by),
        "granted": moment(line.created_at, now),
        "expires": moment(line.expires_at, now) if line.expires_at else "",
        "may": Markup("May ") + visible.line(" and ".join(_SCOPES.get(scope, scope) for scope in line.scopes)),
        "repositories": visible.line(", ".join(line.repositories) or "no repository"),
        "proposals": _proposals(line),
        "last": moment(line.last_at, now) if line.last_at else "",
        "state": line.state,
        "kind": _KINDS[line.state],
        "actions": _ACTIONS[line.state] if line.may_manage else (),
        "revocable": line.may_manage and line.state != "revoked",
    }


def _proposals(line: ConnectionLine) -> str:
    total = sum(line.counts.values())
    told = [f"{line.counts[state]:,} {_TOLD_AS.get(state, state)}" for state in _TOLD if line.counts.get(state)]
    if not total:
        return "No proposals yet"
    return f"{counted(total, 'proposal')}{': ' if told else ''}{', '.join(told)}"


def repositories_page(view: RepositoriesView, tenant: str) -> dict[str, Any]:
    """The values of the template of repositories."""
    count = len(view.lines)
    return {
        "here": "/repositories",
        "waiting": view.waiting,
        "tenant": tenant,
        "title": f"{number(count).capitalize()} {'repository' if count == 1 else 'repositories'}",
        "lines": [_repository(line) for line in view.lines],
    }


def _repository(line: RepositoryLine) -> dict[str, Any]:
    waits = "waits" if line.waiting == 1 else "wait"
    return {
        "id": str(line.id),
        "name": Visible().line(f"{line.project} / {line.name}"),
        "state": line.state,
        "admits": line.agents_may_propose,
        "signed": line.signed_approvals,
        "waiting": f"{counted(line.waiting, 'proposal')} {waits} here." if line.waiting else "Nothing waits here.",
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

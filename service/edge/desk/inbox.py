"""The inbox: what waits, in words, oldest first, grouped by repository and connection."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from service.edge.desk.diffview import Badge
from service.edge.desk.sentences import STATES, html, plain, sentence, waiting
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment
from service.proposals.view import InboxLine, InboxView, Show

SOON: Final = timedelta(hours=3)
TABS: Final[Mapping[Show, str]] = {
    "waiting": "Waiting",
    "decided": "Decided",
    "stale": "Stale",
    "ended": "Expired or withdrawn",
}
_TITLES: Final[Mapping[Show, str]] = {
    "decided": "What was decided",
    "stale": "What the branch overtook",
    "ended": "What ended without a decision",
}
_EMPTY: Final[Mapping[Show, str]] = {
    "waiting": "When an agent proposes a change, it waits here until you decide.",
    "decided": "Nothing was decided yet.",
    "stale": "Nothing is stale.",
    "ended": "Nothing expired, and nothing was withdrawn.",
}
_KINDS: Final = {"hidden_characters": "hides", "deletes_file": "lost"}
_MOVED: Final = Badge("the branch has moved", "mind")


def inbox_page(view: InboxView, tenant: str) -> dict[str, Any]:
    """The values of the inbox template."""
    return {
        "here": "/",
        "waiting": view.counts.get("waiting", 0),
        "title": _TITLES.get(view.show) or waiting(view.counts.get("waiting", 0)),
        "tabs": [_tab(show, view) for show in TABS],
        "groups": _groups(view, tenant),
        "empty": _EMPTY[view.show],
        "more": view.more,
    }


def first_line(text: str) -> str:
    """The first line of a message, with an ellipsis where there is more."""
    line, _, rest = text.strip().partition("\n")
    return f"{line} …" if rest.strip() else line


def _tab(show: Show, view: InboxView) -> dict[str, Any]:
    return {"show": show, "name": TABS[show], "count": view.counts.get(show, 0), "here": show == view.show}


def _groups(view: InboxView, tenant: str) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for line in view.lines:
        key = (line.project, line.repository, line.connection, line.client)
        group = groups.setdefault(key, {**_group(line), "lines": []})
        group["lines"].append(_line(line, view.now, tenant))
    return list(groups.values())


def _group(line: InboxLine) -> dict[str, Markup | str]:
    visible = Visible()
    return {
        "repository": visible.line(f"{line.project} / {line.repository}"),
        "connection": visible.line(line.connection),
        "client": visible.line(line.client) if line.client != line.connection else "",
    }


def _line(line: InboxLine, now: datetime, tenant: str) -> dict[str, Any]:
    waits = line.state == "pending"
    added, removed = (_count(line, name) for name in ("added", "removed"))
    return {
        "link": f"/proposals/{line.id}?tenant={tenant}",
        "headline": html(sentence("headline", line.headline), Visible()),
        "message": Visible().line(first_line(line.message)),
        "added": added,
        "removed": removed,
        "badges": _badges(line),
        "urgent": waits and line.expires_at - now < SOON,
        "expires": moment(line.expires_at, now),
        "when": moment(line.ended_at or line.created_at, now),
        "state": "" if waits else STATES[line.state],
    }


def _count(line: InboxLine, name: str) -> int:
    found = line.headline.params.get(name)
    return found if isinstance(found, int) else 0


def _badges(line: InboxLine) -> list[Badge]:
    if line.state != "pending":
        return []
    badges = {plain(sentence("brief", note)): _KINDS.get(note.code, "mind") for note in line.warnings}
    moved = [_MOVED] if line.branch_moved else []
    return [*(Badge(text, kind) for text, kind in badges.items()), *moved]

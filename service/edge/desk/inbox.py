"""The inbox: what waits, in words, oldest first, grouped by repository and connection."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from service.contract.hidden import readable
from service.edge.desk.facts import Badge
from service.edge.desk.pieces import number
from service.edge.desk.sentences import STATES, html, plain, sentence, waiting
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment
from service.kit.language import figure, gettext, later, ngettext
from service.proposals.view import COUNT_MOST, Choice, Filter, InboxLine, InboxView, Show

SOON: Final = timedelta(hours=4)
TABS: Final[Mapping[Show, str]] = {
    "waiting": later("Waiting"),
    "missed": later("Missed"),
    "today": later("Decided in 24 h"),
    "decided": later("Decided"),
    "stale": later("Stale"),
    "ended": later("Withdrawn"),
}
_TITLES: Final[Mapping[Show, str]] = {
    "missed": later("What expired before you decided"),
    "today": later("What was decided in the last 24 hours"),
    "decided": later("What was decided"),
    "stale": later("What the branch overtook"),
    "ended": later("What its agent took back"),
}
_EMPTY: Final[Mapping[Show, str]] = {
    "waiting": later("When an agent proposes a change, it waits here until you decide."),
    "missed": later("Nothing expired undecided."),
    "today": later("Nothing was decided in the last 24 hours."),
    "decided": later("Nothing was decided yet."),
    "stale": later("Nothing is stale."),
    "ended": later("Nothing was withdrawn."),
}
_NO_MATCH: Final = later("Nothing here matches.")


class Lack(NamedTuple):
    """What has to be there before anything can wait: what to do, and where."""

    words: str
    link: str
    name: str


_LACKS: Final = {
    "repository": Lack(
        later("There is no repository yet. Add one first, for agents to propose in."),
        "/repositories",
        later("Repositories"),
    ),
    "connection": Lack(
        later("No agent is connected yet. Give one this service's address; it asks you for access first."),
        "/connections",
        later("Connections"),
    ),
}
_KINDS: Final = {
    "hidden_characters": "hides",
    "deletes_file": "lost",
    "deletes_branch": "lost",
    "deletes_tag": "lost",
    "secret_found": "lost",
}
"""The colour of a badge by its warning's code; any other is amber."""
_BADGES_MOST: Final = 6
_FLAGS: Final = {"soon": later("expires within 4 h"), "warned": later("with warnings")}


def inbox_page(view: InboxView, tenant: str, only: Filter, *, first: bool = True) -> dict[str, Any]:
    """The values of the inbox template; `first`: this is the first page of the list."""
    asked = _asked(view.show, tenant, only)
    filtered = only != Filter()
    lack = _LACKS.get(view.lacks) if view.show == "waiting" and not filtered else None
    return {
        "here": "/",
        "waiting": view.counts.get("waiting", 0),
        "title": gettext(_TITLES[view.show]) if view.show in _TITLES else waiting(view.counts.get("waiting", 0)),
        "tabs": [_tab(show, view, tenant) for show in TABS],
        "groups": _groups(view, tenant),
        "empty": gettext(_NO_MATCH if filtered else lack.words if lack else _EMPTY[view.show]),
        "lack": lack and {"link": lack.link, "name": gettext(lack.name)},
        "told": _told(view, only) if filtered else "",
        "filter": _filter(view, only, tenant),
        "clear": f"/?{urlencode({'show': view.show, 'tenant': tenant})}" if filtered else "",
        "more": f"/?{urlencode({**asked, 'after': view.after})}" if view.after else "",
        "start": "" if first else f"/?{urlencode(asked)}",
        "tenants": [
            {"name": Visible().line(one.name), "link": f"/?tenant={one.value}", "here": one.value == tenant}
            for one in view.tenants
            if len(view.tenants) > 1
        ],
    }


def first_line(text: str) -> str:
    """The first line of a message, with an ellipsis where there is more."""
    line, _, rest = text.strip().partition("\n")
    return f"{line} …" if rest.strip() else line


def _asked(show: Show, tenant: str, only: Filter) -> dict[str, str]:
    """The address's query for this list and filter."""
    given = {
        "show": show,
        "tenant": tenant,
        "repository": str(only.repository or ""),
        "proposer": str(only.proposer or ""),
        "kind": only.kind,
        "group": only.group,
        "soon": "1" if only.soon else "",
        "warned": "1" if only.warned else "",
        "q": " ".join(only.words),
    }
    return {name: value for name, value in given.items() if value}


def _told(view: InboxView, only: Filter) -> str:
    if view.matching is None or only == Filter():
        return ""
    return ngettext("{count} of them matches.", "{count} of them match.", view.matching)


def _filter(view: InboxView, only: Filter, tenant: str) -> dict[str, Any]:
    choices = view.choices
    selects = (
        ("repository", gettext("Repository"), choices.repositories, str(only.repository or "")),
        ("proposer", gettext("Connection"), choices.proposers, str(only.proposer or "")),
        ("kind", gettext("Kind"), [Choice(kind, _kind(kind)) for kind in choices.kinds], only.kind),
        ("group", gettext("Group"), [Choice(group, group) for group in choices.groups], only.group),
    )
    return {
        "show": view.show,
        "tenant": tenant,
        "q": " ".join(only.words),
        "open": only != Filter(words=only.words),
        "selects": [_select(*one) for one in selects if one[2] or one[3]],
        "flags": [{"name": name, "words": gettext(words), "on": getattr(only, name)} for name, words in _FLAGS.items()],
    }


def _select(name: str, label: str, choices: Iterable[Choice], chosen: str) -> dict[str, Any]:
    """What is chosen is there even where nothing of it is in the list any more."""
    there = list(choices)
    if chosen and chosen not in {one.value for one in there}:
        there.append(Choice(chosen, chosen))
    options = [{"value": one.value, "name": readable(one.name), "on": one.value == chosen} for one in there]
    return {"name": name, "label": label, "options": options}


def _kind(kind: str) -> str:
    return kind.removeprefix("propose_").replace("_", " ")


def counted(show: Show, count: int) -> str:
    """How many are in a list; what waits is counted to the last one, the other lists as far as `COUNT_MOST`."""
    return f"{figure(COUNT_MOST)}+" if show != "waiting" and count > COUNT_MOST else figure(count)


def _tab(show: Show, view: InboxView, tenant: str) -> dict[str, Any]:
    shown = counted(show, view.counts.get(show, 0))
    link = f"/?{urlencode({'show': show, 'tenant': tenant})}"
    return {"link": link, "name": gettext(TABS[show]), "count": shown, "here": show == view.show}


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
        "state": "" if waits else gettext(STATES[line.state]),
    }


def _count(line: InboxLine, name: str) -> int:
    found = line.headline.params.get(name)
    return found if isinstance(found, int) else 0


def _badges(line: InboxLine) -> list[Badge]:
    if line.state != "pending":
        return []
    badges = {plain(sentence("brief", note)): _KINDS.get(note.code, "mind") for note in line.warnings}
    found = [Badge(text, kind) for text, kind in badges.items()]
    rest = len(found) - _BADGES_MOST
    more = [Badge(gettext("{number} more", number=number(rest)), "mind")] if rest > 0 else []
    moved = [Badge(gettext("the branch has moved"), "mind")] if line.branch_moved else []
    part = [Badge(gettext("a part"))] if line.part else []
    return [*part, *found[:_BADGES_MOST], *more, *moved]

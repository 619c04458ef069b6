"""The pages of one repository: at a glance, its files, its history, its branches, a commit, its restore points."""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from uuid import UUID

from markupsafe import Markup
from pydantic import Field
from starlette.responses import Response

from service.contract.data import NULL, Commit, Oid
from service.contract.hidden import decode, find_hidden, readable
from service.contract.history import identity_of, subject_of
from service.contract.lookup import KINDS, TYPE_BITS, PathArgument, RefArgument
from service.contract.names import check_oid, quote_path, unquote_path
from service.contract.ports import Arguments, Listed, NamedRef, RestorePoint
from service.contract.risk import is_binary
from service.edge.desk import asking
from service.edge.desk.diffview import FilePanel, folded_panel, panel, size_of
from service.edge.desk.inbox import TABS, counted
from service.edge.desk.lists import STANDINGS
from service.edge.desk.pieces import bytes_text, commits_text, phrase
from service.edge.desk.visible import Visible, marked
from service.edge.desk.when import moment
from service.edge.guard import Call, Endpoint
from service.edge.pages import page
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal
from service.kit.language import gettext, later, ngettext
from service.proposals.browse import (
    START_MOST,
    BranchLine,
    CommitView,
    FileContentView,
    FolderView,
    Head,
    HistoryView,
    OverviewView,
    RefsView,
    RestorePointsView,
)
from service.proposals.view import FileView
from service.repositories.colour import Palette
from service.writer.verify import Finding, Standing

NO_REPOSITORY: Final = "There is no such repository."
NO_COMMIT: Final = "There is no such commit."
PANEL_BYTES: Final = 100_000
"""What one changed file may have to be shown whole on a commit's page."""
LINES_MOST: Final = 20_000
"""Lines of a file and, apart from them, marks in it that a page shows; a browser has to lay each of them out."""
WORK_MOST: Final = 50_000
"""Lines and marks of all the changed files that a commit's page shows."""
MESSAGE_MOST: Final = 20_000
_SHORT: Final = 8
_TABS: Final = {
    "": later("Overview"),
    "/files": later("Files"),
    "/history": later("History"),
    "/branches": later("Branches and tags"),
    "/restore-points": later("Restore points"),
}
_SIGNED: Final[dict[Standing, str]] = {
    "owner": later("Signed by the passkey of {by}, who approved it."),
    "covered": later("Covered by the signature of {by}, who approved it."),
    "service": later("Signed with the key of this service."),
    "unsigned": later("Came through Placet, without a signature of its own."),
    "foreign": later("Did not come through Placet."),
    "bad": later("It claims to come through Placet, but its signature does not hold."),
}
_OPERATION: Final = "propose_"


class _Files(Arguments):
    ref: RefArgument = None
    path: PathArgument = None
    after: PathArgument = None


class _History(Arguments):
    ref: RefArgument = None
    start: Annotated[int, Field(ge=0, le=START_MOST, strict=False)] = 0


async def overview(call: Call) -> Response:
    """`/repositories/<id>`."""
    actor = await asking.who(call)
    view = await call.parts.desk.browsing.overview(actor, _repository(call))
    return page(call, "repository.html", **overview_page(view, str(actor.tenant)))


async def files(call: Call) -> Response:
    """`/repositories/<id>/files`: a folder, or a file."""
    actor = await asking.who(call)
    asked = asking.checked(_Files, _query(call, "ref", "path", "after"))
    path, after = (unquote_path(text, "path") if text else b"" for text in (asked.path, asked.after))
    view = await call.parts.desk.browsing.files(actor, _repository(call), asked.ref, path, after)
    if isinstance(view, FolderView):
        return page(call, "folder.html", **folder_page(view, str(actor.tenant)))
    values = await asyncio.to_thread(file_content_page, view, str(actor.tenant))
    return page(call, "content.html", **values)


async def history(call: Call) -> Response:
    """`/repositories/<id>/history`: the commits of a ref."""
    actor = await asking.who(call)
    asked = asking.checked(_History, _query(call, "ref", "start"))
    view = await call.parts.desk.browsing.history(actor, _repository(call), asked.ref, asked.start)
    return page(call, "history.html", **history_page(view, str(actor.tenant)))


async def branches(call: Call) -> Response:
    """`/repositories/<id>/branches`: branches and tags."""
    actor = await asking.who(call)
    view = await call.parts.desk.browsing.refs(actor, _repository(call))
    return page(call, "branches.html", **branches_page(view, str(actor.tenant)))


async def commit(call: Call) -> Response:
    """`/repositories/<id>/commits/<commit>`: what it says, who signed it, what it changed."""
    actor = await asking.who(call)
    try:
        oid = Oid(check_oid(call.request.path_params["oid"], "commit"))
    except Refusal:
        raise Refusal(Code.NOT_FOUND, NO_COMMIT) from None
    view = await call.parts.desk.browsing.commit(actor, _repository(call), oid)
    values = await asyncio.to_thread(commit_page, view, str(actor.tenant))
    return page(call, "commit.html", **values)


async def restore_points(call: Call) -> Response:
    """`/repositories/<id>/restore-points`: what was kept of executions."""
    actor = await asking.who(call)
    after = call.request.query_params.get("after", "")
    last = str(asking.read_id(after, "There is no such restore point.")) if after else ""
    view = await call.parts.desk.browsing.restore_points(actor, _repository(call), last)
    return page(call, "restore_points.html", **restore_points_page(view, str(actor.tenant)))


def _repository(call: Call) -> UUID:
    return asking.read_id(call.request.path_params["id"], NO_REPOSITORY)


def _query(call: Call, *names: str) -> dict[str, str]:
    """Fields of the address, less the empty ones, as a form sends what was left out."""
    given = call.request.query_params
    return {name: given[name] for name in names if given.get(name)}


# The values of the templates ---------------------------------------------------------------------------------------


def _head(head: Head, tenant: str, tab: str) -> dict[str, Any]:
    line, at = head.line, f"/repositories/{head.line.id}"
    return {
        "here": "/repositories",
        "waiting": head.waiting,
        "tenant": tenant,
        "id": str(line.id),
        "name": Visible().line(f"{line.project} / {line.name}"),
        "said_name": readable(f"{line.project} / {line.name}"),
        "tabs": [
            {"link": f"{at}{path}?tenant={tenant}", "name": gettext(name), "here": path == tab}
            for path, name in _TABS.items()
        ],
        "badge": "" if line.state == "live" else gettext(STANDINGS[line.state]),
    }


def overview_page(view: OverviewView, tenant: str) -> dict[str, Any]:
    """The values of the template."""
    line = view.head.line
    return {
        **_head(view.head, tenant, ""),
        "admits": line.agents_may_propose,
        "signed": line.signed_approvals,
        "may_manage": line.may_manage and line.state != "revoked",
        "default": Visible().line(view.default_branch),
        "newest": _commit_line(view.head, tenant, *view.newest) if view.newest else None,
        "lists": [
            {
                "link": f"/?{urlencode({'show': show, 'repository': line.id, 'tenant': tenant})}",
                "name": gettext(name),
                "count": counted(show, view.counts.get(show, 0)),
            }
            for show, name in TABS.items()
        ],
        "facts": [
            ngettext("{count} branch", "{count} branches", view.branches),
            ngettext("{count} tag", "{count} tags", view.tags),
            ngettext("{count} restore point", "{count} restore points", view.restore_points),
        ],
    }


def folder_page(view: FolderView, tenant: str) -> dict[str, Any]:
    """The values of the template."""
    return {
        **_head(view.head, tenant, "/files"),
        **_at(view.head, tenant, view.ref, view.commit, view.path),
        "entries": [_entry(view.head, tenant, view.ref, view.path, one) for one in view.entries],
        "empty": gettext("There is no commit yet.") if view.commit is None else gettext("This folder is empty."),
        "more": _files_link(view.head, tenant, view.ref, view.path, view.after) if view.after is not None else "",
    }


def _entry(head: Head, tenant: str, ref: str, under: bytes, one: Listed) -> dict[str, Any]:
    kind = KINDS.get(one.entry.mode & TYPE_BITS, "file")
    return {
        "name": Visible().path(one.path[len(under) + 1 if under else 0 :]),
        "link": _files_link(head, tenant, ref, one.path),
        "kind": kind,
        "size": bytes_text(one.size) if one.size is not None else "",
        "oid": one.entry.oid[:_SHORT] if kind == "submodule" else "",
    }


def file_content_page(view: FileContentView, tenant: str) -> dict[str, Any]:
    """The values of the template. Takes time in proportion to the content: call it in a thread."""
    content = view.content if view.content and not is_binary(view.content) else b""
    text = decode(content)
    lines, rest = _lines(text)
    cut = (
        [ngettext("Only the first line is shown.", "Only the first {count} lines are shown.", len(lines))]
        if lines
        else []
    )
    return {
        **_head(view.head, tenant, "/files"),
        **_at(view.head, tenant, view.ref, view.commit, view.path),
        "lines": lines,
        "facts": [*_facts(view), *((cut or [gettext("This is too much to be shown here.")]) if rest else ())],
        "hidden": len(find_hidden(text)),
    }


def _lines(text: str) -> tuple[list[Markup], bool]:
    """The lines that there is room for, and whether there are more."""
    lines, visible, room = text.removesuffix("\n").split("\n") if text else [], Visible(), LINES_MOST
    shown: list[Markup] = []
    for line in lines[:LINES_MOST]:
        room -= marked(line)
        if room < 0:
            break
        shown.append(visible.text(line.removesuffix("\r")))
    return shown, len(shown) < len(lines)


def _facts(view: FileContentView) -> Iterator[str]:
    if view.size is None:
        yield gettext("A link to another repository, at commit {oid}.", oid=view.entry.oid)
        return
    yield bytes_text(view.size)
    if view.content is None:
        yield gettext("This is too big to be shown here.")
    elif is_binary(view.content):
        yield gettext("This is not text.")
        yield f"SHA-256 {sha256(view.content)}"
    elif not view.content:
        yield gettext("The file is empty.")


def _at(head: Head, tenant: str, ref: str, oid: Oid | None, path: bytes) -> dict[str, Any]:
    """Where one is: the ref, its commit, and a link for each step of the path."""
    parts = path.split(b"/") if path else []
    steps = [
        {"name": Visible().path(part), "link": _files_link(head, tenant, ref, b"/".join(parts[: place + 1]))}
        for place, part in enumerate(parts)
    ]
    return {
        "ref": Visible().line(_ref_text(ref)),
        "root": _files_link(head, tenant, ref, b""),
        "steps": steps,
        "commit_link": _commit_link(head, tenant, oid) if oid else None,
        "history_link": _link(head, tenant, "/history", ref=ref),
    }


def history_page(view: HistoryView, tenant: str) -> dict[str, Any]:
    """The values of the template."""
    return {
        **_head(view.head, tenant, "/history"),
        "ref": Visible().line(_ref_text(view.ref)),
        "commits": [_commit_line(view.head, tenant, *one) for one in view.commits],
        "more": _link(view.head, tenant, "/history", ref=view.ref, start=view.after) if view.after else "",
        "newest": _link(view.head, tenant, "/history", ref=view.ref) if view.start else "",
        "cut": view.cut,
    }


def _commit_line(head: Head, tenant: str, oid: Oid, made: Commit) -> dict[str, Any]:
    author, seconds = identity_of(made.author)
    return {
        "oid": oid,
        "short": oid[:_SHORT],
        "link": _link(head, tenant, f"/commits/{oid}"),
        "subject": Visible().line(subject_of(made.message)) or gettext("(no message)"),
        "author": Visible().line(author),
        "when": _when(seconds, head.now),
    }


def _when(seconds: int, now: datetime) -> Markup | str:
    """A time that an imported history may say anything of."""
    try:
        return moment(datetime.fromtimestamp(seconds, UTC), now) if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""


def branches_page(view: RefsView, tenant: str) -> dict[str, Any]:
    """The values of the template."""
    return {
        **_head(view.head, tenant, "/branches"),
        "branches": [_branch(view, tenant, one) for one in view.branches],
        "tags": [_ref(view.head, tenant, one, "refs/tags/") for one in view.tags],
        "more": view.more,
    }


def _branch(view: RefsView, tenant: str, one: BranchLine) -> dict[str, Any]:
    default = decode(one.ref.name) == view.default_branch
    told = []
    if not default and one.ahead is not None and one.behind is not None:
        told = [
            gettext("{commits} ahead", commits=commits_text(one.ahead)),
            gettext("{commits} behind", commits=commits_text(one.behind)),
        ]
    return {**_ref(view.head, tenant, one.ref, "refs/heads/"), "default": default, "told": ", ".join(told)}


def _ref(head: Head, tenant: str, one: NamedRef, prefix: str) -> dict[str, Any]:
    full = quote_path(prefix.encode() + one.name)
    return {
        "name": Visible().path(one.name),
        "default": False,
        "told": "",
        "files": _files_link(head, tenant, full, b""),
        "history": _link(head, tenant, "/history", ref=full),
        "commit": _commit_link(head, tenant, one.oid),
    }


def commit_page(view: CommitView, tenant: str) -> dict[str, Any]:
    """The values of the template. Compares and colours files: call it in a thread."""
    made = view.commit
    message = decode(made.message)
    return {
        **_head(view.head, tenant, "/history"),
        "oid": view.oid,
        "subject": Visible().line(subject_of(made.message)) or gettext("(no message)"),
        "title": readable(subject_of(made.message)),
        "message": Visible().text(message[:MESSAGE_MOST]),
        "cut": len(message) > MESSAGE_MOST,
        "author": _person(made.author, view.head.now),
        "committer": _person(made.committer, view.head.now),
        "parents": [_commit_link(view.head, tenant, oid) for oid in made.parents],
        "files_link": _files_link(view.head, tenant, view.oid, b""),
        "signed": _signed(view.finding),
        "proposal": {"link": f"/proposals/{view.proposal}?tenant={tenant}", "id": str(view.proposal)}
        if view.proposal
        else None,
        "panels": list(_panels(view.files)),
        "others": [Visible().path(path) for path in view.others],
        "hides": len(find_hidden(message)),
    }


def _panels(files: Iterable[FileView]) -> Iterator[FilePanel]:
    """Changed files, each whole while there is room for what it has, and else folded."""
    palette, room = Palette(), WORK_MOST
    for place, file in enumerate(files, 1):
        work = _work(file)
        fits = size_of(file) <= PANEL_BYTES and work <= room
        room -= work if fits else 0
        yield panel(file, place, palette, "unified") if fits else folded_panel(file, place)


def _work(file: FileView) -> int:
    """What it takes to show a file, in lines and marks."""
    if not size_of(file):
        return 0
    return sum(text.count("\n") + marked(text) for text in (decode(file.old or b""), decode(file.new or b"")))


def _signed(finding: Finding) -> dict[str, Any]:
    colour = {"owner": "good", "covered": "good", "service": "good", "bad": "lost"}.get(finding.standing, "plain")
    by = Markup("<bdi>{}</bdi>").format(Visible().line(finding.by))
    return {
        "kind": colour,
        "text": phrase(gettext(_SIGNED[finding.standing]), by=by),
        "why": Visible().line(finding.why),
    }


def _person(line: bytes, now: datetime) -> dict[str, Any]:
    name, seconds = identity_of(line)
    return {"name": Visible().line(name), "when": _when(seconds, now)}


def restore_points_page(view: RestorePointsView, tenant: str) -> dict[str, Any]:
    """The values of the template."""
    return {
        **_head(view.head, tenant, "/restore-points"),
        "points": [_point(one, view.head.now, tenant) for one in view.points],
        "more": _link(view.head, tenant, "/restore-points", after=view.after) if view.after else "",
    }


def _point(one: RestorePoint, now: datetime, tenant: str) -> dict[str, Any]:
    return {
        "link": f"/proposals/{one.id}?tenant={tenant}",
        "short": one.id[:_SHORT],
        "operation": Visible().line(one.operation.removeprefix(_OPERATION).replace("_", " ")),
        "when": moment(datetime.fromisoformat(one.made_at), now),
        "expires": moment(datetime.fromisoformat(one.expires_at), now),
        "moves": [
            {
                "ref": Visible().line(_ref_text(move.ref)),
                "old": gettext("not there") if move.old == NULL else move.old[:_SHORT],
                "new": gettext("not there") if move.new == NULL else move.new[:_SHORT],
            }
            for move in one.moves
        ],
    }


def _ref_text(ref: str) -> str:
    """A ref as a person says it; one that is no UTF-8 stands C-quoted in addresses."""
    plain = decode(unquote_path(ref, "ref")) if ref.startswith('"') else ref
    prefix = next((one for one in ("refs/heads/", "refs/tags/") if plain.startswith(one)), "")
    return plain.removeprefix(prefix)


def _link(head: Head, tenant: str, under: str, /, **query: object) -> str:
    asked = urlencode({**query, "tenant": tenant})
    return f"/repositories/{head.line.id}{under}?{asked}"


def _files_link(head: Head, tenant: str, ref: str, path: bytes, after: bytes | None = None) -> str:
    query = {"ref": ref, "path": quote_path(path) if path else "", "after": quote_path(after) if after else ""}
    return _link(head, tenant, "/files", **{name: value for name, value in query.items() if value})


def _commit_link(head: Head, tenant: str, oid: Oid) -> dict[str, str]:
    return {"link": _link(head, tenant, f"/commits/{oid}"), "oid": oid, "short": oid[:_SHORT]}


def _get(path: str, handler: Any) -> Endpoint:
    return Endpoint("GET", f"/repositories/{{id}}{path}", "repository.view", handler, page=True)


ENDPOINTS: Final = (
    _get("", overview),
    _get("/files", files),
    _get("/history", history),
    _get("/branches", branches),
    _get("/commits/{oid}", commit),
    _get("/restore-points", restore_points),
)

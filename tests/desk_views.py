"""Views as the desk could give them: an everyday one, the states, and what an attacker would send."""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from starlette.applications import Starlette
from starlette.routing import Route

from service.contract.data import NULL, Commit, Entry, Oid
from service.contract.lines import Span
from service.contract.names import quote_path
from service.contract.parts import Hunk
from service.contract.plan import MoveRef, Note, ReviewCard, Section
from service.contract.ports import Listed, NamedRef, RestorePoint
from service.edge.desk import ENDPOINTS
from service.edge.errors import refusal_response
from service.edge.guard import Call, Endpoint, Handler
from service.edge.pages import error_page, page
from service.edge.parts import Parts
from service.grants.manage import Role
from service.grants.policy import Clause
from service.identity.sessions import Session
from service.kit.actor import Actor
from service.kit.errors import Code, Refusal
from service.kit.language import preferred, speaking
from service.proposals import browse, lists, people
from service.proposals import view as desk
from service.publish.choices import Choices
from service.publish.choosing import NoticesView, ShownBrowser, ShownDelivery, ShownWebhook
from service.writer.verify import Finding

NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)
TENANT = UUID("00000000-0000-4000-8000-000000000001")
REPOSITORY = UUID(int=32)
PROPOSAL = UUID("96dcf05f-1111-4222-8333-444455556666")
BASE = Oid("29a940e8" + "0" * 32)
HEAD = Oid("5be01d7a" + "1" * 32)
DIGEST = "7c41" + "ab" * 28 + "e09b"
ISSUER = "http://localhost:8080"

README_OLD = b"""# Orchard

A small shop.

## Use

Run it.

Read on below.

## Install
pip install orchard

The newest release is always fine.
Ask for help in the forum.
Then go on.
Done.
"""
README_NEW = README_OLD.replace(
    b"orchard\n\nThe newest release is always fine.",
    (b"orchard==2.3\n\nThe 2.3 release is always fine; 2.4 changes the config file."),
)
INSTALL_OLD = b"#!/bin/sh\n"
INSTALL_NEW = """#!/bin/sh
set -eu
version="${1:-2.3}"
if [ -z "$version" ]; then
    echo "which version?" >&2
fi
# check the sum \u202e before
pip install "orchard==$version\"""".encode()


def file_view(path: bytes, old: bytes | None, new: bytes | None, **more: Any) -> desk.FileView:
    """A file's view with ordinary modes."""
    modes = {"old_mode": 0o100644 if old is not None else 0, "new_mode": 0o100644 if new is not None else 0}
    return desk.FileView(**{"path": path, "old_path": None, "old": old, "new": new, **modes, **more})


FILES = (
    file_view(b"README.md", README_OLD, README_NEW),
    file_view(b"scripts/install.sh", INSTALL_OLD, INSTALL_NEW, new_mode=0o100755),
)
REASON = (
    "The README tells people to install the latest version; the release notes say 2.4 breaks config files. "
    "Pinned to 2.3 and made the install script runnable."
)
PREVIEW = """author    Claude (claude-research) <conn-1f@placet.example>
committer owner@example.org

Pin install version

Proposal: 96dcf05f-1111-4222-8333-444455556666
Approved-by: owner@example.org
Connection: conn-claude-research
Reviewed-digest: 7c41ab…e09b
"""


def headline(**params: Any) -> Note:
    """The headline of a file import."""
    return Note(code="files_change", params={"branch": "main", **params})


def file_note(view: desk.FileView, code: str = "file_updated", **params: Any) -> Note:
    return Note(code=code, at=quote_path(view.path), params={"binary": False, "bytes": 1, "sha256": "0" * 64, **params})


WARNINGS = (
    Note(code="becomes_executable", at="scripts/install.sh", params={"mode": "100755"}),
    Note(code="hidden_characters", at="scripts/install.sh", params={"count": 1, "where": "content"}),
)
CARD = ReviewCard(
    headline=headline(updated=2, executable=1, added=9, removed=2),
    agent_words={"reason": REASON, "message": "Pin install version"},
    sections=(
        Section(
            code="files",
            notes=(
                file_note(FILES[0], added=2, removed=2),
                file_note(FILES[1], added=7, removed=0, old_mode="100644", new_mode="100755"),
            ),
        ),
    ),
    warnings=WARNINGS,
)
CARD_VIEW = desk.CardView(
    id=PROPOSAL,
    tenant=TENANT,
    repository_id=REPOSITORY,
    project="orchard",
    repository="storefront",
    branch="main",
    state="pending",
    created_at=NOW - timedelta(minutes=4),
    expires_at=NOW + timedelta(hours=23, minutes=56),
    now=NOW,
    connection="claude-research",
    client="Claude",
    card=CARD,
    digest=DIGEST,
    pins=(desk.PinView(ref="refs/heads/main", seen=BASE, current=BASE, holds=True),),
    files=FILES,
    commit_preview=PREVIEW,
    decision=None,
    outcome=None,
    around=(
        desk.AroundLine(UUID(int=7), headline(updated=1), "codex-nightly", overlap=False),
        desk.AroundLine(UUID(int=8), headline(deleted=2), "nightly-cleaner", overlap=True),
    ),
    may_decide=True,
    waiting=3,
)


def change(view: desk.CardView, **card: Any) -> desk.CardView:
    """The view with another card."""
    return replace(view, card=view.card.model_copy(update=card))


def with_files(*files: desk.FileView, **more: Any) -> desk.CardView:
    """A card on these files with a note for each and no warnings."""
    section = Section(code="files", notes=tuple(file_note(one) for one in files))
    return replace(
        change(CARD_VIEW, sections=(section,), warnings=(), headline=headline(updated=len(files))), files=files, **more
    )


_APPROVED = desk.DecisionView("approve", "owner@example.org", "", NOW - timedelta(minutes=1))
_DECLINED = desk.DecisionView("decline", "owner@example.org", "Pin it in the lock file instead.", NOW)
_MOVED = (
    desk.PinView(
        ref="refs/heads/main",
        seen=BASE,
        current=HEAD,
        holds=False,
        ahead=2,
        overlaps=True,
        came=((HEAD, "Say how to install 2.3"), (Oid("7" * 40), "Tidy up the scripts \u202e a little")),
        touched=(b"README.md", b"scripts/install.sh"),
    ),
)
_PART = Section(
    code="part",
    notes=(
        Note(code="part_of", at=str(UUID(int=50))),
        Note(code="left_out", at="README.md", params={"hunks": [[4, 1, 4, 2]]}),
        Note(code="left_out", at="docs/new.py"),
    ),
)
STATES: dict[str, desk.CardView] = {
    "moved": replace(CARD_VIEW, pins=_MOVED),
    "executing": replace(CARD_VIEW, state="executing", decision=_APPROVED),
    "executed": replace(CARD_VIEW, state="executed", decision=_APPROVED, outcome=desk.Outcome(commit=HEAD)),
    "stale": replace(CARD_VIEW, state="stale", decision=_APPROVED, outcome=desk.Outcome(head=HEAD), pins=_MOVED),
    "failed": replace(
        CARD_VIEW,
        state="failed",
        decision=_APPROVED,
        outcome=desk.Outcome(code="forbidden", message="The connection is revoked."),
    ),
    "declined": replace(CARD_VIEW, state="declined", decision=_DECLINED),
    "cancelled": replace(CARD_VIEW, state="cancelled"),
    "expired": replace(CARD_VIEW, state="expired", expires_at=NOW - timedelta(hours=1)),
    "reader": replace(CARD_VIEW, may_decide=False),
    "whole": replace(CARD_VIEW, divisible=True, parts=(UUID(int=51), UUID(int=52))),
    "part": replace(change(CARD_VIEW, sections=(_PART, *CARD.sections)), part_of=UUID(int=50)),
    "partly": replace(CARD_VIEW, state="declined", outcome=desk.Outcome(code="partly_approved", part=UUID(int=51))),
}


def png(width: int, height: int, shade: int = 200) -> bytes:
    """A picture of one grey; one that would be too large has a header only."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = (b"\0" + bytes([shade]) * width) * height if width * height < 1_000_000 else b""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def lfs(digit: str, size: int) -> bytes:
    """A pointer of Git LFS."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digit * 64}\nsize {size}\n".encode()


def commit_line(digit: str) -> bytes:
    """A submodule's content as git diff writes it."""
    return f"Subproject commit {digit * 40}\n".encode()


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b08001000200101110000ffd9")
"""The header of a picture of 32 by 16 pixels, and nothing in it."""

ALL_KINDS = with_files(
    file_view(b"assets/logo.png", png(64, 48, 90), png(160, 48)),
    file_view(b"docs/empty.txt", None, b""),
    file_view(
        b"docs/new.py", None, b'import os\n\n\ndef main(path: str) -> None:\n    """Say it."""\n    print(path, 42)\n'
    ),
    file_view(b"docs/old.txt", b"one\ntwo\n", None),
    file_view(b"docs/to.md", README_OLD, README_NEW, old_path=b"docs/from.md"),
    file_view(b"run.sh", b"#!/bin/sh\n", b"#!/bin/sh\n", new_mode=0o100755),
    file_view(b"same.txt", b"same\n", b"same\n", old_path=b"was.txt"),
    file_view(b"win.txt", b"x\r\ny\r\nz\r\n", b"x\ny\nz\n"),
    file_view(b"windows.txt", b"x\r\ny\r\nz\r\n", b"x\r\nY\r\nz\r\n"),
    file_view(b"link", b"target", None, old_mode=0o120000),
    file_view(b"current", b"releases/2.2", b"releases/2.3", old_mode=0o120000, new_mode=0o120000),
    file_view(b"vendor/lib", commit_line("1"), commit_line("2"), old_mode=0o160000, new_mode=0o160000),
    file_view(b"film.mp4", lfs("3", 1_048_576), lfs("4", 2_097_152)),
    file_view(b"assets/photo.jpg", None, JPEG),
    file_view(b"assets/huge.png", None, png(30_000, 30_000)),
    file_view(b"utf16.txt", None, "Gr\u00fc\u00dfe\n".encode("utf-16")),
    file_view(b"marked.csv", b"a;b\n", b"\xef\xbb\xbfa;b\n"),
    file_view(b"empty-gone.txt", b"", None),
    file_view(b"latin1.txt", b"caf\xe9\n", b"caf\xe9 noir\n"),
    file_view("путь/\u202eevil\n.py".encode(), b"a = 1\n", b"a = 2"),
)

GRAVE = change(
    CARD_VIEW,
    warnings=(
        Note(
            code="secret",
            at="scripts/install.sh",
            params={"where": "content", "found": [["github-pat", 4], ["url-password", 12]], "reason": True},
        ),
        Note(code="secret", at="//message", params={"where": "message", "found": [["jwt", 1]], "reason": True}),
        Note(
            code="hidden_characters",
            at="scripts/install.sh",
            params={"count": 1, "where": "content", "confirm": "U+202E"},
        ),
        Note(code="looks_alike", at="scripts/insta1l.sh", params={"other": "scripts/install.sh", "how": "letters"}),
    ),
)
"""What takes a reason, a text to type and a tick."""

PARTS = desk.PartsView(
    id=PROPOSAL,
    tenant=TENANT,
    project="orchard",
    repository="storefront",
    branch="main",
    headline=headline(updated=2, created=1, renamed=1, added=12, removed=4),
    parts=(
        desk.PartView("1", FILES[:1], (Hunk("1.1", Span(12, 1, 12, 1)), Hunk("1.2", Span(14, 1, 14, 1)))),
        desk.PartView("2", FILES[1:]),
        desk.PartView("3", (file_view(b"docs/to.md", b"same\n", b"same\n", old_path=b"docs/from.md"),)),
        desk.PartView("4", (file_view(b"lib", b"one\n", None), file_view(b"lib/one.py", None, b"one = 1\n"))),
    ),
    waiting=3,
)

HOSTILE = "<script>alert(1)</script>\"'>{{7*7}}\u202e\u200b\U000e0041&amp;"


def hostile_card() -> desk.CardView:
    """A card with an attack in every string that anybody but us wrote."""
    path = HOSTILE.encode()
    quoted = quote_path(path)
    file = file_view(path, HOSTILE.encode() + b"\n", HOSTILE.encode() * 2 + b"\xff\n", old_path=path + b"2")
    note = Note(code=HOSTILE, at=quoted, params={HOSTILE: HOSTILE})
    card = ReviewCard(
        headline=note,
        agent_words={"reason": HOSTILE, "message": f"{HOSTILE}\n{HOSTILE}", HOSTILE: HOSTILE},
        sections=(Section(code=HOSTILE, notes=(note, *(Note(code=code, at=quoted, params={}) for code in _CODES))),),
        warnings=(note, *(Note(code=code, at=quoted, params=_PARAMS) for code in _WARNINGS)),
    )
    return replace(
        CARD_VIEW,
        project=HOSTILE,
        repository=HOSTILE,
        branch=HOSTILE,
        connection=HOSTILE,
        client=HOSTILE,
        card=card,
        pins=(desk.PinView(ref=HOSTILE, seen=BASE, current=NULL, holds=False),),
        files=(file,),
        commit_preview=HOSTILE,
        decision=desk.DecisionView("decline", HOSTILE, HOSTILE, NOW),
        outcome=desk.Outcome(commit=BASE, head=HEAD, code=HOSTILE, message=HOSTILE),
        around=(desk.AroundLine(UUID(int=7), note, HOSTILE, overlap=True),),
    )


_CODES = ("file_created", "file_updated", "file_deleted", "file_renamed", "mode_changed")
_WARNINGS = (
    "secret",
    "looks_alike",
    "not_searched",
    "becomes_executable",
    "hidden_characters",
    "line_ends_change",
    "runs_or_redirects",
    "looks_like_base64",
    "binary_content",
    "deletes_file",
)
_PARAMS = {"mode": HOSTILE, "count": 2, "where": "path", "lines": 3, "kind": "workflow", "bytes": 4}
_PARAMS |= {"found": [[HOSTILE, 3]], "other": HOSTILE, "how": "letters"}


def inbox_line(number: int, **more: Any) -> desk.InboxLine:
    """A waiting proposal."""
    values: dict[str, Any] = {
        "id": UUID(int=number),
        "project": "orchard",
        "repository": "storefront",
        "connection": "claude-research",
        "client": "Claude",
        "state": "pending",
        "created_at": NOW - timedelta(minutes=4),
        "expires_at": NOW + timedelta(hours=23),
        "ended_at": None,
        "headline": headline(updated=2, executable=1, added=14, removed=3),
        "message": "Pin install version",
        "warnings": (),
        "branch_moved": False,
    }
    return desk.InboxLine(**{**values, **more})


def _note(code: str, **params: Any) -> Note:
    return Note(code=code, at="a", params=params)


INBOX = desk.InboxView(
    now=NOW,
    show="waiting",
    counts={"waiting": 3, "missed": 1, "today": 3, "decided": 8, "stale": 2, "ended": 1},
    matching=3,
    lines=(
        inbox_line(
            1,
            repository="docs",
            connection="codex-nightly",
            client="Codex",
            created_at=NOW - timedelta(hours=23),
            expires_at=NOW + timedelta(minutes=40),
            headline=headline(deleted=4, added=0, removed=180),
            message="Housekeeping\n\nNobody links to these.",
            warnings=(_note("deletes_file"),),
        ),
        inbox_line(
            2,
            created_at=NOW - timedelta(minutes=20),
            headline=headline(created=1, updated=17, added=412, removed=88),
            message="Cart redesign is complete; tests pass",
            branch_moved=True,
        ),
        inbox_line(
            3,
            warnings=(
                _note("runs_or_redirects", kind="workflow"),
                _note("runs_or_redirects", kind="build"),
                _note("hidden_characters", count=1, where="content"),
            ),
        ),
    ),
)
DECIDED = desk.InboxView(
    now=NOW,
    show="decided",
    counts=INBOX.counts,
    lines=tuple(
        inbox_line(number, state=state, ended_at=NOW - timedelta(minutes=7 * number))
        for number, state in enumerate(("executed", "declined", "failed", "executing"), 10)
    ),
    after="1.2",
)
NOTHING = desk.InboxView(now=NOW, show="waiting", counts={}, lines=(), matching=0)


def connection_line(number: int, **more: Any) -> lists.ConnectionLine:
    values: dict[str, Any] = {
        "id": UUID(int=number),
        "name": "claude-research",
        "client": "Claude",
        "granted_by": "owner@example.org",
        "scopes": ("repo:read", "repo:propose"),
        "repositories": ("orchard / storefront", "orchard / docs"),
        "state": "live",
        "created_at": NOW - timedelta(days=12),
        "expires_at": None,
        "last_at": NOW - timedelta(minutes=4),
        "used_at": NOW - timedelta(minutes=9),
        "counts": {"pending": 2, "executed": 31, "declined": 3, "stale": 2},
        "may_manage": True,
    }
    return lists.ConnectionLine(**{**values, **more})


CONNECTIONS = lists.ConnectionsView(
    now=NOW,
    waiting=3,
    lines=(
        connection_line(21),
        connection_line(22, name="codex-nightly", client="Codex", state="paused", expires_at=NOW + timedelta(days=30)),
        connection_line(
            23, name="old-bot", client="Cursor", state="revoked", counts={}, last_at=None, scopes=("repo:read",)
        ),
    ),
)
REPOSITORIES = lists.RepositoriesView(
    now=NOW,
    waiting=3,
    lines=(
        lists.RepositoryLine(UUID(int=31), "orchard", "docs", "live", True, 1, True),
        lists.RepositoryLine(REPOSITORY, "orchard", "storefront", "live", True, 2, True),
        lists.RepositoryLine(UUID(int=33), "vineyard", "press", "paused", False, 0, False),
    ),
)
LEDGER = lists.LedgerView(
    now=NOW,
    waiting=3,
    lines=tuple(
        lists.LedgerLine(
            seq=214 - number,
            at=NOW - timedelta(seconds=731 * number),
            kind=kind,
            subject=str(PROPOSAL),
            actor_kind=actor_kind,
            actor=actor,
            hash=f"{number:064x}"[::-1],
        )
        for number, (kind, actor_kind, actor) in enumerate(
            (
                ("proposal.executed", "system", "Placet"),
                ("proposal.approved", "owner", "owner@example.org"),
                ("proposal.submitted", "agent", "claude-research"),
                ("agent.denied", "agent", "codex-nightly"),
                ("connection.paused", "owner", "owner@example.org"),
            )
        )
    ),
    before=210,
)

_HEAD = browse.Head(REPOSITORIES.lines[1], NOW, 3)
_COMMIT = Commit(
    tree=Oid("8" * 40),
    parents=(BASE,),
    author=b"Claude (claude-research) <conn-1f@placet.example> 1772711700 +0000",
    committer=b"Olive Owner <owner@example.org> 1772711760 +0000",
    message=b"Pin install version\n\nProposal: 96dcf05f-1111-4222-8333-444455556666\n",
)
_MERGE = _COMMIT.model_copy(update={"message": b"Merge the spring branch\n", "parents": (BASE, HEAD)})
_FILE = Entry(mode=0o100644, oid=Oid("9" * 40))
OVERVIEW = browse.OverviewView(_HEAD, "main", (HEAD, _COMMIT), INBOX.counts, branches=4, tags=12, restore_points=2)
FOLDER = browse.FolderView(
    _HEAD,
    "main",
    HEAD,
    b"shop",
    (
        Listed(b"shop/data", Entry(mode=0o040000, oid=Oid("a" * 40)), None),
        Listed(b"shop/basket.py", _FILE, 1_204),
        Listed(b"shop/latest", Entry(mode=0o120000, oid=Oid("b" * 40)), 9),
        Listed(b"shop/vendor", Entry(mode=0o160000, oid=HEAD), None),
    ),
    None,
)
CONTENT = browse.FileContentView(_HEAD, "main", HEAD, b"scripts/install.sh", _FILE, len(INSTALL_NEW), INSTALL_NEW)
HISTORY = browse.HistoryView(_HEAD, "main", ((HEAD, _COMMIT), (BASE, _MERGE)), 0, 50)
REFS = browse.RefsView(
    _HEAD,
    "main",
    (
        browse.BranchLine(NamedRef(b"main", HEAD), 0, 0),
        browse.BranchLine(NamedRef(b"agent/spring-prices", BASE), 3, 1),
    ),
    (NamedRef(b"v2.3", BASE),),
    more=False,
)
COMMIT = browse.CommitView(
    _HEAD, HEAD, _COMMIT, Finding("owner", "owner@example.org"), PROPOSAL, FILES, (b"dist/app.min.js",)
)
POINTS = browse.RestorePointsView(
    _HEAD,
    (
        RestorePoint(
            id=str(PROPOSAL),
            repository_id=str(_HEAD.line.id),
            operation="propose_branch_delete",
            made_at=(NOW - timedelta(hours=3)).isoformat(),
            expires_at=(NOW + timedelta(days=90)).isoformat(),
            moves=(MoveRef(ref="refs/heads/old-prices", old=BASE, new=NULL),),
        ),
    ),
    "",
)


def _member(number: int, email: str, name: str, role: Role, **more: Any) -> people.Member:
    return people.Member(UUID(int=number), email, name, role, "live", NOW - timedelta(days=number), number == 6, **more)


PEOPLE = people.PeopleView(
    NOW,
    3,
    (
        people.ProjectPeople(
            UUID(int=41),
            "orchard",
            may_manage=True,
            members=(
                _member(6, "owner@example.org", "Olive Owner", "owner", ways=("passkey", "password")),
                _member(9, "max@example.org", "Max Maintainer", "maintainer", ways=()),
                _member(90, "rita@example.org", "Rita Reader", "reader", ways=("oidc",)),
            ),
        ),
        people.ProjectPeople(
            UUID(int=42),
            "vineyard",
            may_manage=False,
            members=(_member(9, "max@example.org", "Max Maintainer", "owner", ways=()),),
        ),
    ),
)
TENANT_VIEW = people.TenantView(
    3, "orchard", timedelta(days=1), timedelta(hours=1), timedelta(days=90), pending_most=20, sign_commits=True
)
AREAS: dict[str, Any] = {
    "inbox": INBOX,
    "connections": CONNECTIONS,
    "repositories": REPOSITORIES,
    "ledger": LEDGER,
    "overview": OVERVIEW,
    "folder": FOLDER,
    "content": CONTENT,
    "history": HISTORY,
    "refs": REFS,
    "commit": COMMIT,
    "points": POINTS,
    "people": PEOPLE,
    "tenant": TENANT_VIEW,
}
"""The everyday view of each page beside the cards, by what a crafted desk calls it."""

SESSION = Session(
    id=UUID(int=5),
    person=UUID(int=6),
    email="owner@example.org",
    name="Olive Owner",
    tenant=TENANT,
    csrf="c5rf-token",
    expires_at=NOW + timedelta(days=7),
)


class CraftedDesk:
    """A desk that gives crafted views and keeps what it was asked."""

    def __init__(self, **views: Any) -> None:
        self.views = views
        self.asked: list[tuple[Any, ...]] = []
        self.answer: Callable[[], Any] = lambda: desk.DecisionResult(PROPOSAL, "executed", replayed=False)
        self.change: Callable[[Any], Any] = lambda view: view

    @property
    def areas(self) -> Any:
        """As the pages ask for it."""
        return SimpleNamespace(
            inbox=SimpleNamespace(read=self.inbox, glance=self.glance, members=self.members),
            cards=SimpleNamespace(
                read=self.card,
                decide=self.decide,
                file=self.file,
                sent=self.sent,
                keep_colours=self.sent,
                mark=self.mark,
            ),
            parts=SimpleNamespace(read=self.read_parts, choose=self.choose, withdraw=self.choose),
            connections=SimpleNamespace(list=self.connections, read=self.connection, change=self.connection_action),
            repositories=SimpleNamespace(list=self.repositories, change=self.repository_action),
            ledger=SimpleNamespace(read=self.ledger),
            people=SimpleNamespace(read=self.given("people"), tenant=self.given("tenant"), take_out=self.nobody),
            browsing=SimpleNamespace(
                overview=self.given("overview"),
                files=self.files,
                history=self.given("history"),
                refs=self.given("refs"),
                commit=self.given("commit"),
                restore_points=self.given("points"),
            ),
        )

    def given(self, name: str) -> Any:
        """What answers with this view, whatever is asked."""

        async def answer(*_asked: Any) -> Any:
            return self.views.get(name, AREAS[name])

        return answer

    async def files(self, _actor: Actor, _which: UUID, _ref: str | None, path: bytes, _after: bytes) -> Any:
        name = "folder" if path in {b"", FOLDER.path} else "content"
        return self.views.get(name, AREAS[name])

    async def nobody(self, *_asked: Any) -> None:
        raise Refusal(Code.NOT_FOUND, "There is no such member.")

    async def inbox(self, _actor: Actor, show: desk.Show, _only: desk.Filter, _after: str) -> desk.InboxView:
        view: desk.InboxView = self.views.get("inbox", INBOX if show == "waiting" else DECIDED)
        return replace(view, show=show)

    async def glance(self, _actor: Actor, _proposal_id: UUID | None) -> desk.Glance:
        return desk.Glance(int(INBOX.counts["waiting"]))

    async def members(self, _tenant: UUID, _people: Any) -> set[UUID]:
        return set()  # so that no page is live

    async def card(self, _actor: Actor, proposal_id: UUID) -> desk.CardView:
        cards = self.views.get("cards", {PROPOSAL: CARD_VIEW})
        if proposal_id not in cards:
            raise Refusal(Code.NOT_FOUND, desk.NO_PROPOSAL)
        found: desk.CardView = cards[proposal_id]
        return found

    async def file(self, _actor: Actor, proposal_id: UUID, place: int) -> desk.OneFile:
        card = await self.card(_actor, proposal_id)
        if place > len(card.files):
            raise Refusal(Code.NOT_FOUND, "There is no such file.")
        return desk.OneFile(proposal_id, TENANT, DIGEST, place, len(card.files), card.files[place - 1], 0, signs=False)

    async def sent(self, *_sent: Any, **_more: Any) -> None:
        """Nothing is kept."""

    async def mark(self, _actor: Actor, proposal_id: UUID, place: int, *, on: bool) -> desk.Marked:
        self.asked.append((place, on))
        file = replace((await self.card(_actor, proposal_id)).files[place - 1], seen=on)
        return desk.Marked(proposal_id, TENANT, place, file, True, int(on), 2, desk.NO_COLOURS)

    async def decide(self, who: desk.Decider, *sent: Any) -> Any:
        self.asked.append((who.actor.tenant, *sent))
        return self.answer()

    async def read_parts(self, _who: desk.Decider, proposal_id: UUID) -> desk.PartsView:
        return replace(self.views.get("parts", PARTS), id=proposal_id)

    async def choose(self, who: desk.Decider, proposal_id: UUID, *keep: Any) -> UUID:
        self.asked.append((who.actor.tenant, proposal_id, *keep))
        return PROPOSAL

    async def connections(self, _actor: Actor) -> lists.ConnectionsView:
        view: lists.ConnectionsView = self.views.get("connections", CONNECTIONS)
        return view

    async def connection_action(self, actor: Actor, *sent: Any) -> tuple[UUID, ...]:
        self.asked.append((actor.tenant, *sent))
        late: tuple[UUID, ...] = self.views.get("late", ())
        return late

    async def repositories(self, _actor: Actor) -> lists.RepositoriesView:
        view: lists.RepositoriesView = self.views.get("repositories", REPOSITORIES)
        return view

    async def repository_action(self, actor: Actor, *sent: Any) -> None:
        self.asked.append((actor.tenant, *sent))

    async def connection(self, _actor: Actor, which: UUID) -> lists.ConnectionView:
        view: lists.ConnectionsView = self.views.get("connections", CONNECTIONS)
        line = next((one for one in view.lines if one.id == which), None)
        if line is None:
            raise Refusal(Code.NOT_FOUND, "There is no such connection.")
        clauses = (Clause("deny", "path", "<i>\u202e/**"), Clause("allow", "branch", "agent/*"))
        return lists.ConnectionView(view.now, view.waiting, line, clauses)

    async def ledger(self, _actor: Actor, _only: lists.LedgerFilter, before: int | None, most: int) -> lists.LedgerView:
        self.asked.append((before, most))
        view: lists.LedgerView = self.views.get("ledger", LEDGER)
        return view


_OFFERS = tuple(
    SimpleNamespace(id=UUID(int=number), project="orchard", name=name, open=is_open, may_open=may_open)
    for number, (name, is_open, may_open) in enumerate(
        (("storefront", True, True), ("docs", False, True), ("press", False, False)), 31
    )
)
ASKING: dict[str, tuple[str, dict[str, Any]]] = {
    "sign-in": ("signin.html", {"elsewhere": "", "link": "plt_0_link", "problem": None}),
    "sign-in-how": ("signin.html", {"elsewhere": "", "link": "", "problem": "This link was used before."}),
    "consent": (
        "consent.html",
        {
            "asked": SimpleNamespace(client_name="Claude", tenant_name="orchard", offers=_OFFERS),
            "problem": None,
            "receiver": "http://localhost:33418/callback",
            "local": True,
            "scopes": ("read the repositories you choose", "propose changes, which you decide on"),
            "secret": "plt_0_request",
            "form": {"name": ["Claude"], "lifetime": ["30d"], "repository": [str(_OFFERS[0].id)]},
            "lifetimes": {"30d": "30 days", "": "until you revoke it"},
            "may_propose": True,
        },
    ),
    "not-connected": (
        "oauth_error.html",
        {"error": {"code": "invalid_request", "message": "The address for the answer is not a registered one."}},
    ),
}
"""Pages of one question, which others fill: template and values."""


@dataclass
class CraftedNotices:
    """Somebody's notices, with everything that can be seen of them."""

    change: Callable[[Any], Any]
    push_key: str = "B" + "A" * 86

    async def read(self, _actor: Actor) -> NoticesView:
        found: NoticesView = self.change(self.view())
        return found

    @staticmethod
    def view() -> NoticesView:
        which = UUID(int=7)
        hook = "https://hooks.example.org/placet/" + "deep/" * 30
        told = [
            ("waiting", "mail", PROPOSAL, "sent", ""),
            ("expiring", "push", PROPOSAL, "overtaken", ""),
            ("failed", "webhook", PROPOSAL, "failed", "The receiver answered 500."),
            ("waiting", "mail", PROPOSAL, "waiting", "The mail server does not answer as it should."),
            ("test", "mail", None, "sent", ""),
        ]
        return NoticesView(
            NOW,
            Choices(zone="Europe/Berlin", quiet=(22 * 60, 7 * 60), digest_hour=8),
            mail=True,
            browsers=(ShownBrowser(which, "push.example.org", NOW - timedelta(days=2)),),
            webhooks=(
                ShownWebhook(which, "https://hooks.example.org/placet", "live", ""),
                ShownWebhook(which, hook, "off", "The receiver answered 500."),
            ),
            deliveries=tuple(ShownDelivery(*one, NOW - timedelta(minutes=9)) for one in told),
        )


def card_id(name: str) -> UUID:
    """The id of a card of the gallery."""
    return uuid5(NAMESPACE_URL, name)


CARDS: dict[str, desk.CardView] = {
    "everyday": CARD_VIEW,
    **STATES,
    "kinds": ALL_KINDS,
    "grave": GRAVE,
    "hostile": hostile_card(),
    "long": with_files(
        file_view(b"dist/" + b"deep/" * 40 + b"app.min.js", b"a=1;" * 25_000, b"a=1;" * 12_500 + b"b=2;" * 12_500)
    ),
}
_AT = f"/repositories/{_HEAD.line.id}"
GALLERY: dict[str, str] = {
    "inbox": "/",
    "decided": "/?show=decided",
    "connections": "/connections",
    "connection": f"/connections/{CONNECTIONS.lines[0].id}",
    "repositories": "/repositories",
    "repository": _AT,
    "folder": f"{_AT}/files",
    "content": f"{_AT}/files?path=scripts/install.sh",
    "history": f"{_AT}/history",
    "branches": f"{_AT}/branches",
    "commit": f"{_AT}/commits/{HEAD}",
    "restore-points": f"{_AT}/restore-points",
    "people": "/people",
    "ledger": "/ledger?before=215",
    "notifications": "/settings/notifications",
    "tenant": "/settings/tenant",
    "missing": "/proposals/nothing",
    "parts": f"/proposals/{card_id('everyday')}/parts",
    "file": f"/proposals/{card_id('everyday')}/files/2",
    **{name: f"/asking/{name}" for name in ASKING},
    **{f"card-{name}": f"/proposals/{card_id(name)}" for name in CARDS},
}
"""Every page of the desk with something on it, and where `crafted_app` has it."""


def gallery(change: Callable[[Any], Any] = lambda view: view) -> CraftedDesk:
    """The desk of the gallery, each of its views changed so."""
    cards = {card_id(name): replace(change(card), id=card_id(name)) for name, card in CARDS.items()}
    found = CraftedDesk(cards=cards, parts=change(PARTS), **{name: change(view) for name, view in AREAS.items()})
    found.change = change
    return found


def crafted_app(crafted: CraftedDesk) -> Starlette:
    """The desk's own handlers and templates for a signed-in person, without guard and database."""
    nothing: Any = SimpleNamespace()
    notices: Any = CraftedNotices(crafted.change)
    parts = Parts(nothing, ISSUER, nothing, crafted.areas, nothing, streams=nothing, notices=notices, colouring=nothing)
    by_path: dict[str, list[Endpoint]] = {
        f"/asking/{name}": [Endpoint("GET", f"/asking/{name}", "", _asking(name, crafted.change))] for name in ASKING
    }
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    return Starlette(
        routes=[
            Route(path, _handler(endpoint, parts), methods=[endpoint.method])
            for path, endpoints in by_path.items()
            for endpoint in endpoints
        ]
    )


def _asking(name: str, change: Callable[[Any], Any]) -> Handler:
    async def answer(call: Call) -> Any:
        template, values = ASKING[name]
        return page(call, template, **change(values))

    return answer


def _handler(endpoint: Endpoint, parts: Parts) -> Any:
    async def answer(request: Any) -> Any:
        call = Call(request, parts, "browser", actor=SESSION.actor, session=SESSION)
        with speaking(preferred(request.headers.get("accept-language", ""))):
            try:
                return await endpoint.handler(call)
            except Refusal as refusal:
                return error_page(call, refusal) if endpoint.page else refusal_response(refusal)

    return answer

"""Apply a patch: a unified diff, or one mail of `git format-patch`, as one commit on a branch.

The owner sees: every file that changes as the patch was applied, with its whole diff and the patch's renames, modes,
and what hides in it.
The writer does: builds one commit on the pinned tip and moves the branch to it.
Refused when: stock `git apply` would refuse it (every line of context must be as the patch has it, though not at the
same place), a new path is one that no careful file system would take, a symbolic link, a submodule or a file that sets
up submodules would be made or changed, or nothing would change.

The author is the connection, whatever a mail says. Without a message a mail's own is taken.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from service.contract.changes import (
    EXECUTABLE,
    GITLINK,
    SYMLINK,
    one_commit_card,
)
from service.contract.data import Change, Oid
from service.contract.mail import is_mail, read_mail
from service.contract.names import MESSAGE_CHARACTERS, check_changed_path, check_message, check_new_path, quote_path
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.patches import PatchedFile, patched_files
from service.contract.placing import crossed, obstacle
from service.contract.plan import Blocked, Fact, MoveRef, Need, Note, Outcome, Plan, ReviewCard, Value, Wish
from service.contract.refs import Branch, ExpectedOid, branch_ref, tip_need, tip_of
from service.contract.undoing import revert_of
from service.contract.world import Store, World
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal

PATCH_CHARACTERS: Final = 200_000


class Patch(Request):
    """A patch for one branch."""

    branch: Branch
    patch: Annotated[
        str,
        Field(
            description="A unified diff (git diff --binary for files that are no text), or one mail as git "
            "format-patch writes it; at most 200,000 characters.",
            min_length=1,
            max_length=PATCH_CHARACTERS,
        ),
    ]
    message: Annotated[
        str | None,
        Field(
            description="The commit message, at most 10,000 characters. Left out: the mail's; a bare diff needs one.",
            min_length=1,
            max_length=MESSAGE_CHARACTERS,
        ),
    ] = None
    expected_base_oid: ExpectedOid = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        sent = self.sent()
        if self.message is not None:
            check_message(self.message, "message")
        elif sent.message is None:
            raise Refusal(Code.INVALID_ARGUMENT, "A diff that is no mail needs a message.", field="message")
        else:
            check_message(sent.message, "patch")
        return self

    def sent(self) -> "_Sent":
        """What arrived: the diff as bytes, and the message of the mail that it came in."""
        return _sent(self.patch)


@dataclass(frozen=True)
class _Sent:
    """A diff, and the message of its mail."""

    diff: bytes
    message: str | None

    @cached_property
    def files(self) -> tuple[PatchedFile, ...]:
        return patched_files(self.diff)


@lru_cache(maxsize=4)  # a request is asked several times, and each answer costs the reading of a whole mail
def _sent(patch: str) -> _Sent:
    raw = patch.encode()
    if not is_mail(raw):
        return _Sent(raw, None)
    mail = read_mail(raw)
    return _Sent(mail.patch, mail.message)


class ApplyPatch:
    """The operation. See the module."""

    kind = "propose_patch"
    version = 1
    toolset: ClassVar[Toolset] = "core"
    divisible = True
    title = "Propose a patch"
    description = (
        "Proposes one commit on a branch that applies a unified diff or one git format-patch mail (200,000 characters) "
        "as git apply does: context must match exactly, line numbers may be off. Renames, copies, modes and git's "
        "binary patches are understood. Nothing changes until an owner approves."
    )
    request = Patch

    def targets(self, request: Patch) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        files = request.sent().files
        paths = dict.fromkeys(path for one in files for path in (_source(one), one.new) if path is not None)
        return (branch_ref(request.branch),), tuple(paths)

    def pins(self, request: Patch, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return (tip_need(request.branch, request.expected_base_oid),)

    def received(self, request: Patch) -> list[dict[str, object]]:
        raw = request.patch.encode()
        return [{"path": "patch", "bytes": len(raw), "sha256": sha256(raw)}]

    def plan(self, request: Patch, world: World) -> Plan | Blocked:
        tip = tip_of(request.branch, world)
        if isinstance(tip, Blocked):
            return tip
        store, tree, sent = world.store, world.store.commit(tip).tree, request.sent()
        applied = store.apply(tree, sent.diff)
        if applied.tree is None:
            return Blocked(blockers=applied.rejected)
        if applied.tree == tree:
            return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.branch),))
        changes = tuple(store.changes(tree, applied.tree))
        if blockers := tuple(_blockers(store, tree, changes)):
            return Blocked(blockers=blockers)
        commit = store.draft((tip,), applied.tree, _message(request, sent).encode())
        move = MoveRef(ref=branch_ref(request.branch), old=tip, new=commit.id)
        return Plan(kinds=(self.kind,), build=(commit,), effects=(move,))

    def review_card(self, request: Patch, world: World, plan: Plan) -> ReviewCard:
        sent = request.sent()
        renames = {one.new: one.source for one in sent.files if one.new and one.source and not one.copied}
        words = {"reason": request.reason, "message": _message(request, sent)}
        return one_commit_card(world, plan, request.branch, words, renames)

    def undo(self, outcome: Outcome) -> Wish | None:
        return revert_of(outcome, outcome.request["branch"])

    def examples(self) -> tuple[Example[Patch], ...]:
        return EXAMPLES


def _message(request: Patch, sent: _Sent) -> str:
    return request.message or sent.message or ""


def _source(one: PatchedFile) -> bytes | None:
    """The path that a file of a patch takes away or changes; what is only copied is neither."""
    return None if one.copied else one.old


def _blockers(store: Store, tree: Oid, changes: tuple[Change, ...]) -> Iterator[Note]:
    """What a patch may do to git and not here."""
    gone = frozenset(change.path for change in changes if change.new is None)
    made = [change.path for change in changes if change.old is None]
    for change in changes:
        if (why := _special(change)) is not None:
            yield Note(code=Code.PATCH_REJECTED.value.name, at=quote_path(change.path), params={"why": why})
    bad = {change.path: note for change in changes if (note := _bad_path(change)) is not None}
    good = [path for path in made if path not in bad]  # what is compared is short
    placed = (obstacle(store, tree, path, gone) for path in good)
    for note in (*bad.values(), *filter(None, placed), *crossed(good)):
        yield note.model_copy(update={"params": {"field": "patch", **note.params}})


def _special(change: Change) -> str | None:
    """The kind of thing that is no file and would be made, changed, or, if a submodule, taken away."""
    modes = {entry.mode for entry in (change.old, change.new) if entry is not None}
    if GITLINK in modes:
        return "submodule"
    return "symlink" if SYMLINK in modes and change.new is not None else None


def _bad_path(change: Change) -> Note | None:
    """Why a path cannot come to be, or change, whatever the tree holds."""
    try:
        if change.old is None:
            check_new_path(change.path.decode("utf-8", "surrogateescape"), "patch")
        else:
            check_changed_path(change.path, "patch")
    except Refusal as refusal:
        return Note(code=refusal.code.value.name, at=quote_path(change.path), params=refusal.details)
    return None


_LINES = "".join(f"line {number}\n" for number in range(1, 21))
_BASE = {"README.md": "# Orchard\n", "app.py": _LINES, "old.txt": "x\n", "win.txt": "x\r\ny\r\n"}
_COMMITS = {"base": Made(files={**_BASE, "link": "app.py"}, modes={"link": SYMLINK})}
_AFTER = {**_BASE, "link": "app.py"}
_REFS = {"refs/heads/main": "base"}
_LINK = {"refs/heads/main:link": SYMLINK}
_WORDS = {"branch": "main", "message": "Apply a patch", "reason": "Because it was asked."}
_EDIT = """\
diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -4,3 +4,3 @@
 line 4
-line 5
+line five
 line 6
"""
_MAIL = f"""\
From 1234567890123456789012345678901234567890 Mon Sep 17 00:00:00 2001
From: Somebody Else <else@example.org>
Date: Tue, 1 Dec 2026 10:00:00 +0000
Subject: [PATCH 1/2] Say five

It reads better.
---
 app.py | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

{_EDIT}--\x20
2.39.5
"""
_MANY = """\
diff --git a/old.txt b/new/place.txt
old mode 100644
new mode 100755
similarity index 100%
rename from old.txt
rename to new/place.txt
diff --git a/win.txt b/win.txt
deleted file mode 100644
--- a/win.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-x\r
-y\r
diff --git a/made.txt b/made.txt
new file mode 100644
--- /dev/null
+++ b/made.txt
@@ -0,0 +1 @@
+made
"""
_HIDING = _EDIT.replace("line five", "line \u202efive")


def _new(path: str, mode: str = "100644") -> str:
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
        "@@ -0,0 +1 @@\n+app.py\n\\ No newline at end of file\n"
    )


def _blocked(name: str, patch: str, code: str) -> Example[Patch]:
    return Example(name=name, commits=_COMMITS, refs=_REFS, arguments={**_WORDS, "patch": patch}, blocked=code)


EXAMPLES: tuple[Example[Patch], ...] = (
    Example(
        name="a diff, a few lines off",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "patch": _EDIT.replace("-4,3 +4,3", "-9,3 +9,3")},
        after={"refs/heads/main": {**_AFTER, "app.py": _LINES.replace("line 5\n", "line five\n")}},
        modes=_LINK,
    ),
    Example(
        name="a mail with its own message",
        commits=_COMMITS,
        refs=_REFS,
        arguments={"branch": "main", "reason": "Because it was asked.", "patch": _MAIL},
        after={"refs/heads/main": {**_AFTER, "app.py": _LINES.replace("line 5\n", "line five\n")}},
        modes=_LINK,
    ),
    Example(
        name="rename, mode, delete and create",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "patch": _MANY},
        after={
            "refs/heads/main": {
                "README.md": "# Orchard\n",
                "app.py": _LINES,
                "link": "app.py",
                "made.txt": "made\n",
                "new/place.txt": "x\n",
            }
        },
        modes={**_LINK, "refs/heads/main:new/place.txt": EXECUTABLE},
        warnings=("becomes_executable", "deletes_file"),
    ),
    Example(
        name="lines that hide something",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "patch": _HIDING},
        after={"refs/heads/main": {**_AFTER, "app.py": _LINES.replace("line 5\n", "line \u202efive\n")}},
        modes=_LINK,
        warnings=("hidden_characters",),
    ),
    _blocked("context that differs", _EDIT.replace(" line 6", " line six"), "patch_rejected"),
    _blocked("no patch", "Please change line 5.\n", "patch_rejected"),
    _blocked("a file that is there", _new("README.md"), "patch_rejected"),
    _blocked("a symbolic link", _new("other", "120000"), "patch_rejected"),
    _blocked("through a symbolic link", _new("link/x"), "patch_rejected"),
    _blocked("a path that is a device on Windows", _new("docs/aux.txt"), "path_rejected"),
    _blocked("a twin in other letter case", _new("readme.MD"), "path_rejected"),
    _blocked("what is so already", _EDIT.replace("+line five", "+line 5"), "nothing_to_change"),
)

OPERATION = ApplyPatch()

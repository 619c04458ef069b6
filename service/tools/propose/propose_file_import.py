"""Import files: create, update, delete and rename files on one branch, as one commit.

The owner sees: every file that changes with its whole diff, modes, line ends, and what hides in it.
The writer does: builds one commit on the pinned tip and moves the branch to it.
Refused when: a file is not what the request says it is (there, absent, or another blob), a path is one that no careful
file system would take, or nothing would change.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.contract.changes import (
    DIRECTORY,
    EXECUTABLE,
    FILE_MODES,
    GITLINK,
    one_commit_card,
)
from service.contract.data import NULL, Entry, Oid
from service.contract.names import (
    check_changed_path,
    check_message,
    check_mode,
    check_new_branch,
    check_new_path,
    check_oid,
    check_read_path,
    quote_path,
)
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.placing import crossed, obstacle
from service.contract.plan import Blocked, Fact, MoveRef, Need, Note, Outcome, Plan, RefAt, ReviewCard, Value, Wish
from service.contract.refs import BRANCHES, branch_ref
from service.contract.undoing import revert_of
from service.contract.world import Store, World, tree_of
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal

FILES_MOST = 20
CONTENT_CHARACTERS = 100_000
IMPORT_BYTES = 200_000
Action = Literal["create", "update", "delete", "rename", "upsert"]


class FileChange(BaseModel):
    """One file of an import."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    path: Annotated[str, Field(description="Path from the root of the repository, with slashes.", max_length=8_192)]
    action: Annotated[
        Action,
        Field(
            description="create: must not exist. update, delete: must exist. rename: from from_path to path. "
            "upsert (default): create or update."
        ),
    ] = "upsert"
    content: Annotated[
        str | None,
        Field(
            description="The whole new content, at most 100,000 characters as sent. Required to create; may be left "
            "out to rename or to change only the mode; not allowed to delete.",
            max_length=CONTENT_CHARACTERS,
        ),
    ] = None
    encoding: Annotated[
        Literal["utf-8", "base64"], Field(description="How content is written: utf-8 (default) or base64.")
    ] = "utf-8"
    mode: Annotated[
        str | None, Field(description="100644 or 100755; left out, a file keeps its mode.", max_length=6)
    ] = None
    from_path: Annotated[str | None, Field(description="The path that a rename takes away.", max_length=8_192)] = None
    expected_blob_oid: Annotated[
        str | None,
        Field(description="The blob id the file must have now; with another one nothing is proposed.", max_length=40),
    ] = None


class FileImport(Request):
    """Files to create, update, delete or rename on one branch."""

    branch: Annotated[str, Field(description="The branch that the commit goes to.", min_length=1, max_length=1_024)]
    message: Annotated[
        str, Field(description="The commit message, at most 10,000 characters.", min_length=1, max_length=10_000)
    ]
    files: Annotated[
        list[FileChange],
        Field(description="1 to 20 files, 200,000 bytes of content in all.", min_length=1, max_length=FILES_MOST),
    ]
    expected_base_oid: Annotated[
        str | None,
        Field(description="The commit the branch must be at now; left out, its tip is taken.", max_length=40),
    ] = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        """Everything that can be judged without a repository, so that it is refused before anything is read."""
        branch_ref(self.branch)
        check_message(self.message, "message")
        if self.expected_base_oid is not None:
            check_oid(self.expected_base_oid, "expected_base_oid")
        parsed = self.changes()
        _check_unique(parsed)
        total = sum(len(change.content or b"") for change in parsed)
        if total > IMPORT_BYTES:
            raise _bad(
                "files",
                f"The files have {total:,} bytes of content; {IMPORT_BYTES:,} is the most.",
                limit=IMPORT_BYTES,
                value=total,
            )
        return self

    def changes(self) -> tuple["_Wish", ...]:
        """The files with their content decoded and their paths as bytes."""
        return tuple(_read(change, f"files[{index}]") for index, change in enumerate(self.files))

    @property
    def ref(self) -> str:
        """The branch's full ref name."""
        return branch_ref(self.branch)


@dataclass(frozen=True)
class _Wish:
    """A file change as read: what it wants of which path, and where in the request it stands."""

    at: str
    action: Action
    path: bytes
    source: bytes | None
    content: bytes | None
    mode: int | None
    expected: str | None

    @property
    def origin(self) -> bytes:
        """The path where the file is now."""
        return self.source if self.source is not None else self.path


@dataclass
class _Draft:
    """A plan in the making: what each path becomes, what goes, and what stands in the way."""

    store: Store
    tree: Oid | None
    gone: frozenset[bytes]
    edits: dict[bytes, Entry | None] = field(default_factory=dict)
    blockers: list[Note] = field(default_factory=list)

    def block(self, code: Code, wish: _Wish, *, at: bytes | None = None, **params: Any) -> None:
        where = quote_path(wish.path if at is None else at)
        self.blockers.append(Note(code=code.value.name, at=where, params={"field": wish.at, **params}))


# What each action allows and demands of the optional fields: True demanded, False refused, None free.
RULES: Mapping[Action, Mapping[str, bool | None]] = {
    "create": {"content": True, "mode": None, "from_path": False},
    "update": {"content": None, "mode": None, "from_path": False},
    "upsert": {"content": True, "mode": None, "from_path": False},
    "delete": {"content": False, "mode": False, "from_path": False},
    "rename": {"content": None, "mode": None, "from_path": True},
}
# A path that is only looked up may be any that a tree can hold; one that may come to be must be portable.
MAKES_PATH = frozenset({"create", "upsert", "rename"})


class ImportFiles:
    """The operation. See the module."""

    kind = "propose_file_import"
    version = 1
    toolset: ClassVar[Toolset] = "core"
    divisible = True
    title = "Propose file changes"
    description = (
        "Proposes one commit on a branch that creates, updates, deletes or renames 1 to 20 files (100,000 characters "
        "per file, 200,000 bytes in all). Nothing changes until an owner approves. The answer says what was received, "
        "byte for byte. The base is pinned: when the branch moves before the approval, the proposal becomes stale."
    )
    request = FileImport

    def targets(self, request: FileImport) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        paths = [path for wish in request.changes() for path in (wish.path, wish.source) if path is not None]
        return (request.ref,), tuple(paths)

    def pins(self, request: FileImport, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        expected = Oid(request.expected_base_oid) if request.expected_base_oid else None
        tip = RefAt(name=request.ref)
        needs = [Need(fact=tip, expected=expected)]
        if seen.get(tip) == NULL:  # only a repository without commits may get a branch this way
            needs.append(Need(fact=RefAt(name=BRANCHES)))
        return tuple(needs)

    def received(self, request: FileImport) -> list[dict[str, object]]:
        return [
            {"path": quote_path(wish.path), "bytes": len(wish.content), "sha256": sha256(wish.content)}
            if wish.content is not None
            else {"path": quote_path(wish.path)}
            for wish in request.changes()
        ]

    def plan(self, request: FileImport, world: World) -> Plan | Blocked:
        base = world.ref(request.ref)
        if base == NULL:
            if world.ref(BRANCHES) != NULL:
                return Blocked(blockers=(Note(code=Code.BRANCH_MISSING.value.name, at=request.branch),))
            check_new_branch(request.branch, "branch")
        tree = tree_of(world.store, base)
        draft = _draft(request, world.store, tree)
        if draft.blockers:
            return Blocked(blockers=tuple(draft.blockers))
        new_tree = world.store.edit(tree, draft.edits)
        if new_tree == tree:
            return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.branch),))
        commit = world.store.draft(() if base == NULL else (base,), new_tree, request.message.encode())
        return Plan(kinds=(self.kind,), build=(commit,), effects=(MoveRef(ref=request.ref, old=base, new=commit.id),))

    def review_card(self, request: FileImport, world: World, plan: Plan) -> ReviewCard:
        renames = {wish.path: wish.source for wish in request.changes() if wish.source is not None}
        words = {"reason": request.reason, "message": request.message}
        return one_commit_card(world, plan, request.branch, words, renames)

    def undo(self, outcome: Outcome) -> Wish | None:
        return revert_of(outcome, outcome.request["branch"])

    def examples(self) -> tuple[Example[FileImport], ...]:
        return EXAMPLES


def _read(change: FileChange, at: str) -> _Wish:
    for name, rule in RULES[change.action].items():
        given = getattr(change, name) is not None
        if rule is not None and given != rule:
            word = "needs" if rule else "takes no"
            raise _bad(f"{at}.{name}", f"{change.action} {word} {name}.")
    if change.action == "update" and change.content is None and change.mode is None:
        raise _bad(f"{at}.content", "update needs content or mode.")
    judge = check_new_path if change.action in MAKES_PATH else _changed_path
    return _Wish(
        at=at,
        action=change.action,
        path=judge(change.path, f"{at}.path"),
        source=None if change.from_path is None else _changed_path(change.from_path, f"{at}.from_path"),
        content=None if change.content is None else _decoded(change, at),
        mode=None if change.mode is None else check_mode(change.mode, f"{at}.mode"),
        expected=None
        if change.expected_blob_oid is None
        else check_oid(change.expected_blob_oid, f"{at}.expected_blob_oid"),
    )


def _changed_path(path: str, field: str) -> bytes:
    return check_changed_path(check_read_path(path, field), field)


def _decoded(change: FileChange, at: str) -> bytes:
    content = change.content or ""
    if change.encoding == "utf-8":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise _bad(f"{at}.content", "The content is not valid base64.") from None


def _check_unique(wishes: tuple[_Wish, ...]) -> None:
    seen: set[bytes] = set()
    for wish in wishes:
        for path, name in ((wish.path, "path"), (wish.source, "from_path")):
            if path is not None and path in seen:
                raise _bad(f"{wish.at}.{name}", "This path stands in the request twice.")
            seen |= {path} if path is not None else set()


def _draft(request: FileImport, store: Store, tree: Oid | None) -> _Draft:
    wishes = request.changes()
    gone = frozenset(wish.origin for wish in wishes if wish.action in {"delete", "rename"})
    draft = _Draft(store, tree, gone)
    for wish in wishes:
        _apply(draft, wish)
    made = [path for path, entry in draft.edits.items() if entry is not None]
    _block_nested(draft, wishes, made)
    return draft


def _apply(draft: _Draft, wish: _Wish) -> None:
    now = draft.store.entry(draft.tree, wish.origin)
    if not _is_as_expected(draft, wish, now):
        return
    if wish.action == "delete":
        draft.edits[wish.path] = None
        return
    if (wish.path != wish.origin or now is None) and not _is_free(draft, wish):
        return
    if wish.source is not None:
        draft.edits[wish.source] = None
    oid = draft.store.put(wish.content) if wish.content is not None else (now.oid if now else NULL)
    draft.edits[wish.path] = Entry(mode=wish.mode or (now.mode if now else FILE_MODES[0]), oid=oid)


def _is_as_expected(draft: _Draft, wish: _Wish, now: Entry | None) -> bool:
    """Whether what is there is what the wish speaks of; else the blocker says what is."""
    if now is not None and now.mode == DIRECTORY:
        draft.block(Code.PATH_OCCUPIED, wish, at=wish.origin, by="directory")
    elif now is not None and (now.mode == GITLINK or (now.mode not in FILE_MODES and wish.action != "delete")):
        draft.block(Code.PATH_OCCUPIED, wish, at=wish.origin, by="submodule" if now.mode == GITLINK else "symlink")
    elif now is None and wish.action in {"update", "delete", "rename"}:
        draft.block(Code.FILE_MISSING, wish, at=wish.origin)
    elif now is not None and wish.action == "create":
        draft.block(Code.FILE_EXISTS, wish, blob_oid=now.oid)
    elif wish.expected is not None and (now is None or now.oid != wish.expected):
        draft.block(Code.BLOB_MISMATCH, wish, at=wish.origin, blob_oid=now.oid if now else None)
    else:
        return True
    return False


def _is_free(draft: _Draft, wish: _Wish) -> bool:
    """Whether a new path can come to be."""
    note = obstacle(draft.store, draft.tree, wish.path, draft.gone)
    if note is not None:
        draft.blockers.append(_placed(note, wish))
    return note is None


def _block_nested(draft: _Draft, wishes: tuple[_Wish, ...], made: list[bytes]) -> None:
    """Two new paths of one request that cannot be together."""
    by_path = {quote_path(wish.path): wish for wish in wishes}
    draft.blockers.extend(_placed(note, by_path[note.at]) for note in crossed(made))


def _placed(note: Note, wish: _Wish) -> Note:
    return note.model_copy(update={"params": {"field": wish.at, **note.params}})


def _bad(at: str, message: str, **details: Any) -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, message, field=at, **details)


_BASE = {"README.md": "# Orchard\n", "app.py": "print('hello')\n", "win.txt": "x\r\ny\r\nz\r\n"}
_COMMITS = {"base": Made(files=_BASE)}
_REFS = {"refs/heads/main": "base"}
_WORDS = {"branch": "main", "message": "Change files", "reason": "Because it was asked."}

EXAMPLES: tuple[Example[FileImport], ...] = (
    Example(
        name="create a file",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "docs/new.md", "content": "new\n", "action": "create"}]},
        after={"refs/heads/main": {**_BASE, "docs/new.md": "new\n"}},
    ),
    Example(
        name="update, delete, rename and create in one commit",
        commits=_COMMITS,
        refs=_REFS,
        arguments={
            **_WORDS,
            "files": [
                {
                    "path": "README.md",
                    "content": "# Orchard 2\n",
                    "action": "update",
                    "expected_blob_oid": "{base:README.md}",
                },
                {"path": "win.txt", "action": "delete"},
                {"path": "src/app.py", "from_path": "app.py", "action": "rename"},
                {"path": "run.sh", "content": "#!/bin/sh\n", "mode": "100755"},
            ],
        },
        after={
            "refs/heads/main": {"README.md": "# Orchard 2\n", "src/app.py": "print('hello')\n", "run.sh": "#!/bin/sh\n"}
        },
        modes={"refs/heads/main:run.sh": EXECUTABLE},
        warnings=("becomes_executable", "deletes_file"),
    ),
    Example(
        name="change only the mode",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "app.py", "action": "update", "mode": "100755"}]},
        after={"refs/heads/main": _BASE},
        modes={"refs/heads/main:app.py": EXECUTABLE},
        warnings=("becomes_executable",),
    ),
    Example(
        name="line ends change",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "win.txt", "content": "x\nY\nz\n"}]},
        after={"refs/heads/main": {**_BASE, "win.txt": "x\nY\nz\n"}},
        warnings=("line_ends_change",),
    ),
    Example(
        name="the first commit of an empty repository",
        arguments={**_WORDS, "files": [{"path": "README.md", "content": "# New\n"}]},
        after={"refs/heads/main": {"README.md": "# New\n"}},
    ),
    Example(
        name="content that hides something",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": ".github/workflows/ci.yml", "content": "run: \u202eevil\n"}]},
        after={"refs/heads/main": {**_BASE, ".github/workflows/ci.yml": "run: \u202eevil\n"}},
        warnings=("runs_or_redirects", "hidden_characters"),
    ),
    Example(
        name="create what exists",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "app.py", "content": "x\n", "action": "create"}]},
        blocked="file_exists",
    ),
    Example(
        name="a stale blob id",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "app.py", "content": "x\n", "expected_blob_oid": "0" * 39 + "1"}]},
        blocked="blob_mismatch",
    ),
    Example(
        name="a file through a file",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "app.py/x", "content": "x\n"}]},
        blocked="path_occupied",
    ),
    Example(
        name="a twin in other letter case",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "readme.MD", "content": "x\n"}]},
        blocked="path_rejected",
    ),
    Example(
        name="nothing that changes",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "files": [{"path": "app.py", "content": "print('hello')\n"}]},
        blocked="nothing_to_change",
    ),
)

OPERATION = ImportFiles()

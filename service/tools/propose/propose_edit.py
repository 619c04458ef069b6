"""Edit files: replace exact pieces of text in files on one branch, as one commit.

The owner sees: every file that changes with its whole diff, and what hides in it.
The writer does: builds one commit on the pinned tip and moves the branch to it.
Refused when: a file is not there, is no file or sets up submodules, a search text does not occur exactly as often as
the edit says, or nothing would change.

Search and replacement are taken as UTF-8 and looked up byte for byte, from the first byte on and never overlapping:
`aa` occurs once in `aaa`, at its beginning. What lies between occurrences is kept as it is, line ends and bytes that
are no UTF-8 too. Edits of one file apply in their order, each to what the one before has left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.contract.changes import (
    DIRECTORY,
    EXECUTABLE,
    GITLINK,
    SYMLINK,
    one_commit_card,
)
from service.contract.data import Entry, Oid
from service.contract.names import check_changed_path, check_oid, check_read_path, quote_path
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.plan import Blocked, Fact, MoveRef, Need, Note, Outcome, Plan, ReviewCard, Value, Wish
from service.contract.refs import Branch, ExpectedOid, Message, branch_ref, tip_need, tip_of
from service.contract.undoing import revert_of
from service.contract.world import Store, World
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal

EDITS_MOST: Final = 50
TEXT_CHARACTERS: Final = 100_000
COUNT_MOST: Final = 1_000
REPLACED_BYTES: Final = 200_000
"""What the edits put in together, each replacement as often as it is made."""
FILE_BYTES: Final = 1_000_000
"""The largest file that is edited, before and after."""
_KINDS: Final = {DIRECTORY: "directory", SYMLINK: "symlink", GITLINK: "submodule"}


class Edit(BaseModel):
    """One piece of text to replace."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    path: Annotated[str, Field(description="Path of the file from the root, with slashes.", max_length=8_192)]
    search: Annotated[
        str,
        Field(
            description="The exact text to find, white space and line ends included.",
            min_length=1,
            max_length=TEXT_CHARACTERS,
        ),
    ]
    replace: Annotated[
        str, Field(description="What stands there instead; empty takes the text away.", max_length=TEXT_CHARACTERS)
    ]
    count: Annotated[
        int,
        Field(
            description="How often the search text must occur, without overlap; all of them are replaced. Default 1.",
            ge=1,
            le=COUNT_MOST,
        ),
    ] = 1
    expected_blob_oid: Annotated[
        str | None,
        Field(
            description="The blob id that the file must have on the branch now; with another one nothing is proposed.",
            max_length=40,
        ),
    ] = None


class EditFiles(Request):
    """Edits of files on one branch."""

    branch: Branch
    message: Message
    edits: Annotated[
        list[Edit],
        Field(
            description="1 to 50 edits, in their order; 200,000 bytes put in in all.",
            min_length=1,
            max_length=EDITS_MOST,
        ),
    ]
    expected_base_oid: ExpectedOid = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        total = sum(len(wish.replace) * wish.count for wish in self.wishes())
        if total > REPLACED_BYTES:
            message = f"The edits put in {total:,} bytes; {REPLACED_BYTES:,} is the most."
            raise Refusal(Code.INVALID_ARGUMENT, message, field="edits", limit=REPLACED_BYTES, value=total)
        return self

    def wishes(self) -> tuple["_Wish", ...]:
        """The edits as bytes."""
        return tuple(_read(edit, index) for index, edit in enumerate(self.edits))


@dataclass(frozen=True)
class _Wish:
    """An edit as read, and where in the request it stands."""

    at: str
    path: bytes
    search: bytes
    replace: bytes
    count: int
    expected: str | None


@dataclass
class _Draft:
    """What becomes of the files: their entries before, their contents after, and why not."""

    store: Store
    tree: Oid
    entries: dict[bytes, Entry] = field(default_factory=dict)
    contents: dict[bytes, bytes] = field(default_factory=dict)
    blockers: list[Note] = field(default_factory=list)

    def block(self, code: Code, wish: _Wish, **params: Any) -> None:
        note = Note(code=code.value.name, at=quote_path(wish.path), params={"field": wish.at, **params})
        self.blockers.append(note)


class EditOperation:
    """The operation. See the module."""

    kind = "propose_edit"
    version = 1
    toolset: ClassVar[Toolset] = "core"
    divisible = True
    title = "Propose text edits"
    description = (
        "Proposes one commit on a branch that replaces exact pieces of text in files: 1 to 50 edits, each with the "
        "text to find, the text to put there, and how often it must occur (once unless said). Occurrences are counted "
        "byte for byte and without overlap. Several edits of one file apply in order. Files have at most 1,000,000 "
        "bytes. Nothing changes until an owner approves."
    )
    request = EditFiles

    def targets(self, request: EditFiles) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (branch_ref(request.branch),), tuple(dict.fromkeys(wish.path for wish in request.wishes()))

    def pins(self, request: EditFiles, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return (tip_need(request.branch, request.expected_base_oid),)

    def received(self, request: EditFiles) -> list[dict[str, object]]:
        return [
            {"path": quote_path(wish.path), "bytes": len(wish.replace), "sha256": sha256(wish.replace)}
            for wish in request.wishes()
        ]

    def plan(self, request: EditFiles, world: World) -> Plan | Blocked:
        tip = tip_of(request.branch, world)
        if isinstance(tip, Blocked):
            return tip
        store, tree = world.store, world.store.commit(tip).tree
        draft = _Draft(store, tree)
        for wish in request.wishes():
            _apply(draft, wish)
        if draft.blockers:
            return Blocked(blockers=tuple(draft.blockers))
        new_tree = store.edit(tree, {path: _entry(draft, path) for path in draft.contents})
        if new_tree == tree:
            return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.branch),))
        commit = store.draft((tip,), new_tree, request.message.encode())
        move = MoveRef(ref=branch_ref(request.branch), old=tip, new=commit.id)
        return Plan(kinds=(self.kind,), build=(commit,), effects=(move,))

    def review_card(self, request: EditFiles, world: World, plan: Plan) -> ReviewCard:
        words = {"reason": request.reason, "message": request.message}
        return one_commit_card(world, plan, request.branch, words)

    def undo(self, outcome: Outcome) -> Wish | None:
        return revert_of(outcome, outcome.request["branch"])

    def examples(self) -> tuple[Example[EditFiles], ...]:
        return EXAMPLES


def _read(edit: Edit, index: int) -> _Wish:
    at = f"edits[{index}]"
    expected = edit.expected_blob_oid
    return _Wish(
        at=at,
        path=check_changed_path(check_read_path(edit.path, f"{at}.path"), f"{at}.path"),
        search=edit.search.encode(),
        replace=edit.replace.encode(),
        count=edit.count,
        expected=None if expected is None else check_oid(expected, f"{at}.expected_blob_oid"),
    )


def _apply(draft: _Draft, wish: _Wish) -> None:
    """Edit a file's content, or say why that cannot be."""
    if wish.path not in draft.entries and not _open(draft, wish):
        return
    if wish.expected is not None and draft.entries[wish.path].oid != wish.expected:
        draft.block(Code.BLOB_MISMATCH, wish, blob_oid=draft.entries[wish.path].oid)
        return
    content = draft.contents[wish.path]
    found = content.count(wish.search)
    if found != wish.count:
        draft.block(Code.EDIT_MISMATCH, wish, found=found, expected=wish.count)
        return
    size = len(content) + found * (len(wish.replace) - len(wish.search))
    if _fits(draft, wish, size):
        draft.contents[wish.path] = content.replace(wish.search, wish.replace)


def _open(draft: _Draft, wish: _Wish) -> bool:
    """Read the file that an edit speaks of, if it is one."""
    entry = draft.store.entry(draft.tree, wish.path)
    if entry is None:
        draft.block(Code.FILE_MISSING, wish)
    elif entry.mode in _KINDS:
        draft.block(Code.PATH_OCCUPIED, wish, by=_KINDS[entry.mode])
    else:
        content = draft.store.blob(entry.oid)
        if _fits(draft, wish, len(content)):
            draft.entries[wish.path], draft.contents[wish.path] = entry, content
            return True
    return False


def _fits(draft: _Draft, wish: _Wish, size: int) -> bool:
    if size > FILE_BYTES:
        draft.block(Code.TOO_MUCH_TO_REVIEW, wish, limit=FILE_BYTES, value=size)
    return size <= FILE_BYTES


def _entry(draft: _Draft, path: bytes) -> Entry:
    return Entry(mode=draft.entries[path].mode, oid=draft.store.put(draft.contents[path]))


_BASE = {"README.md": "# Orchard\n", "app.py": "a = 1\nb = 1\n", "run.sh": "#!/bin/sh\n", "win.txt": "x\r\ny\r\n"}
_POEM = {"poem.txt": "one\ntwo\r\nthree\nfour\nfive"}
_COMMITS = {"base": Made(files=_BASE, modes={"run.sh": EXECUTABLE})}
_LINKED = {"base": Made(files={"link": "app.py"}, modes={"link": SYMLINK})}
_REFS = {"refs/heads/main": "base"}
_WORDS = {"branch": "main", "message": "Edit files", "reason": "Because it was asked."}
_RUN = {"refs/heads/main:run.sh": EXECUTABLE}

EXAMPLES: tuple[Example[EditFiles], ...] = (
    Example(
        name="one place",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "edits": [{"path": "README.md", "search": "Orchard", "replace": "Garden"}]},
        after={"refs/heads/main": {**_BASE, "README.md": "# Garden\n"}},
        modes=_RUN,
    ),
    Example(
        name="several places, several files, in order",
        commits=_COMMITS,
        refs=_REFS,
        arguments={
            **_WORDS,
            "edits": [
                {"path": "app.py", "search": "= 1", "replace": "= 2", "count": 2},
                {"path": "app.py", "search": "b = 2\n", "replace": "", "expected_blob_oid": "{base:app.py}"},
                {"path": "run.sh", "search": "sh\n", "replace": "sh\nexit\n"},
                {"path": "win.txt", "search": "x\r\n", "replace": "X\r\n"},
            ],
        },
        after={
            "refs/heads/main": {
                **_BASE,
                "app.py": "a = 2\n",
                "run.sh": "#!/bin/sh\nexit\n",
                "win.txt": "X\r\ny\r\n",
            }
        },
        modes=_RUN,
    ),
    Example(
        name="two places of one file that ends without a newline",
        commits={"base": Made(files=_POEM)},
        refs=_REFS,
        arguments={
            **_WORDS,
            "edits": [
                {"path": "poem.txt", "search": "one\n", "replace": "uno\nand more\n"},
                {"path": "poem.txt", "search": "five", "replace": "cinco"},
            ],
        },
        after={"refs/heads/main": {"poem.txt": "uno\nand more\ntwo\r\nthree\nfour\ncinco"}},
    ),
    Example(
        name="a text that hides something",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "edits": [{"path": "app.py", "search": "a =", "replace": "a\u202e ="}]},
        after={"refs/heads/main": {**_BASE, "app.py": "a\u202e = 1\nb = 1\n"}},
        modes=_RUN,
        warnings=("hidden_characters",),
    ),
    Example(
        name="a text that is not there",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "edits": [{"path": "app.py", "search": "c = 1", "replace": ""}]},
        blocked="edit_mismatch",
    ),
    Example(
        name="a text that is there more often",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "edits": [{"path": "app.py", "search": "= 1", "replace": "= 2"}]},
        blocked="edit_mismatch",
    ),
    Example(
        name="a file that is not there",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "edits": [{"path": "no.py", "search": "x", "replace": "y"}]},
        blocked="file_missing",
    ),
    Example(
        name="a symbolic link",
        commits=_LINKED,
        refs=_REFS,
        arguments={**_WORDS, "edits": [{"path": "link", "search": "app", "replace": "etc"}]},
        blocked="path_occupied",
    ),
    Example(
        name="nothing that changes",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "edits": [{"path": "app.py", "search": "a = 1", "replace": "a = 1"}]},
        blocked="nothing_to_change",
    ),
)

OPERATION = EditOperation()

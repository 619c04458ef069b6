"""Revert: undo commits on a branch by new commits that take back what they changed.

The owner sees: the commits that are undone, and what changes by all of it, every file with its whole diff.
The writer does: builds one commit for each on the pinned tip and moves the branch to the last.
Refused when: one of them cannot be undone without a conflict, is undone already, or is a merge of which no parent is
named.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from service.contract.data import Commit, Oid
from service.contract.operation import Example, Made, Toolset
from service.contract.picking import Pick, PickRequest, pick_card, pick_needs, pick_plan
from service.contract.plan import Blocked, Fact, Need, NewCommit, Outcome, Plan, ReviewCard, Value, Wish
from service.contract.refs import Message, branch_ref
from service.contract.undoing import revert_of
from service.contract.world import Merged, Store, World
from service.kit.errors import Code, Refusal

SUBJECT_MOST: Final = 1_000
ENCODINGS: Final = frozenset(
    ("iso-8859-1", "iso8859-1", "latin1", "latin-1", "iso-8859-2", "iso-8859-15", "windows-1252", "koi8-r", "euc-jp")
)


class Revert(PickRequest):
    """Commits to undo on a branch, in the order in which they are undone: the newest first."""

    message: Annotated[
        Message | None,
        Field(description="The message, where one commit is undone; left out, it is the one that git writes."),
    ] = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.message is not None and len(self.commits) > 1:
            raise Refusal(Code.INVALID_ARGUMENT, "One message cannot be that of several commits.", field="message")
        return self


class RevertCommits:
    """The operation. See the module."""

    kind = "propose_revert"
    version = 1
    toolset: ClassVar[Toolset] = "core"
    divisible = False
    title = "Propose to revert commits"
    description = (
        "Proposes to undo 1 to 20 commits on a branch, in the order given (the newest first), by one new commit for "
        "each. Nothing changes until an owner approves. A conflict is answered with its paths and lines, and nothing "
        "is proposed; nor where a commit is undone already. The branch is pinned, and so is every branch or tag that "
        "a commit is named by."
    )
    request = Revert

    def targets(self, request: Revert) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (branch_ref(request.branch),), ()

    def pins(self, request: Revert, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return pick_needs(request)

    def received(self, request: Revert) -> list[dict[str, object]]:
        return []

    def plan(self, request: Revert, world: World) -> Plan | Blocked:
        def build(store: Store, head: Oid, tree: Oid, pick: Pick) -> NewCommit:
            return store.draft((head,), tree, _message(request, store, pick))

        return pick_plan(self.kind, request, world, _merge, build)

    def review_card(self, request: Revert, world: World, plan: Plan) -> ReviewCard:
        words = {} if request.message is None else {"message": request.message}
        return pick_card("revert", request, world, plan, **words)

    def undo(self, outcome: Outcome) -> Wish | None:
        return revert_of(outcome, outcome.request["branch"])

    def examples(self) -> tuple[Example[Revert], ...]:
        return EXAMPLES


def _merge(store: Store, head: Oid, pick: Pick) -> Merged:
    return store.merge(head, pick.parent, base=pick.oid)


def _message(request: Revert, store: Store, pick: Pick) -> bytes:
    """As git writes it. A commit that is only planned has no id to be named by."""
    if request.message is not None:
        return request.message.encode()
    commit = store.commit(pick.oid)
    said = f'Revert "{_subject(commit)}"\n'
    if store.is_draft(pick.oid):
        return said.encode()
    of = f", reversing\nchanges made to {pick.parent}" if len(commit.parents) > 1 else ""
    return f"{said}\nThis reverts commit {pick.oid}{of}.\n".encode()


def _subject(commit: Commit) -> str:
    """The first line of a message up to a NUL, read in the encoding that it names where that is a usual one."""
    first = commit.message.lstrip(b"\n").partition(b"\n")[0].partition(b"\0")[0]
    said = commit.encoding.decode("ascii", "replace").lower()
    return first.decode(said if said in ENCODINGS else "utf-8", "replace")[:SUBJECT_MOST]


_BASE = {"README.md": "# Orchard\n", "app.py": "one\ntwo\nthree\nfour\nfive\n"}
_FIXED = {**_BASE, "app.py": "ONE\ntwo\nthree\nfour\nfive\n"}
_SECOND = {**_FIXED, "new.txt": "new\n"}
_SIDE = {**_BASE, "side.txt": "side\n"}
_JOINED = {**_SECOND, "side.txt": "side\n"}
_COMMITS = {
    "base": Made(files=_BASE, message="Begin\n"),
    "fix": Made(files=_FIXED, parents=("base",), message="Fix the first line\n\nIt was small.\n"),
    "second": Made(files=_SECOND, parents=("fix",), message="Add a file\n"),
    "side": Made(files=_SIDE, parents=("base",), message="Aside\n"),
    "joined": Made(files=_JOINED, parents=("second", "side"), message="Join\n"),
    "over": Made(files={**_BASE, "app.py": "uno\n"}, parents=("fix",), message="All anew\n"),
}
_REFS = {"refs/heads/main": "second", "refs/heads/joined": "joined", "refs/heads/over": "over"}
_WORDS = {"branch": "main", "reason": "It was wrong."}

EXAMPLES: tuple[Example[Revert], ...] = (
    Example(
        name="two commits, the newest first",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["main", "{fix}"]},
        after={"refs/heads/main": _BASE},
        warnings=("deletes_file",),
    ),
    Example(
        name="one commit with a message of its own",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["{fix}"], "message": "Small again\n"},
        after={"refs/heads/main": {**_SECOND, "app.py": _BASE["app.py"]}},
    ),
    Example(
        name="a merge with the parent that counts",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "joined", "commits": ["joined"], "mainline": 1},
        after={"refs/heads/joined": _SECOND},
        warnings=("deletes_file",),
    ),
    Example(
        name="a commit without a parent",
        commits={**_COMMITS, "more": Made(files={**_BASE, "more.txt": "more\n"}, parents=("base",), message="More\n")},
        refs={**_REFS, "refs/heads/more": "more"},
        arguments={**_WORDS, "branch": "more", "commits": ["{base}"]},
        after={"refs/heads/more": {"more.txt": "more\n"}},
        warnings=("deletes_file", "deletes_file"),
    ),
    Example(
        name="a merge without a word on its parents",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "joined", "commits": ["joined"]},
        blocked="merge_commit",
    ),
    Example(
        name="what was changed again since",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "over", "commits": ["{fix}"]},
        blocked="conflicts",
    ),
    Example(
        name="what is undone already",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["main", "main"]},
        blocked="nothing_to_change",
    ),
    Example(
        name="a commit that is nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["1111111111111111111111111111111111111111"]},
        blocked="commit_missing",
    ),
    Example(
        name="on a branch that is nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "nowhere", "commits": ["main"]},
        blocked="branch_missing",
    ),
)

OPERATION = RevertCommits()

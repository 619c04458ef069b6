"""Merge: bring what a branch, a tag or a commit has into a branch, by a merge commit, squashed, or by moving forward.

The owner sees: the commits that come in, and what changes, every file with its whole diff.
The writer does: builds one commit with the merged tree on the pinned tip (none where the branch only moves forward),
and moves the branch to it.
Refused when: the two do not fit without a conflict, have no ancestor in common, there is nothing to bring, or the
branch cannot move forward and was to.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from service.contract.changes import change_counts, changed_files, file_warnings, files_section
from service.contract.conflicting import conflicted
from service.contract.data import Oid
from service.contract.history import COMMITS_SHOWN, commits_section
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.plan import Blocked, Fact, MoveRef, Need, NewCommit, Note, Outcome, Plan, ReviewCard, Value, Wish
from service.contract.refs import (
    Branch,
    ExpectedOid,
    Message,
    Source,
    branch_ref,
    source_commit,
    source_needs,
    tip_need,
    tip_of,
)
from service.contract.risk import text_warnings
from service.contract.undoing import reset_of, revert_of
from service.contract.world import World
from service.kit.errors import Code, Refusal

Mode = Literal["merge_commit", "squash", "fast_forward_only"]


class Merge(Request):
    """What to bring into a branch, and how."""

    branch: Branch
    source: Source
    mode: Annotated[
        Mode,
        Field(
            description="merge_commit (default): a commit with both as parents, also where the branch could just move. "
            "squash: one commit with all of it, on the branch only. fast_forward_only: the branch moves, no commit."
        ),
    ] = "merge_commit"
    message: Annotated[
        Message | None,
        Field(
            description="The message. Required to squash; 'Merge SOURCE into BRANCH' for a merge commit without one."
        ),
    ] = None
    expected_base_oid: ExpectedOid = None
    expected_source_oid: Annotated[
        ExpectedOid, Field(description="The commit that the source must be now; left out, it is what it is.")
    ] = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.message is None and self.mode == "squash":
            raise Refusal(Code.INVALID_ARGUMENT, "To squash needs a message.", field="message")
        if self.message is not None and self.mode == "fast_forward_only":
            raise Refusal(Code.INVALID_ARGUMENT, "Without a commit there is no message.", field="message")
        return self

    def text(self) -> str:
        """The commit's message."""
        return f"Merge {self.source} into {self.branch}\n" if self.message is None else self.message


class MergeBranches:
    """The operation. See the module."""

    kind = "propose_merge"
    version = 1
    toolset: ClassVar[Toolset] = "core"
    divisible = False
    title = "Propose a merge"
    description = (
        "Proposes to merge a branch, a tag or a commit into a branch: with a merge commit, squashed, or as a "
        "fast-forward only. Nothing changes until an owner approves. A conflict is answered with its paths and lines, "
        "and nothing is proposed. Both tips are pinned: when one of them moves before the approval, the proposal "
        "becomes stale."
    )
    request = Merge

    def targets(self, request: Merge) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (branch_ref(request.branch),), ()

    def pins(self, request: Merge, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return (tip_need(request.branch, request.expected_base_oid), *source_needs(request.source))

    def received(self, request: Merge) -> list[dict[str, object]]:
        return []

    def plan(self, request: Merge, world: World) -> Plan | Blocked:
        tip, source = tip_of(request.branch, world), source_commit(request.source, world)
        if isinstance(tip, Blocked):
            return tip
        if isinstance(source, Blocked):
            return source
        obstacle = _obstacle(request, world, tip, source)
        if obstacle is not None:
            return Blocked(blockers=(obstacle,))
        if request.mode == "fast_forward_only":
            effect = MoveRef(ref=branch_ref(request.branch), old=tip, new=source)
            return Plan(kinds=(self.kind,), build=(), effects=(effect,))
        made = _made(request, world, tip, source)
        if isinstance(made, Blocked):
            return made
        effect = MoveRef(ref=branch_ref(request.branch), old=tip, new=made.id)
        return Plan(kinds=(self.kind,), build=(made,), effects=(effect,))

    def review_card(self, request: Merge, world: World, plan: Plan) -> ReviewCard:
        store, move = world.store, plan.effects[0]
        source = source_commit(request.source, world)
        coming, total = ((), 0) if isinstance(source, Blocked) else store.log(source, move.old, COMMITS_SHOWN)
        files = changed_files(store, store.commit(move.old).tree, store.commit(move.new).tree)
        notes = [one.note(store) for one in files]
        facts = {"branch": request.branch, "source": request.source, "mode": request.mode, "commits": total}
        text = request.text() if plan.build else ""
        return ReviewCard(
            headline=Note(code="merge", at=request.branch, params={**facts, **change_counts(files, notes)}),
            agent_words={"reason": request.reason, **({"message": text} if text else {})},
            sections=(commits_section("commits", store, coming, total), files_section(notes)),
            warnings=(
                *text_warnings(text, "message"),
                *text_warnings(request.reason, "reason"),
                *file_warnings(store, files),
            ),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        branch = outcome.request["branch"]
        if outcome.request["mode"] == "fast_forward_only":
            return reset_of(outcome)
        wish = revert_of(outcome, branch)
        if wish is None or outcome.request["mode"] == "squash":
            return wish
        return Wish(kind=wish.kind, arguments={**wish.arguments, "mainline": 1})

    def examples(self) -> tuple[Example[Merge], ...]:
        return EXAMPLES


def _obstacle(request: Merge, world: World, tip: Oid, source: Oid) -> Note | None:
    """What keeps the two from being merged, whatever is in them."""
    store = world.store
    if request.expected_source_oid is not None and source != request.expected_source_oid:
        shown = None if store.is_draft(source) else source
        return Note(code=Code.BASE_MOVED.value.name, at=request.source, params={"head": shown})
    if store.contains(tip, source):
        return Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.branch)
    if store.merge_base(tip, source) is None:
        return Note(code=Code.UNRELATED_HISTORIES.value.name, at=request.source)
    if request.mode == "fast_forward_only" and not store.contains(source, tip):
        return Note(code=Code.NOT_FAST_FORWARD.value.name, at=request.branch)
    return None


def _made(request: Merge, world: World, tip: Oid, source: Oid) -> NewCommit | Blocked:
    """The commit that merges or squashes."""
    merged = world.store.merge(tip, source)
    if merged.conflicts:
        return conflicted(world.store, merged.conflicts)
    squash = request.mode == "squash"
    if squash and merged.tree == world.store.commit(tip).tree:
        return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.branch),))
    return world.store.draft((tip,) if squash else (tip, source), merged.tree, request.text().encode())


_BASE = {"README.md": "# Orchard\n", "app.py": "one\ntwo\nthree\nfour\nfive\n"}
_MAIN = {**_BASE, "app.py": "one\ntwo\nthree\nfour\nFIVE\n"}
_DEV = {"README.md": "# Orchard\n", "src/app.py": "ONE\ntwo\nthree\nfour\nfive\n", "new.txt": "new\n"}
_COMMITS = {
    "base": Made(files=_BASE),
    "main": Made(files=_MAIN, parents=("base",), message="Change the last line\n"),
    "moved": Made(files={**_BASE, "new.txt": "new\n"}, parents=("base",), message="Add a file\n"),
    "dev": Made(files=_DEV, parents=("moved",), message="Move the program and change its first line\n"),
    "rival": Made(files={**_BASE, "app.py": "uno\n"}, parents=("base",), message="All anew\n"),
    "same": Made(files=_MAIN, parents=("base",), message="The same elsewhere\n"),
    "alone": Made(files={"alone.txt": "alone\n"}, message="Alone\n"),
    "link": Made(
        files={**_BASE, "link": "../up", "lib": "1" * 40},
        parents=("base",),
        modes={"link": 0o120000, "lib": 0o160000},
    ),
}
_REFS = {
    "refs/heads/main": "main",
    "refs/heads/old": "base",
    "refs/heads/dev": "dev",
    "refs/heads/rival": "rival",
    "refs/heads/same": "same",
    "refs/heads/link": "link",
    "refs/tags/alone": "alone",
}
_WORDS = {"branch": "main", "source": "dev", "reason": "It is ready."}
_MERGED = {**_DEV, "src/app.py": "ONE\ntwo\nthree\nfour\nFIVE\n"}

EXAMPLES: tuple[Example[Merge], ...] = (
    Example(
        name="a merge commit that follows a renamed file",
        commits=_COMMITS,
        refs=_REFS,
        arguments=_WORDS,
        after={"refs/heads/main": _MERGED},
        warnings=("deletes_file",),
    ),
    Example(
        name="a merge commit where the branch could just move",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "old", "message": "Take it in\n"},
        after={"refs/heads/old": _DEV},
        warnings=("deletes_file",),
    ),
    Example(
        name="a merge of what is the same already",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "source": "same"},
        after={"refs/heads/main": _MAIN},
    ),
    Example(
        name="squashed",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "mode": "squash", "message": "Move and change\n", "expected_source_oid": "{dev}"},
        after={"refs/heads/main": _MERGED},
        warnings=("deletes_file",),
    ),
    Example(
        name="forward only",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "old", "mode": "fast_forward_only", "expected_base_oid": "{base}"},
        after={"refs/heads/old": _DEV},
        warnings=("deletes_file",),
    ),
    Example(
        name="a symbolic link and a submodule that come in",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "source": "{link}"},
        after={"refs/heads/main": {**_MAIN, "link": "../up", "lib": "1" * 40}},
        modes={"refs/heads/main:link": 0o120000, "refs/heads/main:lib": 0o160000},
        warnings=("symbolic_link",),
    ),
    Example(
        name="two that conflict",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "source": "rival"},
        blocked="conflicts",
    ),
    Example(
        name="what is in it already",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "source": "old"},
        blocked="nothing_to_change",
    ),
    Example(
        name="to squash what is the same already",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "source": "same", "mode": "squash", "message": "Nothing\n"},
        blocked="nothing_to_change",
    ),
    Example(
        name="forward where it cannot",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "mode": "fast_forward_only"},
        blocked="not_fast_forward",
    ),
    Example(
        name="without an ancestor in common",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "source": "alone"},
        blocked="unrelated_histories",
    ),
    Example(
        name="from nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "source": "nowhere"},
        blocked="commit_missing",
    ),
    Example(
        name="into nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "nowhere"},
        blocked="branch_missing",
    ),
    Example(
        name="from a source that is not what was expected",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "expected_source_oid": "{base}"},
        blocked="base_moved",
    ),
)

OPERATION = MergeBranches()

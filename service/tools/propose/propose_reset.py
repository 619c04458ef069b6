"""Move a branch to another commit, forward, back or aside.

The owner sees: the commits that leave the branch, those that come to it, and what changes in its files.
The writer does: moves the branch, and keeps where it was if commits leave it.
Refused when: the branch or the commit is not there, or the branch is at that commit already.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from service.contract.changes import changed_files, file_warnings, files_section
from service.contract.data import Oid
from service.contract.history import COMMITS_SHOWN, commits_section
from service.contract.moves import rewrites_history
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.plan import Blocked, Fact, MoveRef, Need, Note, Outcome, Plan, ReviewCard, Value, Wish
from service.contract.refs import (
    Branch,
    ExpectedOid,
    Source,
    branch_ref,
    short_name,
    source_commit,
    source_needs,
    tip_need,
    tip_of,
)
from service.contract.risk import text_warnings
from service.contract.undoing import reset_of, restore_of
from service.contract.world import World
from service.kit.errors import Code


class Reset(Request):
    """A branch and where it shall be."""

    branch: Branch
    target: Annotated[
        Source,
        Field(
            description="Where the branch shall be: a branch, a tag (refs/tags/NAME where a branch has that name too), "
            "or a whole commit id (40 hexadecimal digits)."
        ),
    ]
    expected_base_oid: ExpectedOid = None


class ResetBranch:
    """The operation. See the module."""

    kind = "propose_reset"
    version = 1
    toolset: ClassVar[Toolset] = "git"
    divisible = False
    title = "Propose to move a branch"
    description = (
        "Proposes to move a branch to another commit: back to an older one, forward, or to one elsewhere. Commits that "
        "leave the branch are kept in a restore point. Nothing changes until an owner approves. The branch is pinned: "
        "when it moves before the approval, the proposal becomes stale."
    )
    request = Reset

    def targets(self, request: Reset) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (branch_ref(request.branch),), ()

    def pins(self, request: Reset, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return (tip_need(request.branch, request.expected_base_oid), *source_needs(request.target))

    def received(self, request: Reset) -> list[dict[str, object]]:
        return []

    def plan(self, request: Reset, world: World) -> Plan | Blocked:
        tip, target = tip_of(request.branch, world), source_commit(request.target, world, "target")
        if isinstance(tip, Blocked):
            return tip
        if isinstance(target, Blocked):
            return target
        if tip == target:
            return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.branch),))
        move = MoveRef(ref=branch_ref(request.branch), old=tip, new=target)
        return Plan(kinds=(self.kind,), build=(), effects=(move,))

    def review_card(self, request: Reset, world: World, plan: Plan) -> ReviewCard:
        (move,) = plan.effects
        store, branch = world.store, short_name(move.ref)
        gone, leaves = store.log(move.old, move.new, COMMITS_SHOWN)
        come, comes = store.log(move.new, move.old, COMMITS_SHOWN)
        files = changed_files(store, _tree(world, move.old), _tree(world, move.new))
        params: dict[str, Any] = {
            "branch": branch,
            "old": move.old,
            "oid": move.new,
            "leaves": leaves,
            "comes": comes,
            "files": len(files),
        }
        return ReviewCard(
            headline=Note(code="reset_branch" if leaves else "advance_branch", at=branch, params=params),
            agent_words={"reason": request.reason},
            sections=(
                *((commits_section("leaves", store, gone, leaves),) if leaves else ()),
                *((commits_section("commits", store, come, comes),) if comes else ()),
                files_section([one.note(store) for one in files]),
            ),
            warnings=(
                *((rewrites_history(move.ref, leaves, comes),) if leaves else ()),
                *text_warnings(request.reason, "reason"),
                *file_warnings(store, files),
            ),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        return restore_of(outcome) or reset_of(outcome)

    def examples(self) -> tuple[Example[Reset], ...]:
        return EXAMPLES


def _tree(world: World, commit: Oid) -> Oid:
    return world.store.commit(commit).tree


_ONE, _TWO = {"a.txt": "1\n"}, {"a.txt": "2\n", "b.txt": "b\n"}
_SIDE = {"a.txt": "1\n", "side.txt": "s\n"}
_COMMITS = {
    "one": Made(files=_ONE, message="One"),
    "two": Made(files=_TWO, parents=("one",), message="Two"),
    "side": Made(files=_SIDE, parents=("one",), message="Side"),
    "alone": Made(files={"x.txt": "x\n"}, message="Alone"),
}
_REFS = {"refs/heads/main": "two", "refs/heads/side": "side", "refs/tags/v1": "one", "refs/heads/alone": "alone"}
_WORDS = {"branch": "main", "reason": "Because it was asked."}


def _example(name: str, **more: Any) -> Example[Reset]:
    """An example on the history above."""
    return Example(name=name, commits=_COMMITS, refs=_REFS, **more)


EXAMPLES: tuple[Example[Reset], ...] = (
    _example(
        "back to a tag",
        arguments={**_WORDS, "target": "v1", "expected_base_oid": "{two}"},
        after={"refs/heads/main": _ONE},
        warnings=("rewrites_history", "deletes_file"),
    ),
    _example(
        "aside to a branch",
        arguments={**_WORDS, "target": "refs/heads/side"},
        after={"refs/heads/main": _SIDE},
        warnings=("rewrites_history", "deletes_file"),
    ),
    _example(
        "to a history that has nothing in common",
        arguments={**_WORDS, "target": "alone"},
        after={"refs/heads/main": {"x.txt": "x\n"}},
        warnings=("rewrites_history", "deletes_file", "deletes_file"),
    ),
    Example(
        name="forward to a commit id",
        arguments={**_WORDS, "target": "{two}"},
        commits=_COMMITS,
        refs={"refs/heads/main": "one", "refs/heads/next": "two"},
        after={"refs/heads/main": _TWO},
    ),
    _example("where it is", arguments={**_WORDS, "target": "{two}"}, blocked="nothing_to_change"),
    _example("to nowhere", arguments={**_WORDS, "target": "nowhere"}, blocked="commit_missing"),
    _example("to a blob", arguments={**_WORDS, "target": "{one:a.txt}"}, blocked="commit_missing"),
    _example("no branch", arguments={**_WORDS, "branch": "none", "target": "v1"}, blocked="branch_missing"),
    _example("another base", arguments={**_WORDS, "target": "v1", "expected_base_oid": "{one}"}, blocked="base_moved"),
)

OPERATION = ResetBranch()

"""Delete branches that are merged.

The owner sees: each branch that goes, with its last commit, and each that is kept, with why.
The writer does: deletes the branches, and keeps where they were. No commit is lost: all are on the branch that they are
merged into.
Refused when: none of them is there and merged.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field

from service.contract.changes import PATHS_SHOWN, fold_alike
from service.contract.data import NULL, Oid
from service.contract.moves import ref_note
from service.contract.operation import Example, GroupedRequest, Made, Toolset
from service.contract.plan import (
    Blocked,
    Fact,
    MoveRef,
    Need,
    Note,
    Outcome,
    Plan,
    RefAt,
    ReviewCard,
    Section,
    Value,
    Wish,
)
from service.contract.refs import Branch, branch_ref, short_name, tip_of
from service.contract.risk import text_warnings
from service.contract.undoing import restore_of
from service.contract.world import World
from service.kit.errors import Code, Refusal

BRANCHES_MOST: Final = 100
Why = Literal["not_merged", "missing", "target"]
# What is said when nothing is left to delete; the first of these that applies comes first.
BLOCKERS: Final[Mapping[Why, Code]] = {
    "not_merged": Code.NOT_MERGED,
    "missing": Code.BRANCH_MISSING,
    "target": Code.NOTHING_TO_CHANGE,
}


def _distinct(values: list[str]) -> list[str]:
    seen: set[str] = set()
    for index, value in enumerate(values):
        ref = branch_ref(value, f"branches[{index}]")
        if ref in seen:
            message = "This branch stands in the request twice."
            raise Refusal(Code.INVALID_ARGUMENT, message, field=f"branches[{index}]")
        seen.add(ref)
    return values


class BranchDelete(GroupedRequest):
    """Branches to delete, and the one that has all of their commits."""

    branches: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1_024)]],
        Field(description="1 to 100 branches to delete, by name.", min_length=1, max_length=BRANCHES_MOST),
        AfterValidator(_distinct),
    ]
    into: Annotated[Branch, Field(description="The branch that they are merged into, by its name; it stays.")]

    @property
    def refs(self) -> tuple[str, ...]:
        """The branches' full ref names."""
        return tuple(map(branch_ref, self.branches))


class _Kept(NamedTuple):
    """A branch that is not deleted, why, and how many commits it has that the other has not."""

    ref: str
    why: Why
    commits: int

    def note(self) -> Note:
        return Note(code="kept_branch", at=short_name(self.ref), params={"why": self.why, "commits": self.commits})

    def blocker(self) -> Note:
        params = {"why": self.why, "commits": self.commits}
        return Note(code=BLOCKERS[self.why].value.name, at=short_name(self.ref), params=params)


class DeleteBranches:
    """The operation. See the module."""

    kind = "propose_branch_delete"
    version = 1
    toolset: ClassVar[Toolset] = "git"
    divisible = False
    title = "Propose to delete merged branches"
    description = (
        "Proposes to delete 1 to 100 branches whose commits are all on another branch. Those that are not merged into "
        "it, or not there, are kept, and the review card says so for each. Nothing changes until an owner approves. "
        "When one that would be deleted moves before the approval, the proposal becomes stale."
    )
    request = BranchDelete

    def targets(self, request: BranchDelete) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return request.refs, ()

    def pins(self, request: BranchDelete, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        """A branch that goes is held exactly. One that is kept may move on: it is kept all the same. So may the one
        that they are merged into: it still has their commits.
        """
        into = branch_ref(request.into)
        others = (ref for ref in request.refs if ref != into)
        return (
            Need(fact=RefAt(name=into, hold="contains")),
            *(Need(fact=RefAt(name=ref, hold="as_moved")) for ref in others),
        )

    def received(self, request: BranchDelete) -> list[dict[str, object]]:
        return []

    def plan(self, request: BranchDelete, world: World) -> Plan | Blocked:
        into = tip_of(request.into, world)
        if isinstance(into, Blocked):
            return into
        kept = _kept(request, world, into)
        staying = {one.ref for one in kept}
        gone = tuple(MoveRef(ref=ref, old=world.ref(ref), new=NULL) for ref in request.refs if ref not in staying)
        if not gone:
            ordered = sorted(kept, key=lambda one: list(BLOCKERS).index(one.why))
            return Blocked(blockers=tuple(one.blocker() for one in ordered))
        return Plan(kinds=(self.kind,), build=(), effects=gone)

    def review_card(self, request: BranchDelete, world: World, plan: Plan) -> ReviewCard:
        into = short_name(branch_ref(request.into))
        kept = _kept(request, world, world.ref(branch_ref(request.into)))
        names = [short_name(move.ref) for move in plan.effects]
        counts = {"branches": names[:PATHS_SHOWN], "count": len(names), "kept": len(kept), "into": into}
        gone = (
            ref_note(
                world.store, "ref_goes", move.ref, move.old, {"old": move.old, "new": NULL, "into": into, "lost": 0}
            )
            for move in plan.effects
        )
        return ReviewCard(
            headline=Note(code="delete_branches", at=names[0] if len(names) == 1 else "", params=counts),
            agent_words={"reason": request.reason},
            sections=(
                Section(code="refs", notes=tuple(gone)),
                *((Section(code="kept", notes=tuple(one.note() for one in kept)),) if kept else ()),
            ),
            warnings=(
                *fold_alike([_warning(move, into) for move in plan.effects]),
                *text_warnings(request.reason, "reason"),
            ),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        return restore_of(outcome)

    def examples(self) -> tuple[Example[BranchDelete], ...]:
        return EXAMPLES


def _kept(request: BranchDelete, world: World, into: Oid) -> tuple[_Kept, ...]:
    """The branches that stay."""
    target = branch_ref(request.into)
    found = []
    for ref in request.refs:
        tip = into if ref == target else world.ref(ref)
        if ref == target or tip == NULL:
            found.append(_Kept(ref, "target" if ref == target else "missing", 0))
        elif not world.store.contains(into, tip):
            found.append(_Kept(ref, "not_merged", world.store.log(tip, into, 0)[1]))
    return tuple(found)


def _warning(move: MoveRef, into: str) -> Note:
    return Note(code="deletes_branch", at=short_name(move.ref), params={"oid": move.old, "into": into})


_ONE, _TWO = {"a.txt": "1\n"}, {"a.txt": "2\n"}
_COMMITS = {
    "one": Made(files=_ONE, message="One"),
    "two": Made(files=_TWO, parents=("one",), message="Two"),
    "side": Made(files={"s.txt": "s\n"}, parents=("one",), message="Side"),
}
_MANY = tuple(f"old/{number}" for number in range(12))
_REFS = {
    "refs/heads/main": "two",
    "refs/heads/old": "one",
    "refs/heads/same": "two",
    "refs/heads/side": "side",
}


def _example(name: str, branches: tuple[str, ...], into: str = "main", **more: Any) -> Example[BranchDelete]:
    """An example on the history above."""
    arguments = {"reason": "Because it was asked.", "branches": list(branches), "into": into}
    return Example(name=name, commits=_COMMITS, arguments=arguments, **{"refs": _REFS, **more})


EXAMPLES: tuple[Example[BranchDelete], ...] = (
    _example("a merged branch", ("old",), after={"refs/heads/old": None}, warnings=("deletes_branch",)),
    _example(
        "two merged ones of five",
        ("old", "side", "main", "none", "same"),
        after={"refs/heads/old": None, "refs/heads/same": None},
        warnings=("deletes_branch", "deletes_branch"),
    ),
    _example(
        "twelve",
        _MANY,
        refs={"refs/heads/main": "two", **{f"refs/heads/{name}": "one" for name in _MANY}},
        after={f"refs/heads/{name}": None for name in _MANY},
        warnings=("many_alike",),
    ),
    _example(
        "merged into another branch", ("main",), "same", after={"refs/heads/main": None}, warnings=("deletes_branch",)
    ),
    _example("one that is not merged", ("side",), blocked="not_merged"),
    _example("one that is not there, and one that is not merged", ("none", "side"), blocked="not_merged"),
    _example("one that is not there", ("none",), blocked="branch_missing"),
    _example("the branch itself", ("main",), blocked="nothing_to_change"),
    _example("into nothing", ("old",), "none", blocked="branch_missing"),
)

OPERATION = DeleteBranches()

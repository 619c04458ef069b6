"""Make a branch at a commit.

The owner sees: the name, and the commit where it starts.
The writer does: makes the branch.
Refused when: a branch of this name is there, or one on the way to it, under it, or of the same name in lower case; or
the commit is not there.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo

from service.contract.data import NULL
from service.contract.moves import ref_note
from service.contract.names import check_new_branch
from service.contract.operation import Example, GroupedRequest, Made, Toolset
from service.contract.plan import Blocked, Fact, MoveRef, Need, Note, Outcome, Plan, ReviewCard, Section, Value, Wish
from service.contract.refs import Source, source_commit, source_needs
from service.contract.risk import text_warnings
from service.contract.room import new_ref_needs, ref_obstacle
from service.contract.undoing import restore_of
from service.contract.world import World


def _new_branch(value: str, info: ValidationInfo) -> str:
    check_new_branch(value, info.field_name or "branch")
    return value


class NewBranch(GroupedRequest):
    """A new branch and where it starts."""

    branch: Annotated[
        str,
        Field(
            description="The new branch's name: letters, digits and . _ / @ + # = - only, at most 201 characters.",
            min_length=1,
            max_length=1_024,
        ),
        AfterValidator(_new_branch),
    ]
    source: Source

    @property
    def ref(self) -> str:
        """The branch's full ref name."""
        return check_new_branch(self.branch, "branch")


class CreateBranch:
    """The operation. See the module."""

    kind = "propose_branch"
    version = 1
    toolset: ClassVar[Toolset] = "core"
    divisible = False
    title = "Propose a new branch"
    description = (
        "Proposes a new branch that starts at a branch, a tag or a commit. Nothing changes until an owner approves. "
        "When the source moves before the approval, or a branch of this name appears, the proposal becomes stale."
    )
    request = NewBranch

    def targets(self, request: NewBranch) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (request.ref,), ()

    def pins(self, request: NewBranch, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return (*new_ref_needs(request.ref), *source_needs(request.source))

    def received(self, request: NewBranch) -> list[dict[str, object]]:
        return []

    def plan(self, request: NewBranch, world: World) -> Plan | Blocked:
        if obstacle := ref_obstacle(request.ref, world):
            return Blocked(blockers=(obstacle,))
        start = source_commit(request.source, world)
        if isinstance(start, Blocked):
            return start
        return Plan(kinds=(self.kind,), build=(), effects=(MoveRef(ref=request.ref, old=NULL, new=start),))

    def review_card(self, request: NewBranch, world: World, plan: Plan) -> ReviewCard:
        (move,) = plan.effects
        note = ref_note(world.store, "ref_comes", move.ref, move.new, {"old": NULL, "new": move.new})
        params = {"branch": request.branch, "oid": move.new, "source": request.source}
        return ReviewCard(
            headline=Note(code="create_branch", at=request.branch, params=params),
            agent_words={"reason": request.reason},
            sections=(Section(code="refs", notes=(note,)),),
            warnings=tuple(text_warnings(request.reason, "reason")),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        return restore_of(outcome)

    def examples(self) -> tuple[Example[NewBranch], ...]:
        return EXAMPLES


_ONE, _TWO = {"a.txt": "1\n"}, {"a.txt": "2\n"}
_COMMITS = {"one": Made(files=_ONE, message="One"), "two": Made(files=_TWO, parents=("one",), message="Two")}
_REFS = {"refs/heads/main": "two", "refs/heads/a/b": "one", "refs/tags/v1": "one"}
_WORDS = {"reason": "Because it was asked."}


def _example(name: str, branch: str, source: str = "main", **more: Any) -> Example[NewBranch]:
    """An example on the history above."""
    arguments = {**_WORDS, "branch": branch, "source": source}
    return Example(name=name, commits=_COMMITS, refs=_REFS, arguments=arguments, **more)


EXAMPLES: tuple[Example[NewBranch], ...] = (
    _example("from a branch", "topic", after={"refs/heads/topic": _TWO}),
    _example("from a tag", "a/c", "v1", after={"refs/heads/a/c": _ONE}),
    _example("from a commit id", "release/1.x", "{one}", after={"refs/heads/release/1.x": _ONE}),
    _example("a name like a tag", "v1", "refs/tags/v1", after={"refs/heads/v1": _ONE}),
    _example("a name that is taken", "main", "v1", blocked="branch_exists"),
    _example("a twin in capitals", "Main", blocked="ref_rejected"),
    _example("a folder of branches", "a", blocked="branch_exists"),
    _example("under a branch", "main/x/y", blocked="branch_exists"),
    _example("from nowhere", "topic", "nowhere", blocked="commit_missing"),
)

OPERATION = CreateBranch()

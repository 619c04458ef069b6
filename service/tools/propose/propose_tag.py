"""Make an annotated tag of a commit.

The owner sees: the name, the message, and the commit.
The writer does: builds the tag object, with who approved as its tagger, and makes the tag.
Refused when: a tag of this name is there, or one on the way to it, under it, or of the same name in lower case; or the
commit is not there.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo

from service.contract.data import NULL, Oid
from service.contract.moves import ref_note
from service.contract.names import check_new_tag
from service.contract.operation import Example, GroupedRequest, Made, Toolset
from service.contract.plan import (
    Blocked,
    Fact,
    MoveRef,
    Need,
    NewTag,
    Note,
    Outcome,
    Plan,
    ReviewCard,
    Section,
    Value,
    Wish,
)
from service.contract.refs import Message, Source, source_commit, source_needs
from service.contract.risk import text_warnings
from service.contract.room import new_ref_needs, ref_obstacle
from service.contract.undoing import restore_of
from service.contract.world import World


def _new_tag(value: str, info: ValidationInfo) -> str:
    check_new_tag(value, info.field_name or "name")
    return value


class Tag(GroupedRequest):
    """A new tag, what it is of, and what it says."""

    name: Annotated[
        str,
        Field(
            description="The new tag's name: letters, digits and . _ / @ + # = - only, at most 201 characters.",
            min_length=1,
            max_length=1_024,
        ),
        AfterValidator(_new_tag),
    ]
    target: Annotated[
        Source,
        Field(
            description="What is tagged: a branch, a tag (refs/tags/NAME where a branch has that name too), or a whole "
            "commit id (40 hexadecimal digits). Of a tag it is the commit that it leads to."
        ),
    ]
    message: Annotated[Message, Field(description="The tag's message, at most 10,000 characters.")]

    @property
    def ref(self) -> str:
        """The tag's full ref name."""
        return check_new_tag(self.name, "name")


class CreateTag:
    """The operation. See the module."""

    kind = "propose_tag"
    version = 1
    toolset: ClassVar[Toolset] = "git"
    divisible = False
    title = "Propose a new tag"
    description = (
        "Proposes an annotated tag of a commit. Nothing changes until an owner approves, who becomes its tagger. "
        "When the target moves before the approval, or a tag of this name appears, the proposal becomes stale."
    )
    request = Tag

    def targets(self, request: Tag) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (request.ref,), ()

    def pins(self, request: Tag, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return (*new_ref_needs(request.ref), *source_needs(request.target))

    def received(self, request: Tag) -> list[dict[str, object]]:
        return []

    def plan(self, request: Tag, world: World) -> Plan | Blocked:
        if obstacle := ref_obstacle(request.ref, world):
            return Blocked(blockers=(obstacle,))
        target = source_commit(request.target, world, "target")
        if isinstance(target, Blocked):
            return target
        tag = world.store.tag(target, request.name, request.message.encode())
        return Plan(kinds=(self.kind,), build=(tag,), effects=(MoveRef(ref=request.ref, old=NULL, new=tag.id),))

    def review_card(self, request: Tag, world: World, plan: Plan) -> ReviewCard:
        target = _target(plan)
        note = ref_note(world.store, "ref_comes", request.ref, target, {"old": NULL, "target": target})
        return ReviewCard(
            headline=Note(code="create_tag", at=request.name, params={"tag": request.name, "oid": target}),
            agent_words={"reason": request.reason, "message": request.message},
            sections=(Section(code="refs", notes=(note,)),),
            warnings=(*text_warnings(request.message, "message"), *text_warnings(request.reason, "reason")),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        return restore_of(outcome)

    def examples(self) -> tuple[Example[Tag], ...]:
        return EXAMPLES


def _target(plan: Plan) -> Oid:
    return next(new.target for new in plan.build if isinstance(new, NewTag))


_ONE, _TWO = {"a.txt": "1\n"}, {"a.txt": "2\n"}
_COMMITS = {"one": Made(files=_ONE, message="One"), "two": Made(files=_TWO, parents=("one",), message="Two")}
_REFS = {"refs/heads/main": "two", "refs/tags/v1": "one", "refs/tags/nightly/1": "one"}
_WORDS = {"message": "Release", "reason": "Because it was asked."}


def _example(name: str, tag: str, target: str = "main", **more: Any) -> Example[Tag]:
    """An example on the history above."""
    arguments = {**_WORDS, "name": tag, "target": target, **more.pop("words", {})}
    return Example(name=name, commits=_COMMITS, refs=_REFS, arguments=arguments, **more)


EXAMPLES: tuple[Example[Tag], ...] = (
    _example("of a branch", "v2", after={"refs/tags/v2": _TWO}),
    _example("of a tag", "v1.0", "v1", after={"refs/tags/v1.0": _ONE}),
    _example("of a commit id, with the name of a branch", "main", "{one}", after={"refs/tags/main": _ONE}),
    _example(
        "a message that hides something",
        "v2",
        words={"message": "Release\n\n\u202eevil"},
        after={"refs/tags/v2": _TWO},
        warnings=("hidden_characters",),
    ),
    _example("a name that is taken", "v1", blocked="tag_exists"),
    _example("a twin in capitals", "V1", blocked="ref_rejected"),
    _example("a folder of tags", "nightly", blocked="tag_exists"),
    _example("under a tag", "v1/x", blocked="tag_exists"),
    _example("of nothing", "v2", "nowhere", blocked="commit_missing"),
)

OPERATION = CreateTag()

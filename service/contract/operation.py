"""The operation contract: one kind of change an agent can propose is one object with these parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from service.contract.data import Json
from service.contract.names import check_text
from service.contract.plan import Blocked, Fact, Need, Outcome, Plan, ReviewCard, Value, Wish
from service.contract.world import World

REASON_MOST = 2_000
SERVERS_KEYS: Final = "placet:"
"""How the idempotency keys begin that the service makes itself; nobody else's may."""
Toolset = Literal["core", "git"]
"""What a catalogue can be asked for: `core` unless `?toolsets=` says more; every tool can be called all the same."""

RepositoryId = Annotated[
    str,
    Field(
        description="The repository's id, as list_repositories gives it.",
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    ),
]


class Request(BaseModel):
    """An operation's validated input, less the idempotency key. Types are strict: no number is a string."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    repository_id: RepositoryId
    reason: Annotated[
        str,
        Field(min_length=1, max_length=REASON_MOST, description="Why you propose this, for the owner to read."),
        AfterValidator(lambda text: check_text(text, "reason", most=REASON_MOST)),
    ]


class GroupedRequest(Request):
    """A request that may belong to others: they are shown together, and each is decided by itself."""

    group_id: Annotated[
        str | None,
        Field(
            min_length=8,
            max_length=128,
            pattern="^[ -~]+$",
            description="A name you choose, 8 to 128 printable ASCII characters: proposals of yours with the same one "
            "are shown together. Each is decided by itself.",
        ),
    ] = None


R = TypeVar("R", bound=Request)


@dataclass(frozen=True)
class Made:
    """A commit of an example's history.

    Attributes:
        files: the content of every file, by path.
        parents: the names of its parents, all of them above it in the history.
        modes: of files that are not 100644; 0o120000 makes a symbolic link to the content, 0o160000 a submodule whose
            commit id the content is.
        message: its message.
    """

    files: Mapping[str, str]
    parents: tuple[str, ...] = ()
    modes: Mapping[str, int] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True)
class Example(Generic[R]):
    """A small history, a request on it, and what must come of it; every law runs over every example.

    Attributes:
        name: a few words, unique in the operation.
        arguments: what an agent sends, less repository and key. `{NAME}` is replaced by the id of the commit with that
            name, `{NAME:PATH}` by that of its blob.
        commits: the history by the commits' names, parents first.
        refs: the names of the commits at which the refs are, by full name.
        after: what each ref holds after the execution, its files by path; None for a ref that is gone. Refs that are
            not named are as before, and there are no others. Empty when blocked.
        modes: of files after the execution, by ref and path (`refs/heads/main:run.sh`), where they are not 100644.
        blocked: the code of the first blocker, or empty.
        warnings: the codes of the warnings, in order.
    """

    name: str
    arguments: Mapping[str, object]
    commits: Mapping[str, Made] = field(default_factory=dict)
    refs: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    blocked: str = ""
    warnings: tuple[str, ...] = ()


class Operation(Protocol[R]):
    """One kind of change. It knows nothing of database, network, writer or other operations.

    Attributes:
        divisible: an owner may approve a part of its one commit, whose message is the proposer's own; see `parts`.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    toolset: ClassVar[Toolset]
    divisible: ClassVar[bool]
    title: ClassVar[str]
    description: ClassVar[str]
    request: type[R]

    def targets(self, request: R) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        """The full names of the refs that the request would move and the paths that it names, for policy before
        anything is read. No paths where the request names none.
        """

    def pins(self, request: R, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        """The facts this request stands on; asked again with what was read until nothing new comes."""

    def received(self, request: R) -> list[dict[str, object]]:
        """What arrived, for the answer: bytes and SHA-256 of each piece of content, so that a cut is visible."""

    def plan(self, request: R, world: World) -> Plan | Blocked:
        """What would be done, or why nothing can be."""

    def review_card(self, request: R, world: World, plan: Plan) -> ReviewCard:
        """What the owner sees, made from the plan."""

    def undo(self, outcome: Outcome) -> Wish | None:
        """What to propose to take an execution back; None where nothing can."""

    def examples(self) -> tuple[Example[R], ...]:
        """Small histories with their outcome."""


class Steps(Protocol):
    """The operations of which another one is made."""

    def read(
        self, kind: str, arguments: Json, repository_id: str, reason: str, field: str
    ) -> tuple[Operation[Any], Any]:
        """The operation of this kind, and its request.

        Args:
            kind: the operation's kind.
            arguments: what an agent sends to it, less repository, reason and key.
            repository_id: the repository's id.
            reason: why it is proposed.
            field: where this step stands, such as `steps[2]`.

        Raises:
            Refusal: INVALID_ARGUMENT for a kind that is none of these (`kinds` has them) and for arguments that do
                not fit, or whatever the request refuses; its `field` is such as `steps[2].arguments.branch`.
        """


@runtime_checkable
class Composed(Protocol):
    """An operation that is made of others. The registry tells it which there are."""

    def compose(self, others: Steps) -> None:
        """Take the other operations."""

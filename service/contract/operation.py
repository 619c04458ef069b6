"""The operation contract: one kind of change an agent can propose is one object with these parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Generic, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from service.contract.names import check_text
from service.contract.plan import Blocked, Fact, Need, Plan, ReviewCard, Value
from service.contract.world import World

REASON_MOST = 2_000

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


R = TypeVar("R", bound=Request)


@dataclass(frozen=True)
class Example(Generic[R]):
    """A small history, a request on it, and what must come of it; every law runs over every example.

    Attributes:
        name: a few words, unique in the operation.
        files: the content of the branch `main` before, by path; None for a repository without commits.
        arguments: what an agent sends, less repository and key; `{blob:PATH}` and `{base}` are replaced by ids.
        after: path to content (text) of `main` after execution; empty when blocked.
        blocked: the code of the first blocker, or empty.
        warnings: the codes of the warnings, in order.
    """

    name: str
    files: Mapping[str, str] | None
    arguments: Mapping[str, object]
    after: Mapping[str, str] = field(default_factory=dict)
    blocked: str = ""
    warnings: tuple[str, ...] = ()
    modes: Mapping[str, int] = field(default_factory=dict)


class Operation(Protocol[R]):
    """One kind of change. It knows nothing of database, network, writer or other operations."""

    kind: ClassVar[str]
    version: ClassVar[int]
    title: ClassVar[str]
    description: ClassVar[str]
    request: type[R]

    def targets(self, request: R) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        """The full ref names and the paths that the request names, for policy before anything is read."""

    def pins(self, request: R, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        """The facts this request stands on; asked again with what was read until nothing new comes."""

    def received(self, request: R) -> list[dict[str, object]]:
        """What arrived, for the answer: bytes and SHA-256 of each piece of content, so that a cut is visible."""

    def plan(self, request: R, world: World) -> Plan | Blocked:
        """What would be done, or why nothing can be."""

    def review_card(self, request: R, world: World, plan: Plan) -> ReviewCard:
        """What the owner sees, made from the plan."""

    def examples(self) -> tuple[Example[R], ...]:
        """Small histories with their outcome."""

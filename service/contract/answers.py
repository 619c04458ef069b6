"""What a tool answers about proposals: one shape for every tool that makes, reads, lists or withdraws one."""

from typing import Annotated, Literal

from pydantic import Field

from service.contract.data import Json
from service.contract.ports import Answer

State = Literal[
    "pending", "approved", "executing", "executed", "stale", "failed", "declined", "cancelled", "expired"
]  # fmt: skip
"""A proposal's state as every wire shows it."""


ProposalId = Annotated[
    str,
    Field(
        description="The proposal's id, as the propose tool gave it.",
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    ),
]


class PinAnswer(Answer):
    """A ref and the commit at which it was pinned; forty zeros: the ref was absent."""

    ref: str
    oid: str


class ReceivedAnswer(Answer):
    """One piece of content as it arrived, so that a sender sees when it was cut on the way."""

    path: str
    bytes: int | None = Field(None, description="Size in bytes, after base64 was decoded; absent without content.")
    sha256: str | None = None


class MoveAnswer(Answer):
    """A ref that moved; forty zeros: absent."""

    ref: str
    old: str
    new: str


class LeftOutAnswer(Answer):
    """A path that was left out; of one that was taken in part, the groups of lines that were not."""

    path: str
    hunks: list[list[int]] | None = Field(
        None, description="Of each: first line before, how many; first line after, how many."
    )


class OutcomeAnswer(Answer):
    """How a proposal ended; only what applies is there."""

    commit: str | None = Field(None, description="The commit that was made.")
    head: str | None = Field(None, description="The branch's commit now, when it was in the way.")
    code: str | None = Field(None, description="Why it ended, as a stable code; changes_requested: see note.")
    message: str | None = Field(None, description="The same as a sentence.")
    note: str | None = Field(None, description="What the owner wrote. It is data from a person.")
    propose_again: str | None = Field(
        None, description="What the owner wrote when he asked for it anew. It is data from a person."
    )
    moves: list[MoveAnswer] | None = Field(None, description="Every ref that moved.")
    restore_point_id: str | None = Field(None, description="Under which what the refs were before is kept.")
    proposal_id: str | None = Field(
        None, description="The part of it that an owner approved (partly_approved); its own status says if it landed."
    )
    left_out: list[LeftOutAnswer] | None = Field(None, description="At most 50 of what was not approved of it.")
    left_out_count: int | None = Field(None, description="How many there are in all.")


class SecretAnswer(Answer):
    """What looks like a password, key or token. What it is is never said."""

    kind: str
    where: str = Field(description="content, path, message or reason.")
    line: int = Field(description="From 1; of paths: which of the new ones, in byte order.")
    path: str | None = Field(None, description="Of content: the file.")


class HeadlineAnswer(Answer):
    """The first line of the review card as a code with its parameters."""

    code: str
    at: str | None = None
    params: Json


class NextAnswer(Answer):
    """The call that leads on, and how many milliseconds to wait before it. Arguments that are yours to choose, such as
    a new idempotency key, are left out.
    """

    tool: str
    arguments: Json
    after_ms: int


class KeptAnswer(Answer):
    """A ref that the request names and that stays as it is, with the reason as a stable code."""

    ref: str
    why: str


class OverlapAnswer(Answer):
    """A waiting proposal of somebody else that touches the same refs or paths."""

    headline: HeadlineAnswer
    refs: list[str]
    paths: list[str] = Field(description="At most 20 of the paths that both touch.")


class OtherAgentAnswer(Answer):
    """Another connection that proposed in this repository in the last day, or whose proposals wait."""

    connection: str
    last_proposed_at: Annotated[str, Field(description="RFC 3339, UTC.")]
    pending: int = Field(description="How many of its proposals wait here.")
    overlapping: list[OverlapAnswer]


class ProposalAnswer(Answer):
    """A proposal as its connection sees it."""

    proposal_id: str
    status: State
    replayed: bool | None = Field(None, description="True when this key had made the proposal before.")
    repository_id: str
    tool: str = Field(description="The tool that proposed it.")
    branch: str | None = Field(None, description="The first branch or tag that would change.")
    refs: list[str] = Field(description="Every ref that would change, by its full name.")
    kept: list[KeptAnswer] | None = Field(None, description="What was asked for and stays as it is.")
    group_id: str | None = None
    part_of: str | None = Field(
        None, description="The proposal of which an owner chose this part; only owners approve or withdraw it."
    )
    message: str | None = Field(None, description="The commit message as proposed.")
    reason: str
    created_at: Annotated[str, Field(description="RFC 3339, UTC.")]
    expires_at: Annotated[str, Field(description="RFC 3339, UTC: until then it may be decided.")]
    card_digest: str = Field(description="SHA-256 of what the owner decides on.")
    review_url: str = Field(description="The page where the owner decides; no agent reaches it.")
    pins: list[PinAnswer]
    branch_moved: bool = Field(description="Whether a pinned ref is no longer where it was pinned.")
    outcome: OutcomeAnswer | None = None
    received: list[ReceivedAnswer]
    secrets: list[SecretAnswer] | None = Field(
        None,
        description="What looks like secrets; the owner must say why they may come. Better propose without.",
    )
    headline: HeadlineAnswer
    other_agents: list[OtherAgentAnswer] | None = Field(
        None, description="Who else is at work in this repository; for information, it blocks nothing."
    )
    next: NextAnswer | None = None

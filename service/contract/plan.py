"""What a proposal wants and what it stands on: facts, pins, plans, notes and the review card."""

from typing import Literal

from pydantic import Field

from service.contract.data import NULL, Data, Draft, Json, Oid, Raw


class RefAt(Data):
    """The fact "this ref is at that commit"; NULL is the value of an absent ref. `refs/heads/` stands for whichever
    branch comes first by name: it is NULL only where there is none.
    """

    kind: Literal["ref"] = "ref"
    name: str


Fact = RefAt
Value = Oid


class Need(Data):
    """A fact an operation stands on; `expected` is what its caller says it is, or None to take what is there."""

    fact: Fact
    expected: Value | None = None


class Pin(Data):
    """A fact with the value that was seen when the proposal was made."""

    fact: Fact
    seen: Value


class NewCommit(Data):
    """A commit to build: everything but committer, trailers and signature is fixed at submit."""

    id: Draft
    parents: tuple[Oid, ...]
    tree: Oid
    author: Raw
    message: Raw


class MoveRef(Data):
    """A ref goes from `old` to `new`; NULL is absent, so a creation starts and a deletion ends there."""

    ref: str
    old: Oid
    new: Oid


class Plan(Data):
    """What an operation wants done. `kinds` names every step's operation, for policy."""

    kinds: tuple[str, ...]
    build: tuple[NewCommit, ...]
    effects: tuple[MoveRef, ...]


class Note(Data):
    """One thing to say, as a code and parameters, never as a sentence. `at` is the path or ref it speaks of."""

    code: str
    at: str = ""
    params: Json = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name by which a warning is acknowledged."""
        return f"{self.code}:{self.at}" if self.at else self.code


class Blocked(Data):
    """Why there is no plan. Each note's code is the name of an error code."""

    blockers: tuple[Note, ...]


class Section(Data):
    """Notes that belong together on the card."""

    code: str
    notes: tuple[Note, ...]


class ReviewCard(Data):
    """What the owner decides on: the computed headline, the agent's own words, the facts, and the warnings."""

    headline: Note
    agent_words: dict[str, str]
    sections: tuple[Section, ...]
    warnings: tuple[Note, ...]


class Line(Data):
    """One line of a manifest: what a path is after a ref move or in a new commit. A deleted path has mode 0."""

    path: Raw
    mode: int
    sha256: str


class Manifest(Data):
    """What a ref move or a new commit changes in content, path by path in byte order."""

    of: str
    old: Oid = NULL
    lines: tuple[Line, ...]

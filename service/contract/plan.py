"""What a proposal wants and what it stands on: facts, pins, plans, notes and the review card."""

from typing import Literal

from pydantic import Field

from service.contract.data import NULL, Data, Draft, Entry, Json, Oid, Raw


class RefAt(Data):
    """The fact "this ref is at that commit"; NULL is the value of an absent ref. `refs/heads/` stands for whichever
    branch comes first by name: it is NULL only where there is none.

    `hold` says when the fact still holds: `exact`, the ref is where it was seen; `contains`, it is there or has moved
    on from there; `as_moved`, exactly where the plan moves this ref, else as `contains`: that is known once there is a
    plan, so no pin is stored with it.
    """

    kind: Literal["ref"] = "ref"
    name: str
    hold: Literal["exact", "contains", "as_moved"] = "exact"


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
    """A commit to build: everything but committer, trailers and signature is fixed at submit.

    `replays` is the commit that it repeats elsewhere: its author is that one's, and so are its message and the
    `encoding` that it says this is in.
    """

    id: Draft
    parents: tuple[Oid, ...]
    tree: Oid
    author: Raw
    message: Raw
    replays: Oid | None = None
    encoding: Raw = b""


class NewTag(Data):
    """An annotated tag to build; `target` is a commit, `name` is without `refs/tags/`. Who approves is its tagger."""

    id: Draft
    target: Oid
    name: str
    message: Raw


class MoveRef(Data):
    """A ref goes from `old` to `new`; NULL is absent, so a creation starts and a deletion ends there."""

    ref: str
    old: Oid
    new: Oid


class Plan(Data):
    """What an operation wants done. `kinds` names every step's operation, for policy.

    Attributes:
        build: what is to be built; parents stand before their children.
        effects: one net move for each ref.
        steps: what each step of a plan of several does, in order; `build` and `effects` are all of theirs together.
        restorable: the execution keeps what the refs were, so that they can be brought back. An operation leaves this
            alone: whoever plans sets it, unless every move goes forward on a branch that is there.
    """

    kinds: tuple[str, ...]
    build: tuple[NewCommit | NewTag, ...]
    effects: tuple[MoveRef, ...]
    steps: tuple["Plan", ...] = ()
    restorable: bool = False

    @property
    def commits(self) -> tuple[NewCommit, ...]:
        """The commits to build."""
        return tuple(new for new in self.build if isinstance(new, NewCommit))

    def base(self, move: MoveRef) -> Oid:
        """What a move is compared with to say what it changes: where the ref was or, where the plan makes it, the first
        commit below the new ones (by their first parents) that is there already; NULL where there is none.
        """
        parents = {new.id: new.parents for new in self.commits}
        at = move.new if move.old == NULL else move.old
        while at in parents:
            at = parents[Draft(at)][0] if parents[Draft(at)] else NULL
        return at


class Note(Data):
    """One thing to say, as a code and parameters, never as a sentence. `at` is the path or ref it speaks of.

    A warning with the parameter `confirm` needs more than a tick: who approves types that text. One with `reason` wants
    to be told why it is let through; one reason is enough for all of a card.
    """

    code: str
    at: str = ""
    params: Json = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name by which a warning is acknowledged."""
        return f"{self.code}:{self.at}" if self.at else self.code


class Region(Data):
    """Lines where two sides changed the same thing: for each side the first line, from 1, and how many."""

    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


class Conflict(Data):
    """A path on which a merge, or a patch, could not agree.

    Attributes:
        kind: `content`, `both_added`, `deleted_by_us`, `deleted_by_them`, `renamed`, `mode`, `directory`, `binary`,
            `submodule`, `symlink`.
        base: what both come from; None where there was nothing.
        regions: of text, where the two disagree.
    """

    path: Raw
    kind: str
    base: Entry | None
    ours: Entry | None
    theirs: Entry | None
    regions: tuple[Region, ...] = ()


class Blocked(Data):
    """Why there is no plan. Each note's code is the name of an error code. `conflicts` are kept for read_conflicts."""

    blockers: tuple[Note, ...]
    conflicts: tuple[Conflict, ...] = ()


class Wish(Data):
    """What to propose: an operation's kind, and its arguments less repository and reason."""

    kind: str
    arguments: Json


class Outcome(Data):
    """What an execution did. `restore_point` is what it kept, where it kept something."""

    request: Json
    moves: tuple[MoveRef, ...]
    commits: tuple[Oid, ...]
    restore_point: str | None = None


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

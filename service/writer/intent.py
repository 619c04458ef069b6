"""The plan with every byte fixed: provisional ids replaced, committer and trailers in place. A pure function."""

from dataclasses import dataclass
from functools import partial

from service.contract.data import Oid
from service.contract.plan import MoveRef, Plan
from service.repositories.objects import Staged, build_commit
from service.writer.provenance import Trailers
from service.writer.signature import Sign

MARKERS = "refs/proposals/"


@dataclass(frozen=True)
class Intent:
    """What the writer will do: the commits to store, the refs to move, and the marker that makes it so."""

    commits: tuple[Staged, ...]
    moves: tuple[MoveRef, ...]
    marker: tuple[str, Oid]


def marker_ref(proposal: object) -> str:
    """The ref whose creation is the commit point of this proposal."""
    return f"{MARKERS}{proposal}"


def seal(plan: Plan, committer: bytes, trailers: Trailers, sign: Sign | None = None) -> Intent:
    """Fix every byte. The same plan, committer, trailers and key give the same ids, today and after a crash.

    Every new commit is signed where `sign` is given, its parents before it. The marker points at the commit that the
    last move leads to, or at the tip that it takes away.
    """
    real: dict[Oid, Oid] = {}
    commits: list[Staged] = []
    for new in plan.build:
        build = partial(
            build_commit,
            new.tree,
            tuple(real.get(parent, parent) for parent in new.parents),
            author=new.author,
            committer=committer,
            message=trailers.end(new.message),
        )
        built = build() if sign is None else build(extra=((b"gpgsig", sign(build().content)),))
        real[new.id] = built.oid
        commits.append(built)
    moves = tuple(move.model_copy(update={"new": real.get(move.new, move.new)}) for move in plan.effects)
    last = moves[-1]
    return Intent(tuple(commits), moves, (marker_ref(trailers.proposal), last.new if last.new.strip("0") else last.old))

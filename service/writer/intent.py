"""The plan with every byte fixed: provisional ids replaced, committer and trailers in place. A pure function."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from service.contract.data import NULL, Draft, Oid
from service.contract.plan import MoveRef, NewCommit, NewTag, Plan
from service.contract.undoing import RESTORE_POINTS, kept_ref, made_ref
from service.repositories.objects import Staged, build_commit, build_tag
from service.writer.provenance import Trailers
from service.writer.signature import Sign

MARKERS = "refs/proposals/"
RESERVED = (MARKERS, RESTORE_POINTS)
"""Where only the writer makes refs."""


@dataclass(frozen=True)
class Intent:
    """What the writer will do: the commits and tags to store, the refs to move, and the marker that makes it so."""

    commits: tuple[Staged, ...]
    moves: tuple[MoveRef, ...]
    marker: tuple[str, Oid]

    @property
    def keeps(self) -> bool:
        """Whether it keeps a restore point."""
        return len(self.effects) < len(self.moves)

    @property
    def effects(self) -> tuple[MoveRef, ...]:
        """The moves less those that keep a restore point."""
        return tuple(move for move in self.moves if not move.ref.startswith(RESTORE_POINTS))


def marker_ref(proposal: object) -> str:
    """The ref whose creation is the commit point of this proposal."""
    return f"{MARKERS}{proposal}"


def seal(plan: Plan, committer: bytes, trailers: Trailers, sign: Sign | None = None) -> Intent:
    """Fix every byte. The same plan, committer, trailers and key give the same ids, today and after a crash.

    Every new commit and tag is offered to `sign`, its parents before it. The marker points at what the last
    move leads to, or at the tip that it takes away. Of a restorable plan, what each ref was is kept in the same
    transaction.
    """
    real: dict[Oid, Oid] = {}
    built: list[Staged] = []
    for new in plan.build:
        made = (
            _tag(new, real, committer, trailers, sign)
            if isinstance(new, NewTag)
            else _commit(new, real, committer, trailers, sign)
        )
        real[new.id] = made.oid
        built.append(made)
    moves = tuple(move.model_copy(update={"new": real.get(move.new, move.new)}) for move in plan.effects)
    kept = tuple(_kept(trailers.proposal, moves)) if plan.restorable else ()
    last = moves[-1]
    return Intent(
        tuple(built), (*kept, *moves), (marker_ref(trailers.proposal), last.old if last.new == NULL else last.new)
    )


def tip_of(plan: Plan) -> Draft | None:
    """The new commit or tag from which all others are reached, so that one signature covers them; None where there is
    none, or where there are several.
    """
    reached = {at for new in plan.build for at in ((new.target,) if isinstance(new, NewTag) else new.parents)}
    tips = [new.id for new in plan.build if new.id not in reached]
    return tips[0] if len(tips) == 1 else None


def _commit(new: NewCommit, real: dict[Oid, Oid], committer: bytes, trailers: Trailers, sign: Sign | None) -> Staged:
    build = partial(
        build_commit,
        new.tree,
        tuple(real.get(parent, parent) for parent in new.parents),
        author=new.author,
        committer=committer,
        message=trailers.end(new.message),
    )
    extra = ((b"encoding", new.encoding),) if new.encoding else ()
    signature = sign(build(extra=extra).content) if sign else None
    return build(extra=(*extra, (b"gpgsig", signature))) if signature else build(extra=extra)


def _tag(new: NewTag, real: dict[Oid, Oid], committer: bytes, trailers: Trailers, sign: Sign | None) -> Staged:
    build = partial(
        build_tag, real.get(new.target, new.target), new.name, tagger=committer, message=trailers.end(new.message)
    )
    signature = sign(build().content) if sign else None
    return build(signature=signature) if signature else build()


def _kept(proposal: UUID, moves: tuple[MoveRef, ...]) -> Iterator[MoveRef]:
    for move in moves:
        if move.old == NULL:
            yield MoveRef(ref=made_ref(str(proposal), move.ref), old=NULL, new=move.new)
        else:
            yield MoveRef(ref=kept_ref(str(proposal), move.ref), old=NULL, new=move.old)

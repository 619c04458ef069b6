"""What became of an intent after a crash or an error of the disk. The marker decides."""

from collections.abc import Callable, Sequence
from enum import Enum

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.repositories.objects import Staged
from service.repositories.refs import BrokenRef, RefConflict, RefMoved
from service.writer.intent import Intent
from service.writer.ports import Repository

STRANGERS = (RefMoved, RefConflict, BrokenRef)
"""What only somebody without the lease can have done to the refs of something that is past its commit point."""


class Fate(Enum):
    """LANDED: it is done now. ABSENT: nothing happened. ALARM: somebody else had a hand in it; nothing was touched."""

    LANDED = "landed"
    ABSENT = "absent"
    ALARM = "alarm"


def reconcile(repository: Repository, objects: Sequence[Staged], intent: Intent) -> Fate:
    """Find out, and finish what has begun. Leftover locks are removed before; the lease is held.

    What a dead writer wrote may never reach the disk: a flush that failed once says nothing more when it is asked again
    (fsync(2)). So where the marker is there, everything is written anew and flushed before anybody builds on it.

    Raises:
        OSError: the disk refused; to be tried again.
    """
    name, commit = intent.marker
    found = repository.read_ref(name)
    if found == NULL:
        return Fate.ABSENT
    if found != commit:
        return Fate.ALARM

    def landed(move: MoveRef, head: Oid) -> bool:
        return NULL not in (move.new, head) and repository.contains(head, move.new)

    repository.write_pack([*objects, *intent.commits])
    try:
        roll_forward(repository, intent.marker, intent.moves, landed)
    except STRANGERS:
        return Fate.ALARM
    return Fate.LANDED


def roll_forward(
    repository: Repository,
    marker: tuple[str, Oid] | None,
    moves: Sequence[MoveRef],
    landed: Callable[[MoveRef, Oid], bool],
) -> tuple[MoveRef, ...]:
    """Finish the moves of a transaction past its commit point, and write and flush anew what was moved already.

    Each ref is compared first with where it was, then with where it should go: an ancestor alone proves nothing for a
    move that goes back.

    Args:
        repository: where; the lease is held and leftover locks are removed.
        marker: the marker's name and id, as it is there; None where there is none.
        moves: the transaction's moves.
        landed: whether a ref that is neither where it was nor where it should go has been there and moved on.

    Returns:
        The moves that were still to be made, and are made now.

    Raises:
        RefMoved, RefConflict, BrokenRef: a ref is what nobody with the lease made of it; nothing moved.
        LockHeld: somebody without the lease has a lock.
        OSError: the disk refused.
    """
    heads = [(move, repository.own_value(move.ref)) for move in moves]
    for move, head in heads:
        if head not in {move.old, move.new} and not landed(move, head):
            raise RefMoved(move.ref, move.new, head)
    waiting = tuple(move for move, head in heads if head == move.old)
    done = [MoveRef(ref=move.ref, old=head, new=head) for move, head in heads if head == move.new]
    if marker is not None:  # first and alone: where it cannot be flushed, nothing may have moved that outlives it
        _all_or_nothing(repository, [MoveRef(ref=marker[0], old=marker[1], new=marker[1])])
    _all_or_nothing(repository, [*waiting, *done])
    return waiting


def _all_or_nothing(repository: Repository, moves: Sequence[MoveRef]) -> None:
    steps = repository.ref_steps(None, moves)
    try:
        steps.lock()
        steps.verify()
        steps.stage()
    except BaseException:
        steps.abort()
        raise
    steps.commit_moves()

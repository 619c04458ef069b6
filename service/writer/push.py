"""Move refs as a push asks: the same lease, locks and comparisons as an execution, and a journal instead of a marker.

    1. a lasting mark; locks on every ref, all old values verified, new values in the lock files, flushed
    2. the journal, as the lease's lasting mark      THE COMMIT POINT of a push
    3. the refs are renamed                          a crash between them is rolled forward by the next holder

All of a push's commands happen, or none.
"""

import json
from dataclasses import dataclass
from uuid import UUID

from service.contract.plan import MoveRef
from service.kit.canonical import canonical, sha256
from service.writer.ports import Lease, RefSteps, Repository
from service.writer.reconcile import roll_forward
from service.writer.write import Step

_KIND = b"push"
_BEGUN = b"a push has begun"


@dataclass(frozen=True)
class Journal:
    """What a push does.

    Attributes:
        id: the push's own.
        actor: who pushed, as `kind:id`.
        moves: its ref commands; NULL as `old` makes a ref, NULL as `new` takes one away.
    """

    id: UUID
    actor: str
    moves: tuple[MoveRef, ...]

    def encode(self) -> bytes:
        """As a mark: its kind, a checksum, and canonical JSON."""
        moves = [one.model_dump(mode="json") for one in self.moves]
        text = canonical({"id": str(self.id), "actor": self.actor, "moves": moves})
        return b" ".join((_KIND, sha256(text).encode(), text))


def read_journal(mark: bytes) -> Journal | None:
    """The push that a mark speaks of; None for any other mark, and for a torn one, whose push moved nothing."""
    kind, _, rest = mark.partition(b" ")
    checksum, _, text = rest.partition(b" ")
    if kind != _KIND or sha256(text).encode() != checksum:
        return None
    found = json.loads(text)
    return Journal(UUID(found["id"]), found["actor"], tuple(MoveRef.model_validate(one) for one in found["moves"]))


def push(repository: Repository, lease: Lease, journal: Journal, step: Step) -> None:
    """Do it. Nothing has happened when this raises before the journal is there.

    Raises:
        RefMoved, RefConflict: a ref is not where the push wants it.
        LockHeld: another hand holds a ref's lock; to be tried again.
        ValueError: the journal is longer than a mark can be, a name is none, or a ref is named twice.
        OSError: the disk refused; what happened is found out by the lease's next holder.
    """
    try:
        steps = repository.ref_steps(None, journal.moves)
    except BaseException:
        lease.clear()
        raise
    try:
        _prepare(lease, journal, steps, step)
    except BaseException:
        steps.abort()  # where this fails, the mark stays, and the next holder removes what is left
        lease.clear()
        raise
    step("push journaled")
    steps.commit_moves()
    step("push moved")


def _prepare(lease: Lease, journal: Journal, steps: RefSteps, step: Step) -> None:
    lease.mark(_BEGUN, lasting=True)  # before the first lock: no row in the database tells of a push that died
    steps.lock()
    steps.verify()
    steps.stage()
    step("push staged")
    lease.mark(journal.encode(), lasting=True)


def finish(repository: Repository, journal: Journal) -> None:
    """Roll forward what a dead holder had journaled. Leftover locks are removed before.

    Raises:
        RefMoved, RefConflict, BrokenRef: somebody without the lease had a hand in it; nothing moved.
        OSError: the disk refused; to be tried again.
    """
    roll_forward(repository, None, journal.moves, lambda _move, _head: False)

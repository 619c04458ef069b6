"""What became of an intent after a crash or an error of the disk. The marker decides."""

from collections.abc import Sequence
from enum import Enum

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.repositories.objects import Staged
from service.repositories.refs import BrokenRef, RefMoved
from service.writer.intent import Intent
from service.writer.ports import Repository


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
        repository.roll_forward(intent.marker, intent.moves, landed)
    except (RefMoved, BrokenRef):
        return Fate.ALARM
    return Fate.LANDED

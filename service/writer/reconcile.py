"""What became of an intent after a crash. The marker decides."""

from enum import Enum
from pathlib import Path

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.repositories.packs import flush_again
from service.repositories.reading import Objects
from service.repositories.refs import BrokenRef, RefMoved, read_ref, roll_forward
from service.writer.intent import Intent


class Fate(Enum):
    """LANDED: it is done now. ABSENT: nothing happened. ALARM: somebody else had a hand in it; nothing was touched."""

    LANDED = "landed"
    ABSENT = "absent"
    ALARM = "alarm"


def reconcile(repository: Path, intent: Intent) -> Fate:
    """Find out, and finish what has begun. Leftover locks are removed before; the lease is held.

    What a dead writer wrote may not be on the disk yet, so it is flushed again before anything is built on it.

    Raises:
        OSError: the disk reports an error; what was written must be written anew.
    """
    name, commit = intent.marker
    found = read_ref(repository, name)
    if found == NULL:
        return Fate.ABSENT
    if found != commit:
        return Fate.ALARM
    flush_again(repository, [name, *(move.ref for move in intent.moves)])
    objects = Objects(repository)

    def landed(move: MoveRef, head: Oid) -> bool:
        return NULL not in (move.new, head) and objects.contains(head, move.new)

    try:
        roll_forward(repository, intent.moves, landed)
    except (RefMoved, BrokenRef):
        return Fate.ALARM
    return Fate.LANDED

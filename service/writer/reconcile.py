"""What became of an intent after a crash. The marker decides."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.repositories.objects import Staged
from service.repositories.packs import flush_again, write_pack
from service.repositories.reading import Objects
from service.repositories.refs import BrokenRef, RefMoved, read_ref, roll_forward, write_again
from service.writer.intent import Intent


class Fate(Enum):
    """LANDED: it is done now. ABSENT: nothing happened. ALARM: somebody else had a hand in it; nothing was touched."""

    LANDED = "landed"
    ABSENT = "absent"
    ALARM = "alarm"


def reconcile(repository: Path, objects: Sequence[Staged], intent: Intent) -> Fate:
    """Find out, and finish what has begun. Leftover locks are removed before; the lease is held.

    What was written may never reach the disk: a flush that failed once succeeds the second time without having
    written anything (fsync(2), EIO). So pack, marker and refs are written anew before anything is built on them.

    Raises:
        OSError: the disk reports an error; call it again.
    """
    name, commit = intent.marker
    found = read_ref(repository, name)
    if found == NULL:
        return Fate.ABSENT
    if found != commit:
        return Fate.ALARM
    write_pack(repository, [*objects, *intent.commits])
    flush_again(repository, [name, *(move.ref for move in intent.moves)])
    write_again(repository, [(name, commit)])
    stored = Objects(repository)

    def landed(move: MoveRef, head: Oid) -> bool:
        return NULL not in (move.new, head) and stored.contains(head, move.new)

    try:
        roll_forward(repository, intent.moves, landed)
        write_again(repository, [(move.ref, move.new) for move in intent.moves if _is_at(repository, move)])
    except (RefMoved, BrokenRef):
        return Fate.ALARM
    return Fate.LANDED


def _is_at(repository: Path, move: MoveRef) -> bool:
    return move.new != NULL and read_ref(repository, move.ref) == move.new

"""A host's repositories, played: what is flushed outlives the power, what is not may be lost, and disks refuse."""

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dulwich.objects import parse_tree

from service.contract.data import NULL, Change, Commit, Entry, Oid
from service.contract.plan import MoveRef, NewCommit, Plan
from service.repositories.lease import LeaseBusy
from service.repositories.objects import Staged
from service.repositories.reading import BadObject, parse_commit
from service.repositories.refs import LockHeld, RefMoved
from tests.faults.simulation.schedule import Killed, Process, Schedule

REFUSALS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE)


@dataclass(frozen=True)
class Chances:
    """How likely each fault is, at each place where it can be."""

    refused: float = 0.0
    killed: float = 0.0
    power: float = 0.0
    lost_answer: float = 0.0
    unreachable: float = 0.0
    clock: float = 0.0


@dataclass(eq=False)
class Disk:
    """One repository: what everybody sees, and what would be left without power."""

    refs: dict[str, Oid] = field(default_factory=dict)
    objects: dict[Oid, Staged] = field(default_factory=dict)
    locks: set[str] = field(default_factory=set)
    mark: bytes = b""
    holder: Process | None = None
    lasting_refs: dict[str, Oid] = field(default_factory=dict)
    lasting_objects: dict[Oid, Staged] = field(default_factory=dict)
    lasting_mark: bytes = b""
    waiting: list[MoveRef] = field(default_factory=list)  # renamed, and not flushed yet
    history: dict[str, list[Oid]] = field(default_factory=dict)  # every value a ref ever had

    def rename(self, move: MoveRef) -> str:
        """Make a move, as everybody sees it. Gives what is wrong with it."""
        was = self.refs.get(move.ref, NULL)
        if was not in {move.old, move.new}:
            return f"{move.ref} went from {was[:8]} to {move.new[:8]}: {move.old[:8]} was expected, a commit is lost"
        _put(self.refs, move)
        self.waiting.append(move)
        if was != move.new:
            self.history.setdefault(move.ref, [was]).append(move.new)
        return ""

    def flush(self, refs: Iterable[str]) -> None:
        """Make last what happened to these refs."""
        names = set(refs)
        for move in [one for one in self.waiting if one.ref in names]:
            _put(self.lasting_refs, move)
            self.waiting.remove(move)

    def lose_power(self, schedule: Schedule) -> None:
        """What was not flushed is there or not, each piece by itself."""
        chance = schedule.chance
        for move in self.waiting:
            if chance.random() < 0.5:
                _put(self.lasting_refs, move)
        self.waiting.clear()
        for ref in sorted(self.refs.keys() | self.lasting_refs.keys()):
            if self.refs.get(ref, NULL) != self.lasting_refs.get(ref, NULL):
                self.history[ref].pop()  # nobody will ever have seen it
        self.refs = dict(self.lasting_refs)
        for oid, one in self.objects.items():
            if chance.random() < 0.5:
                self.lasting_objects.setdefault(oid, one)
        self.objects = dict(self.lasting_objects)
        self.mark = self.lasting_mark = chance.choice((self.mark, self.lasting_mark))
        self.locks = {ref for ref in sorted(self.locks) if chance.random() < 0.5}


def _put(refs: dict[str, Oid], move: MoveRef) -> None:
    if move.new == NULL:
        refs.pop(move.ref, None)
    else:
        refs[move.ref] = move.new


@dataclass(eq=False)
class Host:
    """The disks, by the folders of their repositories."""

    schedule: Schedule
    chances: Chances
    disks: dict[Path, Disk] = field(default_factory=dict)

    def opener(self, process: Process) -> "Opener":
        process.ends.append(lambda: self._release(process))
        return Opener(self, process)

    def _release(self, process: Process) -> None:
        for disk in self.disks.values():
            if disk.holder is process:
                disk.holder = None

    def marked(self) -> list[Path]:
        return [path for path, disk in self.disks.items() if disk.mark]


@dataclass(frozen=True)
class Opener:
    """Opens repositories for one process."""

    host: Host
    process: Process

    def __call__(self, path: Path) -> "PlayedRepository":
        return PlayedRepository(self.host, self.process, self.host.disks[path])


@dataclass(eq=False)
class PlayedRepository:
    """A repository as `writer/ports.py` wants it."""

    host: Host
    process: Process
    disk: Disk

    def point(self, *, refusing: bool = False) -> None:
        """Others may go first; where it writes, the disk may refuse."""
        if not self.process.alive:
            raise Killed
        self.host.schedule.point()
        if refusing and self.host.schedule.chance.random() < self.host.chances.refused:
            raise OSError(self.host.schedule.chance.choice(REFUSALS), "the disk refuses")

    def read_ref(self, name: str) -> Oid:
        self.point()
        return self.disk.refs.get(name, NULL)

    def own_value(self, name: str) -> Oid:
        return self.read_ref(name)

    def list_refs(self, prefix: str) -> list[tuple[str, Oid]]:
        self.point()
        return sorted((name, oid) for name, oid in self.disk.refs.items() if name.startswith(prefix))

    @contextmanager
    def lease(self, seconds: float) -> Iterator["PlayedLease"]:
        self.point(refusing=True)
        if not self.host.schedule.wait_for(lambda: self.disk.holder is None, seconds):
            raise LeaseBusy("r")
        self.disk.holder = self.process
        try:
            yield PlayedLease(self)
        finally:
            if self.process.alive:
                self.disk.holder = None

    def remove_leftovers(self) -> tuple[str, ...]:
        self.point(refusing=True)
        removed = tuple(sorted(self.disk.locks))
        self.disk.locks.clear()
        return removed

    def store(self, plan: Plan, objects: Iterable[Staged]) -> "PlayedStore":
        self.point()
        return PlayedStore(self.disk, {one.oid: one for one in objects}, {one.id: one for one in plan.build})

    def write_pack(self, objects: Iterable[Staged]) -> None:
        self.point(refusing=True)
        written = {one.oid: one for one in objects}
        self.disk.objects.update(written)
        self.point(refusing=True)
        self.disk.lasting_objects.update(written)

    def ref_steps(self, marker: tuple[str, Oid] | None, moves: Sequence[MoveRef]) -> "PlayedSteps":
        own = None if marker is None else MoveRef(ref=marker[0], old=NULL, new=marker[1])
        return PlayedSteps(self, own, tuple(moves))

    def wants_maintenance(self) -> bool:
        return False

    def contains(self, tip: Oid, commit: Oid) -> bool:
        self.point()
        seen, waiting = set(), [tip]
        while waiting:
            at = waiting.pop()
            if at == commit:
                return True
            if at not in seen and at in self.disk.objects:
                seen.add(at)
                waiting.extend(parse_commit(at, self.disk.objects[at].content).parents)
        return False

    def message(self, commit: Oid) -> bytes:
        self.point()
        return parse_commit(commit, self.disk.objects[commit].content).message


@dataclass(frozen=True)
class PlayedLease:
    """A held lease."""

    repository: PlayedRepository
    fd: int = -1

    def read(self) -> bytes:
        self.repository.point()
        return self.repository.disk.mark

    def mark(self, text: bytes, *, lasting: bool = False) -> None:
        self.repository.point(refusing=True)
        self.repository.disk.mark = text
        if lasting:
            self.repository.point(refusing=True)
            self.repository.disk.lasting_mark = text

    def clear(self) -> None:
        self.repository.point()
        self.repository.disk.mark = b""


@dataclass(eq=False)
class PlayedSteps:
    """Moves of refs, step by step."""

    repository: PlayedRepository
    marker: MoveRef | None
    moves: tuple[MoveRef, ...]
    held: list[str] = field(default_factory=list)
    committed: bool = False

    def _every(self) -> list[MoveRef]:
        return sorted((*self.moves, *filter(None, [self.marker])), key=lambda move: move.ref)

    def lock(self) -> None:
        try:
            for move in self._every():
                self._hold(move.ref)
        except BaseException:
            self.abort()
            raise

    def _hold(self, ref: str) -> None:
        self.repository.point(refusing=True)
        if ref in self.repository.disk.locks:
            raise LockHeld(ref)
        self.repository.disk.locks.add(ref)
        self.held.append(ref)

    def verify(self) -> None:
        for move in self._every():
            head = self.repository.own_value(move.ref)
            if head != move.old:
                raise RefMoved(move.ref, move.old, head)

    def stage(self) -> None:
        for _ in self._every():
            self.repository.point(refusing=True)

    def commit_marker(self) -> None:
        if self.marker is None:
            raise ValueError("there is no marker")
        self._rename(self.marker)
        self.committed = True
        self._flush([self.marker.ref])

    def commit_moves(self) -> None:
        if self.marker and not self.committed:
            raise ValueError("the marker comes first")
        self.committed = True
        for move in self.moves:
            self._rename(move)
        self._flush([move.ref for move in self.moves])

    def _rename(self, move: MoveRef) -> None:
        self.repository.point(refusing=True)
        disk = self.repository.disk
        wrong = disk.rename(move)
        if disk.holder is not self.repository.process:
            wrong = f"{move.ref} moved without the lease"
        if wrong:
            self.repository.host.schedule.violated(wrong)
        disk.locks.discard(move.ref)
        self.held.remove(move.ref)
        if self.repository.host.schedule.chance.random() < self.repository.host.chances.refused:
            raise OSError(errno.EIO, "it happened, and the disk says that it did not")

    def _flush(self, refs: Sequence[str]) -> None:
        self.repository.point(refusing=True)
        self.repository.disk.flush(refs)

    def abort(self) -> None:
        if self.committed:
            return
        while self.held:
            self.repository.point(refusing=True)  # an unlink that fails leaves the lock
            self.repository.disk.locks.discard(self.held.pop())


@dataclass(frozen=True)
class PlayedStore:
    """Objects as `contract.world.Store` has them; of what an execution asks there is no more."""

    disk: Disk
    staged: dict[Oid, Staged]
    drafts: dict[Oid, NewCommit]

    def _content(self, oid: Oid) -> bytes:
        found = self.staged.get(oid) or self.disk.objects.get(oid)
        if found is None:
            raise BadObject(oid, "it is not there")
        return found.content

    def commit(self, oid: Oid) -> Commit:
        if new := self.drafts.get(oid):
            return Commit(tree=new.tree, parents=new.parents, author=b"", committer=b"", message=new.message)
        return parse_commit(oid, self._content(oid))

    def blob(self, oid: Oid) -> bytes:
        return self._content(oid)

    def changes(self, old: Oid | None, new: Oid | None) -> Iterator[Change]:
        olds, news = (self._names(oid) for oid in (old, new))
        for path in sorted(olds.keys() | news.keys()):
            if olds.get(path) != news.get(path):
                yield Change(path=path, old=olds.get(path), new=news.get(path))

    def _names(self, tree: Oid | None) -> dict[bytes, Entry]:
        rows = parse_tree(self._content(tree), 20) if tree else ()
        return {name: Entry(mode=mode, oid=Oid(sha.decode())) for name, mode, sha in rows}

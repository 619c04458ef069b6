"""One bare repository on this host's disk, as the writer uses it (`writer/ports.py`)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from service.contract.data import Oid
from service.contract.plan import MoveRef, Plan
from service.repositories.lease import Lease
from service.repositories.maintenance import wants_maintenance
from service.repositories.objects import Staged
from service.repositories.packs import write_pack
from service.repositories.reading import Objects
from service.repositories.refs import (
    RefTransaction,
    flush_folders,
    list_refs,
    own_value,
    read_ref,
    remove_leftover_locks,
)
from service.repositories.staging import Staging

NOBODY = b"Placet <placet@localhost> 0 +0000"
"""The author of a plan that builds no commit; it is never written."""


@dataclass(frozen=True)
class BareRepository:
    """A repository by its folder."""

    path: Path

    def read_ref(self, name: str) -> Oid:
        return read_ref(self.path, name)

    def list_refs(self, prefix: str) -> list[tuple[str, Oid]]:
        return list_refs(self.path, prefix)

    @contextmanager
    def lease(self, seconds: float) -> Iterator[Lease]:
        with Lease.acquire(self.path, seconds) as lease:
            yield lease

    def remove_leftovers(self) -> tuple[str, ...]:
        removed = remove_leftover_locks(self.path)
        flush_folders(self.path)
        return removed

    def store(self, plan: Plan, objects: Iterable[Staged]) -> Staging:
        author = plan.commits[0].author if plan.commits else NOBODY
        return Staging(self.path, author, objects=objects, drafts=plan.commits)

    def write_pack(self, objects: Iterable[Staged]) -> None:
        if stored := tuple(objects):  # what only moves refs builds nothing
            write_pack(self.path, stored)

    def ref_steps(self, marker: tuple[str, Oid] | None, moves: Sequence[MoveRef]) -> RefTransaction:
        return RefTransaction(self.path, marker, moves)

    def own_value(self, name: str) -> Oid:
        return own_value(self.path, name)

    def wants_maintenance(self) -> bool:
        return wants_maintenance(self.path)

    def contains(self, tip: Oid, commit: Oid) -> bool:
        return Objects(self.path).contains(tip, commit)

    def message(self, oid: Oid) -> bytes:
        objects = Objects(self.path)
        header = objects.header(oid)
        kind = header[0] if header else "commit"
        return objects.read(oid, kind).partition(b"\n\n")[2]

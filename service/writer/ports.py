"""What the writer asks of a repository, as Protocols. `repositories/bare.py` answers with one on the disk.

The writer sees nothing else, so that the same code runs where every step can be the last one.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from service.contract.data import Oid
from service.contract.plan import MoveRef, Plan
from service.contract.world import Store
from service.repositories.objects import Staged


class Lease(Protocol):
    """A repository's lease while it is held."""

    @property
    def fd(self) -> int:
        """Its descriptor, for git children to keep."""

    def read(self) -> bytes:
        """The mark that the holder before left; empty when all was in order."""

    def mark(self, text: bytes, *, lasting: bool = False) -> None:
        """Say why the lease is held. It outlives the process, and a loss of power only where it is lasting."""

    def clear(self) -> None:
        """Say that all is in order."""


class RefSteps(Protocol):
    """Moves of refs in the order in which a crash can be told apart; see `repositories.refs.RefTransaction`."""

    def lock(self) -> None: ...
    def verify(self) -> None: ...
    def stage(self) -> None: ...
    def commit_marker(self) -> None: ...
    def commit_moves(self) -> None: ...
    def abort(self) -> None: ...


class RefReader(Protocol):
    """The refs of a repository."""

    def read_ref(self, name: str) -> Oid:
        """The id a ref has; NULL when there is no such ref."""

    def list_refs(self, prefix: str) -> Sequence[tuple[str, Oid]]:
        """The refs under a folder such as `refs/heads/`, by full name in byte order."""

    def contains(self, tip: Oid, commit: Oid) -> bool:
        """Whether a commit is the tip or one of its ancestors."""


class Repository(RefReader, Protocol):
    """A repository as the writer uses it."""

    def lease(self, seconds: float) -> AbstractContextManager[Lease]:
        """Hold the lease for the block; waits so long. Raises LeaseBusy."""

    def remove_leftovers(self) -> Sequence[str]:
        """Remove what dead writers left, locks and unfinished packs, and flush the folders that they made. Hold the
        lease. Raises OSError.
        """

    def store(self, plan: Plan, objects: Iterable[Staged]) -> Store:
        """The objects as they were when the plan was made."""

    def write_pack(self, objects: Iterable[Staged]) -> None:
        """Store objects; they last when this returns. Raises OSError."""

    def ref_steps(self, marker: tuple[str, Oid] | None, moves: Sequence[MoveRef]) -> RefSteps:
        """A transaction over these refs, and their marker where there is one."""

    def own_value(self, name: str) -> Oid:
        """The id a ref itself has. Raises BrokenRef for a symbolic one."""

    def wants_maintenance(self) -> bool:
        """Whether it has become slow."""

    def message(self, oid: Oid) -> bytes:
        """A commit's or a tag's message."""

"""A push, from its ref commands to the record of it. The objects are in the repository already."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from service.contract.plan import MoveRef
from service.kit.actor import Actor, system
from service.proposals.ports import Cause, Store, Tx
from service.repositories.placement import Place
from service.writer.intent import RESERVED
from service.writer.ports import Lease, Repository
from service.writer.push import Journal, push
from service.writer.write import Step


class ReservedRef(Exception):
    """A push named a ref that only the writer makes.

    Args:
        ref: its full name.
    """

    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


@dataclass(frozen=True)
class Push:
    """The push step of one writer process.

    Attributes:
        store: as the role `placet_writer`.
        open: gives the repository in a folder.
        lease: takes a repository's lease for a block, after recovery; see `Execute.lease`.
        step: told the name of each step that was done.
    """

    store: Store
    open: Callable[[Path], Repository]
    lease: Callable[[UUID, UUID, Place], AbstractAsyncContextManager[Lease]]
    step: Step

    async def __call__(self, actor: Actor, repository_id: UUID, moves: Sequence[MoveRef]) -> UUID:
        """Do all ref commands or none, and record them. Gives the push's id, under which the ref moves are found.

        Whether this actor may push these refs was asked before.

        Raises:
            LeaseBusy, LockHeld: ask again.
            RefMoved, RefConflict, ReservedRef, ValueError: refused; nothing moved.
            OSError, Refusal: the disk or the database does not answer; the lease's next holder finds out.
        """
        for one in moves:
            if one.ref.startswith(RESERVED):
                raise ReservedRef(one.ref)
        journal = Journal(uuid4(), f"{actor.kind}:{actor.id}", tuple(moves))
        async with self.store.bound(actor.tenant) as tx:
            place = await tx.place(repository_id)
        async with self.lease(actor.tenant, repository_id, place) as lease:
            push(self.open(place.path), lease, journal, self.step)
            await record_push(self.store, actor.tenant, repository_id, journal)
            lease.clear()
        return journal.id


def push_cause(journal: Journal) -> Cause:
    """Under what a push's ref moves are stored."""
    return Cause(journal.id, journal.actor, proposal=False)


async def record_push(store: Store, tenant: UUID, repository_id: UUID, journal: Journal) -> None:
    """Record what a push moved, once."""

    async def work(tx: Tx) -> None:
        if await tx.record_moves(push_cause(journal), repository_id, journal.moves):
            moves = [one.model_dump(mode="json") for one in journal.moves]
            tx.append(
                system(tenant),
                "refs.pushed",
                str(journal.id),
                repository=str(repository_id),
                by=journal.actor,
                moves=moves,
            )

    await store.repeat(tenant, work)

"""Maintenance in the queue: asked for after an execution, done by the worker under the lease, soon and in background.

It waits behind everybody: who finds the lease taken gives up and is asked again. An approval that comes meanwhile
waits for the lease as for any other holder, and no attempt is counted.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.dialects.postgresql import insert

from service.kit.database import Directory
from service.kit.errors import Code, Refusal
from service.proposals.ports import Kind, Store
from service.proposals.states import WORK
from service.proposals.tables import work_queue
from service.repositories.git import GitFailed
from service.repositories.lease import LeaseBusy
from service.repositories.maintenance import Maintenance, Step
from service.repositories.placement import Place
from service.writer.ports import Lease

log = logging.getLogger("placet.maintenance")
KIND: Kind = "maintain"
LEASE_SECONDS = 0.1
SECONDS_MOST = 100
_BEGUN = b"maintenance has begun"
LATER_SECONDS = 600


async def ask_to_maintain(tx: Directory, tenant: UUID, repository_id: UUID) -> None:
    """Put a repository in the queue, if it is not there already."""
    values = {"kind": KIND, "tenant": tenant, "subject": repository_id, "repository": repository_id}
    await tx.execute(insert(work_queue).values(values).on_conflict_do_nothing())
    await tx.notify(WORK, str(repository_id))


@dataclass(frozen=True)
class Maintain:
    """The maintenance that one writer process does.

    Attributes:
        store: as the role `placet_writer`.
        lease: takes a repository's lease, after recovery where its mark is still there, for a block; waits as long
            as the last argument says, in seconds. The worker hears that it is held for maintenance.
        step: told the name of each step that was done.
    """

    store: Store
    lease: Callable[[UUID, UUID, Place, float], AbstractAsyncContextManager[Lease]]
    step: Step

    async def __call__(self, tenant: UUID, repository_id: UUID) -> bool:
        """Maintain one repository. False: not now, ask again."""
        try:
            async with self.store.bound(tenant) as tx:
                place = await tx.place(repository_id)
            await self._under_lease(tenant, repository_id, place)
        except LeaseBusy:
            return False
        except (GitFailed, OSError):
            log.exception("could not maintain %s; it is tried again in %d s", repository_id, LATER_SECONDS)
            async with self.store.bound(tenant) as tx:
                await tx.postpone(repository_id, LATER_SECONDS, KIND)
            return False
        except Refusal as refusal:
            if refusal.code is not Code.NOT_FOUND:  # a repository that is gone wants nothing
                raise
        async with self.store.bound(tenant) as tx:
            await tx.forget(repository_id, KIND)
        return True

    async def _under_lease(self, tenant: UUID, repository_id: UUID, place: Place) -> None:
        """Where it fails the lease's mark stays, so that the next holder removes what git left."""
        async with self.lease(tenant, repository_id, place, LEASE_SECONDS) as lease:
            lease.mark(_BEGUN, lasting=True)  # no row in the database tells of what dies here
            Maintenance(place.path, lease.fd, SECONDS_MOST, self.step)()
            lease.clear()

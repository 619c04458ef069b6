"""Maintenance in the queue: asked for after an execution, done by the worker under the lease, soon and in background.

It waits behind everybody: who finds the lease taken gives up and is asked again. An approval that comes meanwhile
waits for the lease as for any other holder, and no attempt is counted.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, update
from sqlalchemy.dialects.postgresql import insert

from service.kit.database import Database, Directory
from service.kit.errors import Code, Refusal
from service.proposals.states import WORK
from service.proposals.tables import work_queue
from service.repositories.git import GitFailed
from service.repositories.lease import LeaseBusy
from service.repositories.maintenance import Maintenance, Step
from service.repositories.placement import Place, Storage
from service.writer.ports import Lease

log = logging.getLogger("placet.maintenance")
KIND = "maintain"
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
        database: as the role `placet_writer`.
        lease: takes a repository's lease, after recovery where its mark is still there, for a block; waits as long
            as the last argument says, in seconds. The worker hears that it is held for maintenance.
        step: told the name of each step that was done.
    """

    database: Database
    storage: Storage
    lease: Callable[[UUID, UUID, Place, float], AbstractAsyncContextManager[Lease]]
    step: Step

    async def __call__(self, tenant: UUID, repository_id: UUID) -> bool:
        """Maintain one repository. False: not now, ask again."""
        try:
            async with self.database.bound(tenant) as tx:
                place = await self.storage.place(tx, repository_id)
            await self._under_lease(tenant, repository_id, place)
        except LeaseBusy:
            return False
        except (GitFailed, OSError):
            log.exception("could not maintain %s; it is tried again in %d s", repository_id, LATER_SECONDS)
            await self._postpone(tenant, repository_id)
            return False
        except Refusal as refusal:
            if refusal.code is not Code.NOT_FOUND:  # a repository that is gone wants nothing
                raise
        async with self.database.directory() as tx:
            await tx.execute(delete(work_queue).where(_row(tenant, repository_id)))
        return True

    async def _under_lease(self, tenant: UUID, repository_id: UUID, place: Place) -> None:
        """Where it fails the lease's mark stays, so that the next holder removes what git left."""
        async with self.lease(tenant, repository_id, place, LEASE_SECONDS) as lease:
            lease.mark(_BEGUN, lasting=True)  # no row in the database tells of what dies here
            Maintenance(place.path, lease.fd, SECONDS_MOST, self.step)()
            lease.clear()

    async def _postpone(self, tenant: UUID, repository_id: UUID) -> None:
        later = func.clock_timestamp() + timedelta(seconds=LATER_SECONDS)
        async with self.database.directory() as tx:
            await tx.execute(update(work_queue).where(_row(tenant, repository_id)).values(due=later))


def _row(tenant: UUID, repository_id: UUID) -> ColumnElement[bool]:
    return and_(work_queue.c.kind == KIND, work_queue.c.tenant == tenant, work_queue.c.subject == repository_id)

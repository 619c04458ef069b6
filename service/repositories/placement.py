"""Where a repository lies on this host: only its placement row says."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy import bindparam, select

from service.kit.database import Bound
from service.kit.errors import Code, Refusal
from service.repositories.lease import marked
from service.repositories.tables import placement

FIRST_SHARD = "0"
_PLACE = select(placement.c.shard, placement.c.epoch).where(placement.c.repository == bindparam("of"))


@dataclass(frozen=True)
class Place:
    """A placed repository: its folder, and the epoch in which it lies there."""

    path: Path
    epoch: int


@dataclass(frozen=True)
class Storage:
    """The repositories of this host, in shards under one root."""

    root: Path

    def path(self, shard: str, tenant: UUID, repository: UUID) -> Path:
        return self.root / shard / str(tenant) / f"{repository}.git"

    async def place(self, tx: Bound, repository: UUID) -> Place:
        """Look a repository up. Raises NOT_FOUND for one that is not placed."""
        row = (await tx.execute(_PLACE, {"of": repository})).one_or_none()
        if row is None:
            raise Refusal(Code.NOT_FOUND, "There is no such repository.")
        return Place(self.path(row.shard, tx.tenant, repository), row.epoch)

    def marked(self) -> Iterator[tuple[UUID, UUID]]:
        """Tenant and repository of every lease that a writer left without clearing its mark."""
        for lease in self.root.glob("*/*/*.git.lease"):
            if marked(lease):
                yield UUID(lease.parent.name), UUID(lease.name.removesuffix(".git.lease"))

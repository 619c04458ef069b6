"""The naive writer: what one would write first. It loses commits, and is here to show how many.

The tip is compared in Python, the ref is written without its old value, there is no marker and no lease. All else is
as in production: the same rights, the same objects in one pack, the same flushes, the same ledger.
"""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, select

from service.contract.data import Oid
from service.contract.plan import MoveRef, Plan
from service.grants.standing import stand
from service.kit.database import Bound
from service.ledger.tables import ref_move
from service.proposals.decide import wanted
from service.proposals.execute import Execute
from service.proposals.planning import load_plan
from service.proposals.tables import decision, proposal, staging
from service.repositories.durable import flush, write_new
from service.repositories.objects import decode
from service.repositories.packs import write_pack
from service.repositories.refs import read_ref
from service.writer.intent import seal
from service.writer.provenance import Trailers, committer_email
from service.writer.write import Step


@dataclass(frozen=True)
class NaiveExecute(Execute):
    """In production's place in a writer process of `service.bench.hand`."""

    async def __call__(self, tenant: UUID, proposal_id: UUID) -> bool:
        """Commit where the branch is where it was, say stale where it is not."""
        async with self.database.bound(tenant) as tx:
            row = await _approved(tx, proposal_id)
            if row is None:
                return True
            place = await self.storage.place(tx, row.repository)
            (await stand(tx, row.connection, row.repository)).check(wanted(row))
        plan = load_plan(row.plan)
        trailers = Trailers(proposal_id, committer_email(row.committer), row.connection, row.digest)
        commit = commit_naively(place.path, plan, row.objects, trailers, row.committer, self.step)
        if commit is None:
            stale = {"code": "stale", "ref": plan.effects[0].ref, "head": read_ref(place.path, plan.effects[0].ref)}
            return await self._end(tenant, proposal_id, "approved", "stale", stale)
        await self.database.repeat(tenant, lambda tx: self._record(tx, row, plan.effects[0], commit))
        self.step("recorded")
        return True

    async def recover(self, tenant: UUID, repository_id: UUID) -> bool:  # noqa: ARG002  as the real one
        """There is nothing to recover by."""
        return True

    async def _record(self, tx: Bound, row: Row[Any], move: MoveRef, commit: Oid) -> None:
        await tx.execute(
            ref_move.insert().values(
                tenant=row.tenant,
                id=uuid4(),
                repository=row.repository,
                ref=move.ref,
                old=move.old,
                new=commit,
                actor="writer",
                proposal=row.id,
            )
        )
        await self._close(tx, row.id, "approved", "executed", {"code": "executed", "commit": commit})


def commit_naively(
    repository: Path, plan: Plan, objects: bytes, trailers: Trailers, committer: bytes, step: Step
) -> Oid | None:
    """The Git part: look, then leap. Gives the commit, or None where the branch has moved."""
    ref = plan.effects[0].ref
    if read_ref(repository, ref) != plan.effects[0].old:
        return None
    step("compared")
    sealed = seal(plan, _now(committer), trailers)
    write_pack(repository, [*decode(objects), *sealed.commits])
    step("packed")
    _set_ref(repository / ref, sealed.moves[0].new)
    step("moved")
    return sealed.moves[0].new


async def _approved(tx: Bound, proposal_id: UUID) -> Row[Any] | None:
    found = await tx.execute(
        select(proposal, staging.c.objects, decision.c.committer, decision.c.person)
        .join(staging, (staging.c.tenant == proposal.c.tenant) & (staging.c.proposal == proposal.c.id))
        .join(decision, (decision.c.tenant == proposal.c.tenant) & (decision.c.proposal == proposal.c.id))
        .where(proposal.c.id == proposal_id, proposal.c.state == "approved")
    )
    return found.one_or_none()


def _now(committer: bytes) -> bytes:
    """The same person at this moment, by the clock of whoever writes."""
    return committer.rsplit(b" ", 2)[0] + b" %d +0000" % int(time.time())


def _set_ref(path: Path, commit: Oid) -> None:
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    write_new(new, commit.encode() + b"\n")
    new.rename(path)
    flush(path.parent)

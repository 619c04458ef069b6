"""The naive writer: what one would write first. It loses commits, and is here to show how many.

The tip is compared in Python, the ref is written without its old value, there is no marker and no lease. All else is
as in production: the same rights, the same objects in one pack, the same flushes, the same ledger.
"""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from service.contract.data import Oid
from service.proposals.decide import wanted
from service.proposals.execute import Execute
from service.proposals.planning import load_manifests, load_plan
from service.proposals.ports import Approved, Cause, Tx
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
        job = await self._job(tenant, proposal_id)
        if job is None:
            return True
        async with self.store.bound(tenant) as tx:
            approved = await tx.approved(proposal_id)
            if approved is None:
                return True
            stored = approved.proposal
            standing = await tx.stand(stored.proposer, stored.repository, approved.approver)
            plan = load_plan(stored.plan)
            standing.check(wanted(plan, load_manifests(stored.manifest)))
        move = plan.effects[0]
        commit = commit_naively(job.place.path, approved, int(time.time()), self.step)
        if commit is None:
            stale = {"code": "stale", "ref": move.ref, "head": job.git.read_ref(move.ref)}
            return await self._end(job, "approved", "stale", stale)

        async def record(tx: Tx) -> None:
            await self._close(tx, job, "approved", "executed", {"code": "executed", "commit": commit})
            moved = Cause(proposal_id, "writer", proposal=True)
            await tx.record_moves(moved, job.repository, [move.model_copy(update={"new": commit})])

        await self.store.repeat(tenant, record)
        self.step("recorded")
        return True

    async def recover(self, tenant: UUID, repository_id: UUID) -> bool:  # noqa: ARG002  as the real one
        """There is nothing to recover by."""
        return True


def commit_naively(repository: Path, approved: Approved, at: int, step: Step) -> Oid | None:
    """The Git part: look, then leap. Gives the commit, or None where the branch has moved.

    The committer's date is `at`, the clock of whoever writes, in seconds since 1970.
    """
    stored = approved.proposal
    plan = load_plan(stored.plan)
    ref = plan.effects[0].ref
    if read_ref(repository, ref) != plan.effects[0].old:
        return None
    step("compared")
    committer = approved.committer.rsplit(b" ", 2)[0] + b" %d +0000" % at
    trailers = Trailers(stored.id, committer_email(approved.committer), stored.connection, stored.digest)
    sealed = seal(plan, committer, trailers)
    write_pack(repository, [*decode(approved.objects), *sealed.commits])
    step("packed")
    _set_ref(repository / ref, sealed.moves[0].new)
    step("moved")
    return sealed.moves[0].new


def _set_ref(path: Path, commit: Oid) -> None:
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    write_new(new, commit.encode() + b"\n")
    new.rename(path)
    flush(path.parent)

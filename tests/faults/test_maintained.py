"""A writer that dies while it maintains a repository: the next one finishes, and nothing is missing."""

import anyio
import pytest
from sqlalchemy import func, select

from service.proposals.tables import work_queue
from service.repositories.lease import lease_file, marked
from service.repositories.maintenance import PACKS_MOST
from service.repositories.objects import staged
from service.repositories.packs import write_pack
from tests.faults.attack import Zygote
from tests.faults.step_faults import plan
from tests.faults.working import PATIENCE_SECONDS
from tests.stage import House, git

pytestmark = pytest.mark.anyio
FEW_PACKS = 3
MARKERS = 500


async def maintained(house: House) -> bool | None:
    """True when it is done and nobody is at it; None asks again."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        mine = work_queue.c.repository == house.repository
        left = await tx.scalar(select(func.count()).select_from(work_queue).where(mine))
    packs = len(list((house.path / "objects" / "pack").glob("*.idx")))
    return None if left or packs > FEW_PACKS or marked(lease_file(house.path)) else True


@pytest.mark.parametrize("last", ["repacked", "refs copied"])
async def test_after_a_kill_the_next_writer_maintains_and_every_ref_is_there(
    house: House, writers: Zygote, last: str
) -> None:
    for number in range(PACKS_MOST):
        write_pack(house.path, [staged("blob", b"%d\n" % number)])
    names = "".join(f"create refs/proposals/{number:08d} {house.head()}\n" for number in range(MARKERS))
    git(house.path, "update-ref", "--stdin", stdin=names.encode())
    shown = await house.propose()
    await house.decide(shown)
    planned = plan(house.stage.storage.root, shown["proposal_id"], last, "is killed")
    async with house.stage.waiter.running():
        with writers.working(house.stage.storage.root), anyio.fail_after(PATIENCE_SECONDS):
            assert await house.stage.waiter.until("", lambda: maintained(house), PATIENCE_SECONDS)
    assert not planned.exists()
    assert not list((house.path / "refs" / "proposals").iterdir())
    assert len(git(house.path, "for-each-ref", "refs/proposals").splitlines()) == MARKERS + 1
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""
    assert not [path for path in house.path.rglob("*") if path.name.endswith((".lock", ".new")) or "tmp_" in path.name]
    again = await house.decide(shown)
    assert (again.state, again.replayed, again.outcome["commit"]) == ("executed", True, house.head())

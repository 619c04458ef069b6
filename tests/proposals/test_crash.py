"""What an executor finds that a crash, a person's hand or a restored database left: one end, or nothing is touched."""

import pytest
from sqlalchemy import func, select, text

from service.grants.manage import change_state
from service.grants.tables import connection
from service.ledger.tables import ledger_entry
from service.proposals.execute import LEASE_SECONDS
from service.proposals.tables import proposal, work_queue
from service.repositories.lease import Lease
from tests.stage import House, git

pytestmark = pytest.mark.anyio


async def test_a_right_taken_after_the_approval_and_before_the_intent_ends_in_failed(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await change_state(tx, house.owner.actor, connection, house.agent.id, "revoked")
    before = house.head()
    await house.execute(shown)
    assert house.head() == before
    async with house.stage.owner_db.bound(house.tenant) as tx:
        row = (await tx.execute(select(proposal.c.state, proposal.c.outcome))).one()
    assert row.state == "failed"
    assert '"what":"connection"' in row.outcome


async def test_who_holds_the_lease_is_waited_for_and_nothing_is_lost(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    with Lease.acquire(house.path, LEASE_SECONDS):
        assert not await house.execute(shown)
    assert await house.execute(shown)
    assert (await house.read(shown))["status"] == "executed"


async def test_a_marker_that_somebody_else_made_moves_nothing_and_raises_the_alarm(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    before = house.head()
    git(house.path, "update-ref", f"refs/proposals/{shown['proposal_id']}", before)
    await house.execute(shown)
    assert house.head() == before
    assert (await house.read(shown))["status"] == "approved"
    async with house.stage.owner_db.bound(house.tenant) as tx:
        kinds = (await tx.execute(select(ledger_entry.c.kind))).scalars().all()
        due = work_queue.c.due > func.clock_timestamp() + text("interval '50 minutes'")
        later = select(func.count()).select_from(work_queue).where(due, work_queue.c.kind == "execute")
        assert await tx.scalar(later.where(work_queue.c.tenant == house.tenant)) == 1
    assert "writer.alarm" in kinds


async def test_a_database_older_than_git_believes_the_commit_that_speaks_of_its_proposal(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    await house.execute(shown)
    commit = house.head()
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(text("DELETE FROM intent"))
        await tx.execute(text("UPDATE proposal SET state = 'approved', outcome = NULL, ended_at = NULL"))
    await house.execute(shown)
    found = await house.read(shown)
    assert (found["status"], found["outcome"]["commit"], house.head()) == ("executed", commit, commit)

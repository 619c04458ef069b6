"""kill -9 of the writer after each of its steps: the next writer brings every proposal to its one end by itself."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from sqlalchemy import func, select, text

from service.contract.data import Json
from service.grants.manage import change_state, let_agents_propose
from service.grants.tables import connection
from service.ledger.tables import ledger_entry, ref_move
from service.proposals.execute import LEASE_SECONDS
from service.proposals.tables import proposal, work_queue
from service.repositories.lease import Lease, lease_file, marked
from tests.stage import House, git

pytestmark = pytest.mark.anyio
STEPS = ("leased", "intended", "compared", "packed", "locked", "verified", "staged", "marked", "moved", "recorded")
WRITER = Path(__file__).parent.parent / "dying_writer.py"
PATIENCE_SECONDS = 60


@contextmanager
def writer(house: House, url: str, last: str = "never", who: str = "executor") -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, str(WRITER), url, str(house.stage.storage.root), last, who])
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


async def ended(house: House, shown: Json) -> Json:
    """The proposal when it has ended; fails after a bounded wait."""
    with anyio.fail_after(PATIENCE_SECONDS):
        async with house.stage.waiter.running():
            while True:
                found = await house.own.read(shown["proposal_id"], 5)
                if found["status"] in {"executed", "stale", "failed"}:
                    return found


async def tidied(house: House) -> None:
    """The lease's mark is gone."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while marked(lease_file(house.path)):
            await anyio.to_thread.run_sync(os.sched_yield)


@pytest.mark.parametrize(("step", "who"), [*((step, "executor") for step in STEPS), ("marked", "writer")])
async def test_whoever_is_killed_after_a_step_leaves_one_commit_and_nothing_to_tidy(
    house: House, database_url: str, step: str, who: str
) -> None:
    before = house.head()
    shown = await house.propose()
    await house.decide(shown)
    with writer(house, database_url, step, who) as dying:
        if who == "writer":
            assert await anyio.to_thread.run_sync(dying.wait, PATIENCE_SECONDS) == -9
            with writer(house, database_url):
                found = await ended(house, shown)
                await tidied(house)
        else:
            found = await ended(house, shown)
            await tidied(house)
    assert (house.stage.storage.root / "died").exists()
    assert found["status"] == "executed"
    assert found["outcome"]["commit"] == house.head()
    assert git(house.path, "rev-list", "--count", f"{before}..main") == b"1\n"
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""
    assert not list(house.path.rglob("*.lock"))
    async with house.stage.owner_db.bound(house.tenant) as tx:
        entries = await tx.scalar(
            select(func.count()).select_from(ledger_entry).where(ledger_entry.c.kind == "proposal.executed")
        )
        moves = await tx.scalar(select(func.count()).select_from(ref_move))
        left = await tx.scalar(select(func.count()).select_from(work_queue).where(work_queue.c.tenant == house.tenant))
    assert (entries, moves, left) == (1, 1, 0)
    again = await house.decide(shown)
    assert (again.state, again.replayed, again.outcome["commit"]) == ("executed", True, house.head())


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


async def test_a_crash_between_intent_and_marker_checks_rights_again(house: House, database_url: str) -> None:
    shown = await house.propose()
    await house.decide(shown)
    before = house.head()
    with writer(house, database_url, "packed", "writer") as dying:
        await anyio.to_thread.run_sync(dying.wait, PATIENCE_SECONDS)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await let_agents_propose(tx, house.owner.actor, house.repository, on=False)
    with writer(house, database_url):
        found = await ended(house, shown)
    assert (found["status"], found["outcome"]["code"]) == ("failed", "proposals_off")
    assert house.head() == before


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

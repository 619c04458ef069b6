"""Every fault at every named step of an execution: the next writer brings it to its one end by itself."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from sqlalchemy import func, select

from service.contract.data import Json
from service.grants.manage import let_agents_propose
from service.kit.database import Database
from service.ledger.tables import ledger_entry
from service.repositories.lease import read_mark
from service.repositories.placement import Storage
from tests.faults.attack import Zygote
from tests.faults.oracle import Answer, judge
from tests.faults.sizes import SIZES, sampled
from tests.faults.step_faults import FAULTS, STEPS, plan
from tests.stage import House, Stage, git

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 60
LEASE_SECONDS = 2.0
EXECUTORS = 6
WAITING = frozenset({"approved", "executing"})
EVERY = [(step, fault) for step in STEPS for fault in FAULTS if fault != "is killed with the whole writer"]
TABLE = [EVERY[number - 1] for number in sampled(len(EVERY), SIZES.kill_points // 4)]


@dataclass
class Case:
    """An approved proposal whose writer has a fault planned."""

    house: House
    shown: Json
    planned: Path

    async def ended(self) -> Json:
        with anyio.fail_after(PATIENCE_SECONDS):
            while (found := await self.house.own.read(self.shown["proposal_id"], 5))["status"] in WAITING:
                pass
            assert await self.house.stage.waiter.until("", self._tidied, PATIENCE_SECONDS)
        return found

    async def _tidied(self) -> bool | None:
        """True when the lease has no mark; None asks again."""
        return None if read_mark(self.house.path) else True

    async def traces(self) -> tuple[bytes, int]:
        """All that an execution leaves: every ref, and how many entries there are."""
        async with self.house.stage.owner_db.bound(self.house.tenant) as tx:
            entries = await tx.scalar(select(func.count()).select_from(ledger_entry))
        return git(self.house.path, "for-each-ref"), entries


async def planned(stage: Stage, step: str, fault: str) -> Case:
    house = await stage.house()
    shown = await house.propose()
    await house.decide(shown)
    return Case(house, shown, plan(stage.storage.root, shown["proposal_id"], step, fault))


@pytest.fixture(scope="module")
async def cases(
    writers: Zygote,
    owner_db: Database,
    app_db: Database,
    writer_db: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[dict[tuple[str, str], Case]]:
    """One worker went through the whole table."""
    stage = Stage(owner_db, app_db, writer_db, Storage(tmp_path_factory.mktemp("repositories")))
    every = {entry: await planned(stage, *entry) for entry in TABLE}
    async with stage.waiter.running():
        with writers.working(stage.storage.root, EXECUTORS, LEASE_SECONDS):
            for case in every.values():
                await case.ended()
        yield every


@pytest.mark.parametrize(("step", "fault"), TABLE)
async def test_whatever_happens_at_a_step_ends_in_one_commit_and_once_more_changes_nothing(
    cases: dict[tuple[str, str], Case], step: str, fault: str
) -> None:
    case = cases[step, fault]
    assert not case.planned.exists()
    found = await case.ended()
    assert (found["status"], found["outcome"]["commit"]) == ("executed", case.house.head())
    await all_is_well(case)
    left = await case.traces()
    assert await case.house.execute(case.shown)
    again = await case.house.decide(case.shown)
    assert (again.state, again.replayed, again.outcome["commit"]) == ("executed", True, case.house.head())
    assert await case.traces() == left


async def all_is_well(case: Case) -> None:
    stage, told = case.house.stage, await case.house.read(case.shown)
    answer = Answer(UUID(case.shown["proposal_id"]), told["status"], told["outcome"].get("commit"))
    assert await judge(stage.owner_db, stage.storage, case.house.tenant, [answer]) == []


async def test_the_table_has_every_step_in_its_order(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    done: list[str] = []
    await house.execute(shown, done.append)
    assert done == list(STEPS)


async def test_the_whole_writer_may_be_killed_between_marker_and_branch(stage: Stage, writers: Zygote) -> None:
    case = await killed_with_its_writer(stage, writers, "marked")
    async with stage.waiter.running():
        with writers.working(stage.storage.root):
            assert (await case.ended())["status"] == "executed"
    await all_is_well(case)


async def test_a_crash_between_intent_and_marker_checks_rights_again(stage: Stage, writers: Zygote) -> None:
    case = await killed_with_its_writer(stage, writers, "packed")
    async with stage.owner_db.bound(case.house.tenant) as tx:
        await let_agents_propose(tx, case.house.owner.actor, case.house.repository, on=False)
    before = case.house.head()
    async with stage.waiter.running():
        with writers.working(stage.storage.root):
            found = await case.ended()
    assert (found["status"], found["outcome"]["code"], case.house.head()) == ("failed", "proposals_off", before)
    await all_is_well(case)


async def killed_with_its_writer(stage: Stage, writers: Zygote, step: str) -> Case:
    case = await planned(stage, step, "is killed with the whole writer")
    assert writers.work_to_death(stage.storage.root).status == -9
    assert not case.planned.exists()
    return case

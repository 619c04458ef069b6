"""A writer that dies with a signature made: whoever follows writes the same bytes."""

import pytest
from sqlalchemy import select

from service.contract.data import Json
from service.kit.actor import system
from service.proposals.tables import intent
from service.writer.keys import rotate_key
from tests.faults.attack import Zygote
from tests.faults.step_faults import plan
from tests.faults.working import Case
from tests.stage import SEALER, House
from tests.verifying import holds

pytestmark = pytest.mark.anyio


async def killed(house: House, writers: Zygote, step: str) -> Case:
    """An approved proposal of a house that signs, when its whole writer was killed after this step."""
    await house.sign()
    shown: Json = await house.propose()
    await house.decide(shown)
    root = house.stage.storage.root
    case = Case(house, shown, plan(root, shown["proposal_id"], step, "is killed with the whole writer"))
    assert writers.work_to_death(root).status == -9
    return case


@pytest.mark.parametrize("step", ["intended", "packed", "marked"])
async def test_a_writer_that_was_killed_is_followed_by_the_same_signed_commit(
    house: House, writers: Zygote, step: str
) -> None:
    case = await killed(house, writers, step)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        intended = await tx.scalar(select(intent.c.marker))
    async with house.stage.waiter.running():
        with writers.working(house.stage.storage.root):
            found = await case.ended()
    assert (found["status"], found["outcome"]["commit"], house.head()) == ("executed", intended, intended)
    assert holds(house.path, intended, await house.signers())


async def test_what_had_reached_its_marker_is_finished_as_it_was_signed_whatever_became_of_the_key(
    house: House, writers: Zygote
) -> None:
    case = await killed(house, writers, "marked")
    old = await house.signers()
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await rotate_key(tx, system(house.tenant), SEALER)
    assert await house.execute(case.shown, sealer=None)
    assert (await house.read(case.shown))["status"] == "executed"
    assert holds(house.path, house.head(), old)
    assert holds(house.path, house.head(), await house.signers())

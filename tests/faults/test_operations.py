"""Every operation under the same attack: kill -9 and a refusing disk at the system calls of its execution."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from service.contract.operation import Example, Operation
from service.repositories.placement import Storage
from tests.faults.attack import Call, Zygote, calls_in, kill_at, refuse_at, why_not
from tests.faults.sizes import SIZES, sampled
from tests.faults.trial import Tally, Trial, to_the_lease
from tests.proposals.history import make_history
from tests.proposals.scenes import filled
from tests.stage import REGISTRY, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(why_not()), reason=why_not())]
EVERY = list(REGISTRY.operations().values())
OPERATIONS = [EVERY[number - 1] for number in sampled(len(EVERY), SIZES.operations)]
ERRORS = ("ENOSPC", "EIO", "EROFS")


def richest(operation: Operation[Any]) -> Example[Any]:
    """The example of which most refs and files come: where most can go wrong."""
    landing = [one for one in operation.examples() if not one.blocked]
    return max(landing, key=lambda one: (len(one.after), len(one.commits), len(one.warnings)))


async def staged(stage: Stage, operation: Operation[Any]) -> Trial:
    """A house with the example's repository and its approved proposal, in a storage of its own."""
    example = richest(operation)
    own = replace(stage, storage=Storage(stage.storage.root / uuid4().hex))
    house = await own.house(files=None)
    shutil.rmtree(house.path)
    names = make_history(house.path, example.commits, example.refs)
    arguments = {"repository_id": str(house.repository), **filled(example, names, dict(example.arguments))}
    arguments.setdefault("reason", "Because it was asked.")
    shown = await house.propose(arguments, tool=operation.kind)
    await house.decide(shown)
    return Trial(house, shown, None)


async def counted(stage: Stage, writers: Zygote, operation: Operation[Any], log: Path) -> list[Call]:
    trial = await staged(stage, operation)
    assert writers.run("execute", trial.house, trial.ids, log=log).status == 0
    assert await trial.faults() == []
    return to_the_lease(calls_in(log))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.kind)
async def test_killed_or_refused_at_any_system_call_an_operation_is_executed_once(
    stage: Stage, writers: Zygote, tmp_path: Path, operation: Operation[Any]
) -> None:
    tally = Tally()
    calls = await counted(stage, writers, operation, tmp_path / "log")
    for number in sampled(len(calls), SIZES.operation_points):
        call, error = calls[number - 1], ERRORS[number % len(ERRORS)]
        for fault, status in ((kill_at(call), -9), (refuse_at(call, error), 0)):
            trial = await staged(stage, operation)
            died = writers.run("persist" if status == 0 else "execute", trial.house, trial.ids, fault)
            assert died.status in {status, 1}, f"{fault} was not reached"
            recovered = writers.run("recover", trial.house, trial.ids)
            await tally.add(f"{operation.kind}, {fault}", trial, recovered.seconds)
    assert not tally.wrong, "\n".join(tally.wrong)

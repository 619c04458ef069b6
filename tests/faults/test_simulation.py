"""Whole lives played from seeds: no interleaving, crash, lost answer or jump of the clock breaks a promise."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from service.contract.data import NULL
from service.proposals import decide, execute
from service.writer.reconcile import Fate
from tests.faults.simulation import database, disk
from tests.faults.simulation.play import STORM, Play
from tests.faults.simulation.schedule import Schedule
from tests.faults.sizes import SIZES

EACH = 250
"""Lifecycles of one seed."""
SEEDS = range(1, SIZES.lifecycles // EACH + 1)
MUTANT_SEEDS = range(1, 41)
HURRICANE = replace(STORM, killed=0.02, power=0.003)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A storm has much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_promise_is_broken_by_any_seed() -> None:
    ends: Counter[str] = Counter()
    for seed in SEEDS:
        played = Play(seed, EACH).run()
        again = f"python -m tests.faults.simulation {seed} {EACH}"
        assert not played.broken, f"seed {seed}: {played.broken}; to see it again: {again}"
        ends += played.ends
    wanted = {"executed", "stale", "failed", "declined", "cancelled", "expired", "pushed", "killed", "parts", "partly"}
    assert wanted <= ends.keys(), ends


def test_a_seed_plays_the_same_again() -> None:
    first, second = (Play(7, 60).run() for _ in range(2))
    assert (first.schedule.steps, first.ends, first.schedule.now) == (
        second.schedule.steps,
        second.ends,
        second.schedule.now,
    )


Sabotage = Callable[[pytest.MonkeyPatch], None]


def _refs_before_the_marker(patch: pytest.MonkeyPatch) -> None:
    def write(git: Any, plan: Any, reviewed: Any, objects: Any, intent: Any, _step: Any) -> None:
        git.write_pack([*objects, *intent.commits])
        steps = git.ref_steps(intent.marker, intent.moves)
        try:
            steps.lock()
            steps.verify()
            steps.stage()
            for one in steps.moves:
                steps._rename(one)
            steps._flush([one.ref for one in steps.moves])
            steps.commit_marker()
        finally:
            steps.abort()

    patch.setattr(execute, "write", write)


def _nothing_is_ever_found(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execute, "reconcile", lambda *_: Fate.ABSENT)


def _what_is_marked_is_believed(patch: pytest.MonkeyPatch) -> None:
    def reconcile(git: Any, _objects: Any, intent: Any) -> Fate:
        return Fate.LANDED if git.read_ref(intent.marker[0]) != NULL else Fate.ABSENT

    patch.setattr(execute, "reconcile", reconcile)


def _rights_are_not_held(patch: pytest.MonkeyPatch) -> None:
    hold = database.PlayedTx.hold

    def only_others(self: database.PlayedTx, *key: Any, mode: str = "update") -> None:
        if mode != "share":
            hold(self, *key)

    patch.setattr(database.PlayedTx, "hold", only_others)


def _nothing_is_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execute, "write", lambda *_: None)


def _old_values_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(disk.PlayedSteps, "verify", lambda _self: None)
    patch.setattr(execute, "broken_pin", lambda *_: None)


def _leftover_locks_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(disk.PlayedRepository, "remove_leftovers", lambda _self: ())


def _nobody_holds_the_lease(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def lease(self: disk.PlayedRepository, _seconds: float) -> Iterator[disk.PlayedLease]:
        self.point()
        yield disk.PlayedLease(self)

    patch.setattr(disk.PlayedRepository, "lease", lease)


def _journals_are_recorded_and_not_finished(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execute, "finish", lambda *_: None)


def _states_are_not_guarded(patch: pytest.MonkeyPatch) -> None:
    change = database.PlayedTx.change

    async def unguarded(self: database.PlayedTx, what: Any) -> bool:
        await change(self, what)
        row = self.get("proposal", what.proposal)
        self.put(("proposal", what.proposal), replace(row, stored=replace(row.stored, state=what.target)))
        return True

    patch.setattr(database.PlayedTx, "change", unguarded)


def _parts_outlive_the_whole(patch: pytest.MonkeyPatch) -> None:
    async def none(self: database.PlayedTx, _proposal: Any) -> tuple[()]:
        self.statement()
        return ()

    patch.setattr(database.PlayedTx, "parts", none)


def _the_rest_is_not_declined(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> None:
        return None

    patch.setattr(decide, "decline_rest", nothing)


MUTANTS: tuple[Sabotage, ...] = (
    _refs_before_the_marker,
    _nothing_is_ever_found,
    _what_is_marked_is_believed,
    _rights_are_not_held,
    _nothing_is_written,
    _old_values_are_not_compared,
    _leftover_locks_stay,
    _nobody_holds_the_lease,
    _journals_are_recorded_and_not_finished,
    _states_are_not_guarded,
    _parts_outlive_the_whole,
    _the_rest_is_not_declined,
)


@pytest.mark.parametrize("sabotage", MUTANTS, ids=lambda one: one.__name__.strip("_"))
def test_a_mistake_in_the_protocol_is_found(monkeypatch: pytest.MonkeyPatch, sabotage: Sabotage) -> None:
    sabotage(monkeypatch)
    assert any(Play(seed, 100, HURRICANE).run().broken for seed in MUTANT_SEEDS)


def test_an_actor_that_fails_ends_the_run() -> None:
    schedule = Schedule(1)
    process = database.Process("anybody")

    def fail() -> None:
        raise RuntimeError("no")

    schedule.start(process, fail)
    schedule.run(lambda: True, lambda: None)
    assert schedule.broken

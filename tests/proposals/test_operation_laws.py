"""Laws over every operation's examples: what is planned is pinned, shown, the same twice, and what happens."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from service.contract.data import NULL, Entry, Json
from service.contract.names import quote_path
from service.contract.operation import Example, Operation
from service.contract.plan import Blocked, Manifest, MoveRef, Note, Plan, ReviewCard
from service.contract.world import NotPinned
from service.kit.errors import Refusal
from service.proposals.planning import (
    Planned,
    load_card,
    load_manifests,
    load_pins,
    load_plan,
    plan_proposal,
)
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.writer.intent import seal
from service.writer.provenance import Trailers
from service.writer.write import ManifestDiffers, write
from tests.stage import REGISTRY, git, make_repository

AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"
COMMITTER = b"Olive Owner <olive@example.org> 1700000100 +0000"
PROPOSAL = UUID("3b0e2c9a-7a55-4f0e-9f4e-6f1d2f9b1c11")
CASES = [(operation, example) for operation in REGISTRY.operations().values() for example in operation.examples()]
LANDING = [case for case in CASES if not case[1].blocked]
BLOCKED = [case for case in CASES if case[1].blocked]


def ids(value: Any) -> str | None:
    return value.name if isinstance(value, Example) else getattr(value, "kind", None)


@dataclass
class Scene:
    """An example's repository, its request, and the plan made on it."""

    repository: Path
    operation: Operation[Any]
    request: Any

    def planned(self, proposal: UUID = PROPOSAL) -> Planned:
        deadline = time.monotonic() + 30
        return plan_proposal(self.repository, self.operation, self.request, proposal, AUTHOR, deadline)


def scene(tmp_path: Path, operation: Operation[Any], example: Example[Any]) -> Scene:
    repository = tmp_path / "r.git"
    files = None if example.files is None else {name: text.encode() for name, text in example.files.items()}
    make_repository(repository, files)
    arguments = filled(example.arguments, repository)
    request = operation.request.model_validate({"repository_id": str(uuid4()), **arguments})
    return Scene(repository, operation, request)


def filled(value: Any, repository: Path) -> Any:
    """Replace `{blob:PATH}` and `{base}` by what they are in this repository."""
    if isinstance(value, dict):
        return {name: filled(inner, repository) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, repository) for inner in value]
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        name = value[1:-1]
        revision = f"main:{name.removeprefix('blob:')}" if name.startswith("blob:") else "main"
        return git(repository, "rev-parse", revision).decode().strip()
    return value


@pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
def test_every_example_lands_as_it_says(tmp_path: Path, operation: Operation[Any], example: Example[Any]) -> None:
    here = scene(tmp_path, operation, example)
    planned = here.planned()
    assert tuple(note.code for note in load_card(planned.card).warnings) == example.warnings
    execute(here, planned)
    assert tree(here.repository) == {name: text.encode() for name, text in example.after.items()}
    for name, mode in example.modes.items():
        assert git(here.repository, "ls-tree", "main", name).startswith(f"{mode:o} ".encode())
    assert git(here.repository, "fsck", "--strict", "--no-dangling") == b""


@pytest.mark.parametrize(("operation", "example"), BLOCKED, ids=ids)
def test_every_blocked_example_is_refused_with_its_code(
    tmp_path: Path, operation: Operation[Any], example: Example[Any]
) -> None:
    here = scene(tmp_path, operation, example)
    before = git(here.repository, "count-objects", "-v")
    with pytest.raises(Refusal) as caught:
        here.planned()
    assert caught.value.code.value.name == example.blocked
    assert git(here.repository, "count-objects", "-v") == before


@pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
def test_planning_twice_gives_the_same_bytes(tmp_path: Path, operation: Operation[Any], example: Example[Any]) -> None:
    here = scene(tmp_path, operation, example)
    assert here.planned() == here.planned()


@pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
def test_the_card_shows_every_path_and_every_ref_that_the_plan_touches(
    tmp_path: Path, operation: Operation[Any], example: Example[Any]
) -> None:
    planned = scene(tmp_path, operation, example).planned()
    missing = not_shown(load_plan(planned.plan), load_card(planned.card), load_manifests(planned.manifest))
    assert missing == set()


@pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
def test_every_ref_that_moves_is_pinned_where_the_plan_moves_it_from(
    tmp_path: Path, operation: Operation[Any], example: Example[Any]
) -> None:
    planned = scene(tmp_path, operation, example).planned()
    pinned = {pin.fact.name: pin.seen for pin in load_pins(planned.pins)}
    for move in load_plan(planned.plan).effects:
        assert pinned.get(move.ref) == move.old
        assert move.old != move.new


@pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
def test_policy_sees_what_the_plan_touches_before_anything_is_read(
    tmp_path: Path, operation: Operation[Any], example: Example[Any]
) -> None:
    here = scene(tmp_path, operation, example)
    planned = here.planned()
    refs, paths = operation.targets(here.request)
    assert set(planned.refs) <= set(refs)
    assert set(planned.paths) <= set(paths)


@pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
def test_the_stored_request_reads_back_equal(tmp_path: Path, operation: Operation[Any], example: Example[Any]) -> None:
    here = scene(tmp_path, operation, example)
    stored = json.loads(json.dumps(here.request.model_dump(mode="json")))
    assert operation.request.model_validate(stored) == here.request


@pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
def test_the_digest_is_another_for_another_proposal_request_or_base(
    tmp_path: Path, operation: Operation[Any], example: Example[Any]
) -> None:
    here = scene(tmp_path, operation, example)
    digests = {here.planned().digest, here.planned(uuid4()).digest}
    here.request = here.request.model_copy(update={"reason": "Another reason."})
    digests.add(here.planned().digest)
    assert len(digests) == 3


@pytest.mark.parametrize(("operation", "example"), CASES, ids=ids)
def test_a_request_with_a_field_nobody_knows_is_refused(
    tmp_path: Path, operation: Operation[Any], example: Example[Any]
) -> None:
    here = scene(tmp_path, operation, example)
    sent: Json = {**here.request.model_dump(mode="json"), "interactive": True}
    with pytest.raises(ValueError, match="interactive"):
        operation.request.model_validate(sent)


class Mutant:
    """An operation with one mistake."""

    def __init__(self, operation: Operation[Any]) -> None:
        self._operation = operation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)


class HidesAFile(Mutant):
    def review_card(self, request: Any, world: Any, plan: Plan) -> ReviewCard:
        card = self._operation.review_card(request, world, plan)
        return card.model_copy(update={"sections": tuple(
            section.model_copy(update={"notes": section.notes[1:]}) for section in card.sections)})  # fmt: skip


class HidesTheBranch(Mutant):
    def review_card(self, request: Any, world: Any, plan: Plan) -> ReviewCard:
        card = self._operation.review_card(request, world, plan)
        return card.model_copy(update={"headline": Note(code="files_change")})


class ForgetsAWarning(Mutant):
    def review_card(self, request: Any, world: Any, plan: Plan) -> ReviewCard:
        return self._operation.review_card(request, world, plan).model_copy(update={"warnings": ()})


class PinsAnotherBranch(Mutant):
    def pins(self, request: Any, seen: Any) -> Any:
        needs = self._operation.pins(request, seen)
        other = needs[0].fact.model_copy(update={"name": "refs/heads/other"})
        return (needs[0].model_copy(update={"fact": other}), *needs[1:])


class MovesAnotherBranchToo(Mutant):
    def plan(self, request: Any, world: Any) -> Any:
        plan = self._operation.plan(request, world)
        if isinstance(plan, Blocked):
            return plan
        other = plan.effects[0].model_copy(update={"ref": "refs/heads/other", "old": NULL})
        return plan.model_copy(update={"effects": (*plan.effects, other)})


class WritesSomethingElse(Mutant):
    def plan(self, request: Any, world: Any) -> Any:
        plan = self._operation.plan(request, world)
        if isinstance(plan, Blocked):
            return plan
        extra = {b"backdoor.sh": Entry(mode=0o100755, oid=world.store.put(b"#!/bin/sh\n"))}
        commit = world.store.draft(plan.build[0].parents, world.store.edit(plan.build[0].tree, extra), b"x")
        move = plan.effects[0].model_copy(update={"new": commit.id})
        return plan.model_copy(update={"build": (commit,), "effects": (move,)})


class DoesNothing(Mutant):
    def plan(self, request: Any, world: Any) -> Any:
        plan = self._operation.plan(request, world)
        if isinstance(plan, Blocked) or not plan.build[0].parents:
            return plan
        base = world.store.commit(plan.build[0].parents[0])
        commit = world.store.draft(plan.build[0].parents, base.tree, plan.build[0].message)
        move = plan.effects[0].model_copy(update={"new": commit.id})
        return plan.model_copy(update={"build": (commit,), "effects": (move,)})


class PlansByTheClock(Mutant):
    def plan(self, request: Any, world: Any) -> Any:
        plan = self._operation.plan(request, world)
        if isinstance(plan, Blocked):
            return plan
        message = b"%d" % time.monotonic_ns()
        commit = world.store.draft(plan.build[0].parents, plan.build[0].tree, message)
        move = plan.effects[0].model_copy(update={"new": commit.id})
        return plan.model_copy(update={"build": (commit,), "effects": (move,)})


class TellsPolicyTooLittle(Mutant):
    def targets(self, request: Any) -> Any:
        refs, _ = self._operation.targets(request)
        return refs, ()


class BlocksNothing(Mutant):
    def plan(self, request: Any, world: Any) -> Any:
        plan = self._operation.plan(request, world)
        if not isinstance(plan, Blocked):
            return plan
        base = world.ref(request.ref)
        commit = world.store.draft((base,), world.store.commit(base).tree, request.message.encode())
        return Plan(kinds=(self.kind,), build=(commit,), effects=(MoveRef(ref=request.ref, old=base, new=commit.id),))


MUTANTS = (
    HidesAFile, HidesTheBranch, ForgetsAWarning, PinsAnotherBranch, MovesAnotherBranchToo, WritesSomethingElse,
    DoesNothing, PlansByTheClock, TellsPolicyTooLittle, BlocksNothing,
)  # fmt: skip
LAWS_OF_WHAT_LANDS = (
    test_every_example_lands_as_it_says,
    test_planning_twice_gives_the_same_bytes,
    test_the_card_shows_every_path_and_every_ref_that_the_plan_touches,
    test_every_ref_that_moves_is_pinned_where_the_plan_moves_it_from,
    test_policy_sees_what_the_plan_touches_before_anything_is_read,
)


@pytest.mark.parametrize("mutant", [Mutant, *MUTANTS])
@pytest.mark.parametrize("operation", list(REGISTRY.operations().values()), ids=ids)
def test_a_seeded_mistake_breaks_a_law_and_no_mistake_breaks_none(
    tmp_path: Path, operation: Operation[Any], mutant: type[Mutant]
) -> None:
    broken: Any = mutant(operation)
    laws = [(law, one) for one in operation.examples() if not one.blocked for law in LAWS_OF_WHAT_LANDS]
    laws += [(test_every_blocked_example_is_refused_with_its_code, one) for one in operation.examples() if one.blocked]
    caught = any(breaks(law, tmp_path / str(number), broken, one) for number, (law, one) in enumerate(laws))
    assert caught == (mutant is not Mutant)


def breaks(law: Any, folder: Path, operation: Operation[Any], example: Example[Any]) -> bool:
    try:
        law(folder, operation, example)
    except (AssertionError, NotPinned, Refusal, pytest.fail.Exception, ManifestDiffers):
        return True
    return False


def not_shown(plan: Plan, card: ReviewCard, manifests: tuple[Manifest, ...]) -> set[str]:
    """What the plan touches and the card does not name."""
    notes = [note for section in card.sections for note in section.notes]
    named = {note.at for note in notes} | {str(note.params.get("old_path")) for note in notes}
    words = {card.headline.at, *map(str, card.headline.params.values())}
    paths = {quote_path(line.path) for manifest in manifests for line in manifest.lines}
    refs = {move.ref for move in plan.effects if not words & {move.ref, move.ref.removeprefix("refs/heads/")}}
    return (paths - named) | refs


def execute(here: Scene, planned: Planned) -> None:
    plan = load_plan(planned.plan)
    sealed = seal(plan, COMMITTER, Trailers(PROPOSAL, "olive@example.org", UUID(int=1), planned.digest))
    reviewed = load_manifests(planned.manifest)
    write(BareRepository(here.repository), plan, reviewed, decode(planned.objects), sealed, lambda _name: None)
    assert sealed.marker[1] != NULL


def tree(repository: Path) -> dict[str, bytes]:
    names = git(repository, "ls-tree", "-r", "-z", "--name-only", "main").split(b"\0")
    return {name.decode(): git(repository, "cat-file", "blob", f"main:{name.decode()}") for name in names if name}

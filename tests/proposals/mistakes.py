"""Mistakes that an operation can have, each one put into whichever operation is given.

`matters` says whether it makes a difference to what an example plans; `breaks` names the law that is likely to notice.
"""

# ruff: noqa: ARG002, ARG005  a mistake disregards what it is given
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from pydantic import ConfigDict

from service.contract.data import NULL, Entry, Oid
from service.contract.operation import Operation
from service.contract.plan import Blocked, MoveRef, NewCommit, Note, Plan, RefAt, ReviewCard, Wish
from service.contract.refs import short_name
from service.contract.world import World
from tests.proposals.scenes import Case, coming, leaving

OTHER = "refs/heads/some-other"


class Mistake:
    """An operation with one mistake."""

    of_blocked: ClassVar[bool] = False
    breaks: ClassVar[str] = ""

    def __init__(self, operation: Operation[Any]) -> None:
        self.right = operation

    def __getattr__(self, name: str) -> Any:
        return getattr(self.right, name)

    @staticmethod
    def matters(_case: Case) -> bool:
        return True


class Misplans(Mistake):
    """Its plan is spoiled. Where it has no card for such a plan, it shows that of the right one."""

    def plan(self, request: Any, world: World) -> Plan | Blocked:
        plan = self.right.plan(request, world)
        return plan if isinstance(plan, Blocked) else self.spoil(plan, world)

    def review_card(self, request: Any, world: World, plan: Plan) -> ReviewCard:
        try:
            return self.right.review_card(request, world, plan)
        except Exception:  # noqa: BLE001  whatever it makes of a plan that it never makes
            right = self.right.plan(request, world)
            assert isinstance(right, Plan)
            return self.right.review_card(request, world, right)

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        raise NotImplementedError


class Misshows(Mistake):
    """Its card is spoiled."""

    def review_card(self, request: Any, world: World, plan: Plan) -> ReviewCard:
        return self.spoil(self.right.review_card(request, world, plan), plan)

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        raise NotImplementedError


class HidesAFile(Misshows):
    breaks = "test_the_card_shows_every_path_that_changes_and_what_becomes_of_it"

    @staticmethod
    def matters(case: Case) -> bool:
        return any(section.code == "files" and section.notes for section in case.card.sections)

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        hidden = next(note.at for section in card.sections if section.code == "files" for note in section.notes)
        return sections(card, lambda code, note: hidden not in (note.at, note.params.get("old_path")))


class ShowsAnotherContent(Misshows):
    breaks = "test_the_card_shows_every_path_that_changes_and_what_becomes_of_it"

    @staticmethod
    def matters(case: Case) -> bool:
        return any(section.code == "files" and "sha256" in note.params
                   for section in case.card.sections for note in section.notes)  # fmt: skip

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        return mapped(card, lambda value: "0" * len(value) if is_hash(value) else value)


class HidesARef(Misshows):
    breaks = "test_the_card_names_every_ref_that_moves"

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        ref = plan.effects[0].ref
        return mapped(card, lambda value: "" if value in (ref, short_name(ref)) else value)


class HidesACommit(Misshows):
    breaks = "test_the_card_shows_every_commit_that_comes_or_leaves"

    @staticmethod
    def matters(case: Case) -> bool:
        return bool(coming(case) | leaving(case)) or len(case.plan.commits) > 1

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        less = sections(card, lambda code, note: code in {"files", "steps"})
        return less.model_copy(update={"headline": spoilt(less.headline, lambda value: uncounted(value, plan))})


class ForgetsTheWarnings(Misshows):
    breaks = "test_every_example_lands_as_it_says"

    @staticmethod
    def matters(case: Case) -> bool:
        return bool(case.card.warnings)

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        return card.model_copy(update={"warnings": ()})


class ForgetsToAskForConfirmation(Misshows):
    breaks = "test_a_move_that_is_not_forward_is_warned_of_and_a_rewrite_is_confirmed"

    @staticmethod
    def matters(case: Case) -> bool:
        rewrites = (NULL not in (move.old, move.new) and not case.store().contains(move.new, move.old)
                    for move in case.plan.effects)  # fmt: skip
        return any(rewrites)

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        bare = (note.model_copy(update={"params": without(note.params, "confirm")}) for note in card.warnings)
        return card.model_copy(update={"warnings": tuple(bare)})


class ShowsTheClock(Misshows):
    breaks = "test_planning_twice_gives_the_same_bytes_and_writes_nothing"

    def spoil(self, card: ReviewCard, plan: Plan) -> ReviewCard:
        late = Note(code=card.headline.code, at=card.headline.at, params={**card.headline.params, "ns": clock()})
        return card.model_copy(update={"headline": late})


class PinsAnotherRef(Mistake):
    def pins(self, request: Any, seen: Any) -> Any:
        refs = self.right.targets(request)[0]
        return tuple(
            need.model_copy(update={"fact": RefAt(name=OTHER)}) if need.fact.name in refs else need
            for need in self.right.pins(request, seen)
        )


class PinsNothing(Mistake):
    def pins(self, request: Any, seen: Any) -> Any:
        return ()


class PinsLoosely(Mistake):
    """A ref that moves is pinned only to go on from where it was."""

    def pins(self, request: Any, seen: Any) -> Any:
        return tuple(
            need.model_copy(update={"fact": need.fact.model_copy(update={"hold": "contains"})})
            for need in self.right.pins(request, seen)
        )


class MovesAnotherBranchToo(Misplans):
    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        new = next((move.new for move in plan.effects if move.new != NULL), plan.effects[0].old)
        return plan.model_copy(update={"effects": (*plan.effects, MoveRef(ref=OTHER, old=NULL, new=new))})


class MovesFromElsewhere(Misplans):
    """It takes the ref to be at the parent of where it is, or of where it goes."""

    @staticmethod
    def matters(case: Case) -> bool:
        return parent_of(case.plan.effects[0], case.store()) is not None

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        first = plan.effects[0].model_copy(update={"old": parent_of(plan.effects[0], world.store)})
        return plan.model_copy(update={"effects": (first, *plan.effects[1:])})


class MovesElsewhere(Misplans):
    """It moves the ref to the parent of where it should."""

    breaks = "test_every_example_lands_as_it_says"

    @staticmethod
    def matters(case: Case) -> bool:
        return elsewhere(case.plan, case.store()) is not None

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        number, move = elsewhere(plan, world.store) or (0, plan.effects[0])
        return replaced(plan, number, move.new)


class LeavesAMoveOut(Misplans):
    breaks = "test_every_example_lands_as_it_says"

    @staticmethod
    def matters(case: Case) -> bool:
        return len(case.plan.effects) > 1

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        return plan.model_copy(update={"effects": plan.effects[1:]})


class WritesSomethingElse(Misplans):
    breaks = "test_every_example_lands_as_it_says"

    @staticmethod
    def matters(case: Case) -> bool:
        return commit_made(case.plan, case.store()) is not None

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        number, tip = commit_made(plan, world.store) or (0, NULL)
        commit = world.store.commit(tip)
        backdoor = {b"backdoor.sh": Entry(mode=0o100755, oid=world.store.put(b"#!/bin/sh\n"))}
        new = world.store.draft(commit.parents, world.store.edit(commit.tree, backdoor), commit.message)
        return replaced(plan.model_copy(update={"build": (*plan.build, new)}), number, new.id)


class DoesNothing(Misplans):
    """The commit is there and changes nothing."""

    breaks = "test_every_example_lands_as_it_says"

    @staticmethod
    def matters(case: Case) -> bool:
        return changes_files(case.plan, case.store()) is not None

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        number, move = changes_files(plan, world.store) or (0, plan.effects[0])
        new = world.store.draft((move.old,), world.store.commit(move.old).tree, b"x")
        return replaced(plan.model_copy(update={"build": (*plan.build, new)}), number, new.id)


class PlansByTheClock(Misplans):
    breaks = "test_planning_twice_gives_the_same_bytes_and_writes_nothing"

    @staticmethod
    def matters(case: Case) -> bool:
        return bool(case.plan.commits)

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        return rebuilt(plan, world, message=b"%d" % clock())


class DropsAParent(Misplans):
    """The history that the branch had is not below the new commit."""

    breaks = "test_a_move_that_is_not_forward_is_warned_of_and_a_rewrite_is_confirmed"

    @staticmethod
    def matters(case: Case) -> bool:
        return any(new.parents for new in case.plan.commits)

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        place = next(number for number, new in enumerate(plan.build) if isinstance(new, NewCommit) and new.parents)
        return rebuilt(plan, world, place, parents=plan.commits[plan.commits.index(plan.build[place])].parents[1:])


class ChangesTheAuthor(Misplans):
    breaks = "test_every_commit_is_by_the_proposer_or_by_whose_commit_it_repeats"

    @staticmethod
    def matters(case: Case) -> bool:
        return bool(case.plan.commits)

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        return rebuilt(plan, world, author=b"Mallory <mallory@example.org> 1 +0000")


class ChangesTheMessage(Misplans):
    breaks = "test_every_commit_is_by_the_proposer_or_by_whose_commit_it_repeats"

    @staticmethod
    def matters(case: Case) -> bool:
        return any(new.replays for new in case.plan.commits)

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        return rebuilt(plan, world, message=b"Another message")


class ComesAsAnotherKind(Misplans):
    breaks = "test_policy_sees_what_the_plan_touches_before_anything_is_read"

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        return plan.model_copy(update={"kinds": ("propose_nothing",)})


class SaysWhatIsKept(Misplans):
    """It says of itself whether old values are to be kept, and wrongly. No mistake: nobody asks it."""

    def spoil(self, plan: Plan, world: World) -> Plan | Blocked:
        return plan.model_copy(update={"restorable": not plan.restorable})


class TellsPolicyNoRef(Mistake):
    breaks = "test_policy_sees_what_the_plan_touches_before_anything_is_read"

    def targets(self, request: Any) -> Any:
        refs, paths = self.right.targets(request)
        return refs[1:], paths


class TellsPolicyAPathLess(Mistake):
    breaks = "test_policy_sees_what_the_plan_touches_before_anything_is_read"

    @staticmethod
    def matters(case: Case) -> bool:
        paths = case.operation.targets(case.request)[1]
        return len(paths) > 1 and paths[0] in case.planned.paths

    def targets(self, request: Any) -> Any:
        refs, paths = self.right.targets(request)
        return refs, paths[1:]


class BlocksEverything(Mistake):
    def plan(self, request: Any, world: World) -> Plan | Blocked:
        return Blocked(blockers=(Note(code="nothing_to_change"),))


class BlocksNothing(Mistake):
    """Where it has to say no, it makes up a plan."""

    of_blocked = True

    def plan(self, request: Any, world: World) -> Plan | Blocked:
        plan = self.right.plan(request, world)
        if not isinstance(plan, Blocked):
            return plan
        ref, old = next((fact.name, value) for fact, value in world.seen.items() if not fact.name.endswith("/"))
        new = world.store.draft((), world.store.edit(None, {}), b"x")
        return Plan(kinds=(self.right.kind,), build=(new,), effects=(MoveRef(ref=ref, old=old, new=new.id),))

    def review_card(self, request: Any, world: World, plan: Plan) -> ReviewCard:
        return ReviewCard(headline=Note(code="x"), agent_words={"reason": "x"}, sections=(), warnings=())


class SaysAnotherReason(Mistake):
    of_blocked = True

    def plan(self, request: Any, world: World) -> Plan | Blocked:
        plan = self.right.plan(request, world)
        return Blocked(blockers=(Note(code="out_of_time"),)) if isinstance(plan, Blocked) else plan


class AcceptsAnything(Mistake):
    breaks = "test_a_request_with_a_field_nobody_knows_is_refused"

    def __init__(self, operation: Operation[Any]) -> None:
        super().__init__(operation)
        self.request = type("Loose", (operation.request,), {"model_config": ConfigDict(extra="ignore")})


class UndoesNothing(Mistake):
    breaks = "test_undoing_brings_every_file_back"

    def undo(self, outcome: Any) -> Wish | None:
        return None


class UndoesSomethingElse(Mistake):
    """What it wishes to take back is not what was done."""

    breaks = "test_undoing_brings_every_file_back"

    def undo(self, outcome: Any) -> Wish | None:
        wish = self.right.undo(outcome)
        return wish and wish.model_copy(update={"arguments": other(wish.arguments)})


MISTAKES: tuple[type[Mistake], ...] = (
    HidesAFile, ShowsAnotherContent, HidesARef, HidesACommit, ForgetsTheWarnings, ForgetsToAskForConfirmation,
    ShowsTheClock, PinsAnotherRef, PinsNothing, PinsLoosely, MovesAnotherBranchToo, MovesFromElsewhere, MovesElsewhere,
    LeavesAMoveOut, WritesSomethingElse, DoesNothing, PlansByTheClock, DropsAParent, ChangesTheAuthor,
    ChangesTheMessage, ComesAsAnotherKind, TellsPolicyNoRef, TellsPolicyAPathLess, BlocksEverything, BlocksNothing,
    SaysAnotherReason, AcceptsAnything, UndoesNothing, UndoesSomethingElse,
)  # fmt: skip


def clock() -> int:
    return time.monotonic_ns() % 2**52


def other(value: Any) -> Any:
    """The arguments with every text and number another one."""
    if isinstance(value, dict):
        return {name: other(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [other(inner) for inner in value]
    return "another" if isinstance(value, str) else value


def sections(card: ReviewCard, keep: Callable[[str, Note], bool]) -> ReviewCard:
    """The card with those notes that are to be kept."""
    kept = [
        section.model_copy(update={"notes": tuple(note for note in section.notes if keep(section.code, note))})
        for section in card.sections
    ]
    return card.model_copy(update={"sections": tuple(kept)})


def mapped(card: ReviewCard, change: Callable[[Any], Any]) -> ReviewCard:
    """The card with every value of its headline and its sections changed."""
    parts = [
        section.model_copy(update={"notes": tuple(spoilt(note, change) for note in section.notes)})
        for section in card.sections
    ]
    return card.model_copy(update={"headline": spoilt(card.headline, change), "sections": tuple(parts)})


def spoilt(note: Note, change: Callable[[Any], Any]) -> Note:
    return note.model_copy(update={"at": change(note.at), "params": deep(note.params, change)})


def deep(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: deep(inner, change) for name, inner in value.items()}
    return list(map(partial(deep, change=change), value)) if isinstance(value, list | tuple) else change(value)


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", value) is not None


def uncounted(value: Any, plan: Plan) -> Any:
    return None if value == len(plan.commits) else value


def without(params: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != name}


def replaced(plan: Plan, number: int, new: Oid) -> Plan:
    """The plan with one of its moves going elsewhere."""
    move = plan.effects[number].model_copy(update={"new": new})
    return plan.model_copy(update={"effects": (*plan.effects[:number], move, *plan.effects[number + 1 :])})


def rebuilt(plan: Plan, world: World, place: int | None = None, **changed: Any) -> Plan:
    """The plan with one of its commits (the last, where none is named) another one, and all that hangs on it."""
    places = [number for number, new in enumerate(plan.build) if isinstance(new, NewCommit)]
    at = places[-1] if place is None else place
    real: dict[Oid, Oid] = {}
    build = []
    for number, new in enumerate(plan.build):
        change = changed if number == at else {}
        if isinstance(new, NewCommit):
            parents = tuple(real.get(parent, parent) for parent in new.parents)
            spoiled = new.model_copy(update={"parents": parents, **change})
            drafted = world.store.draft(spoiled.parents, spoiled.tree, spoiled.message + b" ", spoiled.replays)
            real[new.id] = drafted.id
            build.append(spoiled.model_copy(update={"id": drafted.id}))
        else:
            build.append(new.model_copy(update={"target": real.get(new.target, new.target)}))
    effects = tuple(move.model_copy(update={"new": real.get(move.new, move.new)}) for move in plan.effects)
    return plan.model_copy(update={"build": tuple(build), "effects": effects})


def parent_of(move: MoveRef, store: Any) -> Oid | None:
    """The parent of the commit that a ref is at or, where it is made, will be at."""
    commit = store.find_commit(move.new if move.old == NULL else move.old)
    return next(iter(store.commit(commit).parents), None) if commit else None


def elsewhere(plan: Plan, store: Any) -> tuple[int, MoveRef] | None:
    """A move to a commit whose parent has other files, as a move to that parent."""
    for number, move in enumerate(plan.effects):
        commit = store.find_commit(move.new) if move.new != NULL else None
        for parent in store.commit(commit).parents if commit else ():
            if parent != move.old and store.commit(parent).tree != store.commit(commit).tree:
                return number, move.model_copy(update={"new": parent})
    return None


def commit_made(plan: Plan, store: Any) -> tuple[int, Oid] | None:
    """A move that leads to a commit."""
    drafts = {new.id for new in plan.build} - {new.id for new in plan.commits}
    return next(
        ((number, move.new) for number, move in enumerate(plan.effects)
         if move.new != NULL and move.new not in drafts and store.find_commit(move.new) == move.new), None
    )  # fmt: skip


def changes_files(plan: Plan, store: Any) -> tuple[int, MoveRef] | None:
    """A move of a branch that is there to other files."""
    return next(
        ((number, move) for number, move in enumerate(plan.effects)
         if NULL not in (move.old, move.new) and store.commit(move.old).tree != store.commit(move.new).tree), None
    )  # fmt: skip

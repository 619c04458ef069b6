"""From a request to everything a decision is bound to: pins, plan, card, manifest, staged objects, digest.

Blocking and pure over the repository's content: it runs in a thread under a deadline, with no transaction open, and
planning the same request on the same facts twice gives the same bytes.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from service.contract.data import NULL
from service.contract.operation import Operation
from service.contract.parts import Part, choose, divide, is_one_commit, part_section, renames_of
from service.contract.plan import (
    Blocked,
    Conflict,
    Fact,
    Manifest,
    MoveRef,
    Pin,
    Plan,
    RefAt,
    ReviewCard,
    Section,
    Value,
)
from service.contract.refs import BRANCHES
from service.contract.risk import in_order
from service.contract.showing import shown_changes
from service.contract.twins import look_alikes
from service.contract.world import Store, World, tree_of
from service.kit.canonical import canonical, digest, sha256
from service.kit.errors import Code, Refusal
from service.proposals.scanning import NAME_PLACE, secret_warnings
from service.repositories.bare import BareRepository
from service.repositories.objects import decode, encode
from service.repositories.staging import Staging
from service.writer.ports import RefReader
from service.writer.write import manifests

CODES = {code.value.name: code for code in Code}
PINS = TypeAdapter(tuple[Pin, ...])
MANIFESTS = TypeAdapter(tuple[Manifest, ...])
ROUNDS_MOST = 5
BLOCKERS_MOST = 100
REVIEW_PATHS = 1_000
"""So many paths at most change in one proposal: the page shows every one of them whole."""
REVIEW_BYTES = 4_000_000
"""So much text at most stands at these paths, before and after together."""


@dataclass(frozen=True)
class Planned:
    """What submit stores. Texts are canonical JSON."""

    pins: str
    plan: str
    card: str
    manifest: str
    digest: str
    objects: bytes
    kinds: tuple[str, ...]
    refs: tuple[str, ...]
    paths: tuple[bytes, ...]


class Conflicted(Refusal):
    """A merge or a patch could not agree with itself; what each side has is kept for who wants to read it.

    Args:
        refusal: what the caller is told.
        conflicts: where it could not.
        objects: what of it is in no repository, as staged objects are stored.
    """

    def __init__(self, refusal: Refusal, conflicts: tuple[Conflict, ...], objects: bytes) -> None:
        super().__init__(refusal.code, refusal.message, **refusal.details)
        self.conflicts = conflicts
        self.objects = objects


def plan_proposal(
    repository: Path, operation: Operation[Any], request: Any, proposal: UUID, author: bytes, deadline: float
) -> Planned:
    """Plan an operation.

    Raises:
        Refusal: what the operation's blockers say (all of them in `blockers`), BASE_MOVED, or TOO_MUCH_TO_REVIEW.
        Conflicted: a merge has conflicts.
        OutOfTime: the deadline passed.
    """
    pins = read_pins(BareRepository(repository), operation, request)
    with Staging(repository, author, deadline) as staging:
        world = World({pin.fact: pin.seen for pin in pins}, staging)
        plan = operation.plan(request, world)
        if isinstance(plan, Blocked):
            raise _blocked(plan, staging)
        plan = plan.model_copy(update={"restorable": is_restorable(staging, plan)})
        return _reviewed(proposal, operation, request, settled(pins, plan), plan, world, staging)


@dataclass(frozen=True)
class Whole:
    """A stored proposal of which a part is wanted; texts are canonical JSON, `objects` what was staged for it."""

    id: UUID
    pins: str
    plan: str
    card: str
    objects: bytes


def parts_of(store: Store, operation: Operation[Any], plan: Plan, card: ReviewCard) -> tuple[Part, ...]:
    """What can be chosen of a proposal; nothing where it is only approved whole."""
    return divide(store, plan, renames_of(card)) if operation.divisible and is_one_commit(plan) else ()


def plan_part(
    repository: Path,
    operation: Operation[Any],
    request: Any,
    proposal: UUID,
    whole: Whole,
    keep: Collection[str],
    deadline: float,
) -> Planned:
    """Plan a part of what another proposal planned: from what was staged then, on the same pins, by the same author at
    the same time. Nothing of the request is planned anew.

    Args:
        repository: its folder.
        operation: the other proposal's.
        request: likewise.
        proposal: the id of the part.
        whole: the other proposal.
        keep: what was chosen; see `contract.parts.choose`.
        deadline: when to give up, in `time.monotonic()` seconds.

    Raises:
        Refusal: BASE_MOVED where a pin no longer holds; NOT_DIVISIBLE; CHOOSE_SOME; INVALID_ARGUMENT.
        OutOfTime: the deadline passed.
    """
    plan, card, pins = load_plan(whole.plan), load_card(whole.card), load_pins(whole.pins)
    if broken := broken_pin(BareRepository(repository), pins):
        pin, now = broken
        raise Refusal(Code.BASE_MOVED, "The branch has moved since this was proposed.", ref=pin.fact.name, head=now)
    nothing = Refusal(Code.NOT_DIVISIBLE, "There is nothing to choose in this proposal.")
    if not is_one_commit(plan):
        raise nothing
    with Staging(repository, plan.commits[0].author, deadline, decode(whole.objects)) as staging:
        parts = parts_of(staging, operation, plan, card)
        if not parts:
            raise nothing
        world = World({pin.fact: pin.seen for pin in pins}, staging)
        chosen = choose(staging, plan, parts, keep)
        section = part_section(str(whole.id), parts, keep)
        return _reviewed(proposal, operation, request, pins, chosen, world, staging, section)


def _reviewed(
    proposal: UUID,
    operation: Operation[Any],
    request: Any,
    pins: tuple[Pin, ...],
    plan: Plan,
    world: World,
    staging: Staging,
    *sections: Section,
) -> Planned:
    """What an owner decides on: a plan with its card, its manifest, what is staged for it, and the digest of all."""
    _check_size(staging, plan)
    reviewed = manifests(staging, plan)
    card = operation.review_card(request, world, plan)
    secrets = secret_warnings(staging, plan, card.agent_words)
    if any(note.at == NAME_PLACE for note in secrets):  # names go everywhere, and another one is easily found
        raise Refusal(Code.REF_REJECTED, "A new name has what looks like a secret.", rule="secret")
    found = (*secrets, *look_alikes(staging, plan), *card.warnings)
    card = card.model_copy(update={"sections": (*sections, *card.sections), "warnings": in_order(found)})
    return Planned(
        pins=_text(PINS.dump_python(pins, mode="json")),
        plan=_text(plan.model_dump(mode="json")),
        card=_text(card.model_dump(mode="json")),
        manifest=_text(MANIFESTS.dump_python(reviewed, mode="json")),
        digest=card_digest(proposal, operation, request, pins, plan, card, reviewed),
        objects=encode(staging.staged()),
        kinds=plan.kinds,
        refs=tuple(move.ref for move in plan.effects),
        paths=tuple(sorted({line.path for manifest in reviewed for line in manifest.lines})),
    )


def settled(pins: Sequence[Pin], plan: Plan) -> tuple[Pin, ...]:
    """The pins with how each holds: what is `as_moved` is so exactly where the plan moves the ref."""
    moved = {move.ref for move in plan.effects}

    def one(pin: Pin) -> Pin:
        if pin.fact.hold != "as_moved":
            return pin
        hold = "exact" if pin.fact.name in moved else "contains"
        return pin.model_copy(update={"fact": pin.fact.model_copy(update={"hold": hold})})

    return tuple(map(one, pins))


def is_restorable(store: Store, plan: Plan) -> bool:
    """Whether an execution must keep what the refs were: unless each goes forward on a branch that is there."""

    def forward(move: MoveRef) -> bool:
        stays = move.ref.startswith(BRANCHES) and NULL not in (move.old, move.new)  # a tag may lead to anything
        return stays and store.contains(move.new, move.old)

    return bool(plan.steps) or not all(map(forward, plan.effects))


def _check_size(store: Staging, plan: Plan) -> None:
    """What an owner cannot look through, or no browser can show, is not asked of him."""
    paths = size = 0
    for one in shown_changes(store, plan):
        for change in store.changes(tree_of(store, one.old), tree_of(store, one.new)):
            paths += 1
            size += sum(store.text_size(entry) for entry in (change.old, change.new) if entry)
            _check_limit("paths", paths, REVIEW_PATHS)
            _check_limit("bytes of text", size, REVIEW_BYTES)


def _check_limit(noun: str, value: int, limit: int) -> None:
    if value > limit:
        message = f"More than {limit:,} {noun} would change; so much at most can be reviewed in one proposal."
        raise Refusal(Code.TOO_MUCH_TO_REVIEW, message, limit=limit, counted=noun)


def read_pins(repository: RefReader, operation: Operation[Any], request: Any) -> tuple[Pin, ...]:
    """Read the facts that the operation names, until it names no new one.

    Raises:
        Refusal: BASE_MOVED with the current head, where the caller expected another value.
    """
    seen: dict[Fact, Value] = {}
    for _ in range(ROUNDS_MOST):
        needs = operation.pins(request, seen)
        fresh = [need for need in needs if need.fact not in seen]
        if not fresh:
            break
        for need in fresh:
            seen[need.fact] = read_fact(repository, need.fact)
            if need.expected is not None and seen[need.fact] != need.expected:
                message = f"{need.fact.name} is not where you expect it."
                raise Refusal(Code.BASE_MOVED, message, ref=need.fact.name, head=seen[need.fact])
    return tuple(Pin(fact=fact, seen=value) for fact, value in seen.items())


def read_fact(repository: RefReader, fact: RefAt) -> Value:
    """What a fact is now."""
    if fact.name.endswith("/"):
        return next((oid for _, oid in repository.list_refs(fact.name)), NULL)
    return repository.read_ref(fact.name)


def holds(repository: RefReader, pin: Pin, now: Value) -> bool:
    """Whether a fact is still what it was pinned for."""
    if now == pin.seen:
        return True
    return pin.fact.hold == "contains" and NULL not in (now, pin.seen) and repository.contains(now, pin.seen)


def broken_pin(repository: RefReader, pins: Sequence[Pin]) -> tuple[Pin, Value] | None:
    """The first pin that no longer holds, with what is there now."""
    for pin in pins:
        now = read_fact(repository, pin.fact)
        if not holds(repository, pin, now):
            return pin, now
    return None


def card_digest(
    proposal: UUID,
    operation: Operation[Any],
    request: Any,
    pins: tuple[Pin, ...],
    plan: Plan,
    card: ReviewCard,
    reviewed: tuple[Manifest, ...],
) -> str:
    """SHA-256 over everything a decision is bound to; see DESIGN, "What is fixed when"."""
    return digest(
        {
            "proposal": str(proposal),
            "kind": operation.kind,
            "version": operation.version,
            "request": request.model_dump(mode="json"),
            "pins": PINS.dump_python(pins, mode="json"),
            "plan": plan.model_dump(mode="json"),
            "card": card.model_dump(mode="json"),
            "manifest": [
                {"of": one.of, "count": len(one.lines), "sha256": sha256(canonical(one.model_dump(mode="json")))}
                for one in reviewed
            ],
        }
    )


def load_plan(text: str) -> Plan:
    """A stored plan."""
    return Plan.model_validate(json.loads(text))


def load_pins(text: str) -> tuple[Pin, ...]:
    """Stored pins."""
    return PINS.validate_python(json.loads(text))


def load_manifests(text: str) -> tuple[Manifest, ...]:
    """Stored manifests."""
    return MANIFESTS.validate_python(json.loads(text))


def load_card(text: str) -> ReviewCard:
    """A stored review card."""
    return ReviewCard.model_validate(json.loads(text))


def _text(value: Any) -> str:
    return canonical(value).decode()


def _blocked(blocked: Blocked, staging: Staging) -> Refusal:
    first = blocked.blockers[0]
    everything = [note.model_dump(mode="json") for note in blocked.blockers[:BLOCKERS_MOST]]
    sentence = first.code.replace("_", " ").capitalize()
    count = first.params.get("count", 1)
    more = f" and {count - 1:,} more" if isinstance(count, int) and count > 1 else ""
    where = f": {first.at}{more}" if first.at else ""
    told = {"at": first.at, "blockers": everything, "blocked": len(blocked.blockers)}
    refusal = Refusal(CODES[first.code], f"{sentence}{where}.", **{**first.params, **told})
    if not blocked.conflicts:
        return refusal
    sides = {entry.oid for one in blocked.conflicts for entry in (one.base, one.ours, one.theirs) if entry}
    return Conflicted(refusal, blocked.conflicts, encode(staging.among(sides)))

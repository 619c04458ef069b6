"""A plan of several steps: each is an operation of its own and sees the result of the one before; all or nothing.

The owner sees: the steps by number with what each one does, the files that differ in the end, branch by branch, and
the warnings of the steps that take something away or rewrite it before all others.
The writer does: builds what every step builds, and moves each ref once, from where it was to where the last step
leaves it, in one transaction.
Refused when: a step is (with its number, from 1), a step expects to find a ref where it was before an earlier step
moves it, a ref that is made and one that is there or goes cannot be together, or nothing would change.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from service.contract.changes import EXECUTABLE, ChangedFile, change_counts, changed_files, files_section
from service.contract.data import NULL, Json, Oid
from service.contract.moves import rewrites_history
from service.contract.operation import Example, Made, Operation, Request, Steps, Toolset
from service.contract.picking import COMMITS_MOST
from service.contract.plan import (
    Blocked,
    Fact,
    MoveRef,
    Need,
    Note,
    Outcome,
    Plan,
    ReviewCard,
    Section,
    Value,
    Wish,
)
from service.contract.refs import BRANCHES, TAGS, short_name
from service.contract.risk import WORDS_PLACE
from service.contract.showing import label, shown_changes
from service.contract.undoing import restore_of, revert_of
from service.contract.world import NotPinned, Store, World, tree_of
from service.kit.errors import Code, Refusal

KIND: Final = "propose_plan"
STEPS_MOST: Final = 10
PATHS_SHOWN: Final = 20
COMMIT_PARAMS: Final = frozenset({"oid", "old", "new", "target"})
"""Where a note says which commit or tag it speaks of."""


class Step(BaseModel):
    """One step of a plan."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Annotated[
        str, Field(description="The propose tool that does this, such as propose_file_import.", max_length=40)
    ]
    arguments: Annotated[
        Json,
        Field(
            description="What that tool takes, less repository_id, reason and idempotency_key. An expected_… field "
            "may not speak of a ref that an earlier step moves."
        ),
    ]


class PlanRequest(Request):
    """Steps that are done together."""

    steps: Annotated[
        list[Step],
        Field(description="1 to 10 steps; each sees the result of those above.", min_length=1, max_length=STEPS_MOST),
    ]


RESET: Final = "propose_reset"
REWRITERS: Final = frozenset({RESET, "propose_rebase", "propose_restore"})
"""The operations that may take commits from a branch."""


@dataclass(frozen=True)
class _Task:
    """A step as read; `index` is its place in the request, from 0."""

    index: int
    operation: Operation[Any]
    request: Any

    @property
    def field(self) -> str:
        return f"steps[{self.index}]"

    @property
    def number(self) -> int:
        """By what the step is called."""
        return self.index + 1

    @property
    def refs(self) -> tuple[str, ...]:
        refs, _ = self.operation.targets(self.request)
        return refs

    def blocked(self, code: Code, at: str, **params: Any) -> Blocked:
        return Blocked(
            blockers=(Note(code=code.value.name, at=at, params={"step": self.number, "field": self.field, **params}),)
        )


@dataclass(frozen=True)
class _Shown:
    """A step with its plan and its own card; `destructive`: it takes a ref away, or away from where it was."""

    task: _Task
    plan: Plan
    card: ReviewCard
    destructive: bool

    @property
    def note(self) -> Note:
        """What the step does."""
        headline = self.card.headline.model_dump(mode="json")
        params = {"kind": self.task.operation.kind, "headline": headline, "destructive": self.destructive}
        return Note(code="step", at=str(self.task.number), params=params)

    @property
    def words(self) -> dict[str, str]:
        """The agent's own words in this step, less the reason, which is the whole plan's."""
        return {self._word(name): text for name, text in self.card.agent_words.items() if name != "reason"}

    @property
    def warnings(self) -> tuple[Note, ...]:
        return tuple(self._numbered(self._placed(note)) for note in self.card.warnings)

    @property
    def sections(self) -> Iterator[Section]:
        """What the step's card says of other things than files."""
        for section in self.card.sections:
            if section.code != "files":
                yield Section(code=section.code, notes=tuple(map(self._numbered, section.notes)))

    def _numbered(self, note: Note) -> Note:
        return note.model_copy(update={"params": {**note.params, "step": self.task.number}})

    def _placed(self, note: Note) -> Note:
        return note.model_copy(update={"at": self._word(note.at)}) if note.at.startswith(WORDS_PLACE) else note

    def _word(self, name: str) -> str:
        """A word of the agent's by its step, also where a warning speaks of it; the reason is the whole plan's."""
        word = name.removeprefix(WORDS_PLACE)
        own = word in self.card.agent_words and word != "reason"
        return f"{name}_{self.task.number}" if own else name


class PlanSteps:
    """The operation. See the module."""

    kind = KIND
    version = 1
    title = "Propose several steps at once"
    description = (
        "Proposes 1 to 10 steps, each a call of another propose tool, that are approved and done together or not at "
        "all. Each step sees the result of the steps above it: a branch that one makes, the next may change. Nothing "
        "changes until an owner approves. A step that cannot be done is named by its number, from 1, and its field."
    )
    toolset: ClassVar[Toolset] = "core"
    divisible = False
    request = PlanRequest

    _others: Steps

    def compose(self, others: Steps) -> None:
        """Take the operations that may be steps."""
        self._others = others

    def targets(self, request: PlanRequest) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        found = [task.operation.targets(task.request) for task in self._tasks(request)]
        refs = dict.fromkeys(ref for refs, _ in found for ref in refs)
        named = all(paths for _, paths in found)  # else some step names none, and those of the others are not all
        return tuple(refs), tuple(dict.fromkeys(path for _, paths in found for path in paths)) if named else ()

    def pins(self, request: PlanRequest, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        needs: dict[Need, None] = {}
        moved: set[str] = set()
        for task in self._tasks(request):
            known = {fact: value for fact, value in seen.items() if fact.name not in moved}  # the rest will be another
            for need in task.operation.pins(task.request, known):
                needs[Need(fact=need.fact) if need.fact.name in moved else need] = None
            moved |= set(task.refs)
        return tuple(needs)

    def received(self, request: PlanRequest) -> list[dict[str, object]]:
        return [
            {**piece, "path": f"{task.field}:{piece['path']}"}
            for task in self._tasks(request)
            for piece in task.operation.received(task.request)
        ]

    def plan(self, request: PlanRequest, world: World) -> Plan | Blocked:
        tasks = self._tasks(request)
        if expecting := tuple(_expecting(tasks)):
            return Blocked(blockers=expecting)
        plans: list[Plan] = []
        for task in tasks:
            made = _planned(task, world)
            if isinstance(made, Blocked):
                return made
            plans.append(made)
            world = world.after(made)
        made = _joined(tasks, plans)
        return made if isinstance(made, Blocked) else _told(world.store, made)

    def review_card(self, request: PlanRequest, world: World, plan: Plan) -> ReviewCard:
        steps = _shown(self._tasks(request), world, plan)
        files, counts = _files(world.store, plan)
        return ReviewCard(
            headline=Note(
                code="plan",
                at=short_name(plan.effects[0].ref) if len(plan.effects) == 1 else "",
                params={
                    "steps": len(steps),
                    "destructive": sum(step.destructive for step in steps),
                    "refs": [short_name(move.ref) for move in plan.effects],
                    "commits": len(plan.commits),
                    **counts,
                },
            ),
            agent_words={"reason": request.reason}
            | {name: text for step in steps for name, text in step.words.items()},
            sections=(
                Section(code="steps", notes=tuple(step.note for step in steps)),
                *_gathered(section for step in steps for section in step.sections),
                files,
            ),
            warnings=(*_rewrites(world.store, plan), *_warnings(steps)),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        """Revert where all steps only committed on one branch, so that what others commit on it later stays."""
        move = outcome.moves[0]
        if len(outcome.moves) > 1 or move.old == NULL or len(outcome.commits) > COMMITS_MOST:
            return restore_of(outcome)
        wish = revert_of(outcome, short_name(move.ref))
        tasks = self._tasks(PlanRequest.model_validate_json(json.dumps(outcome.request)))
        return wish if wish and all(_reverts(task, outcome) for task in tasks) else restore_of(outcome)

    def examples(self) -> tuple[Example[PlanRequest], ...]:
        return EXAMPLES

    def _tasks(self, request: PlanRequest) -> tuple[_Task, ...]:
        read, repository, reason = self._others.read, request.repository_id, request.reason
        return tuple(
            _Task(index, *read(step.kind, step.arguments, repository, reason, f"steps[{index}]"))
            for index, step in enumerate(request.steps)
        )


def _reverts(task: _Task, outcome: Outcome) -> bool:
    """Whether reverting its commits, whichever of a plan's they are, takes a step back."""
    alone = outcome.model_copy(update={"request": task.request.model_dump(mode="json")})
    wish = task.operation.undo(alone)
    return wish is not None and wish.kind == "propose_revert" and "mainline" not in wish.arguments


def _expecting(tasks: Sequence[_Task]) -> Iterator[Note]:
    """Steps that say where a ref must be which an earlier step moves."""
    movers: dict[str, _Task] = {}
    for task in tasks:
        for need in task.operation.pins(task.request, {}):
            if need.expected is not None and need.fact.name in movers:
                params = {"field": _field_of(task, need.expected), "moved_by": movers[need.fact.name].number}
                blocked = task.blocked(Code.INVALID_ARGUMENT, short_name(need.fact.name), **params)
                yield from blocked.blockers
        movers |= dict.fromkeys(task.refs, task)


def _field_of(task: _Task, expected: Value) -> str:
    sent = task.request.model_dump(mode="json")
    name = next((name for name, value in sent.items() if name.startswith("expected") and value == expected), None)
    return f"{task.field}.arguments.{name}" if name else task.field


def _planned(task: _Task, world: World) -> Plan | Blocked:
    """The step's plan, or what is in its way with its number and its place."""
    try:
        made = task.operation.plan(task.request, world)
    except NotPinned:  # what it stands on is no more after the steps above
        return task.blocked(Code.BRANCH_MISSING, short_name(task.refs[0]))
    except Refusal as error:
        raise Refusal(error.code, error.message, **_placed(task, error.details)) from None
    if isinstance(made, Plan):
        return made
    notes = [note.model_copy(update={"params": _placed(task, note.params)}) for note in made.blockers]
    return made.model_copy(update={"blockers": tuple(notes)})


def _placed(task: _Task, params: Json) -> Json:
    field = f"{task.field}.arguments.{params['field']}" if "field" in params else task.field
    return {**params, "step": task.number, "field": field}


def _joined(tasks: Sequence[_Task], plans: Sequence[Plan]) -> Plan | Blocked:
    """One net move for each ref, and everything that any step builds."""
    moves: dict[str, MoveRef] = {}
    for move in (move for one in plans for move in one.effects):
        moves[move.ref] = moves.get(move.ref, move).model_copy(update={"new": move.new})
    effects = tuple(move for move in moves.values() if move.old != move.new)
    if not effects:
        return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name),))
    for task, one in zip(tasks, plans, strict=True):
        for made, other in _crossed(one, effects):
            code = Code.TAG_EXISTS if made.startswith(TAGS) else Code.BRANCH_EXISTS
            return task.blocked(code, short_name(made), rule="folder", by=short_name(other))
    build = {new.id: new for one in plans for new in one.build}
    kinds = (KIND, *(kind for one in plans for kind in one.kinds))
    return Plan(kinds=kinds, build=tuple(build.values()), effects=effects, steps=tuple(plans))


def _crossed(step: Plan, effects: Sequence[MoveRef]) -> Iterator[tuple[str, str]]:
    """Refs that this step makes, and another one that moves above or below them: refs come and go in one transaction,
    in which neither makes room for the other.
    """
    made = {move.ref for move in step.effects} & {move.ref for move in effects if move.old == NULL}
    for ref in sorted(made):
        for other in effects:
            if other.ref.startswith(f"{ref}/") or ref.startswith(f"{other.ref}/"):
                yield ref, other.ref


def _shown(tasks: Sequence[_Task], world: World, plan: Plan) -> tuple[_Shown, ...]:
    """The steps with their own cards, each made in the world that it sees."""
    shown = []
    names: dict[Oid, str] = {}
    for task, made in zip(tasks, plan.steps, strict=True):
        names |= {new.id: f"step {task.number}" for new in made.build if new.id not in names}
        card = _named(task.operation.review_card(task.request, world, made), names)
        shown.append(_Shown(task, made, card, any(_takes(world.store, move) for move in made.effects)))
        world = world.after(made)
    return tuple(shown)


def _takes(store: Store, move: MoveRef) -> bool:
    return move.old != NULL and (move.new == NULL or not store.contains(move.new, move.old))


def _files(store: Store, plan: Plan) -> tuple[Section, dict[str, Any]]:
    """Everything that is brought to a ref or into the history below it, and how much of it. Where that is several
    things, each file says to which it belongs.
    """
    shown = shown_changes(store, plan)
    found = {one: _changed(store, one.old, one.new) for one in shown}
    several = sum(map(bool, found.values())) > 1
    notes: list[Note] = []
    for one, files in found.items():
        branch = {"branch": label(one, plan.commits)} if several else {}
        told = [file.note(store) for file in files]
        notes += [note.model_copy(update={"params": {**note.params, **branch}}) for note in told]
    return files_section(notes), change_counts([one for files in found.values() for one in files], notes)


def _changed(store: Store, old: Oid, new: Oid) -> tuple[ChangedFile, ...]:
    return changed_files(store, tree_of(store, old), tree_of(store, new))


def _gathered(sections: Iterable[Section]) -> Iterator[Section]:
    """The sections of all steps, those with one code as one."""
    notes: dict[str, tuple[Note, ...]] = {}
    for section in sections:
        notes[section.code] = (*notes.get(section.code, ()), *section.notes)
    return (Section(code=code, notes=found) for code, found in notes.items())


def _told(store: Store, plan: Plan) -> Plan:
    """The plan as a policy must see it: a branch that goes and comes elsewhere is reset, however the steps do it."""
    reset = any(_is_rewritten(store, move) for move in plan.effects) and not REWRITERS & set(plan.kinds)
    return plan.model_copy(update={"kinds": (*plan.kinds, RESET)}) if reset else plan


def _rewrites(store: Store, plan: Plan) -> Iterator[Note]:
    """Each branch that loses commits by all steps together, whatever each of them does."""
    for move in filter(partial(_is_rewritten, store), plan.effects):
        leaves, comes = (store.log(*pair, 0)[1] for pair in ((move.old, move.new), (move.new, move.old)))
        yield rewrites_history(move.ref, leaves, comes)


def _is_rewritten(store: Store, move: MoveRef) -> bool:
    there = move.ref.startswith(BRANCHES) and NULL not in (move.old, move.new)
    return there and not store.contains(move.new, move.old)


def _warnings(steps: Sequence[_Shown]) -> tuple[Note, ...]:
    """Those of the destructive steps first. Two with one name are one: it is acknowledged by its name. What is lost of
    a branch is told of all steps together.
    """
    found: dict[str, Note] = {}
    for step in sorted(steps, key=lambda step: not step.destructive):
        for note in (one for one in step.warnings if one.code != "rewrites_history"):
            found[note.name] = _merged(found[note.name], note) if note.name in found else note
    return tuple(found.values())


def _merged(first: Note, second: Note) -> Note:
    params = {**second.params, **first.params}
    if first.code == "many_alike":
        params["count"] = first.params["count"] + second.params["count"]
        params["paths"] = [*first.params["paths"], *second.params["paths"]][:PATHS_SHOWN]
    return first.model_copy(update={"params": params})


def _named(card: ReviewCard, names: Mapping[Oid, str]) -> ReviewCard:
    """The card with the step that builds a commit or a tag in place of an id that nothing will have."""
    sections = (
        Section(code=section.code, notes=tuple(_named_note(note, names) for note in section.notes))
        for section in card.sections
    )
    return ReviewCard(
        headline=_named_note(card.headline, names),
        agent_words=card.agent_words,
        sections=tuple(sections),
        warnings=tuple(_named_note(note, names) for note in card.warnings),
    )


def _named_note(note: Note, names: Mapping[Oid, str]) -> Note:
    params = {
        key: names.get(Oid(value), value) if key in COMMIT_PARAMS and isinstance(value, str) else value
        for key, value in note.params.items()
    }
    at = "" if note.at in names and note.at == note.params.get("oid") else note.at
    return note.model_copy(update={"at": at, "params": params})


_BASE = {"README.md": "# Orchard\n", "app.py": "print('hello')\n"}
_OLD = {"README.md": "# Orchard\n"}
_COMMITS = {"old": Made(files=_OLD), "base": Made(files=_BASE, parents=("old",))}
_REFS = {"refs/heads/main": "base", "refs/heads/done": "old"}
_NEW = {"path": "new.txt", "content": "new\n"}


def _import(*files: Json, branch: str = "main", **more: Any) -> Json:
    words = {"branch": branch, "message": f"Change {files[0]['path']}"}
    return {"kind": "propose_file_import", "arguments": {**words, "files": list(files), **more}}


def _branch(name: str, source: str = "main") -> Json:
    return {"kind": "propose_branch", "arguments": {"branch": name, "source": source}}


def _delete(*names: str) -> Json:
    return {"kind": "propose_branch_delete", "arguments": {"branches": list(names), "into": "main"}}


def _tag(name: str, target: str = "main") -> Json:
    return {"kind": "propose_tag", "arguments": {"name": name, "target": target, "message": f"Release {name}"}}


def _reset(target: str) -> Json:
    return {"kind": "propose_reset", "arguments": {"branch": "main", "target": target}}


def _example(name: str, *steps: Json, **more: Any) -> Example[PlanRequest]:
    """An example on the history above."""
    arguments = {"reason": "Because it was asked.", "steps": list(steps)}
    return Example(name=name, commits=_COMMITS, refs=_REFS, arguments=arguments, **more)


EXAMPLES: tuple[Example[PlanRequest], ...] = (
    _example(
        "a chain of changes on one branch",
        _import(_NEW),
        _import({**_NEW, "content": "newer\n"}, {"path": "app.py", "action": "delete"}),
        after={"refs/heads/main": {**_OLD, "new.txt": "newer\n"}},
        warnings=("deletes_file",),
    ),
    _example(
        "a change and its tag",
        _import(_NEW),
        _tag("v1"),
        after={"refs/heads/main": {**_BASE, "new.txt": "new\n"}, "refs/tags/v1": {**_BASE, "new.txt": "new\n"}},
    ),
    _example(
        "a branch and a change on it",
        _branch("topic"),
        _import(_NEW, branch="topic"),
        after={"refs/heads/topic": {**_BASE, "new.txt": "new\n"}},
    ),
    _example(
        "the same change on two branches, and the reset of one",
        _import(_NEW, branch="done"),
        _reset("{old}"),
        _import(_NEW),
        after={"refs/heads/done": {**_OLD, "new.txt": "new\n"}, "refs/heads/main": {**_OLD, "new.txt": "new\n"}},
        warnings=("rewrites_history", "deletes_file"),
    ),
    _example(
        "a branch under another name, and a program",
        _branch("topic", "done"),
        _delete("done"),
        _import({"path": "run.sh", "content": "#!/bin/sh\n", "mode": "100755"}),
        after={
            "refs/heads/topic": _OLD,
            "refs/heads/done": None,
            "refs/heads/main": {**_BASE, "run.sh": "#!/bin/sh\n"},
        },
        modes={"refs/heads/main:run.sh": EXECUTABLE},
        warnings=("deletes_branch", "becomes_executable"),
    ),
    _example(
        "a step that is blocked",
        _import(_NEW),
        _import({**_NEW, "action": "create"}),
        blocked="file_exists",
    ),
    _example("what the next step takes back", _branch("topic"), _delete("topic"), blocked="nothing_to_change"),
    _example(
        "a file of a branch that is gone", _delete("done"), _import(_NEW, branch="done"), blocked="branch_missing"
    ),
    _example("a branch below one that goes", _delete("done"), _branch("done/again"), blocked="branch_exists"),
    _example(
        "a place where a ref is no more",
        _import(_NEW),
        _import(_NEW, expected_base_oid="{base}"),
        blocked="invalid_argument",
    ),
)

OPERATION = PlanSteps()

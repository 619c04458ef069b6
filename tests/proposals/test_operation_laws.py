"""Laws over every operation's examples: what is planned is pinned, shown, the same twice, what happens, and undone.

Each law runs over every example; then every mistake of `tests/proposals/mistakes.py` is put into every operation that
can make it, and some law must break.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pygit2
import pytest

from service.contract.changes import FILE_MODES, GITLINK, change_counts
from service.contract.changes import content_of as stands
from service.contract.data import NULL, Json
from service.contract.names import OWN_TRAILERS, quote_path
from service.contract.operation import Example, Operation
from service.contract.parts import Part
from service.contract.plan import MoveRef, Note, Pin
from service.contract.refs import BRANCHES, short_name
from service.contract.world import NotPinned, tree_of
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal
from service.proposals import scanning
from service.proposals.planning import (
    Planned,
    Whole,
    card_digest,
    load_card,
    load_pins,
    load_plan,
    parts_of,
    plan_part,
)
from service.repositories.refs import RefMoved
from service.tools.propose.propose_plan import KIND, PlanSteps
from service.writer.intent import kept_ref, made_ref, marker_ref
from service.writer.write import ManifestDiffers
from tests.proposals.mistakes import MISTAKES, Mistake, SaysWhatIsKept
from tests.proposals.scenes import (
    AUTHOR,
    COMMITTER,
    PLAN_SECONDS,
    PROPOSAL,
    UNDOING,
    Case,
    Files,
    Landed,
    Recorded,
    Scenes,
    coming,
    contents,
    execute,
    files_of,
    leaving,
    plan,
    read,
    refs_of,
    replayed,
    wanted_files,
)
from tests.stage import REGISTRY, git

OPERATIONS = REGISTRY.operations()
CASES = [(operation, example) for operation in OPERATIONS.values() for example in operation.examples()]
LANDING = [case for case in CASES if not case[1].blocked]
BLOCKED = [case for case in CASES if case[1].blocked]
MISTAKES_LEAST = 10
FILE_COUNTS = {*change_counts((), ()), "steps", "destructive"}
"""Figures of a headline that are none of commits."""
NO_UNDO: Mapping[str, str] = {}
"""Operations that cannot be taken back, by kind, with why."""
BROKEN = (AssertionError, pytest.fail.Exception, Refusal, NotPinned, KeyError, ManifestDiffers, RefMoved)
"""How a law says that it does not hold. Anything else is a mistake of these tests."""
Op = Operation[Any]
Ex = Example[Any]
Law = Callable[[Scenes, Op, Ex], None]


def ids(value: Any) -> str | None:
    return value.name if isinstance(value, Example) else getattr(value, "kind", None)


every_landing = pytest.mark.parametrize(("operation", "example"), LANDING, ids=ids)
every_blocked = pytest.mark.parametrize(("operation", "example"), BLOCKED, ids=ids)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    return Scenes(tmp_path_factory.mktemp("scenes"))


@every_landing
def test_every_example_lands_as_it_says(scenes: Scenes, operation: Op, example: Ex) -> None:
    landed = scenes.landed(operation, example)
    assert tuple(note.code for note in landed.case.card.warnings) == example.warnings
    before, after = landed.case.scene.refs, refs_of(landed.path)
    others = {ref: oid for ref, oid in after.items() if ref not in example.after}
    assert others == {ref: oid for ref, oid in before.items() if ref not in example.after} | own_refs(landed)
    assert {ref for ref in example.after if ref in after} == {
        ref for ref, now in example.after.items() if now is not None
    }
    for ref in example.after.keys() & after.keys():
        assert files_of(landed.path, ref) == wanted_files(landed.case, ref)
    assert git(landed.path, "fsck", "--strict", "--no-dangling") == b""


@every_landing
def test_what_is_new_says_who_wrote_it_who_approved_it_and_what_was_reviewed(
    scenes: Scenes, operation: Op, example: Ex
) -> None:
    landed = scenes.landed(operation, example)
    repository = pygit2.Repository(str(landed.path))
    authors = {new.author for new in landed.case.plan.commits}
    assert len(landed.sealed.commits) == len(landed.case.plan.build)
    for one in landed.sealed.commits:
        headers, _, message = repository[one.oid].read_raw().partition(b"\n\n")
        people = dict(line.split(b" ", 1) for line in headers.splitlines())
        assert people[b"committer" if one.kind == "commit" else b"tagger"] == COMMITTER
        assert one.kind == "tag" or people[b"author"] in authors
        last = message.rstrip(b"\n").rpartition(b"\n\n")[2]
        for key in OWN_TRAILERS:
            assert len(re.findall(rb"(?im)^%s:" % key.encode(), last)) == 1
        assert f"Reviewed-digest: {landed.case.planned.digest}\n".encode() in message


@every_landing
def test_every_commit_is_by_the_proposer_or_by_whose_commit_it_repeats(
    scenes: Scenes, operation: Op, example: Ex
) -> None:
    case = scenes.case(operation, example)
    store = case.store()
    assert all(new.author == AUTHOR for new in case.plan.commits if new.replays is None)
    for new, old in replayed(case):
        first = store.commit(old)
        assert new.author == first.author
        assert new.message.rstrip() == first.message.rstrip()
        assert new.parents or not first.parents


@every_blocked
def test_every_blocked_example_is_refused_with_its_code_and_stores_nothing(
    scenes: Scenes, operation: Op, example: Ex
) -> None:
    with pytest.raises(Refusal) as caught:
        scenes.case(operation, example)
    assert caught.value.code.value.name == example.blocked
    scene = scenes.scene(operation, example)
    assert contents(scene.path) == scene.state


@every_landing
def test_planning_twice_gives_the_same_bytes_and_writes_nothing(scenes: Scenes, operation: Op, example: Ex) -> None:
    case = scenes.case(operation, example)
    assert plan(case.scene.path, operation, case.request) == case.planned
    assert contents(case.scene.path) == case.scene.state


@every_landing
def test_the_card_shows_every_path_that_changes_and_what_becomes_of_it(
    scenes: Scenes, operation: Op, example: Ex
) -> None:
    check_shown(scenes.case(operation, example))


def check_shown(case: Case) -> None:
    moved = {move.ref for move in case.plan.effects}
    manifests = [one for one in case.manifests if one.of in moved and one.lines]
    shown = {one for note in notes(case) for one in said_of_files(note)}
    for manifest in manifests:
        branch = short_name(manifest.of)
        said = {(at, sha256) for where, at, sha256 in shown if where == branch or (not where and len(manifests) == 1)}
        for line in manifest.lines:
            path = quote_path(line.path)
            assert path in {at for at, _ in said}
            assert line.mode == 0 or (path, line.sha256) in said


@every_landing
def test_everything_that_comes_is_searched_for_secrets(
    scenes: Scenes, operation: Op, example: Ex, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []
    monkeypatch.setattr(scanning, "find_leaks", lambda text, *_more: searched.append(text) or ())
    case = scenes.case(operation, example)
    store = case.store()
    scanning.secret_warnings(store, case.plan, case.card.agent_words)
    known = {sha256(text.encode()) for text in searched}
    moved = {move.ref: move for move in case.plan.effects}
    for manifest in [one for one in case.manifests if one.of in moved]:
        changes = list(store.changes(*(tree_of(store, oid) for oid in (manifest.old, moved[manifest.of].new))))
        old = {sha256(stands(store, change.old)) for change in changes}
        assert {line.sha256 for line in manifest.lines if line.mode in FILE_MODES} <= known | old
        assert all(change.path.decode() in "\n".join(searched) for change in changes if change.old is None)
    assert {new.message.decode() for new in case.plan.build} <= set(searched)
    assert case.card.agent_words["reason"] in searched


@every_landing
def test_the_card_names_every_ref_that_moves(scenes: Scenes, operation: Op, example: Ex) -> None:
    case = scenes.case(operation, example)
    said = {word for note in (case.card.headline, *notes(case)) for word in words(note)}
    for move in case.plan.effects:
        assert {move.ref, short_name(move.ref)} & said


@every_landing
def test_the_card_shows_every_commit_that_comes_or_leaves(scenes: Scenes, operation: Op, example: Ex) -> None:
    case = scenes.case(operation, example)
    listed = {word for note in notes(case) for word in words(note)}
    more = sum(note.params["count"] for note in notes(case) if note.code == "more_commits")
    assert len(leaving(case) - listed) <= more
    assert len(coming(case) - listed) <= more
    assert len(case.plan.commits) < 2 or str(len(case.plan.commits)) in counts(case)


@every_landing
def test_the_card_shows_no_id_that_nothing_will_have(scenes: Scenes, operation: Op, example: Ex) -> None:
    case = scenes.case(operation, example)
    said = {word for note in (case.card.headline, *notes(case), *case.card.warnings) for word in words(note)}
    assert not {str(new.id) for new in case.plan.build} & said


@every_landing
def test_every_ref_that_moves_is_pinned_where_the_plan_moves_it_from(
    scenes: Scenes, operation: Op, example: Ex
) -> None:
    case = scenes.case(operation, example)
    exact = {pin.fact.name: pin.seen for pin in case.pins if pin.fact.hold == "exact"}
    assert len({move.ref for move in case.plan.effects}) == len(case.plan.effects)
    for move in case.plan.effects:
        assert exact.get(move.ref) == move.old == case.scene.refs.get(move.ref, NULL)
        assert move.old != move.new


@every_landing
def test_a_move_that_is_not_forward_is_warned_of_and_a_rewrite_is_confirmed(
    scenes: Scenes, operation: Op, example: Ex
) -> None:
    case = scenes.case(operation, example)
    names = [note.name for note in case.card.warnings]
    assert len(names) == len(set(names))
    for move in case.plan.effects:
        if move.old == NULL or is_forward(case, move):
            continue
        about = [note for note in case.card.warnings if short_name(move.ref) in words(note)]
        assert about
        rewrites = move.new != NULL and move.ref.startswith(BRANCHES)
        assert not rewrites or short_name(move.ref) in {note.params.get("confirm") for note in about}


@every_landing
def test_what_an_execution_must_keep_is_decided_by_who_plans(scenes: Scenes, operation: Op, example: Ex) -> None:
    case = scenes.case(operation, example)
    assert case.plan.restorable == must_keep(case)
    other: Any = SaysWhatIsKept(Recorded(operation, [case]))
    assert plan(case.scene.path, other, case.request) == case.planned


@every_landing
def test_policy_sees_what_the_plan_touches_before_anything_is_read(scenes: Scenes, operation: Op, example: Ex) -> None:
    case = scenes.case(operation, example)
    refs, paths = operation.targets(case.request)
    assert set(case.planned.refs) <= set(refs)
    assert not paths or set(case.planned.paths) <= set(paths)
    assert case.plan.kinds[0] == operation.kind
    assert set(case.plan.kinds) <= set(OPERATIONS)


@every_landing
def test_the_stored_request_reads_back_equal(scenes: Scenes, operation: Op, example: Ex) -> None:
    request = scenes.case(operation, example).request
    stored = json.loads(json.dumps(request.model_dump(mode="json")))
    assert operation.request.model_validate(stored) == request


@every_landing
def test_the_digest_is_another_for_another_proposal_request_or_base(scenes: Scenes, operation: Op, example: Ex) -> None:
    case = scenes.case(operation, example)

    def digest(proposal: Any = PROPOSAL, request: Any = case.request, pins: tuple[Pin, ...] = case.pins) -> str:
        return card_digest(proposal, operation, request, pins, case.plan, case.card, case.manifests)

    assert digest() == case.planned.digest
    others = [digest(proposal=uuid4()), digest(request=case.request.model_copy(update={"reason": "Another reason."}))]
    for number, pin in enumerate(case.pins):
        moved = pin.model_copy(update={"seen": "1" * 40})
        others.append(digest(pins=(*case.pins[:number], moved, *case.pins[number + 1 :])))
    assert len({digest(), *others}) == 1 + len(others) >= 4


@pytest.mark.parametrize(("operation", "example"), CASES, ids=ids)
def test_a_request_with_a_field_nobody_knows_is_refused(scenes: Scenes, operation: Op, example: Ex) -> None:
    request = scenes.scene(operation, example).request(operation)
    for field in ("interactive", "force"):
        sent: Json = {**request.model_dump(mode="json"), field: True}
        with pytest.raises(ValueError, match=field):
            operation.request.model_validate(sent)


@every_landing
def test_undoing_brings_every_file_back(scenes: Scenes, operation: Op, example: Ex) -> None:
    landed = scenes.landed(operation, example)
    wish = operation.undo(landed.outcome)
    assert (wish is None) == (operation.kind in NO_UNDO)
    if wish is None:
        return
    before = all_files(landed.case.scene.path)
    try:
        path = scenes.undone(landed, OPERATIONS, wish)
    except Refusal as refused:  # a merge of what is the same already changed no file
        if refused.code is not Code.NOTHING_TO_CHANGE:
            raise
        path = landed.path
    assert all_files(path) == before


@pytest.mark.parametrize(("operation", "example"), [case for case in LANDING if case[0].kind != KIND], ids=ids)
def test_a_plan_of_one_step_does_what_the_step_does(scenes: Scenes, operation: Op, example: Ex) -> None:
    alone = scenes.case(operation, example)
    together = PlanSteps()
    together.compose(OneStep(Recorded(operation, [alone]), alone.request))
    request = read(together, {"steps": [{"kind": operation.kind, "arguments": {}}]})
    planned = plan(alone.scene.path, together, request)
    made, card = load_plan(planned.plan), load_card(planned.card)
    assert (made.build, made.effects) == (alone.plan.build, alone.plan.effects)
    assert made.kinds == (KIND, *alone.plan.kinds)
    assert load_pins(planned.pins) == alone.pins
    assert planned.manifest == alone.planned.manifest
    assert [note.code for note in card.warnings] == list(example.warnings)
    assert planned.objects == alone.planned.objects


@dataclass(frozen=True)
class OneStep:
    """Reads every step as this one."""

    operation: Any
    request: Any

    def read(self, *_sent: object) -> tuple[Any, Any]:
        return self.operation, self.request


@pytest.mark.parametrize(("operation", "example"), [case for case in LANDING if case[0].divisible], ids=ids)
def test_every_part_and_what_is_left_by_it_land_with_exactly_the_content_that_was_chosen(
    scenes: Scenes, operation: Op, example: Ex
) -> None:
    case = scenes.case(operation, example)
    parts = parts_of(case.store(), operation, case.plan, case.card)
    [move] = case.plan.effects
    before, after = (
        files_of_or_none(path, move.ref) for path in (case.scene.path, scenes.landed(operation, example).path)
    )
    names = [one for part in parts for one in part.ids]
    touched = {path for part in parts for path in part_paths(part)}
    assert not parts or touched == {path for path in before | after if before.get(path) != after.get(path)}
    for part in parts:
        for name in part.ids:
            chosen, left = (landed_part(scenes, case, keep) for keep in ([name], [one for one in names if one != name]))
            for path in part_paths(part):
                check_divided(before.get(path), after.get(path), chosen.get(path), left.get(path), whole=not part.hunks)
            for path in (before | after).keys() - part_paths(part):
                assert (chosen.get(path), left.get(path)) == (before.get(path), after.get(path))


def landed_part(scenes: Scenes, case: Case, keep: list[str]) -> Files:
    """What a part of an example leaves on its branch; its card shows every path of it."""
    planned = plan_example_part(case, keep)
    assert plan_example_part(case, keep) == planned
    part = replace(case, planned=planned)
    check_shown(part)
    assert (part.pins, part.plan.commits[0].author) == (case.pins, case.plan.commits[0].author)
    path = scenes.copy(case.scene.path)
    execute(path, planned, PROPOSAL)
    assert git(path, "fsck", "--strict", "--no-dangling") == b""
    return files_of(path, case.plan.effects[0].ref)


def plan_example_part(case: Case, keep: list[str]) -> Planned:
    whole = Whole(UNDOING, case.planned.pins, case.planned.plan, case.planned.card, case.planned.objects)
    until = time.monotonic() + PLAN_SECONDS
    return plan_part(case.scene.path, case.operation, case.request, PROPOSAL, whole, keep, until)


def check_divided(before: Any, after: Any, chosen: Any, left: Any, *, whole: bool) -> None:
    """Of what is taken whole one side has all and the other nothing; of lines each has its own, and none is lost."""
    if whole:
        assert (chosen, left) == (after, before)
        return
    assert before[0] == after[0] == chosen[0] == left[0]
    assert chosen[1] not in {before[1], after[1]}
    assert Counter(texts(chosen) + texts(left)) == Counter(texts(before) + texts(after))


def texts(file: tuple[int, str]) -> list[str]:
    return file[1].splitlines(keepends=True)


def files_of_or_none(path: Path, ref: str) -> Files:
    return files_of(path, ref) if ref in refs_of(path) else {}


def part_paths(part: Part) -> set[str]:
    """The paths that change with a part."""
    found = {path for file in part.files for path in (file.path, file.old_path) if path is not None}
    return {path.decode("utf-8", "surrogateescape") for path in found}


@pytest.mark.parametrize("operation", [one for one in OPERATIONS.values() if one.divisible], ids=ids)
def test_every_divisible_operation_has_an_example_that_is_divided(scenes: Scenes, operation: Op) -> None:
    cases = (scenes.case(operation, one) for one in operation.examples() if not one.blocked)
    assert any(parts_of(case.store(), operation, case.plan, case.card) for case in cases)


LAWS: tuple[Law, ...] = (
    test_every_ref_that_moves_is_pinned_where_the_plan_moves_it_from,
    test_the_card_names_every_ref_that_moves,
    test_the_card_shows_every_path_that_changes_and_what_becomes_of_it,
    test_the_card_shows_every_commit_that_comes_or_leaves,
    test_a_move_that_is_not_forward_is_warned_of_and_a_rewrite_is_confirmed,
    test_policy_sees_what_the_plan_touches_before_anything_is_read,
    test_every_commit_is_by_the_proposer_or_by_whose_commit_it_repeats,
    test_what_an_execution_must_keep_is_decided_by_who_plans,
    test_a_request_with_a_field_nobody_knows_is_refused,
    test_planning_twice_gives_the_same_bytes_and_writes_nothing,
    test_every_example_lands_as_it_says,
    test_undoing_brings_every_file_back,
)
"""What a mistake may break, the laws that only plan first."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("operation", list(OPERATIONS.values()), ids=ids)
def test_a_seeded_mistake_breaks_a_law(scenes: Scenes, operation: Op, mistake: type[Mistake]) -> None:
    examples = possible(scenes, operation, mistake)
    cases = [scenes.case(operation, one) for one in examples if not one.blocked]
    broken = mistake(Recorded(operation, cases))
    assert not examples or any(breaks(scenes, broken, one) for one in examples)


@pytest.mark.parametrize("operation", list(OPERATIONS.values()), ids=ids)
def test_enough_mistakes_can_be_made_in_every_operation(scenes: Scenes, operation: Op) -> None:
    assert sum(bool(possible(scenes, operation, mistake)) for mistake in MISTAKES) >= MISTAKES_LEAST


def possible(scenes: Scenes, operation: Op, mistake: type[Mistake]) -> list[Ex]:
    """The examples in which the mistake makes a difference."""
    if mistake.of_blocked:
        return [one for one in operation.examples() if one.blocked]
    landing = (one for one in operation.examples() if not one.blocked)
    return [one for one in landing if mistake.matters(scenes.case(operation, one))]


def breaks(scenes: Scenes, operation: Any, example: Ex) -> bool:
    laws = LAWS if not example.blocked else (test_every_blocked_example_is_refused_with_its_code_and_stores_nothing,)
    first = [law for law in laws if law.__name__ == getattr(operation, "breaks", "")]
    return any(_breaks(law, scenes, operation, example) for law in (*first, *laws))


def _breaks(law: Law, scenes: Scenes, operation: Op, example: Ex) -> bool:
    try:
        law(scenes, operation, example)
    except BROKEN:
        return True
    return False


def own_refs(landed: Landed) -> dict[str, str]:
    """The marker, and what the execution keeps."""
    last = landed.sealed.effects[-1]
    made: dict[str, str] = {marker_ref(PROPOSAL): last.old if last.new == NULL else last.new}
    for move in landed.sealed.effects if must_keep(landed.case) else ():
        made |= (
            {made_ref(PROPOSAL, move.ref): move.new} if move.old == NULL else {kept_ref(PROPOSAL, move.ref): move.old}
        )
    return made


def all_files(path: Any) -> dict[str, Any]:
    """The files of every branch and tag that has some."""
    refs = [ref for ref in refs_of(path) if ref.startswith(("refs/heads/", "refs/tags/"))]
    return {ref: files for ref in refs if (files := files_of(path, ref))}


def must_keep(case: Case) -> bool:
    """Whether something is lost unless an execution keeps it."""
    return bool(case.plan.steps) or not all(is_forward(case, move) for move in case.plan.effects)


def is_forward(case: Case, move: MoveRef) -> bool:
    return NULL not in (move.old, move.new) and case.store().contains(move.new, move.old)


def notes(case: Case) -> list[Note]:
    return [note for section in case.card.sections for note in section.notes]


def said_of_files(note: Note) -> Iterator[tuple[str, str, str]]:
    """The branch, where a note says one, each path that it speaks of, and the SHA-256 of what that will hold."""
    for at in (note.at, note.params.get("old_path", "")):
        yield str(note.params.get("branch", "")), str(at), content_of(note)


def content_of(note: Note) -> str:
    """The SHA-256 of what the note says a path holds; of a submodule that of the commit's id."""
    is_gitlink = note.params.get("new_mode") == f"{GITLINK:06o}"
    return sha256(note.params["new_oid"].encode()) if is_gitlink else str(note.params.get("sha256", ""))


def words(value: Any) -> Iterator[str]:
    """Every text in a note, at any depth."""
    if isinstance(value, Note):
        yield from words([value.at, value.params])
    elif isinstance(value, dict):
        yield from words(list(value.values()))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from words(inner)
    elif isinstance(value, str):
        yield value


def counts(case: Case) -> set[str]:
    """What the headline counts besides files, and how long the lists of commits on the card are."""
    counted = {name: value for name, value in case.card.headline.params.items() if name not in FILE_COUNTS}
    lists = (section for section in case.card.sections if section.code not in {"files", "refs", "steps"})
    return {str(value) for value in counted.values()} | {str(len(section.notes)) for section in lists}

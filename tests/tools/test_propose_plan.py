"""Plans of several steps: what is wrong is named with its place, each step sees the one before, all of it lands."""

import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from service.contract.data import NULL, Json
from service.contract.operation import Made
from service.contract.plan import MoveRef, Need, Plan, RefAt
from service.contract.world import World
from service.grants.manage import add_clause
from service.grants.policy import Clause
from service.kit.errors import Code, Refusal
from service.proposals.planning import Conflicted, Planned, load_card, load_pins, load_plan, plan_proposal
from service.tools.propose.propose_plan import OPERATION, PlanRequest, PlanSteps, Step
from service.tools.registry import ProposeEntry
from service.tools.schema import faults
from service.tools.validation import errors_of, refuse
from tests.proposals.history import make_history
from tests.proposals.scenes import PROPOSAL, execute, files_of
from tests.stage import REGISTRY, House, git

AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"
HISTORY = {
    "old": Made(files={"README.md": "# Orchard\n"}),
    "base": Made(files={"README.md": "# Orchard\n", "app.py": "print('hello')\n"}, parents=("old",)),
}
REFS = {"refs/heads/main": "base", "refs/heads/done": "old", "refs/heads/a-first": "old"}
NEW = {"path": "new.txt", "content": "new\n"}
KINDS = sorted(set(REGISTRY.operations()) - {"propose_plan"})


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Planning only reads it."""
    path = tmp_path_factory.mktemp("plan") / "r.git"
    make_history(path, HISTORY, REFS)
    return path


def change(*files: Json, branch: str = "main", **more: Any) -> Json:
    words = {"branch": branch, "message": "Change files"}
    return {"kind": "propose_file_import", "arguments": {**words, "files": list(files) or [NEW], **more}}


def branch(name: str, source: str = "main") -> Json:
    return {"kind": "propose_branch", "arguments": {"branch": name, "source": source}}


def delete(*names: str) -> Json:
    return {"kind": "propose_branch_delete", "arguments": {"branches": list(names), "into": "main"}}


def tag(name: str, target: str = "main") -> Json:
    return {"kind": "propose_tag", "arguments": {"name": name, "target": target, "message": "A release"}}


def ask(steps: Any) -> PlanRequest:
    """The request as the registry reads it, and its steps as whoever asks first reads them."""
    request, errors = errors_of(PlanRequest, {"repository_id": str(UUID(int=3)), "reason": "Because.", "steps": steps})
    if request is None:
        raise refuse(errors)
    OPERATION.targets(request)
    return request


def plan(repository: Path, *steps: Json) -> Planned:
    return plan_proposal(repository, OPERATION, ask(list(steps)), UUID(int=5), AUTHOR, time.monotonic() + 60)


def test_the_arguments_of_a_step_are_any_object_and_the_schema_is_portable() -> None:
    entry = REGISTRY.find("propose_plan")
    assert entry is not None
    assert faults(entry.input_schema) == []
    assert entry.input_schema["properties"]["steps"]["items"]["properties"]["arguments"]["type"] == "object"


@pytest.mark.parametrize(
    ("steps", "code", "field"),
    [
        ([], Code.INVALID_ARGUMENT, "steps"),
        ([change()] * 11, Code.INVALID_ARGUMENT, "steps"),
        ("steps", Code.INVALID_ARGUMENT, "steps"),
        ([{"kind": "propose_file_import"}], Code.INVALID_ARGUMENT, "steps[0].arguments"),
        ([{"arguments": {}}], Code.INVALID_ARGUMENT, "steps[0].kind"),
        ([{**change(), "arguments": []}], Code.INVALID_ARGUMENT, "steps[0].arguments"),
        ([{**change(), "interactive": True}], Code.INVALID_ARGUMENT, "steps[0].interactive"),
        ([change(), {"kind": "git push", "arguments": {}}], Code.INVALID_ARGUMENT, "steps[1].kind"),
        ([{"kind": "read_repository", "arguments": {}}], Code.INVALID_ARGUMENT, "steps[0].kind"),
        ([{"kind": "k" * 41, "arguments": {}}], Code.INVALID_ARGUMENT, "steps[0].kind"),
        ([{"kind": "propose_file_import", "arguments": {}}], Code.INVALID_ARGUMENT, "steps[0].arguments.branch"),
        ([change(), change(interactive=True)], Code.INVALID_ARGUMENT, "steps[1].arguments.interactive"),
        ([change({**NEW, "content": "x" * 100_001})], Code.INVALID_ARGUMENT, "steps[0].arguments.files[0].content"),
        ([change(NEW, {**NEW, "<b>": 1})], Code.INVALID_ARGUMENT, "steps[0].arguments.files[1].?"),
        ([change(*[NEW] * 21)], Code.INVALID_ARGUMENT, "steps[0].arguments.files"),
        ([change(), change({"path": "../x", "content": ""})], Code.PATH_REJECTED, "steps[1].arguments.files[0].path"),
        ([change(), change(branch="a..b")], Code.REF_REJECTED, "steps[1].arguments.branch"),
        ([change(message="x\n\nProposal: y")], Code.TEXT_REJECTED, "steps[0].arguments.message"),
        ([change(expected_base_oid="main")], Code.INVALID_ARGUMENT, "steps[0].arguments.expected_base_oid"),
        *(
            ([change(**{name: "x"})], Code.INVALID_ARGUMENT, f"steps[0].arguments.{name}")
            for name in ("repository_id", "reason", "idempotency_key", "group_id")
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(steps: Any, code: Code, field: str) -> None:
    with pytest.raises(Refusal) as caught:
        ask(steps)
    assert caught.value.code is code
    assert caught.value.details["field"] == field


@pytest.mark.parametrize("kind", ["propose_plan", "propose_nothing"])
def test_a_kind_that_cannot_be_a_step_is_refused_with_those_that_can(kind: str) -> None:
    with pytest.raises(Refusal) as caught:
        ask([change(), {"kind": kind, "arguments": {"steps": [change()]}}])
    assert caught.value.details["kinds"] == KINDS
    assert "propose_plan" not in KINDS
    assert caught.value.message.startswith("steps[1].kind is none of ")


def test_everything_that_is_wrong_in_a_step_is_told_with_limits_and_places() -> None:
    with pytest.raises(Refusal) as caught:
        ask([change(), change(message="", branch=1)])  # type: ignore[arg-type]
    told = {one["field"]: one for one in caught.value.details["errors"]}
    assert told["steps[1].arguments.message"]["limit"] == 1
    assert all(one["message"].startswith(field) for field, one in told.items())
    assert set(told) == {"steps[1].arguments.message", "steps[1].arguments.branch"}


def test_what_was_received_says_in_which_step() -> None:
    received = OPERATION.received(ask([change(), change({"path": "b", "content": "12"})]))
    assert [(one["path"], one["bytes"]) for one in received] == [("steps[0]:new.txt", 4), ("steps[1]:b", 2)]


@pytest.mark.parametrize(
    ("steps", "code", "told"),
    [
        (
            [change(), change({**NEW, "action": "create"})],
            Code.FILE_EXISTS,
            {"step": 2, "field": "steps[1].arguments.files[0]"},
        ),
        ([change(), change(branch="nowhere")], Code.BRANCH_MISSING, {"step": 2, "field": "steps[1]", "at": "nowhere"}),
        ([change(), branch("main")], Code.BRANCH_EXISTS, {"step": 2, "field": "steps[1]"}),
        ([branch("x/y"), branch("x")], Code.BRANCH_EXISTS, {"step": 2}),
        ([branch("x"), branch("x/y")], Code.BRANCH_EXISTS, {"step": 2}),
        ([branch("done/again"), delete("done")], Code.BRANCH_EXISTS, {"step": 1}),
        (
            [delete("done"), branch("done/again")],
            Code.BRANCH_EXISTS,
            {"step": 2, "field": "steps[1]", "by": "done"},
        ),
        ([delete("done"), change(branch="done")], Code.BRANCH_MISSING, {"step": 2, "field": "steps[1]", "at": "done"}),
        ([delete("done"), tag("v1", "done")], Code.COMMIT_MISSING, {"step": 2}),
        (
            [branch("x"), change(branch="x"), change(branch="x", expected_base_oid="1" * 40)],
            Code.INVALID_ARGUMENT,
            {"step": 3, "moved_by": 2, "at": "x", "field": "steps[2].arguments.expected_base_oid"},
        ),
        ([branch("x"), change(branch="main", expected_base_oid="1" * 40)], Code.BASE_MOVED, {"ref": "refs/heads/main"}),
        ([branch("x"), delete("x")], Code.NOTHING_TO_CHANGE, {}),
    ],
)
def test_a_plan_that_cannot_be_done_says_which_step_and_why(
    repository: Path, steps: list[Json], code: Code, told: Json
) -> None:
    with pytest.raises(Refusal) as caught:
        plan(repository, *steps)
    assert caught.value.code is code
    assert told == {name: caught.value.details.get(name) for name in told}


class Careless:
    """Makes a branch, or takes it away, and does not look at others."""

    kind = "careless"

    def targets(self, request: str) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (request,), ()

    def pins(self, request: str, seen: Any) -> tuple[Need, ...]:
        return () if seen else (Need(fact=RefAt(name=request)),)

    def plan(self, request: str, world: World) -> Plan:
        old = world.ref(request)
        tip = next(oid for oid in world.seen.values() if oid != NULL)
        return Plan(
            kinds=(self.kind,), build=(), effects=(MoveRef(ref=request, old=old, new=NULL if old != NULL else tip),)
        )

    def read(self, _kind: str, arguments: Json, *_more: str) -> tuple[Any, str]:
        return self, str(arguments["ref"])


@pytest.mark.parametrize(
    ("refs", "step", "by"),
    [
        (("refs/heads/done", "refs/heads/done/again"), 2, "done"),
        (("refs/heads/done/again", "refs/heads/done"), 1, "done"),
        (("refs/heads/done", "refs/heads/x", "refs/heads/x/y"), 2, "x/y"),
    ],
)
def test_refs_that_cannot_be_together_are_not_moved_together(
    repository: Path, refs: tuple[str, ...], step: int, by: str
) -> None:
    operation = PlanSteps()
    operation.compose(Careless())
    request = ask([change()] * len(refs)).model_copy(
        update={"steps": [Step(kind="careless", arguments={"ref": ref}) for ref in refs]}
    )
    with pytest.raises(Refusal) as caught:
        plan_proposal(repository, operation, request, UUID(int=5), AUTHOR, time.monotonic() + 60)
    assert caught.value.code is Code.BRANCH_EXISTS
    assert (caught.value.details["step"], caught.value.details["by"]) == (step, by)


def test_a_name_that_only_the_repository_shows_to_be_wrong_is_named_with_its_place(tmp_path: Path) -> None:
    make_history(tmp_path / "empty.git", {}, {})
    with pytest.raises(Refusal) as caught:
        plan(tmp_path / "empty.git", change(branch="wrong!"))
    assert caught.value.code is Code.REF_REJECTED
    assert caught.value.details["field"] == "steps[0].arguments.branch"
    assert caught.value.details["step"] == 1


def test_each_ref_moves_once_from_where_it_was_to_where_the_last_step_leaves_it(repository: Path) -> None:
    steps = [change(), change({**NEW, "content": "2\n"}), branch("x"), branch("y"), change(branch="x"), delete("y")]
    made = load_plan(plan(repository, *steps).plan)
    first, second, third = made.commits
    assert [(move.ref, move.new) for move in made.effects] == [
        ("refs/heads/main", second.id),
        ("refs/heads/x", third.id),
    ]
    assert (second.parents, third.parents) == ((first.id,), (second.id,))
    assert made.effects[1].old == NULL
    assert made.kinds[0] == "propose_plan"
    assert made.kinds[1:] == tuple(step["kind"] for step in steps)
    assert len(made.steps) == 6


def test_what_an_earlier_step_makes_is_pinned_as_absent_and_nothing_else_with_it(repository: Path) -> None:
    pins = {pin.fact.name: pin.seen for pin in load_pins(plan(repository, branch("x"), change(branch="x")).pins)}
    assert pins["refs/heads/x"] == NULL
    assert "refs/heads/" not in pins


def test_a_tag_that_an_earlier_step_makes_leads_to_its_commit(repository: Path) -> None:
    made = load_plan(plan(repository, change(), tag("v1"), branch("x", "refs/tags/v1")).plan)
    assert {move.ref: move.new for move in made.effects}["refs/heads/x"] == made.commits[0].id


def test_of_a_new_branch_only_what_differs_from_where_it_starts_is_shown(repository: Path) -> None:
    planned = plan(repository, branch("x"), change(branch="x"))
    files = next(section for section in load_card(planned.card).sections if section.code == "files")
    assert [(note.code, note.at, "branch" in note.params) for note in files.notes] == [
        ("file_created", "new.txt", False)
    ]
    assert planned.paths == (b"new.txt",)


def test_the_card_numbers_the_steps_and_tells_what_they_lose(repository: Path) -> None:
    workflow = {"path": ".github/workflows/ci.yml", "content": "on: push\n"}
    steps = [change(workflow, message="One"), delete("done"), change(workflow, branch="a-first", message="T\u202ewo")]
    card = load_card(plan(repository, *steps).card)
    assert [(note.name, note.params["step"]) for note in card.warnings] == [
        ("runs_or_redirects:.github/workflows/ci.yml", 1),
        ("hidden_characters://message_3", 3),
        ("deletes_branch:done", 2),
    ]
    numbered = next(section for section in card.sections if section.code == "steps").notes
    assert [(note.at, note.params["kind"], note.params["destructive"]) for note in numbered] == [
        ("1", "propose_file_import", False),
        ("2", "propose_branch_delete", True),
        ("3", "propose_file_import", False),
    ]
    assert numbered[1].params["headline"]["at"] == "done"
    assert card.agent_words == {"reason": "Because.", "message_1": "One", "message_3": "T\u202ewo"}
    files = next(section for section in card.sections if section.code == "files").notes
    assert [note.params["branch"] for note in files] == ["main", "a-first"]
    assert card.headline.params["destructive"] == 1


EVIL = {"path": "evil.py", "content": "import os\n"}
CHANGED = {"path": "app.py", "content": "EVIL\n"}
BACK = {"path": "app.py", "content": "print('hello')\n"}
RESET = {"kind": "propose_reset", "arguments": {"branch": "main", "target": "a-first"}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((change(EVIL), tag("v1"), RESET), "evil.py"),
        ((change(CHANGED), tag("v1"), change(BACK, NEW)), "app.py"),
        ((change(CHANGED), change(BACK, NEW)), "app.py"),
        ((change(CHANGED), branch("kept"), change(BACK, NEW)), "app.py"),
    ],
    ids=["tagged and reset", "tagged and taken back", "taken back", "kept on a branch"],
)
async def test_what_a_plan_brings_is_shown_wherever_it_ends(house: House, steps: tuple[Json, ...], path: str) -> None:
    git(house.path, "update-ref", "refs/heads/a-first", house.head())
    words = {"repository_id": str(house.repository), "reason": "Because."}
    shown = await house.propose({**words, "steps": list(steps)}, tool="propose_plan")
    view = await house.card(shown)
    brought = {file.new for file in view.files if file.path.decode() == path}
    assert b"EVIL\n" in brought or b"import os\n" in brought
    noted = {note.at for section in view.card.sections if section.code == "files" for note in section.notes}
    assert path in noted
    assert all(file.of for file in view.files) == (len({file.of for file in view.files}) > 1)


def test_a_branch_that_goes_and_comes_elsewhere_is_a_rewrite_that_is_typed_and_that_the_policy_knows(
    repository: Path,
) -> None:
    planned = plan(repository, delete("done"), branch("done", "a-first"), change(branch="done"))
    assert not [note for note in load_card(planned.card).warnings if note.code == "rewrites_history"]
    moved = plan(repository, change(branch="done"), delete("a-first"), tag("v1"))
    assert "propose_reset" not in moved.kinds
    lonely = git(repository, "commit-tree", "main^{tree}", "-m", "Lonely").decode().strip()
    planned = plan(repository, delete("done"), branch("done", lonely))
    warned = {note.name: note.params.get("confirm") for note in load_card(planned.card).warnings}
    assert warned["rewrites_history:done"] == "done"
    assert "propose_reset" in planned.kinds


def test_what_leaves_a_branch_is_told_of_all_steps_together(repository: Path) -> None:
    back = {"kind": "propose_reset", "arguments": {"branch": "main", "target": "done"}}
    card = load_card(plan(repository, back, change(), back).card)
    assert [note.params["leaves"] for note in card.warnings if note.code == "rewrites_history"] == [1]


def test_ten_steps_of_twenty_files_are_one_plan(repository: Path) -> None:
    steps = [
        change(*({"path": f"{step}/{number}", "content": f"{number}\n"} for number in range(20))) for step in range(10)
    ]
    planned = plan(repository, *steps)
    assert len(load_plan(planned.plan).commits) == 10
    assert len(planned.paths) == 200
    assert load_card(planned.card).headline.params["created"] == 200


def step(kind: str, **arguments: Any) -> Json:
    return {"kind": f"propose_{kind}", "arguments": arguments}


APART = {
    "old": Made(files={"app.py": "one\ntwo\nthree\n"}),
    "main": Made(files={"app.py": "one\ntwo\nthree\n", "m": "m\n"}, parents=("old",)),
    "topic": Made(files={"app.py": "one\ntwo\nthree\n", "t": "t\n"}, parents=("old",)),
}
ON_MAIN, ON_TOPIC = change(), change({"path": "late", "content": "late\n"}, branch="topic")
PATCH = """--- a/new.txt
+++ b/new.txt
@@ -1 +1 @@
-new
+newer
"""


@pytest.mark.parametrize(
    ("steps", "ref", "changed"),
    [
        ([ON_TOPIC, step("merge", branch="main", source="topic")], "main", {"t": "t\n", "late": "late\n"}),
        ([ON_MAIN, step("rebase", branch="topic", onto="main")], "topic", {"m": "m\n", "t": "t\n", "new.txt": "new\n"}),
        ([ON_TOPIC, step("cherry_pick", branch="main", commits=["topic"])], "main", {"late": "late\n"}),
        ([ON_MAIN, step("revert", branch="main", commits=["main"])], "main", {}),
        (
            [
                ON_MAIN,
                step(
                    "edit",
                    branch="main",
                    message="Edit",
                    edits=[{"path": "new.txt", "search": "new", "replace": "newer"}],
                ),
            ],
            "main",
            {"new.txt": "newer\n"},
        ),
        ([ON_MAIN, step("patch", branch="main", message="Patch", patch=PATCH)], "main", {"new.txt": "newer\n"}),
        (
            [
                branch("x"),
                change({"path": "x", "content": "x\n"}, branch="x"),
                ON_MAIN,
                step("merge", branch="main", source="x", message="Take x"),
                delete("x"),
                tag("v1"),
                step("reset", branch="topic", target="refs/tags/v1"),
            ],
            "topic",
            {"m": "m\n", "new.txt": "new\n", "x": "x\n"},
        ),
    ],
)
def test_a_step_works_on_what_the_steps_above_made(
    tmp_path: Path, steps: list[Json], ref: str, changed: dict[str, str]
) -> None:
    path = tmp_path / "r.git"
    make_history(path, APART, {"refs/heads/main": "main", "refs/heads/topic": "topic"})
    kept = {} if ref == "topic" and "m" in changed else {"m": "m\n"}
    execute(path, plan(path, *steps), PROPOSAL)
    wanted = {"app.py": "one\ntwo\nthree\n", **kept, **changed}
    assert {name: text for name, (_, text) in files_of(path, f"refs/heads/{ref}").items()} == wanted
    assert git(path, "fsck", "--strict", "--no-dangling") == b""


def test_what_is_only_planned_is_called_by_the_step_that_makes_it(repository: Path) -> None:
    steps = [
        branch("x"),
        change({"path": "x", "content": "x\n"}, branch="x"),
        ON_MAIN,
        step("merge", branch="main", source="x"),
        delete("x"),
    ]
    card = load_card(plan(repository, *steps, tag("v1"), branch("y", "refs/tags/v1")).card)
    assert [note.params["oid"] for note in card.warnings if note.code == "deletes_branch"] == ["step 2"]
    headlines = [note.params["headline"] for section in card.sections[:1] for note in section.notes]
    assert [one["params"].get("oid") for one in headlines[5:]] == ["step 4", "step 4"]


def test_the_conflicts_of_a_step_are_kept_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "r.git"
    make_history(path, APART, {"refs/heads/main": "main", "refs/heads/topic": "topic"})
    steps = [change({"path": "t", "content": "other\n"}), step("merge", branch="main", source="topic")]
    with pytest.raises(Conflicted) as caught:
        plan(path, *steps)
    assert caught.value.code is Code.CONFLICTS
    assert caught.value.details["step"] == 2
    assert [(one.path, one.kind) for one in caught.value.conflicts] == [(b"t", "both_added")]


@pytest.mark.anyio
async def test_a_plan_lands_whole_and_its_steps_are_what_the_policy_allows(house: House) -> None:
    entry = REGISTRY.find("propose_plan")
    assert isinstance(entry, ProposeEntry)
    sent = {"repository_id": str(house.repository), "reason": "Because.", "steps": [branch("x"), change(branch="x")]}
    answer = await entry.call({**sent, "idempotency_key": "a-plan-1"}, house.stage.ports(house.agent))
    shown = answer.model_dump(mode="json")
    assert (await house.decide(shown)).state == "approved"
    assert await house.execute(shown)
    assert (await house.read(shown))["status"] == "executed"
    assert house.content("new.txt", "x") == b"new\n"
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await add_clause(tx, house.owner.actor, house.agent.id, Clause("deny", "operation", "propose_file_import"))
    sent["steps"] = [branch("y"), change(branch="y")]
    with pytest.raises(Refusal) as caught:
        await entry.call({**sent, "idempotency_key": "a-plan-2"}, house.stage.ports(house.agent))
    assert caught.value.code is Code.POLICY_DENIED

"""Operations that move refs without new content: each case lands on real git, is taken back, and comes again; attacks
by name, by object and by what moved meanwhile are refused and change nothing.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from service.contract.data import NULL, Json, Oid
from service.contract.operation import Operation
from service.contract.plan import MoveRef, Note, Outcome, Plan, RefAt, ReviewCard
from service.contract.room import new_ref_needs, ref_obstacle
from service.contract.undoing import RESTORED_MOST, kept_ref, made_ref, reset_of, restore_of
from service.contract.world import World
from service.kit.errors import Code, Refusal
from service.proposals.planning import (
    Planned,
    broken_pin,
    load_card,
    load_manifests,
    load_pins,
    load_plan,
    plan_proposal,
)
from service.proposals.tables import proposal
from service.proposals.undo import Undo
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.repositories.staging import Staging
from service.tools.validation import errors_of, refuse
from service.writer import intent
from service.writer.intent import seal
from service.writer.provenance import Trailers
from service.writer.write import write
from tests.stage import REGISTRY, House, git

AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"
COMMITTER = b"Olive Owner <o@example.org> 1700000100 +0000"
POINT = "0d9c1f0e-1a5b-4c3d-8e7f-2b6a4c8d0e1f"
KEPT, MADE = f"refs/restore/{POINT}/kept", f"refs/restore/{POINT}/made"
OPERATIONS: Mapping[str, Operation[Any]] = REGISTRY.operations()


# One history: c1 - c2 - c3, side from c1, alone by itself.


def _commit(mark: int, ref: str, parent: int | None, files: Mapping[str, str]) -> str:
    who = f"Ann <ann@example.org> {1_600_000_000 + mark} +0000"
    lines = [
        f"commit {ref}",
        f"mark :{mark}",
        f"author {who}",
        f"committer {who}",
        f"data {len(f'C{mark}')}",
        f"C{mark}",
    ]
    lines += [f"from :{parent}"] if parent else []
    for path, content in files.items():
        lines += [f"M 100644 inline {path}", f"data {len(content)}", content]
    return "\n".join(lines) + "\n\n"


C1, C2, C3, SIDE, ALONE = range(1, 6)
HISTORY = (
    _commit(C1, "refs/heads/main", None, {"a.txt": "1"}),
    _commit(C2, "refs/heads/main", C1, {"a.txt": "2", "b.txt": "b"}),
    _commit(C3, "refs/heads/main", C2, {"a.txt": "3"}),
    _commit(SIDE, "refs/heads/side", C1, {"side.txt": "s"}),
    _commit(ALONE, "refs/heads/alone", None, {"x.txt": "x"}),
)
REFS = {
    "refs/heads/old": C1,
    "refs/heads/same": C3,
    "refs/heads/dir/x": C2,
    "refs/heads/dir/y": C1,
    "refs/tags/light": C1,
    "refs/tags/dir/t": C1,
    f"{KEPT}/heads/main": SIDE,
    f"{KEPT}/heads/gone": C2,
    f"{KEPT}/heads/same": C3,
    f"{KEPT}/heads/old/x": C1,
    f"{KEPT}/tags/light": C2,
    f"{KEPT}/heads/both": C1,
    f"{MADE}/heads/both": C1,
    f"{MADE}/heads/side": SIDE,
    f"{MADE}/heads/dir/x": C1,
    f"{MADE}/heads/never": C1,
    f"{MADE}/tags/light": C1,
}


@dataclass(frozen=True)
class History:
    """A repository that is only read, and the ids of its objects by name."""

    path: Path
    oids: Mapping[str, str]

    def copy(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.path, folder / "copy.git"))

    def fill(self, value: Any) -> Any:
        """The value with `{name}` replaced by that object's id."""
        if isinstance(value, str):
            return value.format(**self.oids)
        return [self.fill(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    path = tmp_path_factory.mktemp("history") / "r.git"
    git(path.parent, "init", "-q", "--bare", "-b", "main", str(path))
    resets = "".join(f"reset {ref}\nfrom :{mark}\n\n" for ref, mark in REFS.items())
    tag = "tag annotated\nfrom :2\ntagger Ann <ann@example.org> 1600000000 +0000\ndata 1\nT\n"
    marks = path.parent / "marks"
    git(path, "fast-import", "--quiet", f"--export-marks={marks}", stdin=("".join(HISTORY) + resets + tag).encode())
    found = dict(line.split() for line in marks.read_text().splitlines())
    names = {"c1": C1, "c2": C2, "c3": C3, "side": SIDE, "alone": ALONE}
    oids = {name: found[f":{mark}"] for name, mark in names.items()}
    oids["tag"] = refs(path)["refs/tags/annotated"]
    oids["tree"], oids["blob"] = git(path, "rev-parse", "main^{tree}", "main:a.txt").decode().split()
    git(path, "-c", "user.name=A", "-c", "user.email=a@example.org", "tag", "-m", "x", "deep", "annotated")
    found = refs(path)
    oids["deep"] = found["refs/tags/deep"]
    for ref in ("refs/tags/blob", f"{KEPT}/heads/blob"):
        (path / ref).write_text(oids["blob"] + "\n")
    (path / KEPT / "tags/deep2").write_text(oids["deep"] + "\n")
    yield History(path, oids)
    assert refs(path) == {**found, "refs/tags/blob": oids["blob"]}, "planning moves nothing"


def refs(repository: Path) -> dict[str, str]:
    """The branches and tags."""
    listed = git(repository, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags")
    return dict(line.split() for line in listed.decode().splitlines())


def put(repository: Path, ref: str, oid: str) -> None:
    """Move a ref as another hand does."""
    path = repository / ref
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(oid + "\n")


def ask(kind: str, **arguments: Any) -> Any:
    sent = {"repository_id": str(uuid4()), "reason": "Because.", **arguments}
    request, errors = errors_of(OPERATIONS[kind].request, sent)
    if request is None:
        raise refuse(errors)
    return request


def plan(repository: Path, kind: str, **arguments: Any) -> Planned:
    request = ask(kind, **arguments)
    return plan_proposal(repository, OPERATIONS[kind], request, UUID(int=5), AUTHOR, time.monotonic() + 60)


@dataclass(frozen=True)
class Done:
    """An execution."""

    planned: Planned
    plan: Plan
    card: ReviewCard
    outcome: Outcome


def land(repository: Path, kind: str, **arguments: Any) -> Done:
    """Plan and execute; nothing but what the plan says happens, and git finds nothing wrong."""
    before, planned = refs(repository), plan(repository, kind, **arguments)
    what, proposal = load_plan(planned.plan), uuid4()
    assert broken_pin(BareRepository(repository), load_pins(planned.pins)) is None
    sealed = seal(what, COMMITTER, Trailers(proposal, "o@example.org", UUID(int=1), planned.digest))
    bare, reviewed = BareRepository(repository), load_manifests(planned.manifest)
    write(bare, what, reviewed, decode(planned.objects), sealed, lambda _name: None)
    assert git(repository, "fsck", "--strict", "--no-dangling", "--no-progress") == b""
    moved = {move.ref: move.new for move in sealed.effects if move.new != NULL}
    gone = {move.ref for move in sealed.effects if move.new == NULL}
    assert refs(repository) == {ref: oid for ref, oid in {**before, **moved}.items() if ref not in gone}
    point = str(proposal) if what.restorable else None
    outcome = Outcome(request=arguments, moves=sealed.effects, commits=(), restore_point=point)
    return Done(planned, what, load_card(planned.card), outcome)


def refused(repository: Path, kind: str, **arguments: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        plan(repository, kind, **arguments)
    return caught.value


def names(notes: Sequence[Note]) -> list[str]:
    return [note.name for note in notes]


def section(card: ReviewCard, code: str) -> list[Note]:
    return [note for one in card.sections if one.code == code for note in one.notes]


def subjects(card: ReviewCard, code: str) -> list[str]:
    return [note.params["subject"] for note in section(card, code)]


# What lands


@dataclass(frozen=True)
class Case:
    """A request on the history, where refs are then, and what the card says; `{name}` is an object's id."""

    name: str
    kind: str
    arguments: Json
    after: Mapping[str, str | None]
    headline: str
    warnings: tuple[str, ...] = ()
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subjects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


MANY = ["old", "same", "side", "none", "main", "dir/y"]
CASES = (
    Case(
        "reset to a light tag",
        "propose_reset",
        {"branch": "main", "target": "light", "expected_base_oid": "{c3}"},
        {"refs/heads/main": "c1"},
        "reset_branch:main",
        ("rewrites_history:main", "deletes_file:b.txt"),
        {"files": ("file_updated:a.txt", "file_deleted:b.txt")},
        {"leaves": ("C3", "C2"), "commits": ()},
    ),
    Case(
        "reset to an annotated tag",
        "propose_reset",
        {"branch": "main", "target": "annotated"},
        {"refs/heads/main": "c2"},
        "reset_branch:main",
        ("rewrites_history:main",),
        subjects={"leaves": ("C3",)},
    ),
    Case(
        "reset to a tag of a tag",
        "propose_reset",
        {"branch": "refs/heads/main", "target": "refs/tags/deep"},
        {"refs/heads/main": "c2"},
        "reset_branch:main",
        ("rewrites_history:main",),
    ),
    Case(
        "reset aside to another branch",
        "propose_reset",
        {"branch": "main", "target": "side"},
        {"refs/heads/main": "side"},
        "reset_branch:main",
        ("rewrites_history:main", "deletes_file:b.txt"),
        subjects={"leaves": ("C3", "C2"), "commits": ("C4",)},
    ),
    Case(
        "reset to a history that has nothing in common",
        "propose_reset",
        {"branch": "side", "target": "{alone}"},
        {"refs/heads/side": "alone"},
        "reset_branch:side",
        ("rewrites_history:side", "deletes_file:a.txt", "deletes_file:side.txt"),
        subjects={"leaves": ("C4", "C1"), "commits": ("C5",)},
    ),
    Case(
        "reset forward",
        "propose_reset",
        {"branch": "old", "target": "{c3}"},
        {"refs/heads/old": "c3"},
        "advance_branch:old",
        subjects={"leaves": (), "commits": ("C3", "C2")},
    ),
    Case(
        "make a branch",
        "propose_branch",
        {"branch": "topic/new", "source": "main", "group_id": "group-01"},
        {"refs/heads/topic/new": "c3"},
        "create_branch:topic/new",
        notes={"refs": ("ref_comes:topic/new",)},
        subjects={"refs": ("C3",)},
    ),
    Case(
        "make a branch from a tag of a tag, beside its siblings",
        "propose_branch",
        {"branch": "dir/z", "source": "deep"},
        {"refs/heads/dir/z": "c2"},
        "create_branch:dir/z",
        subjects={"refs": ("C2",)},
    ),
    Case(
        "make a branch with the name of a tag, from a commit id",
        "propose_branch",
        {"branch": "light", "source": "{alone}"},
        {"refs/heads/light": "alone"},
        "create_branch:light",
    ),
    Case(
        "delete what is merged of a list",
        "propose_branch_delete",
        {"branches": MANY, "into": "main"},
        {"refs/heads/old": None, "refs/heads/same": None, "refs/heads/dir/y": None},
        "delete_branches",
        ("deletes_branch:old", "deletes_branch:same", "deletes_branch:dir/y"),
        {
            "refs": ("ref_goes:old", "ref_goes:same", "ref_goes:dir/y"),
            "kept": ("kept_branch:side", "kept_branch:none", "kept_branch:main"),
        },
        {"refs": ("C1", "C3", "C1")},
    ),
    Case(
        "delete a branch of which another has everything",
        "propose_branch_delete",
        {"branches": ["dir/x"], "into": "refs/heads/same"},
        {"refs/heads/dir/x": None},
        "delete_branches:dir/x",
        ("deletes_branch:dir/x",),
        {"kept": ()},
    ),
    Case(
        "tag a branch",
        "propose_tag",
        {"name": "v2", "target": "main", "message": "Two\n\nIt is out."},
        {"refs/tags/v2": ""},
        "create_tag:v2",
        notes={"refs": ("ref_comes:v2",)},
        subjects={"refs": ("C3",)},
    ),
    Case(
        "tag what a tag of a tag leads to, and hide something",
        "propose_tag",
        {"name": "dir/u", "target": "deep", "message": "x\u202ey", "reason": "p\u0430y"},
        {"refs/tags/dir/u": ""},
        "create_tag:dir/u",
        ("hidden_characters://message", "mixed_scripts://reason"),
        subjects={"refs": ("C2",)},
    ),
    Case(
        "restore a branch aside, one that was deleted, and take away one that was made",
        "propose_restore",
        {"restore_point_id": POINT, "refs": ["refs/heads/main", "refs/heads/gone", "refs/heads/side"]},
        {"refs/heads/main": "side", "refs/heads/gone": "c2", "refs/heads/side": None},
        "restore_refs",
        ("rewrites_history:main", "deletes_branch:side", "deletes_file:b.txt"),
        {
            "refs": ("ref_moves_back:main", "ref_comes_back:gone", "ref_goes:side"),
            "files": ("file_updated:a.txt", "file_deleted:b.txt", "file_created:side.txt"),
        },
        {"leaves": ("C3", "C2"), "commits": ("C4",)},
    ),
    Case(
        "restore leaves out what is so already",
        "propose_restore",
        {"restore_point_id": POINT, "refs": ["refs/heads/same", "refs/heads/never", "refs/heads/gone"]},
        {"refs/heads/gone": "c2"},
        "restore_refs:gone",
        notes={"refs": ("ref_comes_back:gone",), "files": (), "leaves": ()},
    ),
    Case(
        "restore a tag object",
        "propose_restore",
        {"restore_point_id": POINT, "refs": ["refs/tags/deep2"]},
        {"refs/tags/deep2": "deep"},
        "restore_refs:deep2",
        subjects={"refs": ("C2",)},
    ),
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_each_lands_as_the_card_says_can_be_taken_back_and_done_again(
    history: History, tmp_path: Path, case: Case
) -> None:
    repository = history.copy(tmp_path)
    before = refs(repository)
    done = land(repository, case.kind, **{name: history.fill(value) for name, value in case.arguments.items()})
    after = refs(repository)
    assert {ref for ref in {*before, *after} if before.get(ref) != after.get(ref)} == set(case.after)
    assert all(after.get(ref) == (name and history.oids[name]) for ref, name in case.after.items() if name != "")
    assert done.card.headline.name == case.headline
    assert names(done.card.warnings) == list(case.warnings)
    assert {code: tuple(names(section(done.card, code))) for code in case.notes} == case.notes
    assert {code: tuple(subjects(done.card, code)) for code in case.subjects} == case.subjects
    for expected in (before, after):
        wish = OPERATIONS[done.outcome.request.get("kind", case.kind)].undo(done.outcome)
        assert wish
        done = land(repository, wish.kind, **wish.arguments)
        done.outcome.request["kind"] = wish.kind
        assert refs(repository) == expected


@every_case
def test_everything_touched_is_pinned_and_shown_and_planned_the_same_twice(history: History, case: Case) -> None:
    arguments = {name: history.fill(value) for name, value in case.arguments.items()}
    planned = plan(history.path, case.kind, repository_id=str(UUID(int=7)), **arguments)
    assert planned == plan(history.path, case.kind, repository_id=str(UUID(int=7)), **arguments)
    pinned = {pin.fact: pin.seen for pin in load_pins(planned.pins)}
    assert all(fact.hold != "as_moved" for fact in pinned)
    targets, paths = OPERATIONS[case.kind].targets(ask(case.kind, **arguments))
    card = load_card(planned.card)
    shown = {note.at for one in card.sections for note in one.notes} | {card.headline.at}
    for move in load_plan(planned.plan).effects:
        assert pinned[RefAt(name=move.ref)] == move.old
        assert move.ref in targets
        assert move.ref.split("/", 2)[2] in shown
    assert paths == ()


@every_case
def test_each_fact_that_was_read_makes_it_stale_when_it_changes(history: History, tmp_path: Path, case: Case) -> None:
    repository = history.copy(tmp_path)
    planned = plan(repository, case.kind, **{name: history.fill(value) for name, value in case.arguments.items()})
    for pin in load_pins(planned.pins):
        ref = f"{pin.fact.name}new" if pin.fact.name.endswith("/") else pin.fact.name
        own = (repository / ref).read_text() if (repository / ref).is_file() else ""
        if (repository / ref).is_dir() or any(above.is_file() for above in (repository / ref).parents):
            continue  # git itself lets no ref of this name come to be
        put(repository, ref, history.oids["alone" if pin.seen != history.oids["alone"] else "c1"])
        broken = broken_pin(BareRepository(repository), load_pins(planned.pins))
        assert broken, pin
        if own:
            (repository / ref).write_text(own)
        else:
            (repository / ref).unlink()
            shutil.rmtree(repository / ref.rpartition("/")[0]) if ref.endswith("/new") else None
    assert broken_pin(BareRepository(repository), load_pins(planned.pins)) is None


def test_what_a_tag_says_is_the_message_and_who_approved_it(history: History, tmp_path: Path) -> None:
    repository = history.copy(tmp_path)
    done = land(repository, "propose_tag", name="v2", target="annotated", message="Two\n\nIt is out.\n")
    lines = git(repository, "cat-file", "tag", "v2").decode().split("\n")
    assert lines[:4] == [f"object {history.oids['c2']}", "type commit", "tag v2", f"tagger {COMMITTER.decode()}"]
    assert lines[5:8] == ["Two", "", "It is out."]
    assert [line.partition(":")[0] for line in lines[9:12]] == ["Proposal", "Approved-by", "Connection"]
    assert done.card.agent_words == {"reason": "Because.", "message": "Two\n\nIt is out.\n"}
    assert load_manifests(done.planned.manifest) == ()


def test_who_rewrites_a_branch_types_its_name_and_who_moves_it_forward_does_not(history: History) -> None:
    for branch, target, confirm in (
        ("main", "side", [{"leaves": 2, "comes": 1, "confirm": "main"}]),
        ("old", "main", []),
    ):
        card = load_card(plan(history.path, "propose_reset", branch=branch, target=target).card)
        assert [note.params for note in card.warnings if "confirm" in note.params] == confirm


def test_each_branch_that_is_kept_is_said_with_why(history: History) -> None:
    card = load_card(plan(history.path, "propose_branch_delete", branches=[*MANY, "alone"], into="main").card)
    assert [(note.at, note.params["why"], note.params["commits"]) for note in section(card, "kept")] == [
        ("side", "not_merged", 1),
        ("none", "missing", 0),
        ("main", "target", 0),
        ("alone", "not_merged", 1),
    ]
    assert {note.params["lost"] for note in section(card, "refs")} == {0}


# What is refused

BLOCKED = (
    ("propose_reset", {"branch": "main", "target": "same"}, Code.NOTHING_TO_CHANGE, {"at": "main"}),
    ("propose_reset", {"branch": "none", "target": "main"}, Code.BRANCH_MISSING, {"at": "none"}),
    ("propose_reset", {"branch": "main", "target": "none"}, Code.COMMIT_MISSING, {"at": "none"}),
    ("propose_reset", {"branch": "main", "target": "1" * 40}, Code.COMMIT_MISSING, {}),
    ("propose_reset", {"branch": "main", "target": "0" * 40}, Code.COMMIT_MISSING, {}),
    ("propose_reset", {"branch": "main", "target": "{blob}"}, Code.COMMIT_MISSING, {}),
    ("propose_reset", {"branch": "main", "target": "{tree}"}, Code.COMMIT_MISSING, {}),
    ("propose_reset", {"branch": "main", "target": "refs/tags/blob"}, Code.COMMIT_MISSING, {}),
    ("propose_reset", {"branch": "refs/tags/light", "target": "main"}, Code.REF_REJECTED, {"field": "branch"}),
    (
        "propose_reset",
        {"branch": "main", "target": "side", "expected_base_oid": "{c2}"},
        Code.BASE_MOVED,
        {"head": "{c3}"},
    ),
    (
        "propose_reset",
        {"branch": "main", "target": "side", "expected_base_oid": "abc"},
        Code.INVALID_ARGUMENT,
        {"field": "expected_base_oid"},
    ),
    ("propose_branch", {"branch": "main", "source": "old"}, Code.BRANCH_EXISTS, {"at": "main", "oid": "{c3}"}),
    ("propose_branch", {"branch": "Main", "source": "old"}, Code.REF_REJECTED, {"rule": "twin", "twin": "main"}),
    ("propose_branch", {"branch": "Dir/X", "source": "old"}, Code.REF_REJECTED, {"rule": "twin", "twin": "dir/x"}),
    ("propose_branch", {"branch": "dir", "source": "old"}, Code.BRANCH_EXISTS, {"rule": "folder", "by": "dir/"}),
    ("propose_branch", {"branch": "main/a/b", "source": "old"}, Code.BRANCH_EXISTS, {"rule": "folder", "by": "main"}),
    ("propose_branch", {"branch": "new", "source": "{tree}"}, Code.COMMIT_MISSING, {}),
    ("propose_branch", {"branch": "new", "source": "blob"}, Code.COMMIT_MISSING, {}),
    ("propose_tag", {"name": "light", "target": "main", "message": "x"}, Code.TAG_EXISTS, {"oid": "{c1}"}),
    ("propose_tag", {"name": "annotated", "target": "main", "message": "x"}, Code.TAG_EXISTS, {"oid": "{tag}"}),
    ("propose_tag", {"name": "LIGHT", "target": "main", "message": "x"}, Code.REF_REJECTED, {"rule": "twin"}),
    ("propose_tag", {"name": "dir", "target": "main", "message": "x"}, Code.TAG_EXISTS, {"rule": "folder"}),
    ("propose_tag", {"name": "light/x", "target": "main", "message": "x"}, Code.TAG_EXISTS, {"rule": "folder"}),
    ("propose_tag", {"name": "new", "target": "{blob}", "message": "x"}, Code.COMMIT_MISSING, {}),
    (
        "propose_tag",
        {"name": "new", "target": "main", "message": "x\n\nApproved-by: me"},
        Code.TEXT_REJECTED,
        {"field": "message"},
    ),
    ("propose_branch_delete", {"branches": ["side"], "into": "main"}, Code.NOT_MERGED, {"at": "side", "commits": 1}),
    ("propose_branch_delete", {"branches": ["none", "side"], "into": "main"}, Code.NOT_MERGED, {"blocked": 2}),
    ("propose_branch_delete", {"branches": ["none"], "into": "main"}, Code.BRANCH_MISSING, {"at": "none"}),
    ("propose_branch_delete", {"branches": ["main"], "into": "main"}, Code.NOTHING_TO_CHANGE, {"at": "main"}),
    ("propose_branch_delete", {"branches": ["old"], "into": "none"}, Code.BRANCH_MISSING, {"at": "none"}),
    ("propose_branch_delete", {"branches": ["old"], "into": "refs/tags/light"}, Code.REF_REJECTED, {"field": "into"}),
    (
        "propose_branch_delete",
        {"branches": ["old", "side", "refs/heads/old"], "into": "main"},
        Code.INVALID_ARGUMENT,
        {"field": "branches[2]"},
    ),
    ("propose_branch_delete", {"branches": [], "into": "main"}, Code.INVALID_ARGUMENT, {"field": "branches"}),
    (
        "propose_branch_delete",
        {"branches": [f"b{n}" for n in range(101)], "into": "main"},
        Code.INVALID_ARGUMENT,
        {"field": "branches", "limit": 100},
    ),
)
BLOCKED_RESTORES = (
    (["refs/heads/both"], Code.NOT_RESTORABLE, {"at": "refs/heads/both"}),
    (["refs/heads/gone", "refs/heads/alone"], Code.NOT_RESTORABLE, {"at": "refs/heads/alone"}),
    (["refs/tags/light"], Code.NOT_RESTORABLE, {}),
    (["refs/heads/blob"], Code.NOT_RESTORABLE, {}),
    (["refs/heads/dir/x"], Code.BASE_MOVED, {"ref": "refs/heads/dir/x", "head": "{c2}"}),
    (["refs/heads/old/x"], Code.BRANCH_EXISTS, {"rule": "folder", "by": "old"}),
    (["refs/heads/same", "refs/heads/never"], Code.NOTHING_TO_CHANGE, {}),
    (["refs/heads/gone"] * 2, Code.INVALID_ARGUMENT, {"field": "refs[1]"}),
    (["gone"], Code.REF_REJECTED, {"field": "refs[0]"}),
    (['"refs/heads/gon\\145"'], Code.REF_REJECTED, {"field": "refs[0]"}),
    (["refs/heads/gone", "refs/heads/\u0456"], Code.REF_REJECTED, {"field": "refs[1]"}),
    ([f"refs/heads/{n}" for n in range(101)], Code.INVALID_ARGUMENT, {"field": "refs", "limit": 100}),
)
RESTORES = tuple(
    ("propose_restore", {"restore_point_id": POINT, "refs": refs}, code, details)
    for refs, code, details in BLOCKED_RESTORES
)


@pytest.mark.parametrize(("kind", "arguments", "code", "details"), [*BLOCKED, *RESTORES])
def test_what_cannot_be_is_refused_and_says_why(
    history: History, kind: str, arguments: Json, code: Code, details: Json
) -> None:
    refusal = refused(history.path, kind, **{name: history.fill(value) for name, value in arguments.items()})
    assert refusal.code is code
    expected = {name: history.fill(value) for name, value in details.items()}
    assert {name: refusal.details.get(name) for name in expected} == expected


def test_a_restore_point_of_another_id_knows_nothing(history: History) -> None:
    refs_asked = ["refs/heads/main"]
    assert (
        refused(history.path, "propose_restore", restore_point_id=str(uuid4()), refs=refs_asked).code
        is Code.NOT_RESTORABLE
    )
    for wrong in ("", "..", POINT.upper(), f"{POINT}\n", f"{POINT}/kept", "../proposals"):
        refusal = refused(history.path, "propose_restore", restore_point_id=wrong, refs=refs_asked)
        assert (refusal.code, refusal.details["field"]) == (Code.INVALID_ARGUMENT, "restore_point_id")


# Names that are looked up only, and what becomes of them; as new names all of them are refused.
EXPRESSIONS = (
    "-x", "--output=/x", "main\0", "/".join("a" * 600), "refs/heads/../x", "@{-1}", "@", ":/regex", "HEAD~1e9", "main^",
    "main:a.txt", "a..b", "a b", "a\\b", "refs/proposals/x", f"{KEPT}/heads/main", "refs/replace/x", "a.lock",
    "x" * 1_024 + "/",
)  # fmt: skip
ODD = ("main;id", "$(id)", "HEAD", "f" * 40, "FETCH_HEAD", "m\u0430in", "heads/main")
MISSING = {Code.BRANCH_MISSING, Code.COMMIT_MISSING, Code.NOT_MERGED, Code.NOT_RESTORABLE}
NEW = (
    ("propose_branch", "branch", {"source": "main"}),
    ("propose_tag", "name", {"target": "main", "message": "x"}),
)
LOOKED_UP = (
    ("propose_reset", "branch", {"target": "main"}),
    ("propose_reset", "target", {"branch": "main"}),
    ("propose_branch", "source", {"branch": "new"}),
    ("propose_tag", "target", {"name": "new", "message": "x"}),
    ("propose_branch_delete", "into", {"branches": ["old"]}),
    ("propose_branch_delete", "branches", {"into": "main"}),
    ("propose_restore", "refs", {"restore_point_id": POINT}),
)


@pytest.mark.parametrize(("kind", "argument", "more"), NEW)
def test_no_attack_by_name_makes_a_ref(history: History, kind: str, argument: str, more: Json) -> None:
    for name in (*EXPRESSIONS, *ODD):
        refusal = refused(history.path, kind, **{argument: name, **more})
        expected = Code.INVALID_ARGUMENT if len(name) > 1_024 else Code.REF_REJECTED
        assert (refusal.code, refusal.details["field"]) == (expected, argument), name


@pytest.mark.parametrize(("kind", "argument", "more"), LOOKED_UP)
def test_no_attack_by_name_is_looked_up_as_anything_but_a_name(
    history: History, kind: str, argument: str, more: Json
) -> None:
    several = argument in {"branches", "refs"}
    field_name = f"{argument}[0]" if several else argument
    for name in (*EXPRESSIONS, *ODD):
        refusal = refused(history.path, kind, **{argument: [name] if several else name, **more})
        if name in ODD and refusal.code is not Code.REF_REJECTED:
            assert refusal.code in MISSING, name
        else:
            assert refusal.code in {Code.REF_REJECTED, Code.INVALID_ARGUMENT}, name
            assert refusal.details["field"] == field_name, name


# What happened meanwhile


def test_a_branch_that_is_kept_may_move_on_and_one_that_goes_may_not(history: History, tmp_path: Path) -> None:
    repository = history.copy(tmp_path)
    pins = load_pins(plan(repository, "propose_branch_delete", branches=["old", "side"], into="dir/x").pins)
    base = git(repository, "commit-tree", "-p", "side", "-m", "more", "side^{tree}").decode().strip()
    for ref, oid, breaks in (
        ("refs/heads/side", base, False),
        ("refs/heads/dir/x", history.oids["c3"], False),
        ("refs/heads/old", history.oids["c2"], True),
    ):
        put(repository, ref, oid)
        assert bool(broken_pin(BareRepository(repository), pins)) == breaks, ref


def test_one_ref_of_two_is_brought_back_and_the_other_later(history: History, tmp_path: Path) -> None:
    repository = history.copy(tmp_path)
    before = refs(repository)
    done = land(repository, "propose_branch_delete", branches=["old", "dir/x"], into="main")
    for ref in ("refs/heads/dir/x", "refs/heads/old"):
        land(repository, "propose_restore", restore_point_id=done.outcome.restore_point, refs=[ref])
        assert refs(repository)[ref] == before[ref]
    again = refused(repository, "propose_restore", restore_point_id=done.outcome.restore_point, refs=["refs/heads/old"])
    assert again.code is Code.NOTHING_TO_CHANGE
    assert refs(repository) == before


def test_a_branch_that_moved_on_since_is_brought_back_and_says_what_leaves(history: History, tmp_path: Path) -> None:
    repository = history.copy(tmp_path)
    point = land(repository, "propose_reset", branch="main", target="old").outcome.restore_point
    forward = plan(repository, "propose_restore", restore_point_id=point, refs=["refs/heads/main"])
    assert load_card(forward.card).warnings == ()
    put(repository, "refs/heads/main", history.oids["side"])
    done = land(repository, "propose_restore", restore_point_id=point, refs=["refs/heads/main"])
    assert refs(repository)["refs/heads/main"] == history.oids["c3"]
    assert subjects(done.card, "leaves") == ["C4"]
    assert subjects(done.card, "commits") == ["C3", "C2"]
    assert done.card.warnings[0].params == {"leaves": 1, "comes": 2, "confirm": "main"}


@pytest.mark.parametrize(
    ("kind", "arguments", "ref"),
    [
        ("propose_branch", {"branch": "new", "source": "main"}, "refs/heads/new"),
        ("propose_tag", {"name": "new", "target": "main", "message": "x"}, "refs/tags/new"),
    ],
)
def test_what_was_made_goes_only_while_it_is_just_that(
    history: History, tmp_path: Path, kind: str, arguments: Json, ref: str
) -> None:
    repository = history.copy(tmp_path)
    point = land(repository, kind, **arguments).outcome.restore_point
    made = refs(repository)[ref]
    put(repository, ref, history.oids["side"])
    refusal = refused(repository, "propose_restore", restore_point_id=point, refs=[ref])
    assert (refusal.code, refusal.details["head"]) == (Code.BASE_MOVED, history.oids["side"])
    put(repository, ref, made)
    gone = land(repository, "propose_restore", restore_point_id=point, refs=[ref])
    assert ref not in refs(repository)
    assert refused(repository, "propose_restore", restore_point_id=point, refs=[ref]).code is Code.NOTHING_TO_CHANGE
    land(repository, "propose_restore", restore_point_id=gone.outcome.restore_point, refs=[ref])
    assert refs(repository)[ref] == made


def test_a_tag_that_stands_elsewhere_now_is_moved_back_by_name_only(history: History, tmp_path: Path) -> None:
    repository = history.copy(tmp_path)
    put(repository, f"{KEPT}/tags/annotated", history.oids["deep"])
    done = land(repository, "propose_restore", restore_point_id=POINT, refs=["refs/tags/annotated"])
    (warning,) = done.card.warnings
    assert (warning.name, warning.params["new"]) == ("moves_tag:annotated", history.oids["deep"])


def test_several_branches_that_move_share_one_card_with_each_line_saying_whose_it_is(
    history: History, tmp_path: Path
) -> None:
    repository = history.copy(tmp_path)
    put(repository, f"{KEPT}/heads/alone", history.oids["c1"])
    put(repository, f"{KEPT}/heads/dir/y", history.oids["alone"])
    asked = [f"refs/heads/{branch}" for branch in ("main", "alone", "dir/y")]
    done = land(repository, "propose_restore", restore_point_id=POINT, refs=asked)
    assert [(note.params["branch"], note.params["subject"]) for note in section(done.card, "leaves")] == [
        ("main", "C3"),
        ("main", "C2"),
        ("alone", "C5"),
        ("dir/y", "C1"),
    ]
    assert [(note.params["branch"], note.at) for note in section(done.card, "files")] == [
        ("main", "a.txt"),
        ("main", "b.txt"),
        ("main", "side.txt"),
        ("alone", "a.txt"),
        ("alone", "x.txt"),
        ("dir/y", "a.txt"),
        ("dir/y", "x.txt"),
    ]
    found = names(done.card.warnings)
    assert found[:3] == ["rewrites_history:main", "rewrites_history:alone", "rewrites_history:dir/y"]
    assert sorted(found[3:]) == ["deletes_file:a.txt", "deletes_file:b.txt", "deletes_file:x.txt"]


def test_a_hundred_branches_go_at_once_and_come_back_at_once(history: History, tmp_path: Path) -> None:
    repository = history.copy(tmp_path)
    branches = [f"many/{number}" for number in range(100)]
    for branch in branches:
        put(repository, f"refs/heads/{branch}", history.oids["c1"])
    before = refs(repository)
    done = land(repository, "propose_branch_delete", branches=branches, into="main")
    assert [(note.code, note.at, note.params["count"]) for note in done.card.warnings] == [
        ("many_alike", "deletes_branch", 100)
    ]
    wish = restore_of(done.outcome)
    assert wish
    back = land(repository, wish.kind, **wish.arguments)
    assert refs(repository) == before
    assert back.card.headline.params["comes_back"] == 100


# What the parts agree on


def test_the_writer_keeps_things_where_a_restore_looks_for_them() -> None:
    for ref in ("refs/heads/a/b", "refs/tags/v1"):
        assert kept_ref(POINT, ref) == intent.kept_ref(POINT, ref)
        assert made_ref(POINT, ref) == intent.made_ref(POINT, ref)


def test_a_tag_that_is_only_planned_leads_to_its_commit(history: History) -> None:
    with Staging(history.path, AUTHOR) as staging:
        assert staging.find_commit(staging.tag(Oid(history.oids["c2"]), "v9", b"x").id) == history.oids["c2"]


def test_a_branch_that_is_called_like_a_tag_is_never_taken_for_it(history: History, tmp_path: Path) -> None:
    repository, ref = history.copy(tmp_path), "refs/heads/refs/tags/light"
    put(repository, ref, history.oids["c3"])
    done = land(repository, "propose_reset", branch=ref, target="alone")
    assert done.card.headline.at == done.card.warnings[0].params["confirm"] == ref
    assert refs(repository)[ref] == history.oids["alone"]
    wish = reset_of(done.outcome)
    land(repository, wish.kind, **wish.arguments)
    assert refs(repository)[ref] == history.oids["c3"]


@pytest.mark.parametrize(("kind", "count"), [("propose_restore", 2), ("propose_branch_delete", 101)])
def test_what_no_one_proposal_brings_back_has_no_undo(kind: str, count: int) -> None:
    moves = tuple(MoveRef(ref=f"refs/heads/{n}", old=Oid("1" * 40), new=Oid("2" * 40)) for n in range(count))
    point = POINT if count > RESTORED_MOST else None
    assert OPERATIONS[kind].undo(Outcome(request={}, moves=moves, commits=(), restore_point=point)) is None


@pytest.mark.parametrize(
    ("pinned", "moved"), [("1" * 40, {}), ("1" * 40, {"refs/heads/a": NULL}), (NULL, {"refs/heads/a": Oid("2" * 40)})]
)
def test_in_a_plan_no_ref_makes_room_for_one_under_it_and_none_comes_under_a_new_one(
    history: History, pinned: str, moved: Mapping[str, Oid]
) -> None:
    facts = {need.fact: NULL for need in new_ref_needs("refs/heads/a/b")} | {RefAt(name="refs/heads/a"): Oid(pinned)}
    with Staging(history.path, AUTHOR) as staging:
        note = ref_obstacle("refs/heads/a/b", World(facts, staging, moved))
    assert note
    assert (note.name, note.params["by"]) == ("branch_exists:a/b", "a")


# The whole way


@pytest.mark.anyio
async def test_a_branch_is_deleted_and_the_owner_takes_it_back(house: House) -> None:
    head = house.head()
    put(house.path, "refs/heads/old", head)
    shown = await propose(house, "propose_branch_delete", branches=["old"], into="main", group_id="group-01")
    await house.decide(shown)
    assert await house.execute(shown)
    assert house.head("old") == NULL
    undo = Undo(house.stage.app_db, house.stage.submit, OPERATIONS)
    back = {"proposal_id": str(await undo(house.owner, UUID(shown["proposal_id"])))}
    async with house.stage.app_db.bound(house.tenant) as tx:
        back["card_digest"] = await tx.scalar(
            select(proposal.c.digest).where(proposal.c.id == UUID(back["proposal_id"]))
        )
    await house.decide(back)
    assert await house.execute(back)
    assert house.head("old") == head


async def propose(house: House, kind: str, **arguments: Any) -> Json:
    entry = REGISTRY.find(kind)
    assert entry
    sent = {"repository_id": str(house.repository), "reason": "Because.", "idempotency_key": f"key-{uuid4()}"}
    answer = await entry.call({**sent, **arguments}, house.stage.ports(house.agent))
    return answer.model_dump(mode="json")

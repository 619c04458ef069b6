"""Merge, rebase, cherry-pick and revert: what lands, what the card says, and what is refused with which code."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from service.contract.data import NULL, Oid
from service.contract.plan import Note, Outcome, Plan, RefAt, ReviewCard
from service.contract.world import World
from service.kit.errors import Code, Refusal
from service.proposals.planning import Conflicted, load_card, load_manifests, load_plan, plan_proposal
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.repositories.staging import Staging
from service.tools.validation import errors_of, refuse
from service.writer.intent import Intent, seal
from service.writer.provenance import Trailers
from service.writer.write import write
from tests.histories import AUTHOR, LINK, MODULE, REGISTRY, RUNS, Files, Histories, git

COMMITTER = b"Olive Owner <olive@example.org> 1700000100 +0000"
TEXT = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
BASE: Files = {b"a": TEXT, b"b": b"other\n"}
FIRST = TEXT.replace(b"one", b"ONE")
LAST = TEXT.replace(b"seven", b"SEVEN")
BOTH = FIRST.replace(b"seven", b"SEVEN")


@dataclass
class Landed:
    """What was planned and what was written."""

    plan: Plan
    card: ReviewCard
    intent: Intent
    request: dict[str, Any]

    def section(self, code: str) -> tuple[Note, ...]:
        return next((one.notes for one in self.card.sections if one.code == code), ())

    def outcome(self, restore_point: str | None = None) -> Outcome:
        commits = tuple(one.oid for one in self.intent.commits)
        return Outcome(request=self.request, moves=self.intent.effects, commits=commits, restore_point=restore_point)


@dataclass
class Desk:
    """A repository whose commits have names, for one test."""

    path: Path
    histories: Histories = field(default_factory=Histories)
    numbers: dict[str, int] = field(default_factory=dict)
    ids: dict[str, Oid] = field(default_factory=dict)

    def commit(self, name: str, files: Files, *parents: str, **more: bytes) -> None:
        self.numbers[name] = self.histories.commit(files, *(self.numbers[one] for one in parents), **more)

    def open(self, **branches: str) -> None:
        ids = self.histories.write(self.path)
        self.ids = {name: ids[number] for name, number in self.numbers.items()}
        made = "".join(f"create refs/heads/{branch} {self.ids[name]}\n" for branch, name in branches.items())
        git(self.path, "update-ref", "--stdin", stdin=made.encode())

    def ask(self, kind: str, **arguments: Any) -> Landed:
        """Plan and execute; the branch is main unless said."""
        operation = REGISTRY.operations()[f"propose_{kind}"]
        sent = {"repository_id": str(uuid4()), "branch": "main", "reason": "Because.", **arguments}
        request, errors = errors_of(operation.request, sent)
        if request is None:
            raise refuse(errors)
        made = plan_proposal(self.path, operation, request, UUID(int=5), AUTHOR, time.monotonic() + 60)
        plan, card = load_plan(made.plan), load_card(made.card)
        intent = seal(plan, COMMITTER, Trailers(uuid4(), "olive@example.org", UUID(int=1), made.digest))
        drafts = {new.id for new in plan.build}
        assert not [draft for draft in drafts if draft in made.card], "a provisional id is shown"
        write(BareRepository(self.path), plan, load_manifests(made.manifest), decode(made.objects), intent, _quiet)
        return Landed(plan, card, intent, request.model_dump(mode="json"))

    def refused(self, kind: str, **arguments: Any) -> Refusal:
        before = git(self.path, "for-each-ref"), git(self.path, "count-objects", "-v")
        with pytest.raises(Refusal) as caught:
            self.ask(kind, **arguments)
        assert (git(self.path, "for-each-ref"), git(self.path, "count-objects", "-v")) == before
        return caught.value

    def head(self, branch: str = "main") -> str:
        return git(self.path, "rev-parse", f"refs/heads/{branch}").decode().strip()

    def show(self, shape: str, revision: str = "main") -> bytes:
        return git(self.path, "log", "-1", f"--format={shape}", revision).rstrip(b"\n")

    def file(self, path: str, revision: str = "main") -> bytes:
        return git(self.path, "cat-file", "blob", f"{revision}:{path}")


def _quiet(_step: str) -> None:
    pass


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "r.git")


@pytest.fixture
def forked(desk: Desk) -> Desk:
    """Main and dev each changed a line of one file; rival changed both lines."""
    desk.commit("base", BASE)
    desk.commit("main", {**BASE, b"a": LAST}, "base")
    desk.commit("dev 1", {**BASE, b"a": FIRST}, "base", message=b"First line\n\nWith a body.\n")
    desk.commit("dev", {**BASE, b"a": FIRST, b"new": b"new\n"}, "dev 1")
    desk.commit("rival", {**BASE, b"a": b"uno\n"}, "base")
    desk.commit("join", {**BASE, b"a": BOTH, b"new": b"new\n"}, "main", "dev")
    desk.open(main="main", old="base", dev="dev", rival="rival", join="join")
    return desk


# Merge


def test_a_merge_has_both_parents_and_what_stock_git_writes_by_default(forked: Desk) -> None:
    landed = forked.ask("merge", source="dev")
    assert forked.show("%P").decode().split() == [forked.ids["main"], forked.ids["dev"]]
    assert forked.show("%s") == b"Merge dev into main"
    assert (forked.file("a"), forked.file("new")) == (BOTH, b"new\n")
    assert [note.at for note in landed.section("commits")] == [forked.ids["dev"], forked.ids["dev 1"]]
    assert landed.section("commits")[1].params["subject"] == "First line"
    assert [note.at for note in landed.section("files")] == ["a", "new"]


def test_a_merge_of_a_branch_that_could_move_still_makes_a_commit(forked: Desk) -> None:
    forked.ask("merge", branch="old", source="dev")
    assert forked.show("%P", "old").decode().split() == [forked.ids["base"], forked.ids["dev"]]


def test_a_squash_is_one_commit_on_the_branch_alone(forked: Desk) -> None:
    forked.ask("merge", source="dev", mode="squash", message="All of dev\n")
    assert (forked.show("%P"), forked.file("a")) == (forked.ids["main"].encode(), BOTH)


def test_forward_only_moves_the_branch_and_makes_nothing(forked: Desk) -> None:
    landed = forked.ask("merge", branch="old", source="dev", mode="fast_forward_only")
    assert (forked.head("old"), landed.plan.build) == (forked.ids["dev"], ())
    undo = REGISTRY.operations()["propose_merge"].undo(landed.outcome())
    assert undo is not None
    assert (undo.kind, undo.arguments) == ("propose_reset", {"branch": "old", "target": forked.ids["base"]})


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        ({"source": "dev", "mode": "squash"}, Code.INVALID_ARGUMENT, "message"),
        ({"source": "dev", "mode": "fast_forward_only", "message": "x"}, Code.INVALID_ARGUMENT, "message"),
        ({"source": "dev", "mode": "octopus"}, Code.INVALID_ARGUMENT, "mode"),
        ({"source": "dev", "interactive": True}, Code.INVALID_ARGUMENT, "interactive"),
        ({"source": "dev~1"}, Code.REF_REJECTED, "source"),
        ({"source": "-x"}, Code.REF_REJECTED, "source"),
        ({"source": "dev\0"}, Code.REF_REJECTED, "source"),
        ({"source": "dev", "message": "Proposal: mine"}, Code.TEXT_REJECTED, "message"),
        ({"source": "dev", "branch": "refs/tags/x"}, Code.REF_REJECTED, "branch"),
    ],
)
def test_a_merge_that_cannot_be_meant_is_refused_with_the_field(
    forked: Desk, arguments: dict[str, Any], code: Code, field: str
) -> None:
    refusal = forked.refused("merge", **arguments)
    assert (refusal.code, refusal.details["field"]) == (code, field)


@pytest.mark.parametrize("which", ["expected_base_oid", "expected_source_oid"])
def test_a_tip_that_is_not_what_was_expected_is_refused_with_the_head(forked: Desk, which: str) -> None:
    refusal = forked.refused("merge", source="dev", **{which: forked.ids["base"]})
    tip = forked.ids["main" if which == "expected_base_oid" else "dev"]
    assert (refusal.code, refusal.details["head"]) == (Code.BASE_MOVED, tip)


def test_a_conflict_names_paths_and_lines_and_keeps_each_side(forked: Desk) -> None:
    refusal = forked.refused("merge", source="rival")
    assert isinstance(refusal, Conflicted)
    assert (refusal.code, refusal.details["at"], refusal.details["count"]) == (Code.CONFLICTS, "a", 1)
    (told,) = refusal.details["paths"]
    assert (told["path"], told["kind"]) == ("a", "content")
    assert told["regions"] == [{"base": [1, 7], "ours": [1, 7], "theirs": [1, 1]}]
    assert [one.path for one in refusal.conflicts] == [b"a"]


def test_many_conflicts_are_counted_and_the_first_are_named(desk: Desk) -> None:
    def files(word: bytes) -> Files:
        return {b"f%03d" % number: b"%b %d\n" % (word, number) * 2 for number in range(60)}

    wide = b"".join(b"%d\n" % number for number in range(100))
    desk.commit("base", {**files(b"base"), b"e": wide})
    desk.commit("main", {**files(b"ours"), b"e": wide.replace(b"5\n", b"x\n")}, "base")
    desk.commit("dev", {**files(b"theirs"), b"e": wide.replace(b"5\n", b"y\n")}, "base")
    desk.open(main="main", dev="dev")
    refusal = desk.refused("merge", source="dev")
    assert isinstance(refusal, Conflicted)
    assert (refusal.details["count"], len(refusal.details["paths"]), len(refusal.conflicts)) == (61, 50, 61)
    told = refusal.details["paths"][0]
    assert (told["path"], len(told["regions"]), "more_regions" in told) == ("e", 10, False)


# Undo


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("merge", {"source": "dev"}),
        ("merge", {"source": "dev", "mode": "squash", "message": "All\n"}),
        ("cherry_pick", {"commits": ["{dev 1}", "dev"]}),
        ("revert", {"commits": ["main"]}),
        ("revert", {"branch": "join", "commits": ["join"], "mainline": 1}),
    ],
)
def test_what_was_made_is_taken_back_by_its_undo(forked: Desk, kind: str, arguments: dict[str, Any]) -> None:
    branch = arguments.get("branch", "main")
    before = git(forked.path, "rev-parse", f"{branch}^{{tree}}")
    filled = {key: _filled(value, forked.ids) for key, value in arguments.items()}
    landed = forked.ask(kind, **filled)
    assert git(forked.path, "rev-parse", f"{branch}^{{tree}}") != before
    undo = REGISTRY.operations()[f"propose_{kind}"].undo(landed.outcome())
    assert undo is not None
    forked.ask(undo.kind.removeprefix("propose_"), **undo.arguments)
    assert git(forked.path, "rev-parse", f"{branch}^{{tree}}") == before


def _filled(value: Any, ids: Mapping[str, Oid]) -> Any:
    return [ids[one[1:-1]] if one.startswith("{") else one for one in value] if isinstance(value, list) else value


# Cherry-pick


def test_a_pick_keeps_author_date_and_message_and_gets_our_trailers(forked: Desk) -> None:
    forked.ask("cherry_pick", commits=[forked.ids["dev 1"], "dev"])
    assert forked.show("%an <%ae> %at %ai", "main~1") == forked.show("%an <%ae> %at %ai", forked.ids["dev 1"])
    message = forked.show("%B", "main~1")
    assert message.startswith(b"First line\n\nWith a body.\n\nProposal: ")
    assert forked.show("%cn", "main~1") == b"Olive Owner"
    assert (forked.file("a"), forked.file("new")) == (BOTH, b"new\n")


def test_a_pick_that_does_not_fit_or_changes_nothing_names_its_commit(forked: Desk) -> None:
    conflict = forked.refused("cherry_pick", commits=["dev", "rival"])
    assert (conflict.code, conflict.details["commit"]) == (Code.CONFLICTS, forked.ids["rival"])
    empty = forked.refused("cherry_pick", commits=["dev", "dev"])
    assert (empty.code, empty.details["commit"]) == (Code.NOTHING_TO_CHANGE, forked.ids["dev"])


@pytest.mark.parametrize("commits", [[], ["dev"] * 21])
def test_one_to_twenty_commits_are_picked_or_reverted(forked: Desk, commits: list[str]) -> None:
    for kind in ("cherry_pick", "revert"):
        assert forked.refused(kind, commits=commits).details["field"] == "commits"


@pytest.mark.parametrize("kind", ["cherry_pick", "revert"])
def test_a_merge_needs_the_parent_that_counts_and_it_must_be_there(forked: Desk, kind: str) -> None:
    for arguments in ({}, {"mainline": 3}):
        refusal = forked.refused(kind, branch="join", commits=["join"], **arguments)
        assert (refusal.code, refusal.details["parents"]) == (Code.MERGE_COMMIT, 2)
    assert forked.refused(kind, commits=["dev"], mainline=0).details["field"] == "mainline"


def test_what_an_old_history_has_is_picked_and_warned_about(desk: Desk) -> None:
    desk.commit("base", BASE)
    odd: Files = {b"link": (LINK, b"/etc/passwd"), b"lib": (MODULE, b"1" * 40), b"bin": b"\0\1", b"run": (RUNS, b"x\n")}
    desk.commit("odd", {**BASE, **odd, b"na\xefve\n": b"x\n"}, "base")
    desk.open(main="base", odd="odd")
    landed = desk.ask("cherry_pick", commits=["odd"])
    warned = {note.name for note in landed.card.warnings}
    assert warned == {"symbolic_link:link", "binary_content:bin", "becomes_executable:run"}
    shown = {note.at: note.code for note in landed.section("files")}
    assert shown['"na\\357ve\\n"'] == "file_created"
    assert (shown["lib"], shown["link"]) == ("submodule_changed", "file_created")


def test_a_message_in_another_encoding_is_repeated_byte_for_byte_and_says_so(desk: Desk) -> None:
    desk.commit("base", BASE)
    desk.commit("latin", {**BASE, b"a": FIRST}, "base", message=b"Gr\xfc\xdfe\n", encoding=b"ISO-8859-1")
    desk.open(main="base", latin="latin")
    desk.ask("cherry_pick", commits=["latin"])
    raw = git(desk.path, "cat-file", "commit", "main")
    assert b"\nencoding ISO-8859-1\n\nGr\xfc\xdfe\n\nProposal: " in raw
    assert git(desk.path, "fsck", "--strict", "--no-dangling") == b""
    desk.ask("revert", commits=["main"])
    assert desk.show("%s") == 'Revert "Gr\u00fc\u00dfe"'.encode()


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b"author Ann", b"author <", "author"),
        (b"\n\nCommit", b"\n\nCom\0mit", "message"),
        (b"\n\nCommit", b"\nencoding a b\n\nCommit", "encoding"),
    ],
)
@pytest.mark.parametrize("kind", ["cherry_pick", "rebase"])
def test_a_commit_that_cannot_be_written_again_is_refused(
    desk: Desk, kind: str, old: bytes, new: bytes, field: str
) -> None:
    desk.commit("base", BASE)
    desk.commit("main", {**BASE, b"a": LAST}, "base")
    desk.commit("dev", {**BASE, b"a": FIRST}, "base")
    desk.open(main="main", dev="dev")
    raw = git(desk.path, "cat-file", "commit", "dev").replace(old, new)
    bad = git(desk.path, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw).decode().strip()
    git(desk.path, "update-ref", "refs/heads/bad", bad)
    arguments = {"commits": ["bad"]} if kind == "cherry_pick" else {"branch": "bad", "onto": "main"}
    refusal = desk.refused(kind, **arguments)
    assert (refusal.code, refusal.details["field"]) == (Code.COMMIT_REJECTED, field)


# Revert


def test_a_revert_says_what_git_says_and_is_the_connections(forked: Desk) -> None:
    forked.ask("revert", branch="dev", commits=[forked.ids["dev 1"]])
    said = b'Revert "First line"\n\nThis reverts commit %b.\n\nProposal: ' % forked.ids["dev 1"].encode()
    assert forked.show("%B", "dev").startswith(said)
    assert forked.show("%an", "dev") == b"Claude (conn-1)"


def test_a_merge_is_reverted_by_the_parent_that_counts(forked: Desk) -> None:
    forked.ask("revert", branch="join", commits=["join"], mainline=2)
    said = f"This reverts commit {forked.ids['join']}, reversing\nchanges made to {forked.ids['dev']}.\n"
    assert said.encode() in forked.show("%B", "join")
    assert forked.file("a", "join") == FIRST


def test_the_root_can_be_reverted_even_to_nothing_at_all(desk: Desk) -> None:
    desk.commit("base", BASE)
    desk.open(main="base")
    desk.ask("revert", commits=["main"])
    assert git(desk.path, "ls-tree", "main") == b""


def test_one_message_is_not_that_of_several_commits(forked: Desk) -> None:
    refusal = forked.refused("revert", commits=["dev", "main"], message="Both\n")
    assert (refusal.code, refusal.details["field"]) == (Code.INVALID_ARGUMENT, "message")


# Rebase


def test_a_rebase_shows_old_and_new_commits_pair_by_pair(forked: Desk) -> None:
    landed = forked.ask("rebase", branch="dev", onto="main")
    assert forked.show("%P", "dev~1") == forked.ids["main"].encode()
    assert (forked.file("a", "dev"), forked.file("new", "dev")) == (BOTH, b"new\n")
    pairs = [(note.at, note.params["oid"], note.params["old"]) for note in landed.section("replayed")]
    assert pairs == [("", "", forked.ids["dev 1"]), ("", "", forked.ids["dev"])]
    assert landed.section("replayed")[0].params["subject"] == "First line"
    (warning,) = landed.card.warnings
    assert (warning.name, warning.params) == ("rewrites_history:dev", {"commits": 2, "confirm": "dev"})
    assert landed.plan.restorable
    kept = [move.new for move in landed.intent.moves if move.ref.startswith("refs/restore/")]
    assert kept == [forked.ids["dev"]]
    undo = REGISTRY.operations()["propose_rebase"].undo(landed.outcome("point"))
    assert undo is not None
    assert undo.arguments == {"restore_point_id": "point", "refs": ["refs/heads/dev"]}


def test_a_branch_that_only_moves_forward_needs_no_confirmation_and_is_reset_to_undo_it(forked: Desk) -> None:
    landed = forked.ask("rebase", branch="old", onto="dev")
    assert (forked.head("old"), landed.plan.build, landed.card.warnings) == (forked.ids["dev"], (), ())
    undo = REGISTRY.operations()["propose_rebase"].undo(landed.outcome())
    assert undo is not None
    assert (undo.kind, undo.arguments["target"]) == ("propose_reset", forked.ids["base"])


@pytest.fixture
def long(desk: Desk) -> Desk:
    """Dev has a merge, an empty commit, one that main has too, and one that main has in two parts."""
    desk.commit("base", BASE)
    desk.commit("main 1", {**BASE, b"a": LAST}, "base")
    desk.commit("main 2", {**BASE, b"a": LAST, b"x": b"x\n"}, "main 1")
    desk.commit("main", {**BASE, b"a": LAST, b"x": b"x\n", b"y": b"y\n"}, "main 2")
    desk.commit("same", {**BASE, b"a": LAST}, "base")
    desk.commit("empty", {**BASE, b"a": LAST}, "same")
    desk.commit("parts", {**BASE, b"a": LAST, b"x": b"x\n", b"y": b"y\n"}, "empty")
    desk.commit("side", {**BASE, b"side": b"s\n"}, "base")
    desk.commit("join", {**BASE, b"a": LAST, b"x": b"x\n", b"y": b"y\n", b"side": b"s\n"}, "parts", "side")
    desk.commit("dev", {**BASE, b"a": BOTH, b"x": b"x\n", b"y": b"y\n", b"side": b"s\n"}, "join")
    desk.open(main="main", dev="dev", base="base")
    return desk


def test_what_is_dropped_is_shown_with_why_and_what_was_empty_stays(long: Desk) -> None:
    landed = long.ask("rebase", branch="dev", onto="main")
    dropped = {note.at: note.params["why"] for note in landed.section("dropped")}
    assert dropped == {long.ids["same"]: "upstream", long.ids["join"]: "merge", long.ids["parts"]: "empty"}
    replayed = [note.params["old"] for note in landed.section("replayed")]
    assert sorted(replayed) == sorted(long.ids[name] for name in ("empty", "side", "dev"))
    assert [note.at for note in landed.section("commits")] == [long.ids[one] for one in ("main", "main 2", "main 1")]
    assert landed.section("leaves") == ()
    assert landed.card.warnings[0].params["commits"] == 6


def test_what_leaves_without_being_repeated_is_shown_too(long: Desk) -> None:
    landed = long.ask("rebase", branch="dev", onto="main", upstream=long.ids["join"])
    assert [note.params["old"] for note in landed.section("replayed")] == [long.ids["dev"]]
    left = {note.at for note in landed.section("leaves")}
    assert left == {long.ids[name] for name in ("same", "empty", "parts", "side", "join")}
    assert landed.card.warnings[0].params["commits"] == 6


def test_a_commit_that_stands_where_it_should_is_taken_as_it_is(long: Desk) -> None:
    landed = long.ask("rebase", branch="dev", onto="base")
    kept = {note.at for note in landed.section("kept")}
    assert long.ids["same"] in kept or long.ids["side"] in kept
    assert kept.isdisjoint(note.params["old"] for note in landed.section("replayed"))
    for oid in kept:
        assert git(long.path, "merge-base", "dev", oid).decode().strip() == oid


@pytest.mark.parametrize(("branch", "onto"), [("dev", "dev"), ("main", "base"), ("main", "main")])
def test_what_stands_there_already_is_nothing_to_change(long: Desk, branch: str, onto: str) -> None:
    assert long.refused("rebase", branch=branch, onto=onto).code is Code.NOTHING_TO_CHANGE


def test_more_commits_than_can_be_looked_through_are_refused(desk: Desk) -> None:
    desk.commit("base", BASE)
    desk.commit("main", {**BASE, b"a": LAST}, "base")
    for number in range(501):
        desk.commit(f"{number}", {**BASE, b"n": b"%d\n" % number}, f"{number - 1}" if number else "base")
    desk.open(main="main", dev="500")
    refusal = desk.refused("rebase", branch="dev", onto="main")
    assert (refusal.code, refusal.details["limit"], refusal.details["value"]) == (Code.TOO_MUCH_TO_REVIEW, 200, 501)


@pytest.mark.parametrize(
    ("kind", "arguments", "code"),
    [
        ("merge", {"source": "nowhere"}, Code.COMMIT_MISSING),
        ("merge", {"source": "1" * 40}, Code.COMMIT_MISSING),
        ("rebase", {"onto": "nowhere"}, Code.COMMIT_MISSING),
        ("rebase", {"onto": "dev", "upstream": "nowhere"}, Code.COMMIT_MISSING),
        ("cherry_pick", {"commits": ["nowhere"]}, Code.COMMIT_MISSING),
        ("revert", {"commits": ["nowhere"]}, Code.COMMIT_MISSING),
        ("merge", {"branch": "nowhere", "source": "dev"}, Code.BRANCH_MISSING),
        ("rebase", {"branch": "nowhere", "onto": "dev"}, Code.BRANCH_MISSING),
        ("cherry_pick", {"branch": "nowhere", "commits": ["dev"]}, Code.BRANCH_MISSING),
        ("revert", {"branch": "nowhere", "commits": ["dev"]}, Code.BRANCH_MISSING),
        ("merge", {"source": "rival", "reason": ""}, Code.INVALID_ARGUMENT),
    ],
)
def test_what_is_nowhere_is_refused_by_its_name(forked: Desk, kind: str, arguments: dict[str, Any], code: Code) -> None:
    assert forked.refused(kind, **arguments).code is code


def test_a_tree_or_a_blob_is_no_commit(forked: Desk) -> None:
    for shape in ("main^{tree}", "main:a"):
        oid = git(forked.path, "rev-parse", shape).decode().strip()
        assert forked.refused("merge", source=oid).code is Code.COMMIT_MISSING


def test_a_plan_on_what_is_only_planned_shows_no_provisional_id(forked: Desk) -> None:
    operations = REGISTRY.operations()
    fixed = {"repository_id": str(uuid4()), "reason": "Because."}
    with Staging(forked.path, AUTHOR, time.monotonic() + 60) as staging:
        seen = {
            RefAt(name=f"refs/{place}/{name}"): Oid(forked.head(name)) if place == "heads" else NULL
            for name in ("main", "dev", "rival")
            for place in ("heads", "tags")
        }
        world = World(seen, staging)
        steps: list[tuple[str, dict[str, Any]]] = [
            ("cherry_pick", {"branch": "main", "commits": [forked.ids["dev 1"]]}),
            ("merge", {"branch": "dev", "source": "main"}),
            ("revert", {"branch": "dev", "commits": ["main"]}),
            ("cherry_pick", {"branch": "dev", "commits": ["main"]}),
            ("rebase", {"branch": "main", "onto": "dev"}),
        ]
        drafts: set[str] = set()
        for kind, arguments in steps:
            operation = operations[f"propose_{kind}"]
            request = operation.request.model_validate({**fixed, **arguments})
            plan = operation.plan(request, world)
            assert isinstance(plan, Plan), (kind, plan)
            drafts |= {new.id for new in plan.build}
            card = operation.review_card(request, world, plan).model_dump_json()
            messages = b"".join(new.message for new in plan.commits).decode()
            assert not [draft for draft in drafts if draft in card + messages], kind
            world = world.after(plan)

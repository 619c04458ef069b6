"""The measures of the Git part at tiny size: that they measure what they say."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from service.bench.approve import FLOOR, OURS, PLANNED, PLUMBING, Ground, approve
from service.bench.execution import CONNECTION, NotExecuted, Submitted, execute, maintain, no_step, submit
from service.bench.floor import Floor
from service.bench.naive import commit_naively
from service.bench.projects import FAN, build, chosen, content, copies, pack_refs, path_of
from service.bench.saturate import saturate
from service.bench.tally import Ending, Tally
from service.bench.wear import FRESH, MARKERS, WORN, executions, markers, read
from service.proposals.ports import Approved, Stored
from service.repositories.lease import LeaseBusy
from service.repositories.maintenance import PACKS_MOST
from tests.stage import git

FILES = 20


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project.git"
    build(path, FILES)
    return path


def _tree(repository: Path) -> bytes:
    return git(repository, "rev-parse", "main^{tree}")


def test_a_project_has_its_files_spread_over_small_folders(tmp_path: Path) -> None:
    path = tmp_path / "large.git"
    build(path, 900)
    names = git(path, "ls-tree", "-r", "-t", "--name-only", "main").decode().split()
    folders = {Path(name).parent for name in names}
    assert sum(name.endswith(".py") for name in names) == 900
    assert max(sum(Path(name).parent == folder for name in names) for folder in folders) <= FAN
    assert {path_of(number, 900) for number in range(900)} == {name for name in names if name.endswith(".py")}
    git(path, "fsck", "--strict")


@pytest.mark.parametrize("count", [1, 20])
def test_a_proposal_changes_as_many_files_as_it_says_in_every_turn(count: int) -> None:
    for turn in range(50):
        assert len(set(chosen(100, count, turn))) == count
    assert len(content("any")) == 10_000


def test_every_way_ends_in_the_same_tree(project: Path, tmp_path: Path) -> None:
    made = copies(project, (OURS, PLANNED, PLUMBING))
    Floor(tmp_path / "floor").prepare()
    ground = Ground(FILES, 3, {**made, FLOOR: tmp_path / "floor"}, tmp_path)
    for number in range(4):
        ground.turn(number)
    assert _tree(made[OURS]) == _tree(made[PLANNED]) == _tree(made[PLUMBING]) != _tree(project)
    assert {len(seconds) for seconds in ground.times.seconds.values()} == {3}
    assert set(ground.times.seconds) == {OURS, PLANNED, PLUMBING, FLOOR}
    for path in made.values():
        assert len(git(path, "for-each-ref", "refs/proposals").splitlines()) == 4


def test_the_floor_writes_what_ours_wrote(project: Path, tmp_path: Path) -> None:
    Floor(tmp_path / "floor").prepare()
    made = copies(project, (OURS, PLANNED, PLUMBING))
    ground = Ground(FILES, 1, {**made, FLOOR: tmp_path / "floor"}, tmp_path)
    ground.turn(0)
    written = [path.read_bytes() for path in (tmp_path / "floor" / "objects" / "pack").iterdir()]
    assert sorted(written) == sorted(ground.written)
    assert b"".join(ground.written)[:4] == b"PACK"


def test_the_measure_of_the_git_part_gives_every_figure_and_target(tmp_path: Path) -> None:
    found = approve(tmp_path, [20, 100], [1, 20], rounds=1)
    assert [(row["files"], row["in the proposal"]) for row in found.rows] == [(20, 1), (20, 20), (100, 1), (100, 20)]
    assert all(row[f"{way}, ms"] > 0 for row in found.rows for way in (OURS, PLANNED, PLUMBING, FLOOR))
    assert [target.most or target.least for target in found.targets] == [2.0, 3.0, 2.0, 6.0, 3.0, 5.0]
    assert list(tmp_path.glob("*.git")) == []


def test_the_saturated_measure_counts_both_ways(tmp_path: Path) -> None:
    found = saturate(tmp_path, [20], seconds=0.05)
    assert found.rows[0]["ours/s"] > 0
    assert found.rows[0]["plumbing/s"] > 0
    assert list(tmp_path.glob("*.git")) == []


def test_a_repository_with_markers_is_as_git_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "marked.git"
    build(path, FILES)
    names = [f"refs/proposals/{number}" for number in (30, 4, 200)]
    pack_refs(path, names)
    listed = git(path, "for-each-ref", "--format=%(refname)").decode().split()
    assert listed == ["refs/heads/main", *sorted(names)]
    assert [line.split()[1] for line in (path / "packed-refs").read_text().splitlines()[1:]] == listed
    found = markers(tmp_path, 50, rounds=1, files=FILES)
    assert len(found.rows) == 3
    assert len(found.targets) == 4
    assert MARKERS == 100_000


def test_a_repository_is_measured_after_executions(tmp_path: Path) -> None:
    found = executions(tmp_path, count=3, rounds=1, files=FILES)
    assert [row["repository"] for row in found.rows] == [FRESH, WORN]
    assert [target.most for target in found.targets] == [1.2, 1.2]


def test_executions_are_maintained_as_the_worker_does(project: Path) -> None:
    for number in range(2 * PACKS_MOST):
        execute(project, submit(project, {path_of(1, FILES): f"{number}\n"}, "Change"), no_step)
        maintain(project)
        assert len(list(project.glob("objects/pack/*.pack"))) < PACKS_MOST
    assert len(git(project, "rev-list", "main").splitlines()) == 2 * PACKS_MOST + 1


def test_a_read_gives_the_file_at_the_tip(project: Path) -> None:
    path = path_of(3, FILES)
    execute(project, submit(project, {path: "new\n"}, "Change"), no_step)
    assert read(project, path) == b"new\n"


def _approved(what: Submitted) -> Approved:
    planned = what.planned
    stored = Stored(
        what.id,
        uuid4(),
        CONNECTION,
        None,
        "approved",
        planned.digest,
        planned.pins,
        planned.plan,
        planned.card,
        planned.manifest,
        None,
        expired=False,
    )
    return Approved(stored, planned.objects, b"Olive Owner <olive@example.org> 1700000000 +0000", uuid4())


def _ending(what: Submitted, commit: str | None) -> Ending:
    answer: dict[str, Any] = {"status": "executed" if commit else "stale", "commit": commit, "replayed": False}
    return Ending(str(what.id), answer, {**answer, "replayed": True})


def test_the_naive_writer_loses_the_commit_that_comes_between_its_look_and_its_leap(project: Path) -> None:
    one, other = (submit(project, {path_of(number, FILES): "x\n"}, "Change") for number in (1, 2))
    between: list[str | None] = []

    def step(name: str) -> None:
        if name == "compared":
            between.append(commit_naively(project, _approved(other), 1, no_step))

    last = commit_naively(project, _approved(one), 2, step)
    assert last
    assert between[0]
    row = Tally([[_ending(one, last), _ending(other, between[0])]]).row(project)
    assert (row["executed"], row["lost commits"], row["replays"]) == (2, 1, 2)


def test_the_naive_writer_makes_two_commits_of_one_proposal(project: Path) -> None:
    what = submit(project, {path_of(1, FILES): "x\n"}, "Change")
    made: list[str | None] = []

    def step(name: str) -> None:
        if name == "compared":
            made.append(commit_naively(project, _approved(what), 1, no_step))

    made.append(commit_naively(project, _approved(what), 2, step))
    assert len({*made}) == 2
    assert Tally([[_ending(what, made[-1])]]).row(project)["duplicates"] == 1


def test_the_naive_writer_calls_its_own_commit_somebody_elses_after_a_crash(project: Path) -> None:
    what = submit(project, {path_of(1, FILES): "x\n"}, "Change")
    commit_naively(project, _approved(what), 1, no_step)  # killed before the database hears of it
    again = commit_naively(project, _approved(what), 2, no_step)
    row = Tally([[_ending(what, again)]]).row(project)
    assert (row["stale"], row["false stale"], row["lost commits"]) == (1, 1, 0)


def test_ours_loses_nothing_at_the_same_moments(project: Path) -> None:
    one, other = (submit(project, {path_of(number, FILES): "x\n"}, "Change") for number in (1, 2))
    refused: list[str] = []

    def step(name: str) -> None:
        for what in (one, other):
            try:
                execute(project, what, no_step, wait=0)
            except LeaseBusy:
                refused.append(name)
            except NotExecuted as error:  # the lease is given back: step `cleared`
                refused.append(str(error))

    commit = execute(project, one, step)
    assert refused[-2:] == ["it has a marker", "a pin is broken"]
    assert len(refused) == 2 * len(set(refused[:-2])) + 2
    row = Tally([[_ending(one, commit), _ending(other, None)]]).row(project)
    counted = ("executed", "stale", "lost commits", "false stale", "duplicates")
    assert [row[name] for name in counted] == [1, 1, 0, 0, 0]


def test_a_stale_word_is_right_only_where_somebody_else_landed(project: Path) -> None:
    one, other = (submit(project, {path_of(number, FILES): "x\n"}, "Change") for number in (1, 2))
    commit = execute(project, one, no_step)
    together = Tally([[_ending(one, commit), _ending(other, None)]])
    apart = Tally([[_ending(one, commit)], [_ending(other, None)]])
    assert together.row(project)["false stale"] == 0
    assert apart.row(project)["false stale"] == 1

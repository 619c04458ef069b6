"""The measures of the operations at tiny size: that they measure every one of them, from the same start."""

from pathlib import Path

from service.bench.execution import operations as registered
from service.bench.operations import EXECUTE, PLAN, asked_of, both_sides, ground, operations
from tests.stage import git

FILES = (20, 40)
COMMITS = (2, 3)


def test_every_operation_is_planned_and_executed_on_every_size(tmp_path: Path) -> None:
    planned, executed = operations(tmp_path, FILES, 1, COMMITS)
    asked = asked_of(FILES[0], COMMITS)
    assert {one.kind for one in asked} == set(registered())
    for what, found in ((PLAN, planned), (EXECUTE, executed)):
        assert [row["operation"] for row in found.rows] == [one.name for one in asked]
        assert len({one.name for one in asked}) == len(asked)
        assert all(row[f"{size} files, ms"] > 0 for row in found.rows for size in FILES)
        assert {target.most for target in found.targets} == {3.0}
        assert [target.what for target in found.targets] == [
            f"{what} {one.name}: {FILES[1]} files over {FILES[0]}" for one in asked
        ]
    assert list(tmp_path.glob("*.git")) == []


def test_what_is_asked_is_the_same_on_every_size() -> None:
    small, large = (asked_of(size, COMMITS) for size in (100, 100_000))
    assert [(one.name, one.arguments.keys()) for one in small] == [(one.name, one.arguments.keys()) for one in large]


def test_a_merge_of_every_file_ends_with_a_word(tmp_path: Path) -> None:
    assert [row["ended"] for row in both_sides(tmp_path, 40).rows] == ["planned", "conflicts"]
    assert [row["ended"] for row in both_sides(tmp_path, 20, seconds=0).rows] == ["out_of_time", "out_of_time"]


def test_a_repository_is_put_back_after_each_turn(tmp_path: Path) -> None:
    one = ground(tmp_path / "one.git", FILES[0], COMMITS)
    refs, objects = (git(one.path, *words) for words in (("for-each-ref",), ("count-objects", "-v")))
    for asked in one.asked:
        assert min(one.turn(asked)) > 0
        assert git(one.path, "for-each-ref") == refs
    assert git(one.path, "count-objects", "-v") == objects
    git(one.path, "fsck", "--strict")

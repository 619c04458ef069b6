"""A diff for the page shows every line of both sides and says what git says."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from service.repositories.diff import FileDiff, Row, diff_file, line_stats

LINES = (b"a", b"b", b"", b"\r", b"a\rb", b"\xff\xfe", "é\u202e".encode(), b"  a", b"\\ No newline at end of file")


def _content(rng: random.Random) -> bytes:
    lines = [rng.choice(LINES) + rng.choice((b"\n", b"\n", b"\r\n")) for _ in range(rng.randint(0, 30))]
    return b"".join(lines)[: None if rng.random() < 0.5 else -1]


def _side(diff: FileDiff, kind: str) -> bytes:
    return b"".join(row.raw for hunk in diff.hunks for row in hunk.rows if row.kind in {" ", kind})


@pytest.mark.parametrize("seed", range(40))
def test_the_rows_make_up_both_contents(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  a seed that a failure names
    old, new = _content(rng), _content(rng)
    diff = diff_file(old, new, context=100)
    if old != new:
        assert (_side(diff, "-"), _side(diff, "+")) == (old, new)
    rows = [row for hunk in diff.hunks for row in hunk.rows]
    assert [row.old for row in rows if row.old] == list(range(1, len([row for row in rows if row.old]) + 1))
    assert [row.new for row in rows if row.new] == list(range(1, len([row for row in rows if row.new]) + 1))
    assert all(row.text + row.end == row.raw for row in rows)


@pytest.mark.parametrize("seed", range(10))
def test_added_and_removed_are_git_s(tmp_path: Path, git: Callable, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  a seed that a failure names
    old, new = _content(rng) + b"x", _content(rng) + b"y"
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new").write_bytes(new)
    script = f"diff --no-index --numstat {tmp_path}/old {tmp_path}/new || true"
    git(tmp_path, "init", "-q")
    numbers = git(tmp_path, "-c", f"alias.d=!git {script}", "d").split()[:2]
    diff = diff_file(old, new)
    assert [diff.added, diff.removed] == [int(number) for number in numbers]
    assert line_stats(old, new).added == diff.added
    assert sum(hunk.new_lines - hunk.old_lines for hunk in diff.hunks) == diff.added - diff.removed


def test_a_change_far_down_and_one_in_a_long_line_are_shown() -> None:
    old = b"same\n" * 5_000 + b"x" * 100_000 + b"a\n" + b"tail\n"
    diff = diff_file(old, old.replace(b"xa\n", b"xb\n"))
    (hunk,) = diff.hunks
    assert (hunk.old_start, hunk.old_lines, diff.added, diff.removed) == (4_998, 5, 1, 1)
    assert [len(row.raw) for row in hunk.rows if row.kind != " "] == [100_002, 100_002]


def test_three_thousand_changed_lines_are_all_there() -> None:
    diff = diff_file(b"".join(b"a%d\n" % n for n in range(3_000)), b"".join(b"b%d\n" % n for n in range(3_000)))
    assert (diff.added, diff.removed, sum(len(hunk.rows) for hunk in diff.hunks)) == (3_000, 3_000, 6_000)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (b"x\r\ny\r\nz\r\n", b"x\nY\nz\n", 3),
        (b"x\r\ny\r\nz\r\n", b"x\r\nY\r\nz\r\n", 0),
        (b"x\ny\nz\n", b"x\r\ny\r\nz\r\n", 3),
        (b"x\ny\n", b"x\ny\r\n", 1),
        (b"x\ny", b"x\ny\r\n", 0),
        (b"x\n", b"new\r\nx\n", 0),
        (b"a\rb\n", b"a\rb\n", 0),
        (b"", b"a\r\n", 0),
        (b"a\nb\n", b"a\r\n", 1),
    ],
)
def test_changed_line_ends_are_counted(old: bytes, new: bytes, count: int) -> None:
    assert diff_file(old, new).line_ends_changed == count


def test_a_missing_last_line_end_is_said() -> None:
    diff = diff_file(b"a\nb", b"a\nb\n")
    assert (diff.no_newline_old, diff.no_newline_new) == (True, False)
    assert [row for hunk in diff.hunks for row in hunk.rows] == [
        Row(" ", 1, 1, b"a\n"),
        Row("-", 2, None, b"b"),
        Row("+", None, 2, b"b\n"),
    ]
    assert [row.end for hunk in diff.hunks for row in hunk.rows] == [b"\n", b"", b"\n"]


def test_a_new_a_deleted_and_a_binary_file() -> None:
    assert (diff_file(None, b"a\nb\n").added, diff_file(b"a\nb\n", None).removed) == (2, 2)
    assert diff_file(None, b"").hunks == diff_file(b"", None).hunks == diff_file(b"a", b"a").hunks == ()
    binary = diff_file(b"a\0", b"a\n")
    assert (binary.binary, binary.hunks, binary.added) == (True, (), 0)
    assert not diff_file(b"x" * 8_000 + b"\0", b"").binary

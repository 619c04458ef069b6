"""A line diff of two contents for the review page: every row, as bytes, with its line end; nothing is cut.

Lines end at LF only, as in Git; a lone CR is part of its line. Content is binary when one of its first 8,000 bytes is
NUL, which is Git's own test (xdiff-interface.c, `buffer_is_binary`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pygit2
from pygit2.enums import DiffOption

from service.contract.data import LineCount

BINARY_PREFIX = 8_000
RowKind = Literal[" ", "+", "-"]
_KINDS: dict[str, RowKind] = {" ": " ", "+": "+", "-": "-"}
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Row:
    """One line: kept (' '), added ('+') or removed ('-'), with its number on either side, counted from 1."""

    kind: RowKind
    old: int | None
    new: int | None
    raw: bytes

    @property
    def end(self) -> bytes:
        """The line's end: CR LF, LF, or nothing (the last line only)."""
        return line_end(self.raw)

    @property
    def text(self) -> bytes:
        """The line without its end."""
        return self.raw[: len(self.raw) - len(self.end)]


@dataclass(frozen=True)
class Hunk:
    """Rows that follow each other; the numbers are those of unified diff headers."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class FileDiff:
    """What differs between two contents.

    Attributes:
        binary: one of them is no text; there are no hunks then.
        hunks: all of them.
        added: lines added.
        removed: lines removed.
        line_ends_changed: lines, among those that are kept or replaced, that end otherwise than before.
        no_newline_old: the old content's last line has no end.
        no_newline_new: the new content's last line has no end.
    """

    binary: bool
    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    line_ends_changed: int
    no_newline_old: bool
    no_newline_new: bool


def is_binary(content: bytes | None) -> bool:
    """Whether Git takes this content for no text."""
    return content is not None and b"\0" in content[:BINARY_PREFIX]


def line_end(raw: bytes) -> bytes:
    """The end of a line: CR LF, LF or nothing."""
    if raw.endswith(b"\r\n"):
        return b"\r\n"
    return raw[len(raw.removesuffix(b"\n")) :]


def diff_file(old: bytes | None, new: bytes | None, context: int = 3) -> FileDiff:
    """Compare two contents line by line.

    Args:
        old: the content before, None for a new file.
        new: the content after, None for a deleted file.
        context: how many equal lines to show around a difference.
    """
    binary = is_binary(old) or is_binary(new)
    hunks = () if binary else tuple(_hunks(old, new, context))
    rows = [row for hunk in hunks for row in hunk.rows]
    return FileDiff(
        binary=binary,
        hunks=hunks,
        added=sum(row.kind == "+" for row in rows),
        removed=sum(row.kind == "-" for row in rows),
        line_ends_changed=0 if binary else _line_ends_changed(old or b"", new or b""),
        no_newline_old=_open_ended(old),
        no_newline_new=_open_ended(new),
    )


def line_stats(old: bytes | None, new: bytes | None) -> LineCount | None:
    """How many lines are added and removed; None when either content is binary."""
    if is_binary(old) or is_binary(new):
        return None
    _, added, removed = _patch(old, new, 0).line_stats
    return LineCount(added=added, removed=removed)


def _open_ended(content: bytes | None) -> bool:
    return bool(content) and not (content or b"").endswith(b"\n")


def _patch(old: bytes | None, new: bytes | None, context: int) -> pygit2.Patch:
    return pygit2.Patch.create_from(old or b"", new or b"", flag=DiffOption.FORCE_TEXT, context_lines=context)


def _hunks(old: bytes | None, new: bytes | None, context: int) -> Iterator[Hunk]:
    for hunk in _patch(old, new, context).hunks:
        rows = tuple(_row(line) for line in hunk.lines if line.origin in _KINDS)
        yield Hunk(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, rows)


def _row(line: pygit2.DiffLine) -> Row:
    return Row(
        kind=_KINDS[line.origin],
        old=line.old_lineno if line.old_lineno > 0 else None,
        new=line.new_lineno if line.new_lineno > 0 else None,
        raw=line.raw_content,
    )


def _line_ends_changed(old: bytes, new: bytes) -> int:
    """Pair the lines as they are without CR LF, replaced ones in order, and count the pairs that end otherwise."""
    if b"\r\n" not in old and b"\r\n" not in new:
        return 0
    before, after = ([line_end(line) for line in _LINE.findall(content)] for content in (old, new))
    pairs = ((before[left], after[right]) for left, right in _pairs(*(_plain(content) for content in (old, new))))
    return sum(left != right and b"" not in {left, right} for left, right in pairs)


def _plain(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n")


def _pairs(old: bytes, new: bytes) -> Iterator[tuple[int, int]]:
    """The indexes of lines that stand for each other: equal ones, and in each replaced run the first with the first."""
    count = len(_LINE.findall(old))
    if old == new:
        yield from zip(range(count), range(count), strict=True)
    removed: list[int] = []
    added: list[int] = []
    for row in (row for hunk in _hunks(old, new, count) for row in hunk.rows):
        if row.old and row.new:
            yield from zip(removed, added, strict=False)
            removed, added = [], []
            yield row.old - 1, row.new - 1
        elif row.old:
            removed.append(row.old - 1)
        elif row.new:
            added.append(row.new - 1)
    yield from zip(removed, added, strict=False)

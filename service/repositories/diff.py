"""A line diff of two contents for the review page: every row, as bytes, with its line end; nothing is cut.

Lines end at LF only, as in Git; a lone CR is part of its line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pygit2
from pygit2.enums import DiffOption

from service.contract.data import LineCount
from service.contract.lines import Span
from service.contract.risk import is_binary, line_ends_changed

RowKind = Literal[" ", "+", "-"]
_KINDS: dict[str, RowKind] = {" ": " ", "+": "+", "-": "-"}


class Row(NamedTuple):
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
        line_ends_changed: how many lines went from CRLF to LF or the other way round.
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
    binary = is_binary(old or b"") or is_binary(new or b"")
    hunks = () if binary else tuple(_hunks(old, new, context))
    rows = [row for hunk in hunks for row in hunk.rows]
    return FileDiff(
        binary=binary,
        hunks=hunks,
        added=sum(row.kind == "+" for row in rows),
        removed=sum(row.kind == "-" for row in rows),
        line_ends_changed=0 if binary else line_ends_changed(old or b"", new or b""),
        no_newline_old=_open_ended(old),
        no_newline_new=_open_ended(new),
    )


def line_stats(old: bytes | None, new: bytes | None) -> LineCount | None:
    """How many lines are added and removed; None when either content is binary."""
    if is_binary(old or b"") or is_binary(new or b""):
        return None
    _, added, removed = _patch(old, new, 0).line_stats
    return LineCount(added=added, removed=removed)


def diff_spans(old: bytes, new: bytes) -> tuple[Span, ...]:
    """Where two texts differ, from top to bottom."""
    hunks = _patch(old, new, 0).hunks
    return tuple(
        Span(
            one.old_start + (one.old_lines == 0),  # as in unified diffs, where none are it is the line before
            one.old_lines,
            one.new_start + (one.new_lines == 0),
            one.new_lines,
        )
        for one in hunks
    )


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

"""The lines of a file's change as HTML: what is shown is found once, and laid out in one of two ways.

Colours and word marks only ever wrap pieces of the text itself, so a mistake in them cannot change what is read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, islice, repeat, zip_longest
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from markupsafe import Markup

from service.contract.changes import SYMLINK
from service.contract.hidden import decode
from service.contract.risk import is_binary
from service.edge.desk.pieces import bytes_text, phrase
from service.edge.desk.visible import Sheet, Visible, line_end, ours
from service.edge.desk.words import Span, Words
from service.kit.language import gettext, later, ngettext
from service.proposals.view import FileView
from service.repositories.colour import KINDS, PLAIN, Palette, Stretch
from service.repositories.diff import FileDiff, Hunk, Row

Layout = Literal["unified", "split"]
LONG: Final = 2_000
FILE_ENDS: Final = {b"\r\n": "CR LF", b"\n": "LF"}
_OPEN_ENDED: Final = later("no newline at the end of the file")
_COLOUR: Final = {kind: f'<span class="t-{kind}">' for kind in KINDS}
_SIGNPOST: Final = later('{size} in one line; <a href="#{place}">go to the first change in it</a>')
_ROW: Final = {"+": ' class="add"', "-": ' class="del"', " ": ""}
_HALF: Final = {"+": "add", "-": "del", " ": "kept"}
_SIGN: Final = {"+": "+", "-": "\N{MINUS SIGN}", " ": ""}


class Line(NamedTuple):
    """A line as it is shown: kept (' '), added or removed, its number on either side, its text as HTML.

    Attributes:
        signpost: for one so long that its changes would be hard to find: how long, and a way to the first of them.
        end: what is said of its end.
    """

    kind: str
    old: int | None
    new: int | None
    html: str
    signpost: str
    end: str


@dataclass(frozen=True)
class Block:
    """Lines that are kept, on either side the same; or those that go, with those that come in their place."""

    old: Sequence[Line]
    new: Sequence[Line]
    kept: bool


Shown = Sequence[Block | int]
"""Blocks in their order; a number says how many equal lines are left out."""


def line_ends(file: FileView) -> set[bytes]:
    """The kinds of line ends before and after."""
    contents = [content for content in (file.old, file.new) if content and not is_binary(content)]
    crlf, lf = (sum(content.count(end) for content in contents) for end in (b"\r\n", b"\n"))
    return {end for end, count in ((b"\r\n", crlf), (b"\n", lf - crlf)) if count}


def _marked_ends(file: FileView, diff: FileDiff) -> Mapping[bytes, str]:
    """The marks of line ends: none where all are alike, of both where they change, else of those that stand out."""
    ends = line_ends(file)
    if len(ends) == 1:
        return {}
    return {end: line_end(FILE_ENDS[end]) for end in (ends if diff.line_ends_changed else ends - {b"\n"})}


def shown_lines(file: FileView, diff: FileDiff, palette: Palette, visible: Visible, anchor: str) -> Shown:
    """What is shown of a file whose contents differ. `anchor` begins the ids of places in it."""
    old = _Side(file.old, file.old_mode, palette, file.old_path or file.path)
    new = _Side(file.new, file.new_mode, palette, file.path)
    drawing = _Drawing(old, new, _marked_ends(file, diff), anchor)
    drafts = list(_drafts(diff.hunks, _line_count(file.new)))
    for draft in drafts:
        if isinstance(draft, _Draft):
            drawing.draw(draft)
    lines = drawing.lines(visible)
    return [draft if isinstance(draft, int) else draft.drawn(lines) for draft in drafts]


class _Draft(NamedTuple):
    """A block before it is drawn."""

    old: Sequence[Row]
    new: Sequence[Row]
    kept: bool = False

    def drawn(self, lines: Iterator[Line]) -> Block:
        """The same with its lines, which come next."""
        old = () if self.kept else tuple(islice(lines, len(self.old)))
        new = tuple(islice(lines, len(self.new)))
        return Block(new if self.kept else old, new, self.kept)


def _drafts(hunks: Iterable[Hunk], lines: int) -> Iterator[_Draft | int]:
    at = 1
    for hunk in hunks:
        start = hunk.new_start if hunk.new_lines else hunk.new_start + 1  # with no lines it names the line before
        yield start - at
        yield from _blocks(hunk.rows)
        at = start + hunk.new_lines
    yield lines + 1 - at


def _blocks(rows: Iterable[Row]) -> Iterator[_Draft]:
    """What goes stands before what comes in its place."""
    removed: Sequence[Row] = ()
    for kind, run in groupby(rows, key=attrgetter("kind")):
        these = tuple(run)
        if kind == "+":
            yield _Draft(removed, these)
        elif removed:
            yield _Draft(removed, ())
        removed = these if kind == "-" else ()
        if kind == " ":
            yield _Draft(these, these, kept=True)
    if removed:
        yield _Draft(removed, ())


def _line_count(content: bytes | None) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n")) if content else 0


class _Side:
    """A content before or after, by its lines."""

    def __init__(self, content: bytes | None, mode: int, palette: Palette, path: bytes) -> None:
        self.lines = decode(content or b"").split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        is_link = mode == SYMLINK  # what it points to is no code, and no line that ought to end
        self.colours = PLAIN if is_link else palette.colours(path, content)
        self.open_end = "" if is_link else gettext(_OPEN_ENDED)

    def text(self, number: int) -> str:
        """A line without its end, counted from 1."""
        line = self.lines[number - 1]
        return line[:-1] if line.endswith("\r") and number < len(self.lines) else line


class _Drawing:
    """Draws lines on a sheet, one after the other, each with its colours and with the words that changed in it."""

    def __init__(self, old: _Side, new: _Side, ends: Mapping[bytes, str], anchor: str) -> None:
        self._old = old
        self._new = new
        self._ends = ends
        self._anchor = anchor
        self._words = Words()
        self._sheet = Sheet()
        self._drawn: list[tuple[Row, str, str]] = []

    def draw(self, draft: _Draft) -> None:
        if draft.kept:
            for row in draft.new:
                self._line(row, self._new, row.new or 0, ())
            return
        before = [self._old.text(row.old or 0) for row in draft.old]
        after = [self._new.text(row.new or 0) for row in draft.new]
        changed = [self._words.changed(one, other) for one, other in zip(before, after, strict=False)]
        for row, spans in zip(draft.old, chain((old for old, _ in changed), repeat(())), strict=False):
            self._line(row, self._old, row.old or 0, spans)
        for row, spans in zip(draft.new, chain((new for _, new in changed), repeat(())), strict=False):
            self._line(row, self._new, row.new or 0, spans)

    def lines(self, visible: Visible) -> Iterator[Line]:
        """Everything that was drawn, in that order."""
        for (row, signpost, end), html in zip(self._drawn, self._sheet.lines(visible), strict=True):
            yield Line(row.kind, row.old, row.new, html, signpost, end)

    def _line(self, row: Row, side: _Side, number: int, marks: Sequence[Span]) -> None:
        text, start = side.text(number), side.starts[number - 1]
        within = side.colours.within
        signpost, before, at, mark = "", "", 0, "<mark>"
        if marks and len(row.raw) > LONG:
            place = f"{self._anchor}-{'old' if side is self._old else 'new'}-{number}"
            signpost = phrase(gettext(_SIGNPOST), size=bytes_text(len(row.text)), place=place)
            mark = f'<mark id="{place}">'
        for begin, end in marks:
            before = self._coloured(before, text, at, begin, within(start + at, start + begin), start)
            before = self._coloured(before + mark, text, begin, end, within(start + begin, start + end), start)
            before, at, mark = before + "</mark>", end, "<mark>"
        end = len(text)
        after = self._coloured(before, text, at, end, within(start + at, start + end), start)
        if self._ends and row.end in self._ends:
            after += self._ends[row.end]
        self._sheet.end_line(after)
        self._drawn.append((row, signpost, "" if row.raw.endswith(b"\n") else side.open_end))

    def _coloured(self, before: str, text: str, at: int, end: int, stretches: Sequence[Stretch], start: int) -> str:
        """Add the text from one place to another, its coloured stretches wrapped; gives the markup that is to follow.

        Args:
            before: markup that goes ahead of it.
            text: the whole line.
            at: where the piece begins.
            end: where it ends.
            stretches: those of the piece, in its content.
            start: where the line begins in its content.
        """
        add = self._sheet.add
        for first, last, kind in stretches:
            one = first - start
            if at < one:
                add(before, text[at:one])
                before = ""
            at = last - start
            add(before + _COLOUR[kind], text[one:at])
            before = "</span>"
        if at < end:
            add(before, text[at:end])
            return ""
        return before


# Layouts -------------------------------------------------------------------------------------------------------------

_GAP: Final = '<tr class="gap"><td class="n o"></td><td class="n"></td><td class="s"></td><td>{}</td></tr>'


def _unified(shown: Shown) -> Iterator[str]:
    """Rows of a table: what goes, then what comes."""
    for block in shown:
        if isinstance(block, int):
            yield _GAP.format(_left_out(block)) if block > 0 else ""
            continue
        for line in (*(() if block.kept else block.old), *block.new):
            if line.signpost:
                yield _GAP.format(line.signpost)
            yield (
                f'<tr{_ROW[line.kind]}><td class="n o">{line.old or ""}</td><td class="n">{line.new or ""}</td>'
                f'<td class="s">{_SIGN[line.kind]}</td><td class="c">{line.html}</td></tr>'
            )
            if line.end:
                yield _GAP.format(line.end)


def _split(shown: Shown) -> Iterator[str]:
    """Halves, the left one before the right one, so that each pair of lines is a row of a grid of two columns."""
    for block in shown:
        if isinstance(block, int):
            yield f'<div class="gap">{_left_out(block)}</div>' if block > 0 else ""
            continue
        yield '<div class="block">'
        for old, new in zip_longest(block.old, block.new):
            yield from (f'<div class="gap">{line.signpost}</div>' for line in (old, new) if line and line.signpost)
            yield _half("old", old, old.old if old else None)
            yield _half("new", new, new.new if new else None)
        yield "</div>"


def _half(side: str, line: Line | None, number: int | None) -> str:
    if line is None:
        return f'<div class="half {side} none"></div>'
    end = f'<span class="end">{line.end}</span>' if line.end else ""
    return (
        f'<div class="half {side} {_HALF[line.kind]}"><span class="n">{number}</span>'
        f'<span class="s">{_SIGN[line.kind]}</span><span class="c">{line.html}</span>{end}</div>'
    )


def _left_out(lines: int) -> str:
    return ngettext("{count} unchanged line", "{count} unchanged lines", lines)


LAYOUTS: Final[Mapping[Layout, Callable[[Shown], Markup]]] = {
    "unified": lambda shown: ours(_unified(shown)),
    "split": lambda shown: ours(_split(shown)),
}

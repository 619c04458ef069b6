"""A file's change as rows of HTML: every changed line of it, with nothing cut and nothing that hides.

Colours and word marks only ever wrap pieces of the text itself, so a mistake in them cannot change what is read.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import attrgetter, itemgetter
from typing import Final

from markupsafe import Markup

from service.contract.names import quote_path
from service.contract.risk import is_binary
from service.edge.desk.colour import Stretch, colour
from service.edge.desk.pieces import bytes_text, hidden_text, mode_text, phrase
from service.edge.desk.visible import Visible, decode, line_end
from service.edge.desk.words import Span, Words
from service.kit.canonical import sha256
from service.kit.language import gettext, later, ngettext
from service.proposals.view import FileView
from service.repositories.diff import FileDiff, Row, diff_file

EXECUTABLE: Final = 0o100755
LONG: Final = 2_000
KINDS: Final = {0o120000: later("symbolic link"), 0o160000: later("link to another repository")}

_ROW: Final = Markup(
    '<tr{kind}><td class="n o">{old}</td><td class="n">{new}</td><td class="s">{sign}</td>'
    '<td class="c">{text}</td></tr>'
)
_GAP: Final = Markup('<tr class="gap"><td class="n o"></td><td class="n"></td><td class="s"></td><td>{}</td></tr>')
_KIND: Final = {"+": Markup(' class="add"'), "-": Markup(' class="del"'), " ": Markup("")}
_SIGN: Final = {"+": "+", "-": "\N{MINUS SIGN}", " ": ""}
_MARK: Final = Markup("<mark>{}</mark>")
_COLOUR: Final = Markup('<span class="t-{}">{}</span>')
_LONG: Final = later('{size} in one line; <a href="#{place}">go to the first change in it</a>')
FILE_ENDS: Final = {b"\r\n": "CR LF", b"\n": "LF"}
_OPEN_ENDED: Final = later("no newline at the end of the file")


@dataclass(frozen=True)
class Badge:
    """A short fact about a file; `kind` is its colour: plain, mind, lost, hides."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True)
class FilePanel:
    """A file's change, ready for the page.

    Attributes:
        anchor: the id of its place on the page.
        rows: the lines; None where there are none to show, and `facts` says why.
        hidden: how many hidden characters are marked in path and lines.
        of: where it changes, if the proposal changes several things; empty otherwise.
        place: which file of the proposal it is, from 1.
        folded: how big it is, where it is not shown yet; empty for one that is shown whole.
    """

    anchor: str
    path: Markup
    old_path: Markup | None
    badges: tuple[Badge, ...]
    added: int
    removed: int
    hidden: int
    facts: tuple[str, ...]
    rows: Markup | None
    of: Markup
    place: int
    folded: str = ""


def panel(file: FileView, place: int) -> FilePanel:
    """Build the panel of one file. Takes time in proportion to its contents; call it in a thread."""
    visible, anchor = Visible(), f"file-{place}"
    diff = diff_file(file.old, file.new)
    rows = Markup("").join(_Rows(file, diff, visible, anchor).html()) if diff.hunks else None
    path = visible.path(file.path)
    old_path = visible.path(file.old_path) if file.old_path is not None else None
    return FilePanel(
        anchor=anchor,
        path=path,
        old_path=old_path,
        badges=tuple(_badges(file, diff, visible)),
        added=diff.added,
        removed=diff.removed,
        hidden=visible.hidden,
        facts=tuple(_facts(file, diff)),
        rows=rows,
        of=Visible().line(file.of),
        place=place,
    )


def folded_panel(file: FileView, place: int) -> FilePanel:
    """A file of which only what its head says is shown. Nothing in it was compared."""
    visible = Visible()
    return FilePanel(
        anchor=f"file-{place}",
        path=visible.path(file.path),
        old_path=visible.path(file.old_path) if file.old_path is not None else None,
        badges=(*_fate(file), *_modes(file.old_mode, file.new_mode)),
        added=0,
        removed=0,
        hidden=visible.hidden,
        facts=(),
        rows=None,
        of=Visible().line(file.of),
        place=place,
        folded=_sizes(file),
    )


def size_of(file: FileView) -> int:
    """How much there is to compare, in bytes."""
    return len(file.old or b"") + len(file.new or b"")


def _sizes(file: FileView) -> str:
    if file.old is None or file.new is None:
        return bytes_text(size_of(file))
    return gettext("{before} before, {after} after", before=bytes_text(len(file.old)), after=bytes_text(len(file.new)))


def file_name(file: FileView) -> str:
    """The path by which a note speaks of this file."""
    return quote_path(file.path)


def _badges(file: FileView, diff: FileDiff, visible: Visible) -> Iterator[Badge]:
    yield from _fate(file)
    yield from _modes(file.old_mode, file.new_mode)
    if diff.binary:
        yield Badge(gettext("not text"), "mind")
    if diff.line_ends_changed:
        lines = diff.line_ends_changed
        yield Badge(ngettext("line ends change on {count} line", "line ends change on {count} lines", lines), "mind")
    elif _ends(file) == {b"\r\n"}:
        yield Badge(gettext("CR LF line ends"))
    if visible.stray:
        yield Badge(gettext("not UTF-8"), "mind")
    if visible.hidden:
        yield Badge(hidden_text(visible.hidden), "hides")


def _fate(file: FileView) -> Iterator[Badge]:
    if not file.old_mode:
        yield Badge(gettext("new file"))
    if not file.new_mode:
        yield Badge(gettext("deleted"), "lost")
    if file.old_path is not None:
        yield Badge(gettext("renamed"))


def _modes(old: int, new: int) -> Iterator[Badge]:
    if old and new and old != new:
        yield Badge(f"{mode_text(old)} → {mode_text(new)}", "mind")
    elif not old and new == EXECUTABLE:
        yield Badge(gettext("executable {mode}", mode=mode_text(new)), "mind")
    yield from (Badge(gettext(KINDS[mode]), "mind") for mode in sorted({old, new} & KINDS.keys()))


def _facts(file: FileView, diff: FileDiff) -> Iterator[str]:
    """Sentences in place of rows, for what has no lines or the same ones."""
    if diff.binary:
        yield from _binary(file)
    elif diff.hunks:
        return
    elif not (file.old or file.new):
        there = file.new is not None or file.old is not None
        yield gettext("The file is empty.") if there else gettext("There is no content to show.")
    elif file.old == file.new:
        yield gettext("The content stays the same, byte for byte.")


def _binary(file: FileView) -> Iterator[str]:
    yield gettext("This is not text, so there are no lines to compare.")
    before, after = later("Before: {size}, SHA-256 {sha256}"), later("After: {size}, SHA-256 {sha256}")
    for message, content in ((before, file.old), (after, file.new)):
        if content is not None:
            yield gettext(message, size=bytes_text(len(content)), sha256=sha256(content))


def _ends(file: FileView) -> set[bytes]:
    contents = [content for content in (file.old, file.new) if content and not is_binary(content)]
    crlf, lf = (sum(content.count(end) for content in contents) for end in (b"\r\n", b"\n"))
    return {end for end, count in ((b"\r\n", crlf), (b"\n", lf - crlf)) if count}


def _marked_ends(file: FileView, diff: FileDiff) -> set[bytes]:
    """Which line ends to mark: none where all are alike, both where they change, else the ones that stand out."""
    ends = _ends(file)
    if len(ends) == 1:
        return set()
    return ends if diff.line_ends_changed else ends - {b"\n"}


class _Rows:
    """The rows of one file."""

    def __init__(self, file: FileView, diff: FileDiff, visible: Visible, anchor: str) -> None:
        self._file = file
        self._diff = diff
        self._visible = visible
        self._anchor = anchor
        self._words = Words()
        self._ends = _marked_ends(file, diff)
        self._old = colour(file.old_path or file.path, file.old)
        self._new = colour(file.path, file.new)

    def html(self) -> Iterator[Markup]:
        line = 1
        for hunk in self._diff.hunks:
            start = hunk.new_start if hunk.new_lines else hunk.new_start + 1  # with no lines it names the line before
            yield from _gap(start - line)
            for row, spans in _compared(hunk.rows, self._words):
                yield from self._signpost(row, spans)
                yield self._row(row, spans)
                yield from self._open_end(row)
            line = start + hunk.new_lines
        yield from _gap(_line_count(self._file.new) + 1 - line)

    def _row(self, row: Row, spans: Sequence[Span]) -> Markup:
        colours = self._old.line(row.old) if row.kind == "-" else self._new.line(row.new)
        text = self._text(decode(row.text), colours, spans)
        if len(row.text) > LONG and spans:
            text = text.replace("<mark>", Markup('<mark id="{}">').format(self._place(row)), 1)
        if row.end in self._ends:
            text += line_end(FILE_ENDS[row.end])
        return _ROW.format(kind=_KIND[row.kind], old=row.old or "", new=row.new or "", sign=_SIGN[row.kind], text=text)

    def _signpost(self, row: Row, spans: Sequence[Span]) -> Iterator[Markup]:
        """Before a line so long that its changes would be hard to find: how long, and a way to the first of them."""
        if len(row.text) > LONG and spans:
            size = bytes_text(len(row.text))
            yield _GAP.format(phrase(gettext(_LONG), size=size, place=self._place(row)))

    def _place(self, row: Row) -> str:
        return f"{self._anchor}-{'old' if row.kind == '-' else 'new'}-{row.old or row.new}"

    def _open_end(self, row: Row) -> Iterator[Markup]:
        if not row.end:
            yield _GAP.format(gettext(_OPEN_ENDED))

    def _text(self, text: str, colours: Sequence[Stretch], marks: Sequence[Span]) -> Markup:
        pieces: list[Markup] = []
        at = 0
        for start, end in (*marks, (len(text), len(text))):
            pieces.extend(self._coloured(text, at, start, colours))
            if start < end:
                pieces.append(_MARK.format(Markup("").join(self._coloured(text, start, end, colours))))
            at = end
        return Markup("").join(pieces)

    def _coloured(self, text: str, start: int, end: int, colours: Sequence[Stretch]) -> Iterator[Markup]:
        """The text from start to end, its coloured stretches wrapped."""
        first = max(0, bisect_right(colours, start, key=itemgetter(0)) - 1)
        for index in range(first, len(colours)):
            begin, stop, kind = colours[index]
            if begin >= end:
                break
            if start < begin:
                yield self._visible.text(text[start:begin])
            upto = min(stop, end)
            if max(start, begin) < upto:
                yield _COLOUR.format(kind, self._visible.text(text[max(start, begin) : upto]))
            start = max(start, upto)
        if start < end:
            yield self._visible.text(text[start:end])


def _compared(rows: Iterable[Row], words: Words) -> Iterator[tuple[Row, Sequence[Span]]]:
    """Each row with its changed stretches: a removed line is compared with the added one in the same place."""
    removed: list[Row] = []
    for kind, run in groupby(rows, key=attrgetter("kind")):
        these = list(run)
        if kind == "-":
            removed = these
            continue
        added = these if kind == "+" else []
        pairs = [words.changed(decode(old.text), decode(new.text)) for old, new in zip(removed, added, strict=False)]
        yield from zip_longest(removed, (old for old, _ in pairs), fillvalue=())
        yield from zip_longest(these, (new for _, new in pairs), fillvalue=())
        removed = []
    yield from ((row, ()) for row in removed)


def _gap(lines: int) -> Iterator[Markup]:
    if lines > 0:
        yield _GAP.format(ngettext("{count} unchanged line", "{count} unchanged lines", lines))


def _line_count(content: bytes | None) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n")) if content else 0

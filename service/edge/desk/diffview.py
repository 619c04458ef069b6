"""A file's change as rows of HTML: every changed line of it, with nothing cut and nothing that hides.

Colours and word marks only ever wrap pieces of the text itself, so a mistake in them cannot change what is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from service.contract.names import quote_path
from service.edge.desk.lines import LAYOUTS, Layout, line_ends, shown_lines
from service.edge.desk.pieces import bytes_text, hidden_text, mode_text
from service.edge.desk.visible import Visible
from service.kit.canonical import sha256
from service.kit.language import gettext, later, ngettext
from service.proposals.view import FileView
from service.repositories.colour import Palette
from service.repositories.diff import FileDiff, diff_file

EXECUTABLE: Final = 0o100755
KINDS: Final = {0o120000: later("symbolic link"), 0o160000: later("link to another repository")}


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
        layout: how the rows lie.
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
    layout: Layout = "unified"


def panel(file: FileView, place: int, palette: Palette, layout: Layout = "unified") -> FilePanel:
    """Build the panel of one file. Takes time in proportion to its contents; call it in a thread."""
    visible, anchor = Visible(), f"file-{place}"
    diff = diff_file(file.old, file.new)
    rows = LAYOUTS[layout](shown_lines(file, diff, palette, visible, anchor)) if diff.hunks else None
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
        layout=layout,
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
    elif line_ends(file) == {b"\r\n"}:
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

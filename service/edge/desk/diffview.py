"""A file's change as rows of HTML: every changed line of it, with nothing cut and nothing that hides.

Colours and word marks only ever wrap pieces of the text itself, so a mistake in them cannot change what is read.
"""

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from service.contract.names import quote_path
from service.contract.risk import is_binary
from service.edge.desk.facts import Badge, Shown, badges, facts, head_badges, is_link_elsewhere, pictures
from service.edge.desk.lines import LAYOUTS, Layout, shown_lines
from service.edge.desk.pieces import bytes_text
from service.edge.desk.visible import Visible
from service.kit.language import gettext
from service.proposals.view import FileView
from service.repositories.colour import Palette
from service.repositories.diff import diff_file

LONG: Final = 20_000
"""Characters of HTML; about a hundred lines."""


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
        pictures: what it shows instead of rows.
        seen: the person who looks has marked this change as seen.
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
    pictures: tuple[Shown, ...] = ()
    seen: bool = False

    @property
    def long(self) -> bool:
        """Whether a browser had better leave it until it comes into sight."""
        return self.rows is not None and len(self.rows) > LONG


def panel(file: FileView, place: int, palette: Palette, layout: Layout = "unified") -> FilePanel:
    """Build the panel of one file. Takes time in proportion to its contents; call it in a thread."""
    visible, anchor = Visible(), f"file-{place}"
    diff = diff_file(file.old, file.new)
    rows = None
    if diff.hunks and not is_link_elsewhere(file):
        rows = LAYOUTS[layout](shown_lines(file, diff, palette, visible, anchor))
    path = visible.path(file.path)
    old_path = visible.path(file.old_path) if file.old_path is not None else None
    return FilePanel(
        anchor=anchor,
        path=path,
        old_path=old_path,
        badges=tuple(badges(file, diff, visible.hidden)),
        added=diff.added if rows is not None else 0,
        removed=diff.removed if rows is not None else 0,
        hidden=visible.hidden,
        facts=tuple(facts(file, diff)),
        rows=rows,
        of=Visible().line(file.of),
        place=place,
        layout=layout,
        pictures=tuple(pictures(file)),
        seen=file.seen,
    )


def folded_panel(file: FileView, place: int) -> FilePanel:
    """A file of which only what its head says is shown. Nothing in it was compared."""
    visible = Visible()
    return FilePanel(
        anchor=f"file-{place}",
        path=visible.path(file.path),
        old_path=visible.path(file.old_path) if file.old_path is not None else None,
        badges=tuple(head_badges(file)),
        added=0,
        removed=0,
        hidden=visible.hidden,
        facts=(),
        rows=None,
        of=Visible().line(file.of),
        place=place,
        folded=_sizes(file),
        seen=file.seen,
    )


def size_of(file: FileView) -> int:
    """How much there is to compare, in bytes; nothing where one side is no text."""
    if is_binary(file.old or b"") or is_binary(file.new or b""):
        return 0
    return len(file.old or b"") + len(file.new or b"")


def _sizes(file: FileView) -> str:
    if file.old is None or file.new is None:
        return bytes_text(size_of(file))
    return gettext("{before} before, {after} after", before=bytes_text(len(file.old)), after=bytes_text(len(file.new)))


def file_name(file: FileView) -> str:
    """The path by which a note speaks of this file."""
    return quote_path(file.path)

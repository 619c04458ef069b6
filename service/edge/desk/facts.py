"""What is said of a file beside its lines: what it is, what it becomes, and what its lines do not show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service.contract.changes import EXECUTABLE, GITLINK, SYMLINK
from service.contract.hidden import readable
from service.contract.lfs import pointer_of
from service.contract.pictures import BYTES_MOST, Picture, byte_order_mark, kind_of, picture_of
from service.contract.risk import is_binary
from service.edge.desk.lines import line_ends
from service.edge.desk.pieces import bytes_text, hidden_text, mode_text
from service.kit.canonical import sha256
from service.kit.language import figure, gettext, later, ngettext
from service.proposals.view import FileView
from service.repositories.diff import FileDiff

_KINDS: Final = {SYMLINK: later("symbolic link"), GITLINK: later("link to another repository")}
_SIDES: Final = {"old": later("Before: {what}"), "new": later("After: {what}")}


@dataclass(frozen=True)
class Badge:
    """A short fact about a file; `kind` is its colour: plain, mind, lost, hides."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True)
class Shown:
    """A picture that the page shows: before or after (`old`, `new`), how large, and what is said of it."""

    side: str
    width: int
    height: int
    text: str


def badges(file: FileView, diff: FileDiff, hidden: int) -> Iterator[Badge]:
    """What is said in the head of a file. `hidden`: how many characters are marked in it."""
    yield from head_badges(file)
    if diff.binary:
        yield Badge(gettext("not text"), "mind")
    yield from _encodings(file)
    if diff.line_ends_changed:
        lines = diff.line_ends_changed
        yield Badge(ngettext("line ends change on {count} line", "line ends change on {count} lines", lines), "mind")
    elif line_ends(file) == {b"\r\n"}:
        yield Badge(gettext("CR LF line ends"))
    if hidden:
        yield Badge(hidden_text(hidden), "hides")


def head_badges(file: FileView) -> Iterator[Badge]:
    """What is known before anything is compared."""
    old, new = file.old_mode, file.new_mode
    if not old:
        yield Badge(gettext("new file"))
    if not new:
        yield Badge(gettext("deleted"), "lost")
    if file.old_path is not None:
        yield Badge(gettext("renamed"))
    if old and new and old != new:
        yield Badge(f"{mode_text(old)} → {mode_text(new)}", "mind")
    elif not old and new == EXECUTABLE:
        yield Badge(gettext("executable {mode}", mode=mode_text(new)), "mind")
    yield from (Badge(gettext(_KINDS[mode]), "mind") for mode in sorted({old, new} & _KINDS.keys()))
    if any(pointer_of(content) for _, content in _contents(file)):
        yield Badge(gettext("LFS pointer"), "mind")


def facts(file: FileView, diff: FileDiff) -> Iterator[str]:
    """Sentences, above the lines or in their place."""
    if GITLINK in {file.old_mode, file.new_mode}:
        yield from _commits(file)
    elif diff.binary:
        yield gettext("This is not text, so there are no lines to compare.")
        yield from (_said(side, _size_and_kind(content)) for side, content in _contents(file))
        yield from _unshown(file)
    elif any(pointer_of(content) for _, content in _contents(file)):
        yield from _pointers(file)
    if not (diff.binary or diff.hunks or is_link_elsewhere(file)):
        yield _unchanged(file)


def is_link_elsewhere(file: FileView) -> bool:
    """Whether it is nothing but a commit of another repository, before and after."""
    return {file.old_mode, file.new_mode} <= {0, GITLINK}


def pictures(file: FileView) -> Iterator[Shown]:
    """The pictures that can be shown, before and after."""
    for side, picture in _pictures(file):
        if picture.shown:
            yield Shown(side, picture.width, picture.height, _said(side, _pixels(picture)))


def _contents(file: FileView) -> Sequence[tuple[str, bytes]]:
    return [(side, content) for side, content in (("old", file.old), ("new", file.new)) if content is not None]


def _said(side: str, what: str) -> str:
    return gettext(_SIDES[side], what=what)


def _encodings(file: FileView) -> Iterator[Badge]:
    """What is no UTF-8 is said to be none, and what a content itself says of its encoding."""
    texts = [content for _, content in _contents(file)]
    marks = sorted({byte_order_mark(content) for content in texts} - {""})
    if any(_stray(content) for content in texts if not is_binary(content) or byte_order_mark(content)):
        yield Badge(gettext("not UTF-8"), "mind")
    yield from (Badge(gettext("{encoding} byte order mark", encoding=mark), "mind") for mark in marks)


def _stray(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


def _size_and_kind(content: bytes) -> str:
    kind = byte_order_mark(content) or kind_of(content)
    size = bytes_text(len(content))
    if picture := picture_of(content):
        size = f"{_pixels(picture)}, {size}"
    elif kind:
        size = f"{kind}, {size}"
    return gettext("{what}, SHA-256 {sha256}", what=size, sha256=sha256(content))


def _pictures(file: FileView) -> Iterator[tuple[str, Picture]]:
    for side, content in _contents(file):
        if is_binary(content) and (picture := picture_of(content)):
            yield side, picture


def _pixels(picture: Picture) -> str:
    width, height = figure(picture.width), figure(picture.height)
    return gettext("{kind} of {width} by {height} pixels", kind=picture.kind, width=width, height=height)


def _unshown(file: FileView) -> Iterator[str]:
    for side, picture in _pictures(file):
        if picture.bytes > BYTES_MOST:
            yield _said(side, gettext("a picture of more than {most} is not shown.", most=bytes_text(BYTES_MOST)))
        elif not picture.shown:
            yield _said(side, gettext("a picture of so many pixels is not shown."))


def _commits(file: FileView) -> Iterator[str]:
    """A submodule's commits, whole: they are all that Git knows of it here."""
    for side, mode, content in (("old", file.old_mode, file.old), ("new", file.new_mode, file.new)):
        if mode == GITLINK and content:
            commit = readable(content.decode(errors="replace").rstrip().rpartition(" ")[2])
            yield _said(side, gettext("commit {commit} of another repository", commit=commit))
    yield gettext("What is in that repository is not here, and is not shown.")


def _pointers(file: FileView) -> Iterator[str]:
    yield gettext("This is a pointer of Git LFS. The content that it stands for is not here, and is not shown.")
    for side, content in _contents(file):
        if pointer := pointer_of(content):
            size = bytes_text(pointer.size)
            yield _said(side, gettext("{size}, SHA-256 {sha256}", size=size, sha256=pointer.oid))


def _unchanged(file: FileView) -> str:
    if file.old or file.new:
        return gettext("The content stays the same, byte for byte.")
    if file.old is None and file.new is None:
        return gettext("There is no content to show.")
    return gettext("The file is empty.") if file.new is not None else gettext("The file was empty.")

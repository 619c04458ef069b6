"""Read a repository: an overview, the entries of a directory, or the text of a file in pieces."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from service.contract.data import Commit, Entry, Json, Oid
from service.contract.lookup import (
    KINDS,
    TYPE_BITS,
    Kind,
    PathArgument,
    Place,
    Provenance,
    RefArgument,
    find_place,
)
from service.contract.names import quote_path, unquote_path
from service.contract.operation import RepositoryId, Toolset
from service.contract.paging import Cursor, fit, text_that_fits
from service.contract.ports import Answer, Arguments, Listed, NamedRef, Ports, RepositoryFacts, Scope
from service.kit.errors import Code, Refusal

PAGE = 200
LINE_MOST = 2**31
BLOB_BYTES = 10_000_000
LIST_BYTES = 40_000  # of an answer of 60,000; a cursor after a long path takes up to 16,384
TEXT_BYTES = 48_000
CHUNK = 4_096  # characters counted at once when looking for a line
PIECE_BYTES = 36_000  # three quarters of TEXT_BYTES: base64
BRANCHES_COUNTED = 1_000
NAMES_SHOWN = 20
COMMITS_SHOWN = 10
ENTRIES_SHOWN = 100
PART_BYTES = 9_000  # each of the overview's five parts
SUBJECT_CHARACTERS = 200

READMES = tuple(b"%s%s" % (n, e) for e in (b".md", b"", b".rst", b".txt") for n in (b"README", b"Readme", b"readme"))

View = Literal["overview", "tree", "file"]
# Which arguments belong to which view; the others would be ignored in silence.
OWN: dict[View, frozenset[str]] = {
    "overview": frozenset(),
    "tree": frozenset({"path", "recursive", "cursor", "limit"}),
    "file": frozenset({"path", "start_line", "end_line", "cursor"}),
}
COMMON = frozenset({"repository_id", "view", "ref"})


class ReadRepositoryArguments(Arguments):
    """What to read of which repository."""

    repository_id: RepositoryId
    view: Annotated[
        View,
        Field(
            description="overview: default branch, branches, tags, last commits, top-level entries, start of the "
            "README. tree: the entries of a directory. file: the content of a file."
        ),
    ] = "overview"
    ref: RefArgument = None
    path: PathArgument = None
    recursive: Annotated[bool, Field(description="tree: the whole subtree instead of one directory.")] = False
    start_line: Annotated[int, Field(ge=1, le=LINE_MOST, description="file: the first line, from 1.")] = 1
    end_line: Annotated[
        int | None, Field(ge=1, le=LINE_MOST, description="file: the last line, included. Left out: to the end.")
    ] = None
    cursor: Cursor = None
    limit: Annotated[int, Field(ge=1, le=PAGE, description="tree: the most entries in one answer.")] = PAGE

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for name in sorted(self.model_fields_set - COMMON - OWN[self.view]):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise _bad(name, f"{name} is not for the view {self.view}.")
        if self.view == "file" and self.path is None:
            raise _bad("path", "The view file needs a path.")
        if self.end_line is not None and self.end_line < self.start_line:
            raise _bad("end_line", "end_line is before start_line.", limit=self.start_line, value=self.end_line)
        return self

    @property
    def query(self) -> Json:
        """What a cursor is bound to."""
        return {"tool": "read_repository", **self.model_dump(exclude={"cursor", "limit"})}

    @property
    def raw_path(self) -> bytes:
        """The path's own bytes; empty for the root."""
        return unquote_path(self.path, "path") if self.path is not None else b""


class RefLine(Answer):
    """A branch or tag, and the commit it leads to."""

    name: str
    commit: str


class CommitLine(Answer):
    """A commit in one line."""

    commit: str
    author: str
    date: str | None = Field(None, description="The author's date, RFC 3339 in UTC.")
    subject: str = Field(description="The first line of the message, at most 200 characters.")


class EntryLine(Answer):
    """One entry of a directory. Links and submodules are named, never followed."""

    path: str
    kind: Kind
    mode: str
    oid: str = Field(description="The blob's or tree's id; for a submodule the commit it stands at.")
    size: int | None = Field(None, description="In bytes; files and symlinks only.")


class Readme(Answer):
    """The start of the README."""

    path: str
    text: str
    truncated: bool


class Overview(Answer):
    """A repository at a glance."""

    default_branch: str
    branch_count: int = Field(description="Counted up to 1,000; that number may mean more.")
    branches: list[RefLine] = Field(description="The first of them, at most 20.")
    tags: list[RefLine] = Field(description="The first of them, at most 20.")
    commits: list[CommitLine] = Field(description="The last of them, at most 10.")
    entries: list[EntryLine] = Field(description="The top level, at most 100; the view tree has the rest.")
    entries_truncated: bool
    readme: Readme | None = None


class Tree(Answer):
    """The entries of a directory in the order of their paths."""

    entries: list[EntryLine]
    truncated: bool = Field(description="Whether there is more: next_cursor leads to it, or ask for less.")


class FilePiece(Answer):
    """A file, or the piece of it that fits into one answer. Pieces put together are the file."""

    path: str
    kind: Kind
    mode: str
    oid: str = Field(description="The blob's id; for a submodule the commit it stands at.")
    size: int | None = Field(None, description="Of the whole file in bytes.")
    encoding: Literal["utf-8", "base64"] | None = Field(None, description="base64: not text in UTF-8.")
    content: str | None = Field(None, description="Absent for a submodule; for a symlink its target.")
    start_line: int | None = None
    end_line: int | None = Field(None, description="The last line of which there is something in content.")
    line_count: int | None = None
    starts_within_line: bool | None = Field(None, description="Whether start_line began in the piece before.")
    truncated: bool = Field(description="Whether there is more: next_cursor leads to it.")


class RepositoryView(Answer):
    """What was asked for, under the name of the view."""

    view: View
    provenance: Provenance
    empty: bool = Field(description="Whether the repository has no commits.")
    overview: Overview | None = None
    tree: Tree | None = None
    file: FilePiece | None = None
    next_cursor: str | None = None


@dataclass(frozen=True)
class Looked:
    """A view's part of the answer, and the position where it goes on."""

    part: Answer | None
    position: Json | None = None


class ReadRepository:
    """The tool. See the module."""

    name: ClassVar[str] = "read_repository"
    title: ClassVar[str] = "Read a repository"
    description: ClassVar[str] = (
        "Reads a repository at a branch, tag or commit: an overview, the entries of a directory, or a file. Text comes "
        "with line numbers, other content as base64. Long listings and files come in pieces of at most 60 KB; "
        "next_cursor leads to the next one, at the same commit. Files above 10 MB are not read. Symlinks and "
        "submodules are named and not followed."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "core"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = ReadRepositoryArguments
    answer = RepositoryView

    async def run(self, arguments: ReadRepositoryArguments, ports: Ports) -> RepositoryView:
        facts = await ports.repositories.facts(arguments.repository_id)
        position = ports.cursors.open(arguments.query, arguments.cursor) if arguments.cursor else None
        snapshot = await ports.repositories.open(arguments.repository_id)
        place, looked = await ports.in_thread(_look, snapshot, arguments, position)
        return _answer(arguments, ports, facts, place, looked)


def _look(snapshot: Any, arguments: ReadRepositoryArguments, position: Json | None) -> tuple[Place, Looked]:
    place = find_place(snapshot, arguments.ref, position)
    return place, VIEWS[arguments.view](place, arguments, position)


def _answer(
    arguments: ReadRepositoryArguments, ports: Ports, facts: RepositoryFacts, place: Place, looked: Looked
) -> RepositoryView:
    onward = None
    if looked.position is not None:
        onward = ports.cursors.seal(arguments.query, {"commit": place.commit, **looked.position})
    return RepositoryView(
        view=arguments.view,
        provenance=Provenance(
            repository_id=facts.repository_id, repository=facts.name, ref=place.ref, commit=place.commit
        ),
        empty=place.empty,
        next_cursor=onward,
        **{arguments.view: looked.part},
    )


def _overview(place: Place, _arguments: ReadRepositoryArguments, _position: Json | None) -> Looked:
    branches = place.snapshot.branches(b"", BRANCHES_COUNTED)
    listed = _top_level(place)
    entries = fit([_entry_line(one) for one in listed], ENTRIES_SHOWN, PART_BYTES)
    overview = Overview(
        default_branch=place.snapshot.default_branch(),
        branch_count=len(branches),
        branches=_ref_lines(branches),
        tags=_ref_lines(place.snapshot.tags(b"", NAMES_SHOWN)),
        commits=_commit_lines(place),
        entries=entries,
        entries_truncated=len(listed) > len(entries),
        readme=_readme(place),
    )
    return Looked(overview)


def _top_level(place: Place) -> Sequence[Listed]:
    if place.commit is None:
        return ()
    return place.snapshot.walk(place.commit, b"", after=b"", most=ENTRIES_SHOWN + 1, deep=False)[0]


def _ref_lines(refs: Sequence[NamedRef]) -> list[RefLine]:
    return fit([RefLine(name=quote_path(one.name), commit=one.oid) for one in refs], NAMES_SHOWN, PART_BYTES)


def _commit_lines(place: Place) -> list[CommitLine]:
    if place.commit is None:
        return []
    lines = [_commit_line(oid, commit) for oid, commit in place.snapshot.log(place.commit, COMMITS_SHOWN)]
    return fit(lines, COMMITS_SHOWN, PART_BYTES)


def _commit_line(oid: Oid, commit: Commit) -> CommitLine:
    who, end, when = commit.author.rpartition(b"> ")  # a broken identity may have no end
    author = (who + b">" if end else commit.author).decode(errors="replace")
    subject = commit.message.decode(errors="replace").partition("\n")[0]
    return CommitLine(
        commit=oid,
        author=author[:SUBJECT_CHARACTERS],
        date=_date(when.partition(b" ")[0]) if end else None,
        subject=subject[:SUBJECT_CHARACTERS],
    )


def _date(seconds: bytes) -> str | None:
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat()
    except (ValueError, OverflowError, OSError):  # an imported history may say anything
        return None


def _readme(place: Place) -> Readme | None:
    if place.commit is None:
        return None
    for name in READMES:
        entry = place.snapshot.entry(place.commit, name)
        if entry and _kind(entry) == "file" and place.snapshot.blob_size(entry.oid) <= BLOB_BYTES:
            whole = place.snapshot.blob(entry.oid).decode(errors="replace")
            text = text_that_fits(whole, PART_BYTES) if whole else ""
            return Readme(path=quote_path(name), text=text, truncated=len(text) < len(whole))
    return None


def _tree(place: Place, arguments: ReadRepositoryArguments, position: Json | None) -> Looked:
    path = arguments.raw_path
    if place.commit is None:
        return Looked(None)
    if path and _kind(_entry(place, path)) != "directory":
        raise _bad("path", "This is no directory; read it with the view file.")
    after = unquote_path(position["after"], "cursor") if position else b""
    listed, stopped = place.snapshot.walk(
        place.commit, path, after=after, most=arguments.limit + 1, deep=arguments.recursive
    )
    lines = fit([_entry_line(one) for one in listed], arguments.limit, LIST_BYTES)
    truncated = stopped or len(listed) > len(lines)
    last = listed[len(lines) - 1].path if lines and truncated else None
    return Looked(Tree(entries=lines, truncated=truncated), {"after": quote_path(last)} if last is not None else None)


def _file(place: Place, arguments: ReadRepositoryArguments, position: Json | None) -> Looked:
    if place.commit is None:
        return Looked(None)
    entry = _entry(place, arguments.raw_path)
    kind = _kind(entry)
    piece: Json = {"path": quote_path(arguments.raw_path), "kind": kind, "mode": f"{entry.mode:06o}", "oid": entry.oid}
    if kind == "directory":
        raise _bad("path", "This is a directory; list it with the view tree.")
    if kind == "submodule":
        return Looked(FilePiece(**piece, truncated=False))
    content = _content(place, entry)
    piece["size"] = len(content)
    text = _text(content)
    if text is None:
        return _binary_piece(content, piece, position)
    return _text_piece(text, piece, arguments, position)


def _content(place: Place, entry: Entry) -> bytes:
    size = place.snapshot.blob_size(entry.oid)
    if size > BLOB_BYTES:
        raise _bad("path", f"The file has {size:,} bytes; {BLOB_BYTES:,} can be read.", limit=BLOB_BYTES, value=size)
    return place.snapshot.blob(entry.oid)


def _text(content: bytes) -> str | None:
    """The content as text, None when it is not UTF-8 or holds a NUL."""
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def _binary_piece(content: bytes, piece: Json, position: Json | None) -> Looked:
    start = position["at"] if position else 0
    end = min(start + PIECE_BYTES, len(content))
    encoded = base64.b64encode(content[start:end]).decode()
    more = end < len(content)
    return Looked(FilePiece(**piece, encoding="base64", content=encoded, truncated=more), {"at": end} if more else None)


def _text_piece(text: str, piece: Json, arguments: ReadRepositoryArguments, position: Json | None) -> Looked:
    """The lines asked for, as many as fit; a line that is longer than an answer is cut and goes on in the next."""
    first = position["line"] if position else arguments.start_line
    start = position["at"] if position else _line_start(text, 0, arguments.start_line - 1)
    end = len(text)
    if arguments.end_line is not None:
        end = _line_start(text, start, arguments.end_line - first + 1)
    content = _whole_lines(text[start:end])
    at = start + len(content)
    line = first + content.count("\n")
    found = FilePiece(
        **piece,
        encoding="utf-8",
        content=content,
        start_line=first,
        end_line=line if content and not content.endswith("\n") else max(line - 1, first) if content else None,
        line_count=text.count("\n") + (not text.endswith("\n") if text else 0),
        starts_within_line=start > 0 and text[start - 1] != "\n",
        truncated=at < end,
    )
    return Looked(found, {"at": at, "line": line} if at < end else None)


def _whole_lines(text: str) -> str:
    """What fits into an answer, up to the end of a line where there is one."""
    if not text:
        return ""
    kept = text_that_fits(text, TEXT_BYTES)
    whole = kept.rfind("\n") + 1
    return kept if len(kept) == len(text) or whole == 0 else kept[:whole]


def _line_start(text: str, start: int, lines: int) -> int:
    """Where the line begins that is this many lines after `start`; the end of the text when there are not so many."""
    for chunk in range(start, len(text), CHUNK):
        here = text.count("\n", chunk, chunk + CHUNK)
        if lines <= here:
            return _after_breaks(text, chunk, lines)
        lines -= here
    return len(text)


def _after_breaks(text: str, start: int, breaks: int) -> int:
    for _ in range(breaks):
        start = text.index("\n", start) + 1
    return start


def _entry(place: Place, path: bytes) -> Entry:
    found = place.snapshot.entry(place.commit, path) if place.commit is not None else None
    if found is None:
        raise Refusal(Code.NOT_FOUND, "There is nothing at this path.", field="path")
    return found


def _kind(entry: Entry) -> Kind:
    return KINDS.get(entry.mode & TYPE_BITS, "file")


def _entry_line(listed: Listed) -> EntryLine:
    entry = listed.entry
    return EntryLine(
        path=quote_path(listed.path), kind=_kind(entry), mode=f"{entry.mode:06o}", oid=entry.oid, size=listed.size
    )


def _bad(field: str, message: str, **details: Any) -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, message, field=field, **details)


VIEWS: dict[View, Callable[[Place, ReadRepositoryArguments, Json | None], Looked]] = {
    "overview": _overview,
    "tree": _tree,
    "file": _file,
}

TOOL = ReadRepository()

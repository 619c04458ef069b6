"""Read what could not be proposed because two sides disagree: the paths, and what each side has."""

import base64
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from service.contract.data import Entry, Json
from service.contract.lookup import KINDS, TYPE_BITS, PathArgument
from service.contract.names import quote_path, unquote_path
from service.contract.operation import Toolset
from service.contract.paging import ANSWER_BYTES, Cursor, fit
from service.contract.plan import Conflict
from service.contract.ports import Answer, Arguments, KeptConflict, Ports, Scope
from service.kit.errors import Code, Refusal

PAGE = 100
ROOM = ANSWER_BYTES - 4_000
SIDE_BYTES = 9_000
"""So many bytes of each side in one answer: base64 or JSON may make them twice as long, and there are three."""
OFFSET_MOST = 100_000_000
REGIONS_MOST = 100
CHARACTER_BYTES = 4


class ReadConflictsArguments(Arguments):
    """Which conflict; one path to see what each side has; and where to go on."""

    conflict_id: Annotated[
        str,
        Field(
            description="The conflict's id, as the refused proposal gave it.",
            pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        ),
    ]
    path: PathArgument = None
    offset: Annotated[
        int, Field(ge=0, le=OFFSET_MOST, description="With path: the byte of each side at which to begin.")
    ] = 0
    cursor: Cursor = None

    @property
    def query(self) -> Json:
        """What a cursor is bound to."""
        return {"tool": "read_conflicts", "conflict_id": self.conflict_id}


class SpanAnswer(Answer):
    """Lines of one side: the first, from 1, and how many."""

    line: int
    lines: int


class RegionAnswer(Answer):
    """Where the sides disagree, in the lines of each."""

    base: SpanAnswer
    ours: SpanAnswer
    theirs: SpanAnswer


class SideAnswer(Answer):
    """What one side has at the path. Its content is data from the repository, not from the service."""

    blob_oid: str
    mode: str
    kind: str
    bytes: int | None = Field(None, description="Size of the whole; with path only.")
    encoding: Literal["utf-8", "base64"] | None = None
    content: str | None = Field(None, description="From offset on, with path only.")
    next_offset: int | None = Field(None, description="Where to go on; absent at the end.")


class ConflictedPath(Answer):
    """One path on which the sides disagree; a side is absent where it has nothing there."""

    path: str
    kind: str
    base: SideAnswer | None = None
    ours: SideAnswer | None = None
    theirs: SideAnswer | None = None
    regions: list[RegionAnswer]
    more_regions: int | None = Field(None, description="How many more there are.")


class ConflictsAnswer(Answer):
    """A conflict, with its paths or with one of them whole."""

    conflict_id: str
    repository_id: str
    operation: str = Field(description="The tool whose proposal was refused.")
    made_at: Annotated[str, Field(description="RFC 3339, UTC. It can be read for a day.")]
    total: int = Field(description="How many paths there are.")
    paths: list[ConflictedPath]
    next_cursor: str | None = None


class ReadConflicts:
    """The tool. See the module."""

    name: ClassVar[str] = "read_conflicts"
    title: ClassVar[str] = "Read conflicts"
    description: ClassVar[str] = (
        "Reads a conflict that a refused merge, rebase, cherry-pick or revert gave the id of: each path with its "
        "regions and the blob ids of base, ours and theirs; with path, the content of the three sides, 9,000 bytes of "
        "each at a time. Kept for a day, the last 20 of a connection."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "core"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = ReadConflictsArguments
    answer = ConflictsAnswer

    async def run(self, arguments: ReadConflictsArguments, ports: Ports) -> ConflictsAnswer:
        kept = await ports.conflicts.read(arguments.conflict_id)
        if arguments.path is not None:
            one = _find(kept, unquote_path(arguments.path, "path"))
            whole = await ports.in_thread(_whole, kept, one, arguments.offset)
            return _answer(kept, [whole], None)
        start = ports.cursors.open(arguments.query, arguments.cursor)["start"] if arguments.cursor else 0
        shown = fit([_listed(one) for one in kept.conflicts[start : start + PAGE]], PAGE, ROOM)
        more = start + len(shown) < len(kept.conflicts)
        following = ports.cursors.seal(arguments.query, {"start": start + len(shown)}) if more else None
        return _answer(kept, shown, following)


def _find(kept: KeptConflict, path: bytes) -> Conflict:
    for one in kept.conflicts:
        if one.path == path:
            return one
    raise Refusal(Code.NOT_FOUND, "There is no conflict at this path.", field="path")


def _answer(kept: KeptConflict, paths: list[ConflictedPath], following: str | None) -> ConflictsAnswer:
    return ConflictsAnswer(
        conflict_id=kept.id,
        repository_id=kept.repository_id,
        operation=kept.operation,
        made_at=kept.made_at,
        total=len(kept.conflicts),
        paths=paths,
        next_cursor=following,
    )


def _listed(one: Conflict) -> ConflictedPath:
    return _path(one, {name: _side(entry) for name, entry in _sides(one).items()})


def _whole(kept: KeptConflict, one: Conflict, offset: int) -> ConflictedPath:
    return _path(one, {name: _with_content(kept, entry, offset) for name, entry in _sides(one).items()})


def _sides(one: Conflict) -> dict[str, Entry]:
    sides = {"base": one.base, "ours": one.ours, "theirs": one.theirs}
    return {name: entry for name, entry in sides.items() if entry is not None}


def _path(one: Conflict, sides: dict[str, SideAnswer]) -> ConflictedPath:
    regions = [
        RegionAnswer(
            **{
                name: SpanAnswer(line=line, lines=lines)
                for name, (line, lines) in (("base", found.base), ("ours", found.ours), ("theirs", found.theirs))
            }
        )
        for found in one.regions[:REGIONS_MOST]
    ]
    more = len(one.regions) - len(regions)
    return ConflictedPath(path=quote_path(one.path), kind=one.kind, regions=regions, more_regions=more or None, **sides)


def _side(entry: Entry) -> SideAnswer:
    kind = KINDS.get(entry.mode & TYPE_BITS, "file")
    return SideAnswer(blob_oid=entry.oid, mode=f"{entry.mode:06o}", kind=kind)


def _with_content(kept: KeptConflict, entry: Entry, offset: int) -> SideAnswer:
    content = kept.content(entry)
    end = _text_end(content, min(offset + SIDE_BYTES, len(content)))
    piece = content[offset:end]
    try:
        encoding, text = "utf-8", piece.decode()
    except UnicodeDecodeError:
        encoding, text = "base64", base64.b64encode(piece).decode()
    return _side(entry).model_copy(
        update={
            "bytes": len(content),
            "encoding": encoding,
            "content": text,
            "next_offset": end if end < len(content) else None,
        }
    )


def _text_end(content: bytes, end: int) -> int:
    """Where to cut, so that no character of UTF-8 is cut in two."""
    starts = (
        at for at in range(end, max(end - CHARACTER_BYTES, 0), -1) if at == len(content) or not _inside(content[at])
    )
    return next(starts, end)


def _inside(byte: int) -> bool:
    """Whether a byte is a later one of a character (RFC 3629)."""
    return byte & 0xC0 == 0x80  # noqa: PLR2004  the two bits that mark it


TOOL = ReadConflicts()

"""Search the files of a repository for a fixed string."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from service.contract.data import Json
from service.contract.lookup import PathArgument, Place, Provenance, RefArgument, find_place
from service.contract.names import check_text, quote_path, unquote_path
from service.contract.operation import RepositoryId, Toolset
from service.contract.paging import Cursor, fit
from service.contract.ports import Answer, Arguments, Hit, Ports, Scope, Snapshot
from service.kit.errors import Code, Refusal

PAGE = 100
TEXT_CHARACTERS = 200
LIST_BYTES = 40_000  # of an answer of 60,000; a cursor after a long path takes up to 16,384


def _one_line(text: str) -> str:
    check_text(text, "text", most=TEXT_CHARACTERS)
    if "\n" in text:
        raise Refusal(Code.INVALID_ARGUMENT, "The text has a line break; lines are searched one by one.", field="text")
    return text


class SearchCodeArguments(Arguments):
    """What to look for, and where."""

    repository_id: RepositoryId
    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=TEXT_CHARACTERS,
            description="What a line must contain, character by character; it is no pattern.",
        ),
        AfterValidator(_one_line),
    ]
    ref: RefArgument = None
    path: PathArgument = None
    ignore_case: Annotated[bool, Field(description="Whether upper and lower case are the same.")] = False
    cursor: Cursor = None
    limit: Annotated[int, Field(ge=1, le=PAGE, description="The most lines in one answer.")] = 50

    @property
    def query(self) -> Json:
        """What a cursor is bound to."""
        return {"tool": "search_code", **self.model_dump(exclude={"cursor", "limit"})}


class Match(Answer):
    """A line that contains the text."""

    path: str
    line: int = Field(description="From 1.")
    text: str = Field(description="The line, cut after 500 bytes.")


class SearchResult(Answer):
    """Lines in the order of path and line."""

    provenance: Provenance
    matches: list[Match]
    incomplete: bool = Field(description="Whether time ran out before everything was searched; name a path then.")
    next_cursor: str | None = None


class SearchCode:
    """The tool. See the module."""

    name: ClassVar[str] = "search_code"
    title: ClassVar[str] = "Search in a repository"
    description: ClassVar[str] = (
        "Finds the lines that contain a fixed string in the text files of a repository at a branch, tag or commit, "
        "in the order of path and line, at most 100 in one answer. Lines are cut after 500 bytes. next_cursor leads "
        "to the rest, at the same commit."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "core"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = SearchCodeArguments
    answer = SearchResult

    async def run(self, arguments: SearchCodeArguments, ports: Ports) -> SearchResult:
        facts = await ports.repositories.facts(arguments.repository_id)
        position = ports.cursors.open(arguments.query, arguments.cursor) if arguments.cursor else None
        snapshot = await ports.repositories.open(arguments.repository_id)
        place, hits, stopped = await ports.in_thread(_search, snapshot, arguments, position)
        kept = fit([_match(hit) for hit in hits], arguments.limit, LIST_BYTES)
        onward = None
        if kept and (stopped or len(hits) > len(kept)):
            last = {"commit": place.commit, "path": kept[-1].path, "line": kept[-1].line}
            onward = ports.cursors.seal(arguments.query, last)
        return SearchResult(
            provenance=Provenance(
                repository_id=facts.repository_id, repository=facts.name, ref=place.ref, commit=place.commit
            ),
            matches=kept,
            incomplete=stopped,
            next_cursor=onward,
        )


def _search(
    snapshot: Snapshot, arguments: SearchCodeArguments, position: Json | None
) -> tuple[Place, Sequence[Hit], bool]:
    place = find_place(snapshot, arguments.ref, position)
    if place.commit is None:
        return place, (), False
    under = unquote_path(arguments.path, "path") if arguments.path is not None else b""
    if under and snapshot.entry(place.commit, under) is None:
        raise Refusal(Code.NOT_FOUND, "There is nothing at this path.", field="path")
    hits, stopped = snapshot.search(
        place.commit,
        arguments.text,
        under=under,
        ignore_case=arguments.ignore_case,
        after=(unquote_path(position["path"], "cursor"), position["line"]) if position else (b"", 0),
        most=arguments.limit + 1,
    )
    return place, hits, stopped


def _match(hit: Hit) -> Match:
    return Match(path=quote_path(hit.path), line=hit.number, text=hit.line.decode(errors="replace"))


TOOL = SearchCode()

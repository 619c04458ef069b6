"""List the repositories that this connection may read."""

from typing import Annotated, ClassVar

from pydantic import Field

from service.contract.operation import Toolset
from service.contract.paging import ANSWER_BYTES, Cursor, fit
from service.contract.ports import Answer, Arguments, Ports, RepositoryFacts, Scope

PAGE = 100
ENVELOPE_BYTES = 20_000  # a cursor and what goes around the list
QUERY = {"tool": "list_repositories"}


class ListRepositoriesArguments(Arguments):
    """Where to go on, and how many to show."""

    cursor: Cursor = None
    limit: Annotated[int, Field(ge=1, le=PAGE, description="The most repositories in one answer.")] = PAGE


class RepositoryList(Answer):
    """Repositories, and where to go on when there are more."""

    repositories: list[RepositoryFacts]
    next_cursor: str | None = None


class ListRepositories:
    """The tool. See the module."""

    name: ClassVar[str] = "list_repositories"
    title: ClassVar[str] = "List repositories"
    description: ClassVar[str] = (
        "Lists the repositories that this connection may read, at most 100 in one answer, with their ids and whether "
        "agents may propose changes there. next_cursor leads to the rest."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "core"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = ListRepositoriesArguments
    answer = RepositoryList

    async def run(self, arguments: ListRepositoriesArguments, ports: Ports) -> RepositoryList:
        after = ports.cursors.open(QUERY, arguments.cursor)["after"] if arguments.cursor else ""
        found = await ports.repositories.list(after, arguments.limit + 1)
        kept = fit(found, arguments.limit, ANSWER_BYTES - ENVELOPE_BYTES)
        more = len(found) > len(kept)
        return RepositoryList(
            repositories=kept,
            next_cursor=ports.cursors.seal(QUERY, {"after": kept[-1].repository_id}) if more else None,
        )


TOOL = ListRepositories()

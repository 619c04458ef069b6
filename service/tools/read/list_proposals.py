"""List the proposals of this connection."""

from typing import Annotated, ClassVar

from pydantic import Field

from service.contract.answers import ProposalAnswer, State
from service.contract.data import Json
from service.contract.operation import RepositoryId, Toolset
from service.contract.paging import Cursor, fit
from service.contract.ports import Answer, Arguments, Ports, Scope

PAGE = 50
LIST_BYTES = 56_000  # of an answer of 60,000; a single proposal goes out whole


class ListProposalsArguments(Arguments):
    """Which proposals, and where to go on."""

    repository_id: RepositoryId | None = None
    state: Annotated[State | None, Field(description="Only proposals in this state.")] = None
    cursor: Cursor = None
    limit: Annotated[int, Field(ge=1, le=PAGE, description="The most proposals in one answer.")] = 20

    @property
    def query(self) -> Json:
        """What a cursor is bound to."""
        return {"tool": "list_proposals", **self.model_dump(exclude={"cursor", "limit"})}


class ProposalList(Answer):
    """Proposals, and where to go on when there are more."""

    proposals: list[ProposalAnswer]
    next_cursor: str | None = None


class ListProposals:
    """The tool. See the module."""

    name: ClassVar[str] = "list_proposals"
    title: ClassVar[str] = "List proposals"
    description: ClassVar[str] = (
        "Lists the proposals that this connection made, in that order, at most 50 in one answer; of one repository or "
        "in one state where asked. next_cursor leads to the rest."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "core"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = ListProposalsArguments
    answer = ProposalList

    async def run(self, arguments: ListProposalsArguments, ports: Ports) -> ProposalList:
        after = ports.cursors.open(arguments.query, arguments.cursor)["after"] if arguments.cursor else ""
        found = await ports.proposals.list(
            repository_id=arguments.repository_id, state=arguments.state, after=after, most=arguments.limit + 1
        )
        kept = fit([ProposalAnswer.model_validate(one) for one in found], arguments.limit, LIST_BYTES)
        more = len(found) > len(kept)
        return ProposalList(
            proposals=kept,
            next_cursor=ports.cursors.seal(arguments.query, {"after": kept[-1].proposal_id}) if more else None,
        )


TOOL = ListProposals()

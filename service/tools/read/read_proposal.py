"""Read one proposal of this connection, and wait a little for its decision."""

from typing import Annotated, ClassVar

from pydantic import Field

from service.contract.answers import ProposalAnswer, ProposalId
from service.contract.operation import Toolset
from service.contract.ports import Arguments, Ports, Scope

WAIT_SECONDS = 25  # PROTOCOL, Tools: hosts give up on a call after 30 seconds or more


class ReadProposalArguments(Arguments):
    """Which proposal, and how long to wait."""

    proposal_id: ProposalId
    wait_seconds: Annotated[
        int,
        Field(ge=0, le=WAIT_SECONDS, description="How long to wait for the end of a waiting proposal. 0: not at all."),
    ] = 0


class ReadProposal:
    """The tool. See the module."""

    name: ClassVar[str] = "read_proposal"
    title: ClassVar[str] = "Read a proposal"
    description: ClassVar[str] = (
        "Reads a proposal that this connection made: its state, what was pinned and received, and how it ended. With "
        "wait_seconds (at most 25) the answer comes as soon as it is decided, or when the time is over."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "core"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = ReadProposalArguments
    answer = ProposalAnswer

    async def run(self, arguments: ReadProposalArguments, ports: Ports) -> ProposalAnswer:
        return ProposalAnswer.model_validate(await ports.proposals.read(arguments.proposal_id, arguments.wait_seconds))


TOOL = ReadProposal()

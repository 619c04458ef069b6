"""Withdraw a waiting proposal of this connection."""

from typing import ClassVar

from service.contract.answers import ProposalAnswer, ProposalId
from service.contract.operation import Toolset
from service.contract.ports import Arguments, Ports, Scope


class CancelProposalArguments(Arguments):
    """Which proposal."""

    proposal_id: ProposalId


class CancelProposal:
    """The tool. See the module."""

    name: ClassVar[str] = "cancel_proposal"
    title: ClassVar[str] = "Withdraw a proposal"
    description: ClassVar[str] = (
        "Withdraws a proposal that this connection made and that still waits for a decision. It cannot be taken back; "
        "a new proposal needs a new idempotency key. One that was decided already is refused."
    )
    scope: ClassVar[Scope] = "repo:propose"
    toolset: ClassVar[Toolset] = "core"
    read_only: ClassVar[bool] = False
    destructive: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    arguments = CancelProposalArguments
    answer = ProposalAnswer

    async def run(self, arguments: CancelProposalArguments, ports: Ports) -> ProposalAnswer:
        return ProposalAnswer.model_validate(await ports.proposals.cancel(arguments.proposal_id))


TOOL = CancelProposal()

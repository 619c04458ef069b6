"""What is submitted: an operation with its request, the key, and who proposes it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Table

from service.contract.data import Json
from service.contract.operation import GroupedRequest, Operation
from service.grants.policy import Wanted
from service.grants.standing import Proposer
from service.kit.canonical import digest


@dataclass(frozen=True)
class Submission:
    """What a caller sent. `sent` is the arguments as they came, less the key: what the body hash is taken over.

    Attributes:
        proposer: whose proposal it is.
        author: an owner's name and address, as Git writes them; empty for a connection, which has its own.
        undoes: the proposal whose execution it takes back.
    """

    operation: Operation[Any]
    request: Any
    key: str
    sent: Json
    proposer: Proposer
    author: bytes = b""
    undoes: UUID | None = None

    @property
    def body_hash(self) -> str:
        return digest({"tool": self.operation.kind, "arguments": self.sent})

    @property
    def wanted(self) -> Wanted:
        """What it touches, as far as it says so itself."""
        refs, paths = self.operation.targets(self.request)
        return Wanted((self.operation.kind,), refs, paths)

    @property
    def group_id(self) -> str | None:
        """What it is shown together with."""
        return self.request.group_id if isinstance(self.request, GroupedRequest) else None

    def mine(self, table: Table) -> ColumnElement[bool]:
        """The rows of the same proposer."""
        column = table.c.connection if self.proposer.kind == "agent" else table.c.person
        return column == self.proposer.id

"""Who acts in this call: the only thing that inner code knows about identity."""

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

SERVICE_TENANT = UUID(int=0)
"""The tenant of what belongs to no tenant (sign-in, registration): the service itself, a row like any other."""


@dataclass(frozen=True)
class Actor:
    """An agent (its connection), an owner (the person) or the system, bound to one tenant.

    Attributes:
        kind: which of the three.
        tenant: the tenant this call is bound to.
        id: the connection's or the person's id; the null UUID for the system.
        name: for people to read; hostile until escaped.
        scopes: OAuth scopes; empty for an owner, whose rights come from roles.
        session: the browser session's id, for decisions; None for agents and the system.
    """

    kind: Literal["agent", "owner", "system"]
    tenant: UUID
    id: UUID
    name: str
    scopes: frozenset[str] = field(default_factory=frozenset)
    session: UUID | None = None


def system(tenant: UUID) -> Actor:
    """The service acting on its own behalf in this tenant."""
    return Actor("system", tenant, UUID(int=0), "Placet")

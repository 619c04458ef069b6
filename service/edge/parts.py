"""What the roots build and every route may use."""

from collections.abc import Callable
from dataclasses import dataclass, field

from service.contract.ports import Ports
from service.identity.denials import Denials
from service.kit.actor import Actor
from service.kit.database import Database
from service.tools.registry import Registry, discover


def _no_ports(_actor: Actor) -> Ports:
    raise RuntimeError("this process was built to serve no tools")


@dataclass(frozen=True)
class Parts:
    """The parts of one web process.

    Attributes:
        database: as the role `placet_app`.
        issuer: the service's own origin, without a slash at the end; one string everywhere.
        ports: what a tool call may use, made for the actor of the call.
        registry: the tools.
    """

    database: Database
    issuer: str
    denials: Denials = field(default_factory=Denials)
    ports: Callable[[Actor], Ports] = _no_ports
    registry: Registry = field(default_factory=discover)

    @property
    def mcp_url(self) -> str:
        """The canonical resource: where agents call."""
        return f"{self.issuer}/mcp"

    @property
    def resources(self) -> frozenset[str]:
        """What an access token may be made for: the endpoint and its auth-required twin."""
        return frozenset({self.mcp_url, f"{self.issuer}/mcp/secure"})

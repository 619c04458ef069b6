"""What the roots build and every route may use."""

from dataclasses import dataclass, field

from service.identity.denials import Denials
from service.kit.database import Database
from service.proposals.view import Desk


@dataclass(frozen=True)
class Parts:
    """The parts of one web process.

    Attributes:
        database: as the role `placet_app`.
        issuer: the service's own origin, without a slash at the end; one string everywhere.
        desk: what the owner's pages ask.
    """

    database: Database
    issuer: str
    desk: Desk
    denials: Denials = field(default_factory=Denials)

    @property
    def mcp_url(self) -> str:
        """The canonical resource: where agents call."""
        return f"{self.issuer}/mcp"

    @property
    def resources(self) -> frozenset[str]:
        """What an access token may be made for: the endpoint and its auth-required twin."""
        return frozenset({self.mcp_url, f"{self.issuer}/mcp/secure"})

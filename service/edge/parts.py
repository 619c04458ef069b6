"""What the roots build and every route may use."""

from collections.abc import Callable
from dataclasses import dataclass, field

from service.contract.ports import Ports
from service.edge.limits import Limits
from service.edge.streams import Streams
from service.identity.denials import Denials
from service.identity.doors import Doors
from service.identity.wire import Site
from service.kit.actor import Actor
from service.kit.database import Database
from service.proposals.desk import Desk
from service.proposals.desk.colouring import Colouring
from service.publish.choosing import Notices
from service.tools.registry import Registry, discover


@dataclass(frozen=True)
class Parts:
    """The parts of one web process.

    Attributes:
        database: as the role `placet_app`.
        issuer: the service's own origin, without a slash at the end; one string everywhere.
        limits: what one caller may do in a minute.
        ports: what a tool call may use, made for the actor of the call.
        registry: the tools.
        desk: what the owner's pages ask.
        doors: the ways in beside a link.
        streams: the open pages that are told of changes.
        notices: what people are told, and where they choose it.
        colouring: colours what was proposed, before it is looked at.
    """

    database: Database
    issuer: str
    ports: Callable[[Actor], Ports]
    desk: Desk
    doors: Doors
    streams: Streams
    notices: Notices
    colouring: Colouring
    limits: Limits = field(default_factory=Limits)
    denials: Denials = field(default_factory=Denials)
    registry: Registry = field(default_factory=discover)

    @property
    def mcp_url(self) -> str:
        """The canonical resource: where agents call."""
        return f"{self.issuer}/mcp"

    @property
    def resources(self) -> frozenset[str]:
        """What an access token may be made for: the endpoint and its auth-required twin."""
        return frozenset({self.mcp_url, f"{self.issuer}/mcp/secure"})

    @property
    def site(self) -> Site:
        """The same for the authorization server."""
        return Site(self.issuer, self.mcp_url, self.resources)

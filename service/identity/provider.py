"""Another service at which people may sign in."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Provider:
    """The other service, as the operator named it.

    Attributes:
        issuer: its issuer, exactly as in its documents and tokens.
        client_id: who we are there.
        client_secret: what proves it; empty for a public client.
        origins: beside the issuer's own, the origins that its endpoints may be on.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    origins: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Its host, for people."""
        return urlsplit(self.issuer).netloc

"""The ways in beside a link, as the roots build them."""

from dataclasses import dataclass

from service.identity.oidc import Elsewhere
from service.identity.passkeys import RelyingParty
from service.identity.passwords import Passwords
from service.identity.provider import Provider
from service.kit.database import Database
from service.kit.outgoing import Outgoing
from service.kit.sealed import Sealer


@dataclass(frozen=True)
class Doors:
    """Passkeys, passwords with codes, and another service where the operator named one."""

    passkeys: RelyingParty
    passwords: Passwords
    elsewhere: Elsewhere | None


def build_doors(
    database: Database, origin: str, sealer: Sealer, provider: Provider | None, outgoing: Outgoing
) -> Doors:
    """All of them, for one web process."""
    return Doors(
        RelyingParty(database, origin),
        Passwords(database, sealer),
        Elsewhere(database, provider, outgoing, origin) if provider else None,
    )

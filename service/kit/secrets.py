"""Random strings that give access, and what is stored of them.

A secret reads `plt_<tenant>_<random>`: the tenant says where to look before the first query, the hash covers the
whole string, and nothing is stored but the hash. 256 random bits need no salt and no slow hash.
"""

import hashlib
import re
import secrets
from uuid import UUID

_SHAPE = re.compile(r"plt_([0-9a-f]{32})_([A-Za-z0-9_-]{43})")


def new_secret(tenant: UUID) -> str:
    """A new secret of this tenant with 256 random bits."""
    return f"plt_{tenant.hex}_{secrets.token_urlsafe(32)}"


def secret_tenant(secret: str) -> UUID | None:
    """Which tenant to look in, or None for what has not the shape of a secret. It proves nothing."""
    found = _SHAPE.fullmatch(secret)
    return UUID(found[1]) if found else None


def secret_hash(secret: str) -> bytes:
    """What is stored and compared: SHA-256 of the whole string, 32 bytes."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()

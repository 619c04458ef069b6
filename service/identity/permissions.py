"""One table: kind of credential x permission. An absent cell denies; a permission without a row is for browsers only.

The rows that admit `none` are the public routes; a test holds the list against a committed one.
"""

from typing import Literal

Kind = Literal["none", "browser", "agent"]

PERMISSIONS: dict[str, frozenset[Kind]] = {
    "service.health": frozenset({"none", "browser", "agent"}),
    "service.describe": frozenset({"none", "browser", "agent"}),  # well-known documents
    "asset.read": frozenset({"none", "browser", "agent"}),
    "session.open": frozenset({"none", "browser"}),
    "oauth.authorize": frozenset({"none", "browser"}),  # sends to sign in first
    "oauth.token": frozenset({"none"}),  # its credential is the client's own
    "oauth.register": frozenset({"none"}),
    "oauth.revoke": frozenset({"none"}),
    "mcp.call": frozenset({"none", "agent"}),  # the endpoint itself asks for a token where a method needs one
}


def admits(permission: str, kind: Kind) -> bool:
    """Whether this kind of credential may use this permission."""
    return kind in PERMISSIONS.get(permission, frozenset({"browser"}))

"""The answers that are the same for everyone, written once."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from service.contract.data import Json
from service.edge.mcp.eras import SUPPORTED
from service.edge.mcp.messages import compact
from service.tools.registry import Registry

SERVER_INFO = {"name": "placet", "title": "Placet", "version": version("placet")}
CAPABILITIES: Json = {"tools": {}}
TTL_MS = 300_000
SERVER_META = {SERVER_INFO_META_KEY: SERVER_INFO}


@dataclass(frozen=True)
class Catalogue:
    """Results as JSON. `legacy` ones have nothing that revisions up to 2025-11-25 do not know."""

    discover: bytes
    tools: bytes
    legacy_tools: bytes
    initialize: dict[str, bytes]


@cache
def catalogue_of(registry: Registry) -> Catalogue:
    """The catalogue of this registry."""
    tools = {"tools": registry.catalogue()}
    return Catalogue(
        discover=compact(_public({"supportedVersions": list(SUPPORTED), "capabilities": CAPABILITIES})),
        tools=compact(_public(tools)),
        legacy_tools=compact(tools),
        initialize={one: compact(_hello(one)) for one in HANDSHAKE_PROTOCOL_VERSIONS},
    )


def _public(result: Json) -> Json:
    return {"resultType": "complete", **result, "ttlMs": TTL_MS, "cacheScope": "public", "_meta": SERVER_META}


def _hello(protocol_version: str) -> Json:
    return {"protocolVersion": protocol_version, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}

"""The answers that are the same for everyone, written once."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import combinations

from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from service.contract.data import Json
from service.contract.operation import Toolset
from service.edge.mcp.eras import SUPPORTED
from service.edge.mcp.messages import compact
from service.kit.errors import Code, Refusal
from service.tools.registry import TOOLSETS, Registry

SERVER_INFO = {"name": "placet", "title": "Placet", "version": version("placet")}
CAPABILITIES: Json = {"tools": {}}
TTL_MS = 300_000
SERVER_META = {SERVER_INFO_META_KEY: SERVER_INFO}


@dataclass(frozen=True)
class Catalogue:
    """Results as JSON. `legacy` ones have nothing that revisions up to 2025-11-25 do not know."""

    discover: bytes
    tools: dict[frozenset[str], bytes]
    legacy_tools: dict[frozenset[str], bytes]
    initialize: dict[str, bytes]


@cache
def catalogue_of(registry: Registry) -> Catalogue:
    """The catalogue of this registry."""
    tools = {chosen: {"tools": registry.catalogue(chosen)} for chosen in _choices()}
    return Catalogue(
        discover=compact(_public({"supportedVersions": list(SUPPORTED), "capabilities": CAPABILITIES})),
        tools={chosen: compact(_public(listed)) for chosen, listed in tools.items()},
        legacy_tools={chosen: compact(listed) for chosen, listed in tools.items()},
        initialize={one: compact(_hello(one)) for one in HANDSHAKE_PROTOCOL_VERSIONS},
    )


def _choices() -> Iterator[frozenset[Toolset]]:
    """Every choice of toolsets."""
    for count in range(1, len(TOOLSETS) + 1):
        yield from map(frozenset, combinations(TOOLSETS, count))


def chosen_toolsets(asked: str | None) -> frozenset[Toolset]:
    """The toolsets that `?toolsets=` names, `all` among the names; left out: core.

    Raises:
        Refusal: INVALID_ARGUMENT for a name that is none.
    """
    if asked is None:
        return frozenset({"core"})
    names = set(asked.split(","))
    if unknown := names - {*TOOLSETS, "all"}:
        allowed = [*TOOLSETS, "all"]
        message = f"There are the toolsets {', '.join(allowed)}; {len(unknown)} of those asked for are none of them."
        raise Refusal(Code.INVALID_ARGUMENT, message, field="toolsets", allowed=allowed)
    return frozenset(one for one in TOOLSETS if one in names or "all" in names)


def _public(result: Json) -> Json:
    return {"resultType": "complete", **result, "ttlMs": TTL_MS, "cacheScope": "public", "_meta": SERVER_META}


def _hello(protocol_version: str) -> Json:
    return {"protocolVersion": protocol_version, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}

"""Which revision of MCP a message speaks: a modern request says so itself, older ones by header or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass

from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp_types import PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers

from service.edge.mcp.messages import Fault, Message

SUPPORTED = (*reversed(MODERN_PROTOCOL_VERSIONS), *reversed(HANDSHAKE_PROTOCOL_VERSIONS))
"""Every revision served, newest first."""

UNSAID = "2025-03-26"
"""What a message without a version header speaks (MCP 2025-06-18, Transports, Protocol Version Header)."""


@dataclass(frozen=True)
class Era:
    """The revision of a message."""

    version: str

    @property
    def modern(self) -> bool:
        """Whether each request carries its own version, so that there is no handshake."""
        return self.version in MODERN_PROTOCOL_VERSIONS

    def links(self) -> bool:
        """Whether results may hold resource links (2025-06-18 and newer); older clients refuse the whole result."""
        return self.version not in HANDSHAKE_PROTOCOL_VERSIONS[:2]


def era_of(message: Message, headers: Headers) -> Era:
    """The revision, after the checks of headers against the body that it asks for.

    Raises:
        Fault: -32020 when headers and body differ, -32602 when a modern request lacks what it must carry, -32022 for a
            revision that is not served.
    """
    if (name := find_duplicated_routing_header(headers.items())) is not None:
        raise Fault(HEADER_MISMATCH, f"The header {name} is there twice.")
    plain = {name: value.strip() for name, value in headers.items()}
    said = plain.get(MCP_PROTOCOL_VERSION_HEADER)
    if PROTOCOL_VERSION_META_KEY in message.meta or said in MODERN_PROTOCOL_VERSIONS:
        return _modern(message, plain)
    if said is None or message.method == "initialize":
        return Era(UNSAID)
    if said not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise _unsupported(said)
    return Era(said)


def _modern(message: Message, headers: Mapping[str, str]) -> Era:
    if message.id is None:  # a notification has no envelope of its own
        return Era(MODERN_PROTOCOL_VERSIONS[-1])
    found = classify_inbound_request({"method": message.method, "params": message.params}, headers=headers)
    if not isinstance(found, InboundLadderRejection):
        return Era(found.protocol_version)
    if found.code == UNSUPPORTED_PROTOCOL_VERSION:
        raise _unsupported(found.data["requested"])
    raise Fault(found.code, found.message, status=ERROR_CODE_HTTP_STATUS[found.code])


def _unsupported(requested: str) -> Fault:
    data = {"supported": list(SUPPORTED), "requested": requested[:100]}
    return Fault(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data=data)

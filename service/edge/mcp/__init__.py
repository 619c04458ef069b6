"""The MCP endpoint: a thin dispatcher of our own over the SDK's types and pure functions."""

from service.edge.mcp.endpoint import ENDPOINTS

__all__ = ["ENDPOINTS"]

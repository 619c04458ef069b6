"""Alive, and ready to work."""

from sqlalchemy import text
from starlette.responses import Response

from service.edge.errors import json_response
from service.edge.guard import Call, Endpoint


async def healthz(_call: Call) -> Response:
    """The process answers."""
    return json_response({"status": "live"})


async def readyz(call: Call) -> Response:
    """The database answers too; a Refusal (503) where it does not."""
    async with call.parts.database.directory() as tx:
        await tx.scalar(text("SELECT 1"))
    return json_response({"status": "ready"})


ENDPOINTS = (
    Endpoint("GET", "/healthz", "service.health", healthz),
    Endpoint("GET", "/readyz", "service.health", readyz),
)

"""The owner's desk: inbox, review card, connections, repositories and ledger, and the same as JSON under /api/v1."""

from typing import Final

from service.edge import asset
from service.edge.desk import api, browse, live, notices, parts, people, routes, signing

ENDPOINTS: Final = (
    *routes.ENDPOINTS,
    *browse.ENDPOINTS,
    *people.ENDPOINTS,
    *api.ENDPOINTS,
    *signing.ENDPOINTS,
    *parts.ENDPOINTS,
    *live.ENDPOINTS,
    *notices.ENDPOINTS,
    *asset.ENDPOINTS,
)
"""Everything that the desk answers, with the permission that each needs."""

"""From registration to a call, and what each answer looks like."""

import pytest
from sqlalchemy import select

from service.grants.tables import connection, connection_repository

pytestmark = pytest.mark.anyio


async def test_an_agent_connects_and_calls(house, home, ada, agent):
    back = await agent.consent(ada, home.repositories[0])
    assert back["state"] == "s t&ate"
    assert back["iss"] == house.parts.issuer
    response = await agent.redeem(back["code"])
    tokens = response.json()
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    assert tokens["scope"] == "repo:read repo:propose"
    called = await agent.call(tokens["access_token"])
    [row] = await house.rows(home.id, select(connection))
    assert called.json() == {"connection": str(row.id), "scopes": ["repo:propose", "repo:read"]}
    [where] = await house.rows(home.id, select(connection_repository))
    assert where.repository == home.repositories[0]
    assert await house.entries(home.id, str(row.id)) == ["connection.granted", "connection.used_code"]

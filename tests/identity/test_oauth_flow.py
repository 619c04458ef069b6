"""From registration to a call: the whole way, and what the service says about itself."""

import logging

import pytest
from sqlalchemy import select

from service.grants.tables import connection, connection_repository
from tests.identity.house import ISSUER, Agent, Browser, House, Tenant

pytestmark = pytest.mark.anyio


async def test_an_agent_connects_and_calls(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    back = await agent.consent(ada, home.repositories[0])
    assert back["state"] == "s t&ate"
    assert back["iss"] == ISSUER
    response = await agent.redeem(back["code"])
    tokens = response.json()
    assert response.status_code == 200
    assert "no-store" in response.headers["cache-control"]
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    assert tokens["scope"] == "repo:read repo:propose"
    called = await agent.call(tokens["access_token"])
    [row] = await house.rows(home.id, select(connection))
    assert called.json() == {"connection": str(row.id), "scopes": ["repo:propose", "repo:read"]}
    [where] = await house.rows(home.id, select(connection_repository))
    assert where.repository == home.repositories[0]
    assert await house.entries(home.id, str(row.id)) == ["connection.granted", "connection.used_code"]


async def test_two_tenants_connect_the_same_client_and_never_meet(
    house: House, home: Tenant, elsewhere: Tenant, ada: Browser, bob: Browser, agent: Agent
) -> None:
    hers = await agent.connect(ada, home.repositories[0])
    his = await agent.connect(bob, elsewhere.repositories[0])
    [mine] = await house.rows(home.id, select(connection.c.id))
    [other] = await house.rows(elsewhere.id, select(connection.c.id))
    assert (await agent.call(hers["access_token"])).json()["connection"] == str(mine.id)
    assert (await agent.call(his["access_token"])).json()["connection"] == str(other.id)


async def test_a_secret_that_names_another_tenant_is_worth_nothing(
    home: Tenant, elsewhere: Tenant, ada: Browser, agent: Agent
) -> None:
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    moved = code.replace(home.id.hex, elsewhere.id.hex)
    assert (await agent.redeem(moved)).json()["error"] == "invalid_grant"
    tokens = (await agent.redeem(code)).json()
    access = tokens["access_token"].replace(home.id.hex, elsewhere.id.hex)
    refresh = tokens["refresh_token"].replace(home.id.hex, elsewhere.id.hex)
    assert (await agent.call(access)).status_code == 401
    assert (await agent.refresh(refresh)).json()["error"] == "invalid_grant"


async def test_no_secret_is_ever_logged_even_when_everything_is(
    house: House, home: Tenant, ada: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    agent = await house.agent(method="client_secret_post")
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    tokens = (await agent.redeem(code)).json()
    again = (await agent.refresh(tokens["refresh_token"])).json()
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert "Issue token" in ours  # Authlib does write about it
    values = [code, agent.secret, *(one[name] for one in (tokens, again) for name in ("access_token", "refresh_token"))]
    assert not [value for value in values if value and value in ours]


async def test_the_metadata_names_one_issuer_and_claims_only_what_is_there(house: House) -> None:
    response = await house.http.get("/.well-known/oauth-authorization-server")
    document = response.json()
    assert document["issuer"] == ISSUER
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert document["token_endpoint_auth_methods_supported"] == ["none", "client_secret_post", "client_secret_basic"]
    assert document["scopes_supported"] == ["repo:read", "repo:propose"]
    assert "client_id_metadata_document_supported" not in document
    assert response.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(("suffix", "path"), [("", "/mcp"), ("/mcp", "/mcp"), ("/mcp/secure", "/mcp/secure")])
async def test_the_resource_names_itself_exactly_and_its_server(house: House, suffix: str, path: str) -> None:
    document = (await house.http.get(f"/.well-known/oauth-protected-resource{suffix}")).json()
    assert document["resource"] == ISSUER + path
    assert document["authorization_servers"] == [ISSUER]
    assert document["scopes_supported"] == ["repo:read", "repo:propose"]


@pytest.mark.parametrize("path", ["token", "register", "revoke"])
async def test_a_page_elsewhere_may_ask_and_read_every_answer(house: House, path: str) -> None:
    before = await house.http.options(f"/oauth/{path}", headers={"origin": "https://app.example"})
    assert before.status_code == 204
    assert "Authorization" in before.headers["access-control-allow-headers"]
    after = await house.http.post(f"/oauth/{path}", headers={"origin": "https://app.example"})
    assert after.status_code in {400, 401}
    assert after.headers["access-control-allow-origin"] == "*"
    assert "WWW-Authenticate" in after.headers["access-control-expose-headers"]

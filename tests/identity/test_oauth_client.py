"""The official Python client finds the server, registers, sends its person to the consent page, and calls."""

from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.shared.auth import OAuthClientMetadata

from tests.identity.house import House, approve, hidden
from tests.official_client import Memory

pytestmark = pytest.mark.anyio
CALLBACK = "http://localhost:43117/callback"


@pytest.mark.parametrize("method", ["none", None])
async def test_the_official_client_connects_refreshes_and_comes_back(served: House, method: str | None) -> None:
    home = await served.tenant()
    ada = await served.browser(await served.person(home))
    came_back: list[str] = []

    async def browse(url: str) -> None:
        page = await ada.get(url)
        answered = await approve(ada, hidden(page, "request"), home.repositories[0])
        came_back.append(answered.headers["location"])

    async def wait_for_callback() -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(came_back.pop()).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query["iss"])

    memory = Memory()

    metadata = OAuthClientMetadata(
        client_name="The official client", redirect_uris=[CALLBACK], token_endpoint_auth_method=method
    )
    provider = OAuthClientProvider(f"{served.parts.issuer}/mcp", metadata, memory, browse, wait_for_callback)
    with anyio.fail_after(30):
        async with httpx2.AsyncClient(auth=provider) as client:
            called = await client.post(f"{served.parts.issuer}/mcp", json={})
            assert called.json()["scopes"] == ["repo:propose", "repo:read"]
            assert memory.client
            assert (memory.client.client_secret is None) == (method == "none")
            first = memory.tokens
            provider.context.token_expiry_time = 1  # long ago
            assert (await client.post(f"{served.parts.issuer}/mcp", json={})).status_code == 200
    assert first
    assert memory.tokens
    assert memory.tokens.refresh_token != first.refresh_token

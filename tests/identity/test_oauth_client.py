"""The official Python client finds the server, registers, sends its person to the consent page, and calls."""

import socket
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import httpx2
import pytest
import uvicorn
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from service.edge.parts import Parts
from service.kit.database import Database
from tests.identity.house import House, approve, build, hidden

pytestmark = pytest.mark.anyio
CALLBACK = "http://localhost:43117/callback"


class Memory:
    """Where the client keeps what it was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture
async def served(app_db: Database, owner_db: Database) -> AsyncIterator[House]:
    """The service behind a real server on a port of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    issuer = f"http://localhost:{listener.getsockname()[1]}"
    parts = Parts(app_db, issuer)
    server = uvicorn.Server(uvicorn.Config(build(parts), log_level="warning", lifespan="off"))
    async with anyio.create_task_group() as group, httpx.AsyncClient(base_url=issuer) as http:
        group.start_soon(server.serve, [listener])
        yield House(parts, owner_db, http, httpx.ASGITransport(build(parts)))
        server.should_exit = True


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

    def provider() -> OAuthClientProvider:
        metadata = OAuthClientMetadata(
            client_name="The official client", redirect_uris=[CALLBACK], token_endpoint_auth_method=method
        )
        return OAuthClientProvider(f"{served.parts.issuer}/mcp", metadata, memory, browse, wait_for_callback)

    async def call() -> httpx2.Response:
        async with httpx2.AsyncClient(auth=provider()) as client:
            return await client.post(f"{served.parts.issuer}/mcp", json={})

    with anyio.fail_after(30):
        called = await call()
        assert called.status_code == 200
        assert called.json()["scopes"] == ["repo:propose", "repo:read"]
        assert memory.client
        assert (memory.client.client_secret is None) == (method == "none")
        assert memory.tokens
        first = memory.tokens
        memory.tokens = first.model_copy(update={"expires_in": -1})
        assert (await call()).status_code == 200
        assert not came_back

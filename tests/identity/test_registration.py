"""Dynamic client registration: what it takes, what it answers, what it forgets (A01, A14, A17, RFC 7591)."""

from secrets import randbelow
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, text, update

from service.grants.tables import oauth_client
from service.kit.actor import SERVICE_TENANT
from tests.identity.house import CALLBACK, ISSUER, Browser, House, Tenant

pytestmark = pytest.mark.anyio


async def register(house: House, **metadata: Any) -> httpx.Response:
    """Register from an address of its own, so that no quota is in the way."""
    house.transport.client = (f"198.51.{randbelow(256)}.{randbelow(256)}", 4_000)
    return await house.http.post(f"{ISSUER}/oauth/register", json={"redirect_uris": [CALLBACK], **metadata})


async def test_a_public_client_gets_an_id_and_nothing_that_looks_like_a_secret(house: House) -> None:
    response = await register(house, token_endpoint_auth_method="none", client_name="Claude Code (site)")
    body = response.json()
    assert response.status_code == 201
    assert "client_secret" not in body
    assert "client_secret_expires_at" not in body
    assert body["client_name"] == "Claude Code (site)"
    assert body["redirect_uris"] == [CALLBACK]
    assert body["grant_types"] == ["authorization_code", "refresh_token"]
    assert body["response_types"] == ["code"]
    assert body["scope"] == "repo:read repo:propose"
    assert isinstance(body["client_id_issued_at"], int)
    assert await house.entries(SERVICE_TENANT, body["client_id"]) == ["client.registered"]


@pytest.mark.parametrize("method", [None, "client_secret_post", "client_secret_basic"])
async def test_a_confidential_client_gets_a_secret_once_and_only_its_hash_is_stored(
    house: House, method: str | None
) -> None:
    body = (await register(house, **({"token_endpoint_auth_method": method} if method else {}))).json()
    assert body["token_endpoint_auth_method"] == method or "client_secret_basic"
    assert body["client_secret_expires_at"] == 0
    [row] = await house.rows(SERVICE_TENANT, select(oauth_client).where(oauth_client.c.id == body["client_id"]))
    assert body["client_secret"].encode() not in row.secret_hash
    assert len(row.secret_hash) == 32


@pytest.mark.parametrize(
    ("uris", "kind"),
    [
        (["https://claude.ai/api/mcp/auth_callback"], "web"),
        (["http://localhost:33418/"], "native"),
        (["http://127.0.0.1/", "https://vscode.dev/redirect"], "native"),
        (["http://[::1]:8080/cb"], "native"),
        (["cursor://anysphere.cursor-mcp/oauth/callback"], "native"),
        (["https://agent.example:8443/cb?tenant=1&x=%2F"], "web"),
        ([f"https://agent.example/{number}" for number in range(10)], "web"),
    ],
)
async def test_real_addresses_are_taken_as_they_are(house: House, uris: list[str], kind: str) -> None:
    response = await register(house, redirect_uris=uris, application_type="anything")
    assert response.status_code == 201
    assert response.json()["redirect_uris"] == uris
    assert response.json()["application_type"] == kind


async def test_a_private_scheme_nobody_knows_is_left_out_when_another_address_remains(house: House) -> None:
    known = "http://127.0.0.1:4000/cb"
    response = await register(house, redirect_uris=["newapp://oauth/callback", known])
    assert response.json()["redirect_uris"] == [known]
    alone = await register(house, redirect_uris=["newapp://oauth/callback"])
    assert (alone.status_code, alone.json()["error"]) == (400, "invalid_redirect_uri")


async def test_an_address_that_could_be_abused_is_refused(house: House) -> None:
    for uri in (
        "http://agent.example/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://0.0.0.0/cb",
        "http://localhost:0/cb",
        "http://localhost:99999/cb",
        "https://agent.example/cb#fragment",
        "https://user@agent.example/cb",
        "https://good.example@evil.example/cb",
        "https://agent.example./cb",
        "https://-agent.example/cb",
        "https://[::1]/cb",
        "https:///cb",
        "https://",
        "javascript:alert(1)",
        "JavaScript://x/%0aalert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "about:blank",
        "//agent.example/cb",
        "/cb",
        "",
        " https://agent.example/cb",
        "https://agent.example/c b",
        "https://agent.example/cb\n",
        "https://agent.example\\@evil.example/",
        "https://\u0430gent.example/cb",
        "https://agent.example/" + "a" * 2_000,
        1,
        None,
        ["https://agent.example/cb"],
    ):
        for uris in ([uri], [CALLBACK, uri]):
            response = await register(house, redirect_uris=uris)
            assert (response.status_code, response.json()["error"]) == (400, "invalid_redirect_uri"), uri
    for wrong in ([], [CALLBACK] * 11, CALLBACK, None, {"0": CALLBACK}):
        response = await register(house, redirect_uris=wrong)
        assert (response.status_code, response.json()["error"]) == (400, "invalid_redirect_uri"), wrong


async def test_other_metadata_is_judged_where_it_matters_and_else_ignored(house: House) -> None:
    for wrong in (
        {"client_name": "two\nlines"},
        {"client_name": "\u202egnp.exe"},
        {"client_name": "x" * 10_000},
        {"client_name": "<script>"},
        {"client_name": "\u200b"},
        {"client_name": 7},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": ["none"]},
        {"token_endpoint_auth_method": {}},
        {"grant_types": ["client_credentials"]},
        {"grant_types": "authorization_code"},
        {"response_types": ["token"]},
    ):
        response = await register(house, **wrong)
        assert (response.status_code, response.json()["error"]) == (400, "invalid_client_metadata"), wrong
    ignored = {"logo_uri": "javascript:alert(1)", "contacts": [7], "jwks": {"keys": [{}]}, "scope": "*", "\u202e": []}
    response = await register(house, **ignored)
    assert response.status_code == 201
    assert not set(ignored) & set(response.json()) - {"scope"}
    assert (await register(house)).json()["client_name"] == "Unnamed application"


async def test_what_is_no_registration_at_all_has_an_error_of_the_usual_form(house: House) -> None:
    for body in (
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b'{"a":1,"a":2}',
        b"\xff",
        b'{"redirect_uris":["\\ud800"]}',
        b"[" * 99,
    ):
        response = await house.http.post(f"{ISSUER}/oauth/register", content=body)
        assert response.status_code == 400, body
        assert set(response.json()) == {"error", "error_description"}


async def test_the_thirty_first_registration_of_a_minute_is_told_to_wait(house: House) -> None:
    url, metadata = f"{ISSUER}/oauth/register", {"redirect_uris": [CALLBACK]}
    assert [(await house.http.post(url, json=metadata)).status_code for _ in range(30)] == [201] * 30
    refused = await house.http.post(url, json=metadata)
    assert refused.status_code == 429
    assert refused.json()["error"] == "too_many_requests"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["access-control-allow-origin"] == "*"


async def test_unused_registrations_are_forgotten_after_a_day_and_used_ones_never(
    house: House, home: Tenant, ada: Browser
) -> None:
    unused, used, waiting, young = [await house.agent() for _ in range(4)]
    await used.connect(ada, home.repositories[0])
    await waiting.ask(ada)
    old = [unused.id, used.id, waiting.id]
    aged = func.clock_timestamp() - text("interval '25 hours'")
    await house.change(home.id, update(oauth_client).where(oauth_client.c.id.in_(old)).values(created_at=aged))
    await house.agent()
    left = {row.id for row in await house.rows(home.id, select(oauth_client.c.id))}
    assert unused.id not in left
    assert {used.id, waiting.id, young.id} <= left

"""The committed descriptions are what the code says, and the code answers as they say."""

import json
from typing import Any

import httpx
import jsonschema
import pytest

from service.edge.openapi import documents
from tests.conftest import ROOT
from tests.stage import House, Web

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["owner.json", "oauth.json", "tools.json"])
def test_the_committed_description_is_the_generated_one(name: str) -> None:
    assert (ROOT / "openapi" / name).read_text() == documents()[name], "run `make openapi`"


def check(document: str, method: str, path: str, answer: httpx.Response) -> Any:
    described = json.loads(documents()[document])
    operation = described["paths"][path][method.lower()]
    status = str(answer.status_code) if answer.status_code < 400 else "4XX"
    schema = operation["responses"][status]["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": described["components"]})
    return answer.json()


async def test_the_owner_api_answers_as_it_is_described(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    shown = await house.propose(house.arguments({"path": "run.sh", "content": "x\n", "mode": "100755"}))
    own = f"/api/v1/proposals/{shown['proposal_id']}"
    for path, address in (
        ("/api/v1/session", "/api/v1/session"),
        ("/api/v1/allowed-signers", "/api/v1/allowed-signers"),
        ("/api/v1/proposals", "/api/v1/proposals"),
        ("/api/v1/proposals/{id}", own),
    ):
        check("owner.json", "GET", path, await web.http.get(address, headers=browser))
    decision = {"verdict": "decline", "card_digest": shown["card_digest"], "acknowledged": [], "note": "No."}
    for body in (decision, {**decision, "verdict": "approve"}, {}):
        answer = await web.http.post(f"{own}/decision", json=body, headers=browser)
        check("owner.json", "POST", "/api/v1/proposals/{id}/decision", answer)
    ended = check("owner.json", "GET", "/api/v1/proposals/{id}", await web.http.get(own, headers=browser))
    assert ended["decision"]["note"] == "No."


async def test_the_authorization_server_answers_as_it_is_described(web: Web) -> None:
    for path in (
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource/mcp/secure",
    ):
        check("oauth.json", "GET", path, await web.http.get(path))
    client = {"redirect_uris": ["http://localhost:1234/callback"], "client_name": "Claude"}
    check("oauth.json", "POST", "/oauth/register", await web.http.post("/oauth/register", json=client))
    check("oauth.json", "POST", "/oauth/token", await web.http.post("/oauth/token", data={"grant_type": "password"}))

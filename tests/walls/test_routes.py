"""Laws over every route and every tool: who may come in, and that nobody sees the other tenant's things."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import func, select

from service.app import ENDPOINTS
from service.contract.data import Json
from service.edge.guard import Endpoint
from service.identity.permissions import PERMISSIONS, admits
from service.ledger.tables import ledger_entry
from tests.good_arguments import GOOD
from tests.stage import REGISTRY, House, Web

pytestmark = pytest.mark.anyio

# The routes that admit a caller without credentials. A change here is a diff that a person reads.
PUBLIC = [
    "DELETE /mcp",
    "DELETE /mcp/secure",
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
    "GET /.well-known/oauth-protected-resource/mcp/secure",
    "GET /assets/{name}",
    "GET /healthz",
    "GET /mcp",
    "GET /mcp/secure",
    "GET /oauth/authorize",
    "GET /readyz",
    "GET /sign-in",
    "GET /sign-in/oidc",
    "GET /sign-in/oidc/callback",
    "OPTIONS /.well-known/oauth-authorization-server",
    "OPTIONS /.well-known/oauth-protected-resource",
    "OPTIONS /.well-known/oauth-protected-resource/mcp",
    "OPTIONS /.well-known/oauth-protected-resource/mcp/secure",
    "OPTIONS /mcp",
    "OPTIONS /mcp/secure",
    "OPTIONS /oauth/register",
    "OPTIONS /oauth/revoke",
    "OPTIONS /oauth/token",
    "POST /language",
    "POST /mcp",
    "POST /mcp/secure",
    "POST /oauth/register",
    "POST /oauth/revoke",
    "POST /oauth/token",
    "POST /sign-in",
    "POST /sign-in/passkey",
    "POST /sign-in/passkey/options",
    "POST /sign-in/password",
]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "APPROVE")
OWNER_PATHS = sorted({one.path for one in ENDPOINTS if not admits(one.permission, "agent")} - {
    one.path for one in ENDPOINTS if admits(one.permission, "none") or admits(one.permission, "agent")
})  # fmt: skip
PARAMETERS = sorted({(one.method, one.path) for one in ENDPOINTS if "{id}" in one.path})


def test_the_public_routes_are_the_committed_ones() -> None:
    found = sorted(f"{one.method} {one.path}" for one in ENDPOINTS if admits(one.permission, "none"))
    assert found == PUBLIC


def test_every_permission_in_the_table_is_used_and_every_route_names_one() -> None:
    used = {one.permission for one in ENDPOINTS}
    assert set(PERMISSIONS) <= used
    assert all(re.fullmatch(r"[a-z]+\.[a-z]+", permission) for permission in used)


def test_a_route_without_a_permission_does_not_build() -> None:
    with pytest.raises(TypeError):
        Endpoint("GET", "/new", handler=lambda call: call)  # type: ignore[call-arg]


def test_what_no_row_names_is_for_browsers_only() -> None:
    assert [admits("anything.new", kind) for kind in ("none", "browser", "agent")] == [False, True, False]


@pytest.mark.parametrize("path", OWNER_PATHS)
async def test_an_agents_token_opens_no_owner_route_by_any_method(web: Web, house: House, path: str) -> None:
    shown = await house.propose()
    token = await web.token(house.agent)
    browser = await web.browser(house.owner)
    address = path.replace("{id}", shown["proposal_id"])
    for method in METHODS:
        headers = {**browser, "authorization": f"Bearer {token}"}
        answer = await web.http.request(method, address, headers=headers, json=decision(shown))
        assert answer.status_code == 403, f"{method} {path}"
        assert method == "HEAD" or answer.json()["error"]["code"] == "agent_scope_denied"
    assert (await house.read(shown))["status"] == "pending"
    async with house.stage.owner_db.bound(house.tenant) as tx:
        where = ledger_entry.c.kind == "agent.denied"
        written = await tx.scalar(select(func.count()).select_from(ledger_entry).where(where))
    assert written == 1


async def test_a_denied_agent_is_written_down_once_a_minute_and_counted(web: Web, house: House) -> None:
    headers = {"authorization": f"Bearer {await web.token(house.agent)}"}
    for _ in range(5):
        await web.http.get("/", headers=headers)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        bodies = (await tx.execute(select(ledger_entry.c.body).where(ledger_entry.c.kind == "agent.denied"))).all()
    assert len(bodies) == 1


@pytest.mark.parametrize("path", OWNER_PATHS)
async def test_nobody_and_a_bad_token_open_no_owner_route(web: Web, path: str) -> None:
    address = path.replace("{id}", str(uuid4()))
    bad = await web.http.post(address, headers={"authorization": "Bearer nonsense"})
    nobody = await web.http.post(address)
    assert (bad.status_code, nobody.status_code) == (401, 401)


async def test_the_owners_cookie_opens_no_tool(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_repositories", "arguments": {}}}
    answer = await web.http.post("/mcp", json=body, headers=browser)
    assert answer.status_code == 401


@pytest.mark.parametrize(("method", "path"), PARAMETERS)
async def test_a_foreign_id_answers_like_one_that_never_was(
    web: Web, house: House, neighbour: House, method: str, path: str
) -> None:
    """Every owner route with an id, by another tenant's owner: THREATS T01."""
    shown = await house.propose()
    browser = await web.browser(neighbour.owner)
    ids = [shown["proposal_id"], str(house.repository), str(house.agent.id), str(house.tenant)]
    answers = [await ask(web, browser, method, path, one, shown) for one in (str(uuid4()), "no-id", *ids)]
    assert {answer.status_code for answer in answers} == {404}
    assert len({re.sub(r"[0-9a-f-]{36}|no-id", "", answer.text) for answer in answers}) == 1
    assert (await house.read(shown))["status"] == "pending"


async def ask(web: Web, browser: dict[str, str], method: str, path: str, one: str, shown: Json) -> httpx.Response:
    address = path.replace("{id}", one)
    if method == "GET":
        return await web.http.get(address, headers=browser)
    if path.startswith("/api/"):
        body = BODIES.get(path.rpartition("/")[2], decision(shown))
        return await web.http.post(address, headers=browser, json=body)
    form = {**decision(shown), "action": "admit_agents" if "repositories" in path else "revoke"}
    keep = ("verdict", "card_digest", "note") if "proposals" in path else ("action",)
    return await web.http.post(address, headers=browser, data={name: form[name] for name in keep})


BODIES: dict[str, Json] = {
    "again": {"note": ""},
    "parts": {"keep": ["1"]},
    "signed-approval": dict.fromkeys(("authenticator_data", "client_data", "credential", "signature"), "AAAA")
    | {"draft": str(uuid4())},
}
"""What a route takes that takes no decision, by the end of its path."""


def decision(shown: Json) -> Json:
    return {"verdict": "approve", "card_digest": shown["card_digest"], "acknowledged": [], "note": ""}


def identifiers() -> Iterator[tuple[str, str]]:
    """Every tool with every argument that names a thing."""
    for entry in REGISTRY:
        for name in entry.input_schema["properties"]:
            if name.endswith("_id") and name != "group_id":  # a name that the caller chooses
                yield entry.name, name


def test_every_tool_with_an_id_is_in_the_matrix() -> None:
    covered = {tool for tool, _ in identifiers()}
    assert covered == {entry.name for entry in REGISTRY} - {"list_repositories"}


@pytest.mark.parametrize(("tool", "field"), list(identifiers()))
async def test_a_tool_answers_for_a_foreign_id_as_for_one_that_never_was(
    web: Web, house: House, neighbour: House, tool: str, field: str
) -> None:
    mine, theirs = await house.propose(), await neighbour.propose()
    token = await web.token(neighbour.agent)
    other = await house.stage.house()
    ids = [str(uuid4()), mine["proposal_id"], str(house.repository), str(other.repository), str(house.tenant)]
    answers = [await web.call(token, tool, {**required(tool, neighbour, theirs), field: one}) for one in ids]
    texts = {re.sub(r"[0-9a-f-]{36}", "", str(answer["result"].get("content"))) for answer in answers}
    if tool == "list_proposals":
        assert all(not answer["result"]["structuredContent"]["proposals"] for answer in answers)
    else:
        assert all(answer["result"]["isError"] for answer in answers)
        codes = {answer["result"]["_meta"]["placet/error"]["code"] for answer in answers}
        assert codes == {"not_restorable" if field == "restore_point_id" and tool == "propose_restore" else "not_found"}
    assert len(texts) == 1
    assert (await house.read(mine))["status"] == "pending"


def required(tool: str, house: House, shown: Json) -> dict[str, Any]:
    values: dict[str, Any] = {
        **GOOD,
        **house.arguments(),
        "idempotency_key": f"key-{uuid4()}",
        "proposal_id": shown["proposal_id"],
    }
    entry = REGISTRY.find(tool)
    assert entry is not None
    return {name: values[name] for name in entry.input_schema.get("required", []) if name in values}


async def test_two_tenants_never_meet_in_lists(web: Web, house: House, neighbour: House) -> None:
    mine, theirs = await house.propose(), await neighbour.propose()
    secret_of_theirs = {
        theirs["proposal_id"],
        str(neighbour.repository),
        str(neighbour.tenant),
        str(neighbour.agent.id),
    }
    browser, token = await web.browser(house.owner), await web.token(house.agent)
    seen = [
        (await web.http.get(path, headers=browser)).text
        for path in ("/", "/?show=decided", "/connections", "/repositories", "/ledger", "/api/v1/proposals")
    ]
    seen += [str(await web.call(token, tool, {})) for tool in ("list_repositories", "list_proposals")]
    assert mine["proposal_id"] in seen[0]
    assert not any(one in text for one in secret_of_theirs for text in seen)

"""The MCP endpoint on the wire: the order of checks, both eras, tokens, origins, and what a stranger may send.

Ids in brackets are those of the threat table.
"""

import json
import logging
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update
from starlette.applications import Starlette
from starlette.responses import Response

from service.edge.guard import Call, Endpoint, routes
from service.edge.mcp import ENDPOINTS
from service.edge.mcp.eras import SUPPORTED
from service.grants.tables import connection
from service.identity.tables import access_token
from service.kit.errors import Code, Refusal
from service.kit.secrets import new_secret
from service.ledger.tables import ledger_entry

pytestmark = pytest.mark.anyio

METADATA = 'resource_metadata="http://localhost:8000/.well-known/oauth-protected-resource/mcp"'
BOTH = 'scope="repo:read repo:propose"'
CHALLENGE = f"Bearer {METADATA}, {BOTH}"
SECURE_CHALLENGE = CHALLENGE.replace('/mcp"', '/mcp/secure"')
BAD_TOKEN = f'Bearer error="invalid_token", {METADATA}, {BOTH}'
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
REPOSITORY = "0" * 8 + "-0000-0000-0000-" + "0" * 12
PROPOSE = {
    "repository_id": REPOSITORY,
    "reason": "Because.",
    "branch": "main",
    "message": "Change",
    "files": [{"path": "a.txt", "content": "a\n"}],
    "idempotency_key": "key-0001",
}


def rpc(method: str, params: Any = None, message_id: Any = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": {} if params is None else params}


def tool(name: str, arguments: Any = None) -> dict[str, Any]:
    return rpc("tools/call", {"name": name, "arguments": {} if arguments is None else arguments})


def modern(body: dict[str, Any], **headers: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A message and its headers as the newest revision wants them."""
    params = {**body["params"], "_meta": META}
    name = {"mcp-name": params["name"]} if "name" in params else {}
    return {**body, "params": params}, {
        "mcp-protocol-version": MODERN,
        "mcp-method": body["method"],
        **name,
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }


async def send(site: Any, body: Any, *, path: str = "/mcp", token: str = "", **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    if token:
        given["authorization"] = f"Bearer {token}"
    async with site.http() as http:
        return await http.post(path, content=content, headers=given)


async def call(site: Any, name: str, arguments: Any = None) -> dict[str, Any]:
    """A tool's result, called with a good token in the newest revision."""
    body, headers = modern(tool(name, arguments))
    response = await send(site, body, token=await site.token(), **headers)
    assert response.status_code == 200, response.text
    return dict(response.json()["result"])


class TestCatalogue:
    async def test_a_plain_curl_lists_the_tools_without_a_token(self, site: Any) -> None:
        response = await send(site, b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}')
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.json()["id"] == 2
        assert response.json()["result"]["tools"] == site.parts.registry.catalogue({"core"})

    @pytest.mark.parametrize(
        ("asked", "toolsets"),
        [("git", {"git"}), ("core,git", {"core", "git"}), ("all", {"core", "git"}), ("core", {"core"})],
    )
    async def test_a_client_chooses_its_toolsets(self, site: Any, asked: str, toolsets: set[Any]) -> None:
        response = await send(site, rpc("tools/list"), path=f"/mcp?toolsets={asked}")
        assert response.json()["result"]["tools"] == site.parts.registry.catalogue(toolsets)

    @pytest.mark.parametrize("asked", ["", "x", "core,x", "CORE"])
    async def test_a_toolset_that_is_none_is_refused_with_the_list(self, site: Any, asked: str) -> None:
        error = (await send(site, rpc("tools/list"), path=f"/mcp?toolsets={asked}")).json()["error"]
        assert (error["code"], error["data"]["field"]) == (-32602, "toolsets")
        assert error["data"]["allowed"] == ["core", "git", "all"]

    @pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", "", "x"])
    @pytest.mark.parametrize("accept", ["*/*", "text/event-stream", "application/json", "image/png"])
    async def test_odd_content_types_and_any_accept_get_json(self, site: Any, content_type: str, accept: str) -> None:
        response = await send(site, rpc("tools/list"), content_type=content_type, accept=accept)
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")

    async def test_a_modern_list_is_cacheable_by_all_and_says_who_serves_it(self, site: Any) -> None:
        body, headers = modern(rpc("tools/list"))
        result = (await send(site, body, **headers)).json()["result"]
        assert result["resultType"] == "complete"
        assert (result["ttlMs"], result["cacheScope"]) == (300_000, "public")
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "placet"

    async def test_discover_names_every_revision_and_only_what_exists(self, site: Any) -> None:
        body, headers = modern(rpc("server/discover"))
        result = (await send(site, body, **headers)).json()["result"]
        assert result["supportedVersions"] == list(SUPPORTED)
        assert result["capabilities"] == {"tools": {}}
        assert "ttlMs" in result
        assert result["cacheScope"] == "public"

    async def test_a_legacy_list_has_only_what_its_revision_knows(self, site: Any) -> None:
        result = (await send(site, rpc("tools/list"), mcp_protocol_version=LEGACY)).json()["result"]
        assert set(result) == {"tools"}

    @pytest.mark.parametrize(
        ("asked", "answered"),
        [(one, one) for one in SUPPORTED[1:]] + [("1999-01-01", LEGACY), (MODERN, LEGACY)],
    )
    async def test_initialize_negotiates_from_the_body(self, site: Any, asked: str, answered: str) -> None:
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        result = (await send(site, rpc("initialize", params))).json()["result"]
        assert result["protocolVersion"] == answered
        assert result["capabilities"] == {"tools": {}}

    async def test_ping_has_an_empty_result(self, site: Any) -> None:
        assert (await send(site, rpc("ping"))).json() == {"jsonrpc": "2.0", "id": 7, "result": {}}

    @pytest.mark.parametrize("version", ["", LEGACY, MODERN])
    async def test_a_list_cursor_that_we_never_gave_is_refused(self, site: Any, version: str) -> None:
        body, headers = modern(rpc("tools/list", {"cursor": "x"})) if version == MODERN else ({}, {})
        body = body or rpc("tools/list", {"cursor": "x"})
        response = await send(site, body, **headers)
        assert response.json()["error"]["code"] == -32602


class TestMethods:
    @pytest.mark.parametrize("method", ["GET", "DELETE"])
    async def test_other_methods_are_refused_at_once_with_allow_post(self, site: Any, method: str) -> None:
        async with site.http() as http:
            response = await http.request(method, "/mcp", headers={"mcp-session-id": "x", "last-event-id": "1"})
        assert (response.status_code, response.headers["allow"]) == (405, "POST")

    @pytest.mark.parametrize("method", ["GET", "DELETE"])
    async def test_the_secure_path_challenges_other_methods_first(self, site: Any, method: str) -> None:
        token = await site.token()
        async with site.http() as http:
            without = await http.request(method, "/mcp/secure")
            with_one = await http.request(method, "/mcp/secure", headers={"authorization": f"Bearer {token}"})
        assert (without.status_code, without.headers["www-authenticate"]) == (401, SECURE_CHALLENGE)
        assert (with_one.status_code, with_one.headers["allow"]) == (405, "POST")

    async def test_an_unknown_method_is_404_when_modern_and_200_before(self, site: Any) -> None:
        body, headers = modern(rpc("resources/list"))
        new = await send(site, body, **headers)
        old = await send(site, rpc("resources/list"), mcp_protocol_version=LEGACY)
        assert (new.status_code, new.json()["error"]["code"], new.json()["id"]) == (404, -32601, 7)
        assert (old.status_code, old.json()["error"]["code"], old.json()["id"]) == (200, -32601, 7)

    async def test_each_era_has_its_own_methods(self, site: Any) -> None:
        for method in ("initialize", "ping"):
            body, headers = modern(rpc(method))
            assert (await send(site, body, **headers)).json()["error"]["code"] == -32601
        assert (await send(site, rpc("server/discover"))).json()["error"]["code"] == -32601

    async def test_session_and_event_headers_are_ignored(self, site: Any) -> None:
        """[M10]"""
        response = await send(site, rpc("tools/list"), mcp_session_id="evil", last_event_id="9")
        assert response.status_code == 200
        assert "mcp-session-id" not in response.headers


class TestVersions:
    @pytest.mark.parametrize(
        "changed",
        [
            {"mcp-protocol-version": None},
            {"mcp-protocol-version": LEGACY},
            {"mcp-protocol-version": "2026-07-29"},
            {"mcp-method": None},
            {"mcp-method": "tools/list"},
            {"mcp-method": "Tools/Call"},
            {"mcp-name": None},
            {"mcp-name": "read_proposal"},
            {"mcp-name": "List_Repositories"},
            {"mcp-name": "=?base64?cmVhZF9wcm9wb3NhbA==?="},
            {"mcp-name": "=?base64?!!!?="},
        ],
    )
    async def test_headers_that_differ_from_the_body_stop_the_call(self, site: Any, changed: dict[str, Any]) -> None:
        """[M09]"""
        body, headers = modern(tool("list_repositories"))
        headers = {key: value for key, value in (headers | changed).items() if value is not None}
        response = await send(site, body, token=await site.token(), **headers)
        assert (response.status_code, response.json()["error"]["code"], response.json()["id"]) == (400, -32020, 7)
        assert site.world.seen == []

    @pytest.mark.parametrize("name", [" list_repositories ", "=?base64?bGlzdF9yZXBvc2l0b3JpZXM=?="])
    async def test_header_values_are_stripped_and_decoded(self, site: Any, name: str) -> None:
        body, headers = modern(tool("list_repositories"), mcp_name=name, mcp_method=" tools/call\t")
        assert (await send(site, body, token=await site.token(), **headers)).status_code == 200

    async def test_a_routing_header_that_is_there_twice_is_refused(self, site: Any) -> None:
        body, headers = modern(rpc("tools/list"))
        async with site.http() as http:
            response = await http.post("/mcp", json=body, headers=[*headers.items(), ("mcp-method", "tools/list")])
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)

    @pytest.mark.parametrize("missing", list(META))
    async def test_a_modern_request_must_say_version_and_capabilities(self, site: Any, missing: str) -> None:
        body, headers = modern(rpc("tools/list"))
        body["params"]["_meta"] = {key: value for key, value in META.items() if key != missing}
        response = await send(site, body, **headers)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32602)

    async def test_an_unsupported_version_is_told_every_version(self, site: Any) -> None:
        """[M10]"""
        body, headers = modern(rpc("tools/list"), mcp_protocol_version="2027-01-01")
        body["params"]["_meta"] = {**META, "io.modelcontextprotocol/protocolVersion": "2027-01-01"}
        for response in (
            await send(site, body, **headers),
            await send(site, rpc("tools/list"), mcp_protocol_version="2027-01-01"),
        ):
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (400, -32022)
            assert error["data"] == {"supported": list(SUPPORTED), "requested": "2027-01-01"}


class TestTokens:
    async def test_calls_without_a_token_get_exactly_one_challenge(self, site: Any) -> None:
        """[M01]"""
        for body, headers in ((tool("list_repositories"), {}), modern(tool("list_repositories"))):
            response = await send(site, body, **headers)
            assert (response.status_code, response.json()["id"]) == (401, 7)
            assert response.headers.get_list("www-authenticate") == [CHALLENGE]
        assert site.world.seen == []

    async def test_a_good_token_calls(self, site: Any) -> None:
        (one,) = (await call(site, "list_repositories"))["structuredContent"]["repositories"]
        assert one["repository_id"] == str(site.house.repository)

    async def test_bad_tokens_are_challenged_even_at_public_methods(self, site: Any) -> None:
        """[M01, M02]"""
        revoked, ended = await site.token(), await site.token()
        async with site.database.bound(site.tenant) as tx:
            await tx.execute(update(access_token).values(revoked_at=func.clock_timestamp()))
        bad = {
            "revoked": revoked,
            "expired": await site.token(seconds=-1),
            "elsewhere": await site.token(resource="https://elsewhere.example/mcp"),
            "unknown": new_secret(site.tenant),
            "malformed": "x",
            "changed": ended[:-1] + ("A" if ended[-1] != "A" else "B"),
            "github": "ghp_" + "a" * 36,
            "jwt": "eyJhbGciOiJub25lIn0.e30.",
            "long": "a" * 5_000,
        }
        for body in (tool("list_repositories"), rpc("tools/list"), rpc("ping")):
            for kind, token in bad.items():
                response = await send(site, body, token=token)
                assert (kind, response.status_code) == (kind, 401)
                assert response.headers["www-authenticate"] == BAD_TOKEN
        assert site.world.seen == []

    async def test_a_revoked_connection_is_out_with_the_next_request(self, site: Any) -> None:
        """[M07]"""
        token = await site.token()
        assert (await send(site, tool("list_repositories"), token=token)).status_code == 200
        async with site.database.bound(site.tenant) as tx:
            await tx.execute(update(connection).values(state="revoked"))
        assert (await send(site, tool("list_repositories"), token=token)).status_code == 401

    async def test_a_token_elsewhere_than_in_the_header_is_none(
        self, site: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """[M03]"""
        caplog.set_level(logging.DEBUG)
        token = await site.token()
        arguments = {"access_token": token, "Authorization": f"Bearer {token}"}
        in_query = await send(site, tool("list_repositories"), path=f"/mcp?access_token={token}")
        in_body = await send(site, {**tool("list_repositories", arguments), "access_token": token})
        async with site.http() as http:
            twice = await http.post(
                "/mcp",
                json=tool("list_repositories"),
                headers=[("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")],
            )
        assert (in_query.status_code, in_body.status_code, twice.status_code) == (401, 401, 400)
        own = [one.getMessage() for one in caplog.records if not one.name.startswith("httpx")]
        assert not [line for line in own if token in line]

    async def test_a_read_token_that_proposes_is_asked_for_the_union_of_scopes(self, site: Any) -> None:
        """[M04]"""
        token = await site.token("repo:read")
        response = await send(site, tool("propose_file_import", PROPOSE), token=token)
        assert (response.status_code, response.json()["id"]) == (403, 7)
        assert response.headers["www-authenticate"] == f'Bearer error="insufficient_scope", {METADATA}, {BOTH}'
        assert site.world.seen == []

    async def test_scope_is_asked_before_arguments(self, site: Any) -> None:
        response = await send(site, tool("propose_file_import", {"no": 1}), token=await site.token("repo:read"))
        assert response.status_code == 403

    async def test_a_browser_cookie_means_nothing_here(self, site: Any) -> None:
        """[M06]"""
        cookie = await site.cookie()
        response = await send(site, tool("list_repositories"), cookie=cookie)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, CHALLENGE)
        assert (await send(site, rpc("tools/list"), cookie=cookie)).status_code == 200

    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_an_agent_at_an_owners_door_is_refused_and_written_down(self, site: Any, method: Any) -> None:
        """[M05]"""

        async def decide(_call: Call) -> Response:
            raise AssertionError("an agent came in")

        door = Endpoint(method, "/api/v1/proposals/{id}/approve", "proposal.decide", decide)
        app = Starlette(routes=routes((*ENDPOINTS, door), site.parts))
        headers = {"authorization": f"Bearer {await site.token()}"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=site.parts.issuer) as http:
            response = await http.request(method, "/api/v1/proposals/1/approve", headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (403, "agent_scope_denied")
        async with site.database.bound(site.tenant) as tx:
            kinds = (await tx.execute(select(ledger_entry.c.kind).order_by(ledger_entry.c.seq))).scalars().all()
        assert kinds[-1] == "agent.denied"
        assert kinds.count("agent.denied") == 1

    @pytest.mark.parametrize("body", [rpc("initialize"), rpc("tools/list"), {"jsonrpc": "2.0", "method": "x"}])
    async def test_the_secure_path_wants_a_token_for_everything(self, site: Any, body: Any) -> None:
        response = await send(site, body, path="/mcp/secure")
        assert (response.status_code, response.headers["www-authenticate"]) == (401, SECURE_CHALLENGE)

    async def test_the_secure_path_serves_who_has_a_token(self, site: Any) -> None:
        token = await site.token(resource=f"{site.parts.issuer}/mcp/secure")
        assert (await send(site, rpc("tools/list"), path="/mcp/secure", token=token)).status_code == 200


class TestOrigins:
    @pytest.mark.parametrize(
        "origin",
        [
            "https://evil.example",
            "null",
            "",
            "http://localhost.evil.example",
            "http://[::1",
            "file://",
            "http://evil@x",
        ],
    )
    async def test_foreign_origins_are_refused(self, site: Any, origin: str) -> None:
        """[M08]"""
        response = await send(site, rpc("tools/list"), origin=origin)
        assert response.status_code == 403

    @pytest.mark.parametrize(
        "origin", [None, "http://localhost:8000", "http://localhost:5173", "http://127.0.0.1:1", "http://[::1]:6274"]
    )
    async def test_own_and_loopback_origins_may_call_a_local_service(self, site: Any, origin: str | None) -> None:
        headers = {} if origin is None else {"origin": origin}
        assert (await send(site, rpc("tools/list"), **headers)).status_code == 200

    async def test_a_browser_client_can_read_every_answer(self, site: Any) -> None:
        async with site.http() as http:
            preflight = await http.options("/mcp", headers={"origin": "http://localhost:6274"})
        answers = [
            await send(site, rpc("tools/list")),
            await send(site, tool("list_repositories")),
            await send(site, tool("propose_file_import"), token=await site.token("repo:read")),
            await send(site, rpc("tools/list"), origin="https://evil.example"),
        ]
        assert [one.status_code for one in answers] == [200, 401, 403, 403]
        assert preflight.status_code == 204
        allowed = preflight.headers["access-control-allow-headers"].lower()
        assert all(name in allowed for name in ("authorization", "mcp-method", "mcp-name", "mcp-protocol-version"))
        for one in (preflight, *answers):
            assert one.headers["access-control-allow-origin"] == "*"
            assert "WWW-Authenticate" in one.headers["access-control-expose-headers"]

    @pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "localhost:8000@evil", "127.0.0.1.x"])
    async def test_a_rebound_host_is_refused(self, site: Any, host: str) -> None:
        """[M08]"""
        assert (await send(site, rpc("tools/list"), host=host)).status_code == 400


class TestMessages:
    @pytest.mark.parametrize(
        "message_id",
        [None, 1.5, 1.0, True, [], {}, "x" * 257, "x" * 1_000_000, "a\u0000b"],
        ids=lambda one: repr(one)[:12],
    )
    async def test_ids_that_are_none_are_refused(self, site: Any, message_id: Any) -> None:
        """[M16]"""
        response = await send(site, rpc("tools/list", message_id=message_id))
        assert (response.status_code, response.json()["id"]) == (400, None)
        assert response.json()["error"]["code"] == -32600

    @pytest.mark.parametrize("message_id", [0, -1, 2**53 - 1, "", "ä", "x" * 256])
    async def test_ids_come_back_as_they_were(self, site: Any, message_id: Any) -> None:
        response = await send(site, rpc("ping", message_id=message_id))
        assert response.json()["id"] == message_id

    @pytest.mark.parametrize("value", ["1", "null", '"x"', "{}", '{"jsonrpc":"1.0","id":1,"method":"ping"}', "[1]"])
    async def test_what_is_no_message_is_refused(self, site: Any, value: str) -> None:
        response = await send(site, value.encode())
        body = response.json()[0] if isinstance(response.json(), list) else response.json()
        assert body["error"]["code"] == -32600

    @pytest.mark.parametrize("body", [{"method": 1}, {"method": "ping", "params": []}, {"method": "ping", "params": 1}])
    async def test_odd_methods_and_params_are_refused(self, site: Any, body: Any) -> None:
        response = await send(site, {"jsonrpc": "2.0", "id": 7, **body})
        assert (response.status_code, response.json()["error"]["code"], response.json()["id"]) == (400, -32600, 7)

    @pytest.mark.parametrize("era", ["legacy", "modern"])
    async def test_a_notification_has_no_effect_and_no_body(self, site: Any, era: str) -> None:
        """[M16]"""
        body = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "propose_file_import", "arguments": {}}}
        version = MODERN if era == "modern" else LEGACY
        response = await send(site, body, token=await site.token(), mcp_protocol_version=version)
        assert (response.status_code, response.content) == (202, b"")
        assert site.world.seen == []

    async def test_a_response_is_taken_and_forgotten(self, site: Any) -> None:
        response = await send(site, {"jsonrpc": "2.0", "id": 1, "result": {}})
        assert (response.status_code, response.content) == (202, b"")

    async def test_batches_are_for_clients_without_a_version_header(self, site: Any) -> None:
        """[M16]"""
        batch = [rpc("ping", message_id=1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, rpc("no")]
        response = await send(site, batch)
        assert response.status_code == 200
        assert [one.get("error", {}).get("code") for one in response.json()] == [None, -32601]
        for refused, headers in ((batch, {"mcp_protocol_version": LEGACY}), ([], {}), ([rpc("ping")] * 51, {})):
            response = await send(site, refused, **headers)
            assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)

    async def test_a_batch_of_notifications_has_no_body(self, site: Any) -> None:
        response = await send(site, [{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        assert (response.status_code, response.content) == (202, b"")

    async def test_a_batch_with_a_call_is_challenged_as_a_whole(self, site: Any) -> None:
        response = await send(site, [rpc("ping"), tool("list_repositories")])
        assert (response.status_code, response.headers["www-authenticate"]) == (401, CHALLENGE)

    @pytest.mark.parametrize(
        "body",
        [
            b"[" * 100_000,
            b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}',
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e400}}',
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
            b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
            b'{"jsonrpc":"2.0","id":1,"method":"ping"} x',
            '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
            b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
            b"\xff",
            b"",
        ],
        ids=["nesting", "digits", "1e400", "nan", "duplicate", "trailing", "utf-16", "bom", "bytes", "empty"],
    )
    async def test_what_is_no_json_is_a_parse_error(self, site: Any, body: bytes) -> None:
        """[I06]"""
        response = await send(site, body)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)
        assert response.json()["id"] is None

    async def test_a_body_above_the_limit_is_not_read(self, site: Any) -> None:
        """[I06]"""
        response = await send(site, b'{"x":"' + b"a" * 10_000_000 + b'"}')
        assert (response.status_code, response.json()["error"]["data"]["limit"]) == (413, 1_048_576)


class TestCalls:
    async def test_an_answer_is_the_same_as_text_and_as_structure(self, site: Any) -> None:
        result = await call(site, "list_repositories")
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert result["isError"] is False
        assert result["resultType"] == "complete"
        assert set(result["_meta"]) == {"io.modelcontextprotocol/serverInfo"}

    async def test_an_unknown_tool_is_a_wrong_parameter(self, site: Any) -> None:
        body, headers = modern(tool("no_such_tool"))
        response = await send(site, body, token=await site.token(), **headers)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32602)
        legacy = await send(site, tool("no_such_tool"), token=await site.token())
        assert (legacy.status_code, legacy.json()["error"]["code"]) == (200, -32602)

    @pytest.mark.parametrize("params", [{}, {"name": 1}, {"name": "list_repositories", "arguments": []}])
    async def test_malformed_parameters_are_told_by_place_only(self, site: Any, params: Any) -> None:
        response = await send(site, rpc("tools/call", params), token=await site.token())
        assert response.json()["error"]["code"] == -32602
        assert response.json()["error"]["data"]["at"]

    async def test_a_wrong_argument_is_an_error_result_with_field_and_limit(self, site: Any) -> None:
        result = await call(site, "list_repositories", {"limit": 0})
        error = result["_meta"]["placet/error"]
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert (error["code"], error["field"], error["limit"], error["value"]) == ("invalid_argument", "limit", 1, 0)
        assert json.loads(result["content"][0]["text"]) == {"error": error}

    @pytest.mark.parametrize("limit", [0, -1, 10**9, 2**53 - 1, 1.0, "1", True, None, [], {}])
    async def test_numbers_are_exact_or_refused(self, site: Any, limit: Any) -> None:
        """[I08]"""
        result = await call(site, "list_repositories", {"limit": limit})
        assert result["_meta"]["placet/error"]["field"] == "limit"

    @pytest.mark.parametrize("number", [b"9007199254740993", b"9223372036854775808"])
    async def test_numbers_that_json_readers_round_are_no_json(self, site: Any, number: bytes) -> None:
        """[I08]"""
        body = json.dumps(tool("list_repositories", {"limit": 0})).encode().replace(b'"limit": 0', b'"limit":' + number)
        response = await send(site, body, token=await site.token())
        assert response.json()["error"]["code"] == -32700

    @pytest.mark.parametrize(
        ("reason", "rule"),
        [
            ("a\u0000b", "nul"),
            ("a\ud800b", "surrogate"),
            ("a\uffffb", "noncharacter"),
            ("e" + "\u0301" * 100_000, None),
        ],
        ids=["nul", "surrogate", "noncharacter", "marks"],
    )
    async def test_text_that_cannot_be_kept_is_refused_before_anything(
        self, site: Any, reason: str, rule: str | None
    ) -> None:
        """[I07]"""
        result = await call(site, "propose_file_import", {**PROPOSE, "reason": reason})
        error = result["_meta"]["placet/error"]
        assert error["field"] == "reason"
        assert error.get("rule") == rule
        assert site.world.seen == []

    async def test_a_proposal_comes_with_a_link_to_the_page_where_the_client_knows_links(self, site: Any) -> None:
        asked = {**PROPOSE, "repository_id": str(site.house.repository)}
        result = await call(site, "propose_file_import", asked)
        assert result["content"][1]["uri"] == result["structuredContent"]["review_url"]
        old = await send(site, tool("propose_file_import", asked), token=await site.token())
        assert [one["type"] for one in old.json()["result"]["content"]] == ["text"]

    async def test_the_key_is_no_part_of_what_is_hashed(self, site: Any) -> None:
        await call(site, "propose_file_import", PROPOSE)
        operation, request, key, sent = site.world.seen[0][1]
        assert (operation.kind, key) == ("propose_file_import", "key-0001")
        assert sent == {name: value for name, value in PROPOSE.items() if name != "idempotency_key"}
        assert "idempotency_key" not in request.model_dump()

    @pytest.mark.parametrize("key", ["1234567", "1" * 129, "1234567\n", "schlüssel", None, 12345678, "", " " * 7])
    async def test_keys_have_8_to_128_printable_characters(self, site: Any, key: Any) -> None:
        result = await call(site, "propose_file_import", {**PROPOSE, "idempotency_key": key})
        assert result["_meta"]["placet/error"]["field"] == "idempotency_key"

    async def test_a_wrong_place_deep_in_a_request_is_named(self, site: Any) -> None:
        files = [{"path": "a", "content": "x"}, {"path": "b", "content": 1}, {"path": "../c", "content": "x"}]
        result = await call(site, "propose_file_import", {**PROPOSE, "files": files})
        assert result["_meta"]["placet/error"]["field"] == "files[1].content"
        result = await call(site, "propose_file_import", {**PROPOSE, "files": [files[0], files[2]]})
        error = result["_meta"]["placet/error"]
        assert (error["code"], error["field"]) == ("path_rejected", "files[1].path")

    async def test_hostile_names_and_values_never_come_back(self, site: Any) -> None:
        canary = "<img src=x onerror=CANARY>"
        result = await call(site, "list_repositories", {canary: canary, "limit": canary, "cursor": canary})
        assert "CANARY" not in json.dumps(result)
        assert len(result["_meta"]["placet/error"]["errors"]) == 2

    async def test_no_error_shows_what_is_inside(self, site: Any, caplog: pytest.LogCaptureFixture) -> None:
        """[M18]"""
        secret = f"SELECT * FROM access_token WHERE tenant = '{site.tenant}' -- /srv/placet/secret.py"  # noqa: S608  bait, not a query
        kinds = [RuntimeError, KeyError, ValueError, OSError, ExceptionGroup, AssertionError, UnicodeError, Exception]
        body, headers = modern(tool("list_repositories"))
        token = await site.token()
        ids = set()
        for number in range(200):
            kind = kinds[number % len(kinds)]
            site.world.error = kind(secret, [ValueError(secret)]) if kind is ExceptionGroup else kind(secret)
            response = await send(site, body, token=token, **headers)
            error = response.json()["result"]["_meta"]["placet/error"]
            assert (response.status_code, error["code"]) == (200, "internal")
            for word in ("Traceback", "SELECT", "srv", site.tenant.hex, str(site.tenant), "line "):
                assert word not in response.text
            ids.add(error["error_id"])
        assert len(ids) == 200
        assert all(one in caplog.text for one in ids)

    async def test_a_refusal_of_a_tool_is_a_result_with_its_code(self, site: Any) -> None:
        site.world.error = Refusal(Code.STORAGE_FULL, "No space.", limit=5)
        error = (await call(site, "list_repositories"))["_meta"]["placet/error"]
        assert error == {
            "code": "storage_full",
            "message": "No space.",
            "next": Code.STORAGE_FULL.value.todo,
            "limit": 5,
        }

    async def test_a_client_that_hangs_up_ends_its_call(self, site: Any) -> None:
        import anyio

        made = await call(site, "propose_file_import", {**PROPOSE, "repository_id": str(site.house.repository)})
        own = {"proposal_id": made["structuredContent"]["proposal_id"], "wait_seconds": 25}
        body = json.dumps(tool("read_proposal", own)).encode()
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "headers": [(b"host", b"localhost:8000"), (b"authorization", f"Bearer {await site.token()}".encode())],
        }
        sent: list[dict[str, Any]] = []
        events = iter([{"type": "http.request", "body": body}])

        async def receive() -> dict[str, Any]:
            if (event := next(events, None)) is not None:
                return event
            await site.world.reading.wait()
            return {"type": "http.disconnect"}

        async def note(event: dict[str, Any]) -> None:
            sent.append(event)

        with anyio.fail_after(60):
            await site.app(scope, receive, note)
            await site.world.cancelled.wait()

    async def test_a_batch_that_http_refuses_has_done_nothing(self, site: Any) -> None:
        asked = {**PROPOSE, "repository_id": str(site.house.repository)}
        batch = [tool("propose_file_import", asked), tool("list_repositories")]
        response = await send(site, json.dumps(batch).encode(), token=await site.token("repo:propose"))
        assert response.status_code == 403
        assert site.world.seen == []
        odd = [rpc("tools/call", {"name": ["x"]}), rpc("tools/call", {"name": {}}), rpc("ping")]
        assert (await send(site, json.dumps(odd).encode(), token=await site.token())).status_code == 200

    async def test_an_address_with_a_slash_at_its_end_is_none(self, site: Any) -> None:
        for path in ("/mcp/", "/sign-in/", "/ledger/"):
            response = await send(site, rpc("ping"), path=path, host="evil.example")
            assert response.status_code == 400
            assert (await send(site, rpc("ping"), path=path)).status_code == 404

"""Whatever is sent, the answer is a 4xx with a stable code, and nothing is stored."""

import json
from typing import Any

import pytest
from sqlalchemy import func, select

from service.app import ENDPOINTS
from service.contract.data import Json
from service.identity.permissions import admits
from service.kit.errors import Code
from service.ledger.tables import ledger_entry
from tests.good_arguments import GOOD
from tests.stage import REGISTRY, House, Web

pytestmark = pytest.mark.anyio
CODES = {code.value.name for code in Code}
VALUES: list[Any] = [
    None, True, 0, -1, 2**53 - 1, 1.5, 1e300, "", "x" * 300_000, "a\u0000b", "\u202e", "\uffff", "' OR 1=1 --",
    "../../etc/passwd", [], ["x"], [[[[]]]], {}, {"a": {"b": 1}}, [None], "0" * 40, "approve",
]  # fmt: skip
BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "trailing data": b"{} {}",
    "a list": b"[]",
    "a string": b'"x"',
    "null": b"null",
    "a duplicate key": b'{"verdict":"decline","verdict":"approve"}',
    "deep nesting": b"[" * 100_000,
    "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "a huge integer": b'{"verdict":' + b"9" * 5_000 + b"}",
    "an integer beyond 2^53": b'{"verdict":9007199254740993}',
    "an infinite number": b'{"verdict":1e400}',
    "NaN": b'{"verdict":NaN}',
    "invalid UTF-8": b'{"verdict":"\xff\xfe"}',
    "UTF-16": '{"verdict":"approve"}'.encode("utf-16"),
    "a BOM": b"\xef\xbb\xbf{}",
    "a lone surrogate": b'{"verdict":"\\ud800"}',
    "a NUL": b'{"verdict":"\\u0000"}',
    "over the limit": b'{"verdict":"' + b"x" * 1_100_000 + b'"}',
}
CHANGES = sorted(
    {one.path for one in ENDPOINTS if one.method == "POST" and not admits(one.permission, "none")} - {"/sign-out"}
)


async def entries(house: House) -> int:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        return int(await tx.scalar(select(func.count()).select_from(ledger_entry)))


@pytest.mark.parametrize("path", CHANGES)
async def test_no_body_makes_an_owner_route_fail_or_change_anything(web: Web, house: House, path: str) -> None:
    shown = await house.propose()
    browser, before = await web.browser(house.owner), await entries(house)
    address = path.replace("{id}", shown["proposal_id"])
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        for name, body in BODIES.items():
            answer = await web.http.post(address, content=body, headers={**browser, "content-type": kind})
            assert 400 <= answer.status_code < 500, f"{name}: {answer.status_code} {answer.text[:200]}"
    assert await entries(house) == before
    assert (await house.read(shown))["status"] == "pending"


async def test_no_value_in_any_field_of_a_decision_makes_it_fail_or_pass(web: Web, house: House) -> None:
    shown = await house.propose(house.arguments({"path": "run.sh", "content": "x\n", "mode": "100755"}))
    browser = await web.browser(house.owner)
    good: Json = {"verdict": "approve", "card_digest": shown["card_digest"], "acknowledged": [], "note": ""}
    for field in (*good, "extra"):
        for value in VALUES:
            body = json.dumps({**good, field: value})
            address = f"/api/v1/proposals/{shown['proposal_id']}/decision"
            answer = await web.http.post(address, content=body, headers=browser)
            assert 400 <= answer.status_code < 500, f"{field}={value!r:.40}: {answer.status_code}"
            assert answer.json()["error"]["code"] in CODES
    assert (await house.read(shown))["status"] == "pending"


QUERIES = ("tenant=%00", "tenant=x", "tenant=" + "9" * 5_000, "show=nothing", "before=-1", "before=1e9", "before=%ff",
           "before=99999999999999999999", "tenant=%E2%80%AE&tenant=x", "next=//evil.example", "%00=%00")  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
async def test_no_query_makes_a_page_fail(web: Web, house: House, query: str) -> None:
    browser = await web.browser(house.owner)
    pages = {one.path for one in ENDPOINTS if one.method == "GET" and not one.path.startswith("/mcp")}
    pages.remove("/events")  # its answer has no end; tests/edge/test_events.py asks it
    for path in sorted(pages):
        address = path.replace("{id}", str(house.tenant)).replace("{name}", "placet.css")
        answer = await web.http.get(f"{address}?{query}", headers=browser)
        assert answer.status_code < 500, path


@pytest.mark.parametrize("one", ["%00", "%ff", "%2e%2e%2f", "x" * 5_000, "%E2%80%AE", "'", "placet.css%00"])
async def test_no_id_or_name_makes_a_page_fail(web: Web, house: House, one: str) -> None:
    browser = await web.browser(house.owner)
    for path in ("/proposals/{}", "/api/v1/proposals/{}", "/assets/{}", "/connections/{}", "/{}"):
        answer = await web.http.get(path.format(one), headers=browser)
        assert 300 <= answer.status_code < 500, path


@pytest.mark.parametrize("tool", [entry.name for entry in REGISTRY])
async def test_no_value_in_any_argument_makes_a_tool_fail(web: Web, house: House, tool: str) -> None:
    shown = await house.propose()
    token, before = await web.token(house.agent), await entries(house)
    good = {**GOOD, "repository_id": str(house.repository), "proposal_id": shown["proposal_id"]}
    entry = REGISTRY.find(tool)
    assert entry is not None
    known = {name: good[name] for name in entry.input_schema.get("required", [])}
    for field in entry.input_schema["properties"]:
        for number, value in enumerate(VALUES):
            key = {"idempotency_key": f"key-{field}-{number}"} if "idempotency_key" in known else {}
            await refused_or_answered(web, token, tool, {**known, **key, field: value})
    if entry.scope == "repo:read":
        assert await entries(house) == before


async def refused_or_answered(web: Web, token: str, tool: str, arguments: Json) -> None:
    answer = await web.call(token, tool, arguments)
    if "error" in answer:
        assert answer["error"]["code"] in {-32600, -32602, -32700}
        return
    result = answer["result"]
    if result.get("isError"):
        error = result["_meta"]["placet/error"]
        assert error["code"] in CODES - {"internal"}, error


# Of the values above, the ones that are good content and good paths.
PASSING: dict[str, tuple[str, ...]] = {
    "content": ("", "' OR 1=1 --", "../../etc/passwd", "0" * 40, "approve", "\u202e", "\uffff"),
    "path": ("' OR 1=1 --", "0" * 40, "approve"),
}


@pytest.mark.parametrize("field", ["path", "action", "content", "encoding", "mode", "from_path", "expected_blob_oid"])
async def test_no_value_in_any_field_of_a_file_makes_a_proposal_fail(web: Web, house: House, field: str) -> None:
    token, before = await web.token(house.agent), await entries(house)
    for number, value in enumerate(VALUES):
        if value in PASSING.get(field, ()):
            continue
        if value is None and field not in {"path", "action", "encoding", "content"}:
            continue  # absent
        file = {"path": "new.txt", "content": "x\n", field: value}
        answer = await web.call(
            token, "propose_file_import", {**house.arguments(file), "idempotency_key": f"key-{number:05}"}
        )
        assert "error" in answer or answer["result"]["isError"], f"{field}={value!r:.40}"
        if "result" in answer:
            assert answer["result"]["_meta"]["placet/error"]["code"] in CODES - {"internal"}
    assert await entries(house) == before

"""Attacks on codes and tokens (A03 to A09), and what ends a token (M01, M02, M06, M07)."""

import base64
from typing import Any

import anyio
import httpx
import pytest
from sqlalchemy import func, select, text, update

from service.edge.guard import COOKIE
from service.grants.tables import connection, oauth_client
from service.identity.tables import access_token, authorization_code, refresh_token
from tests.identity.house import CALLBACK, ISSUER, Agent, Browser, House, Tenant

pytestmark = pytest.mark.anyio


def ago(seconds: int) -> Any:
    return func.clock_timestamp() - text(f"interval '{seconds} seconds'")


async def error_of(response: httpx.Response) -> str:
    """The error of a refused call, which has the form of RFC 6749, 5.2."""
    body = response.json()
    assert response.status_code in {400, 401}, response.text
    assert set(body) == {"error", "error_description"}
    assert "no-store" in response.headers["cache-control"]
    return str(body["error"])


async def live(house: House, home: Tenant) -> tuple[int, int]:
    """How many access and refresh tokens of the tenant could still be used."""
    access = select(access_token.c.hash).where(access_token.c.revoked_at.is_(None))
    refresh = select(refresh_token.c.hash).where(
        refresh_token.c.revoked_at.is_(None), refresh_token.c.rotated_at.is_(None)
    )
    return len(await house.rows(home.id, access)), len(await house.rows(home.id, refresh))


async def test_a_code_is_worth_nothing_with_anything_else_than_it_was_made_for(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    other = await house.agent()
    other.verifier = agent.verifier
    assert await error_of(await other.redeem(code)) == "invalid_grant"
    for changes, error in (
        ({"redirect_uri": f"{CALLBACK}/"}, "invalid_grant"),
        ({"redirect_uri": None}, "invalid_grant"),
        ({"resource": f"{ISSUER}/mcp/secure"}, "invalid_grant"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"code_verifier": None}, "invalid_request"),
        ({"code_verifier": "a" * 43}, "invalid_grant"),
        ({"code_verifier": agent.challenge}, "invalid_grant"),
        ({"code_verifier": "short"}, "invalid_request"),
        ({"code_verifier": agent.verifier + "\n"}, "invalid_grant"),
        ({"code": code[:-1]}, "invalid_grant"),
        ({"code": code + "A"}, "invalid_grant"),
        ({"code": None}, "invalid_request"),
    ):
        assert await error_of(await agent.redeem(**{"code": code, **changes})) == error, changes
    assert (await agent.redeem(code)).status_code == 200


async def test_a_code_is_worth_nothing_after_a_minute(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    left = func.extract("epoch", authorization_code.c.expires_at - func.clock_timestamp())
    [row] = await house.rows(home.id, select(left.label("seconds")))
    assert 50 < row.seconds <= 60
    await house.change(home.id, update(authorization_code).values(expires_at=func.clock_timestamp()))
    assert await error_of(await agent.redeem(code)) == "invalid_grant"


async def test_a_code_used_again_ends_what_it_led_to(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    first = (await agent.redeem(code)).json()
    rotated = (await agent.refresh(first["refresh_token"])).json()
    assert await error_of(await agent.redeem(code)) == "invalid_grant"
    for tokens in (first, rotated):
        assert (await agent.call(tokens["access_token"])).status_code == 401
        assert await error_of(await agent.refresh(tokens["refresh_token"])) == "invalid_grant"
    [row] = await house.rows(home.id, select(connection.c.id))
    assert (await house.entries(home.id, str(row.id)))[-1] == "connection.replay_stopped"


async def test_of_fifty_uses_of_a_code_at_once_one_gets_a_token(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    answers: list[httpx.Response] = []

    async def use() -> None:
        answers.append(await agent.redeem(code))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(use)
    assert sorted(one.status_code for one in answers) == [200] + [400] * 49
    assert {one.json()["error"] for one in answers if one.status_code == 400} == {"invalid_grant"}
    assert len(await house.rows(home.id, select(access_token.c.hash))) == 1
    assert await live(house, home) == (0, 0)


async def test_a_refresh_token_rotates(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    first = await agent.connect(ada, home.repositories[0])
    second = (await agent.refresh(first["refresh_token"])).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["access_token"] != first["access_token"]
    assert (await agent.call(second["access_token"])).status_code == 200
    assert await live(house, home) == (2, 1)


async def test_a_hundred_pairs_of_refreshes_at_once_all_succeed_and_a_later_use_ends_the_family(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    current: str = tokens["refresh_token"]
    used: list[str] = []
    for _ in range(100):
        pair: list[httpx.Response] = []

        async def use(token: str = current, pair: list[httpx.Response] = pair) -> None:
            pair.append(await agent.refresh(token))

        # The second use falls within the grace of ten seconds.
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(use)
                group.start_soon(use)
        assert [one.status_code for one in pair] == [200, 200]
        used.append(current)
        current = pair[0].json()["refresh_token"]
    families = await house.rows(home.id, select(refresh_token.c.family).distinct())
    assert len(families) == 1
    assert await error_of(await agent.refresh(used[-1])) == "invalid_grant"
    assert await live(house, home) == (0, 0)
    assert await error_of(await agent.refresh(current)) == "invalid_grant"


async def test_the_grace_is_ten_seconds_and_then_a_replay_ends_the_family(
    house: House, home: Tenant, elsewhere: Tenant, ada: Browser, bob: Browser, agent: Agent
) -> None:
    first = await agent.connect(ada, home.repositories[0])
    others = await agent.connect(bob, elsewhere.repositories[0])
    second = (await agent.refresh(first["refresh_token"])).json()
    await house.change(
        home.id, update(refresh_token).values(rotated_at=ago(11)).where(refresh_token.c.rotated_at.is_not(None))
    )
    assert await error_of(await agent.refresh(first["refresh_token"])) == "invalid_grant"
    assert await error_of(await agent.refresh(second["refresh_token"])) == "invalid_grant"
    assert (await agent.call(second["access_token"])).status_code == 401
    [row] = await house.rows(home.id, select(connection.c.id))
    assert (await house.entries(home.id, str(row.id)))[-1] == "connection.replay_stopped"
    assert (await agent.call(others["access_token"])).status_code == 200
    # A new consent starts a new family of the same connection.
    again = await agent.connect(ada, home.repositories[0])
    assert (await agent.call(again["access_token"])).status_code == 200


async def test_somebody_elses_use_of_a_refresh_token_changes_nothing(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    other = await house.agent()
    assert await error_of(await other.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert (await agent.refresh(tokens["refresh_token"])).status_code == 200


async def test_a_refresh_may_narrow_the_scope_and_never_widen_it(home: Tenant, ada: Browser, agent: Agent) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    narrow = (await agent.refresh(tokens["refresh_token"], scope="repo:read")).json()
    assert narrow["scope"] == "repo:read"
    assert (await agent.call(narrow["access_token"])).json()["scopes"] == ["repo:read"]
    # The refresh token kept what was granted (RFC 6749, 6).
    whole = (await agent.refresh(narrow["refresh_token"])).json()
    assert whole["scope"] == "repo:read repo:propose"
    for scope in ("*", "repo:read admin", "repo:admin"):
        assert await error_of(await agent.refresh(whole["refresh_token"], scope=scope)) == "invalid_scope"
    reader = await agent.connect(ada, home.repositories[0], scope="repo:read")
    wider = await agent.refresh(reader["refresh_token"], scope="repo:read repo:propose")
    assert await error_of(wider) == "invalid_scope"
    assert (await agent.refresh(reader["refresh_token"])).status_code == 200


async def test_a_refresh_is_for_the_same_resource(home: Tenant, ada: Browser, agent: Agent) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    for resource in (f"{ISSUER}/mcp/secure", "https://other.example/mcp", f"{ISSUER}/mcp#x"):
        refused = await agent.refresh(tokens["refresh_token"], resource=resource)
        assert await error_of(refused) == "invalid_target"
    assert (await agent.refresh(tokens["refresh_token"], resource=f"{ISSUER}/mcp/")).status_code == 200


@pytest.mark.parametrize("change", [{"state": "paused"}, {"state": "revoked"}, {"expires_at": ago(0)}])
async def test_a_connection_that_ended_ends_its_tokens_at_once(
    house: House, home: Tenant, ada: Browser, agent: Agent, change: dict[str, Any]
) -> None:
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    tokens = await agent.connect(ada, home.repositories[0])
    await house.change(home.id, update(connection).values(**change))
    assert (await agent.call(tokens["access_token"])).status_code == 401
    assert await error_of(await agent.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert await error_of(await agent.redeem(code)) == "invalid_grant"


async def test_tokens_run_out(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    await house.change(home.id, update(access_token).values(expires_at=ago(0)))
    assert (await agent.call(tokens["access_token"])).status_code == 401
    await house.change(home.id, update(refresh_token).values(expires_at=ago(0)))
    assert await error_of(await agent.refresh(tokens["refresh_token"])) == "invalid_grant"


async def test_what_ran_out_is_dropped_by_the_next_refresh(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    await house.change(home.id, update(access_token).values(expires_at=ago(0)))
    await agent.refresh(tokens["refresh_token"])
    assert len(await house.rows(home.id, select(access_token.c.hash))) == 1


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
async def test_a_client_with_a_secret_proves_itself(house: House, home: Tenant, ada: Browser, method: str) -> None:
    agent = await house.agent(method=method)
    code = (await agent.consent(ada, home.repositories[0]))["code"]
    secret, agent.secret = agent.secret, None
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": agent.redirect_uri,
        "code_verifier": agent.verifier,
    }
    assert await error_of(await agent.post("token", form)) == "invalid_client"
    assert await error_of(await agent.post("token", {**form, "client_secret": "wrong"})) == "invalid_client"
    wrong = base64.b64encode(f"{agent.id}:wrong".encode()).decode()
    refused = await agent.post("token", form, authorization=f"Basic {wrong}")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic ")
    right = base64.b64encode(f"{agent.id}:{secret}".encode()).decode()
    both = await agent.post("token", {**form, "client_secret": secret}, authorization=f"Basic {right}")
    assert await error_of(both) == "invalid_request"
    sent = {"authorization": f"Basic {right}"} if method == "client_secret_basic" else {}
    proof = {} if sent else {"client_secret": secret}
    assert (await agent.post("token", {**form, **proof}, **sent)).status_code == 200


async def test_a_public_client_with_a_made_up_secret_is_refused(home: Tenant, ada: Browser, agent: Agent) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    assert await error_of(await agent.refresh(tokens["refresh_token"], client_secret="x")) == "invalid_client"
    assert (await agent.refresh(tokens["refresh_token"], client_secret="")).status_code == 200


async def test_a_client_that_was_deleted_is_told_so(house: House, home: Tenant, agent: Agent) -> None:
    await house.change(home.id, oauth_client.delete().where(oauth_client.c.id == agent.id))
    refused = await agent.refresh(f"plt_{home.id.hex}_{'a' * 43}")
    assert refused.status_code == 401
    assert await error_of(refused) == "invalid_client"


async def test_what_makes_no_sense_at_the_token_endpoint_is_an_error_of_its_form(agent: Agent) -> None:
    for form, error in (
        ({}, "unsupported_grant_type"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": '"\u202e\\'}, "unsupported_grant_type"),
        ({"grant_type": ["refresh_token", "refresh_token"]}, "invalid_request"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "refresh_token", "refresh_token": "x"}, "invalid_grant"),
        ({"grant_type": "refresh_token", "refresh_token": "plt_" + "f" * 32 + "_" + "a" * 43}, "invalid_grant"),
        ({"grant_type": "refresh_token", "refresh_token": "a" * 500_000}, "invalid_grant"),
        ({"grant_type": "authorization_code", "code": "\u202e"}, "invalid_grant"),
        ({"grant_type": "authorization_code", "code": "x\0"}, "invalid_request"),
    ):
        assert await error_of(await agent.post("token", form)) == error, str(form)[:80]
    for header in ("Basic", "Basic !", b"Basic \xff", "Basic /w==", "Basic AA==", "Basic OiU="):
        refused = await agent.post("token", {"grant_type": "refresh_token"}, authorization=header)
        assert await error_of(refused) in {"invalid_request", "invalid_client"}
    for body in (b"\xff=1", b"a=%ed%a0%80", b"a=1&" * 600):
        refused = await agent.http.post(f"{ISSUER}/oauth/token", content=body)
        assert await error_of(refused) == "invalid_request"
    large = await agent.http.post(f"{ISSUER}/oauth/token", content=b"a" * 2_000_000)
    assert large.status_code == 413
    assert large.json()["error"] == "invalid_request"


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_a_client_can_end_its_tokens_by_either(
    house: House, home: Tenant, ada: Browser, agent: Agent, which: str
) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    other = await house.agent()
    assert await error_of(await other.post("revoke", {"token": tokens[which]})) == "invalid_grant"
    assert (await agent.call(tokens["access_token"])).status_code == 200
    for _ in range(2):
        ended = await agent.post("revoke", {"token": tokens[which], "token_type_hint": "nonsense"})
        assert ended.status_code == 200
    assert (await agent.call(tokens["access_token"])).status_code == 401
    assert await error_of(await agent.refresh(tokens["refresh_token"])) == "invalid_grant"
    [row] = await house.rows(home.id, select(connection.c.id))
    assert (await house.entries(home.id, str(row.id))).count("connection.tokens_revoked") == 1


async def test_revoking_what_never_was_is_no_error_but_needs_a_client(home: Tenant, agent: Agent) -> None:
    for token in ("x", f"plt_{home.id.hex}_{'a' * 43}", "\u202e"):
        assert (await agent.post("revoke", {"token": token})).status_code == 200
    assert await error_of(await agent.post("revoke", {})) == "invalid_request"
    agent.id = "nobody"
    assert await error_of(await agent.post("revoke", {"token": "x"})) == "invalid_client"


async def test_only_a_live_token_of_ours_in_the_header_is_a_credential(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    good = tokens["access_token"]
    url = f"{ISSUER}/mcp"
    for headers in (
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer x"},
        {"authorization": f"Bearer {good}x"},
        {"authorization": f"Bearer {tokens['refresh_token']}"},
        {"authorization": f"Basic {good}"},
        {"authorization": "Bearer gho_" + "a" * 36},
        {"cookie": f"{COOKIE}={ada.cookie}"},
        {"cookie": f"{COOKIE}={good}"},
    ):
        refused = await house.http.post(url, headers=headers)
        assert refused.status_code == 401, headers
        assert "resource_metadata=" in refused.headers["www-authenticate"]
    assert (await house.http.post(f"{url}?access_token={good}")).status_code == 401
    assert (await house.http.post(url, data={"access_token": good})).status_code == 401
    twice = [("authorization", f"Bearer {good}")] * 2
    assert (await house.http.post(url, headers=twice)).status_code == 400
    await house.change(home.id, update(access_token).values(resource="https://other.example/mcp"))
    assert (await agent.call(good)).status_code == 401

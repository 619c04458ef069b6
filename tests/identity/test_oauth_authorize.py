"""Attacks on the authorization request and on the consent page (A01 to A03, A08 to A12, A14)."""

from typing import Any
from urllib.parse import quote

import anyio
import pytest
from sqlalchemy import func, select, update

from service.edge.guard import COOKIE
from service.grants.tables import connection, membership, oauth_client
from service.identity.tables import authorization_code, oauth_request
from service.repositories.tables import repository
from tests.identity.house import CALLBACK, ISSUER, Agent, Browser, House, Tenant, approve, hidden, sent_back

pytestmark = pytest.mark.anyio

FOREIGN_REDIRECTS = [
    f"{CALLBACK}/more",
    f"{CALLBACK}/../x",
    f"{CALLBACK}%2e",
    f"{CALLBACK}?a=b",
    f"{CALLBACK}#fragment",
    f"{CALLBACK} ",
    f"{CALLBACK}\n",
    "https://AGENT.example/callback",
    "https://agent.example/Callback",
    "https://agent.example@evil.example/callback",
    "https://agent.example./callback",
    "https://agent.example:8443/callback",
    "https://xn--agnt-loa.example/callback",
    "https://\u0430gent.example/callback",
    "http://agent.example/callback",
    "//agent.example/callback",
    "/callback",
    "javascript:alert(1)",
    "data:text/html,x",
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "http://[fe80::1%25lo]/callback",
    "http://127.0.0.1:9999/callback",
    CALLBACK * 100,
    "",
    None,
]


async def codes(house: House, home: Tenant) -> int:
    return len(await house.rows(home.id, select(authorization_code.c.hash)))


async def requests(house: House, agent: Agent) -> int:
    """How many consent pages of this agent wait for an answer."""
    async with house.owner_db.directory() as tx:
        return len((await tx.execute(select(oauth_request).where(oauth_request.c.client == agent.id))).all())


async def is_refused_on_a_page(ada: Browser, url: str) -> bool:
    page = await ada.get(url)
    return page.status_code == 400 and "location" not in page.headers and 'name="answer"' not in page.text


async def test_an_address_that_was_not_registered_gets_a_page_and_nothing_else(
    house: House, ada: Browser, agent: Agent
) -> None:
    for uri in FOREIGN_REDIRECTS:
        assert await is_refused_on_a_page(ada, agent.url(redirect_uri=uri)), uri
    assert await requests(house, agent) == 0


async def test_an_unknown_client_gets_a_page(ada: Browser, agent: Agent) -> None:
    for client in ("nobody", "", None, "\u202e", "a" * 9_000, "' OR 1=1 --"):
        assert await is_refused_on_a_page(ada, agent.url(client_id=client)), client


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
async def test_a_loopback_address_may_change_its_port_and_is_warned_about(
    house: House, home: Tenant, ada: Browser, host: str
) -> None:
    agent = await house.agent(f"http://{host}:4000/cb?x=1")
    agent.redirect_uri = f"http://{host}:53127/cb?x=1"
    page = await ada.get(agent.url())
    assert page.status_code == 200
    assert f"{host}:53127" in page.text
    assert "program on your own computer" in page.text
    back = await approve(ada, hidden(page, "request"), home.repositories[0])
    assert back.headers["location"].startswith(f"http://{host}:53127/cb?x=1&code=plt_")
    assert (await agent.redeem(sent_back(back)["code"])).status_code == 200


async def test_loopback_addresses_differ_in_everything_but_the_port(house: House, ada: Browser) -> None:
    agent = await house.agent("http://127.0.0.1:4000/cb")
    for uri in (
        "http://localhost:4000/cb",
        "http://127.0.0.1:4000/other",
        "http://127.0.0.1:4000/cb#x",
        "http://127.0.0.1:99999/cb",
        "http://127.0.0.1:0/cb",
        "http://127.0.0.1.evil.example:4000/cb",
        "http://127.0.0.1:4000@evil.example/cb",
        "http://127.0.0.2:4000/cb",
        "http://2130706433:4000/cb",
        "https://127.0.0.1:4000/cb",
    ):
        assert await is_refused_on_a_page(ada, agent.url(redirect_uri=uri)), uri


async def test_the_page_shows_where_the_answer_goes_and_warns_of_nothing_else(ada: Browser, agent: Agent) -> None:
    page = await ada.get(agent.url())
    assert "agent.example" in page.text
    assert "program on your own computer" not in page.text


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": "s256"}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"code_challenge": "a" * 44}, "invalid_request"),
    ({"code_challenge": "a" * 43 + "\n"}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": "code token"}, "unsupported_response_type"),
    ({"response_type": 'code"\u202e'}, "unsupported_response_type"),
    ({"response_type": None}, "unsupported_response_type"),
    ({"scope": "*"}, "invalid_scope"),
    ({"scope": "repo:read admin"}, "invalid_scope"),
    ({"scope": "repo:read\trepo:propose"}, "invalid_scope"),
    ({"scope": "REPO:READ"}, "invalid_scope"),
    ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ({"resource": f"{ISSUER}/other"}, "invalid_target"),
    ({"resource": f"{ISSUER}/mcp#x"}, "invalid_target"),
    ({"resource": f"{ISSUER}/mcp?x"}, "invalid_target"),
    ({"resource": f"{ISSUER}/mcp//"}, "invalid_target"),
    ({"resource": "http://LOCALHOST:8000/mcp"}, "invalid_target"),
    ({"resource": "HTTP://localhost:8000/mcp"}, "invalid_target"),
    ({"resource": [f"{ISSUER}/mcp", "https://other.example/"]}, "invalid_target"),
    ({"state": "x" * 2_001}, "invalid_request"),
]


async def test_a_wrong_request_goes_back_with_its_error_its_state_and_the_issuer(
    house: House, ada: Browser, agent: Agent
) -> None:
    for changes, error in REFUSED:
        response = await ada.get(agent.url(**changes))
        back = sent_back(response)
        assert response.headers["location"].startswith(CALLBACK + "?")
        assert (back["error"], back["iss"], "code" in back) == (error, ISSUER, False), changes
        assert back["state"] == changes.get("state", "s t&ate")
    assert await requests(house, agent) == 0


@pytest.mark.parametrize(
    "resource", [None, "", ISSUER, f"{ISSUER}/", f"{ISSUER}/mcp", f"{ISSUER}/mcp/", f"{ISSUER}/mcp/secure"]
)
async def test_these_names_of_the_resource_lead_to_a_token_that_works(
    house: House, home: Tenant, ada: Browser, agent: Agent, resource: str | None
) -> None:
    tokens = await agent.connect(ada, home.repositories[0], resource=resource)
    assert (await agent.call(tokens["access_token"])).status_code == 200


async def test_what_cannot_be_read_gets_a_page(ada: Browser, agent: Agent) -> None:
    good = agent.url()
    for query in (
        "client_id=a",
        "state=b",
        "code_challenge=b",
        "other=%00",
        "other=%ed%a0%80",
        "other=%ff",
        "%00=1",
        "&".join(f"a{number}=1" for number in range(600)),
    ):
        assert await is_refused_on_a_page(ada, f"{good}&{query}"), query
    assert await is_refused_on_a_page(ada, f"{ISSUER}/oauth/authorize")


async def test_somebody_who_is_not_signed_in_signs_in_first_and_comes_back(house: House, agent: Agent) -> None:
    response = await house.http.get(agent.url())
    assert response.status_code == 303
    assert response.headers["location"] == "/sign-in?next=" + quote(agent.url().removeprefix(ISSUER), safe="")


async def test_consent_is_asked_every_time_and_for_every_client(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    await agent.connect(ada, home.repositories[0])
    same_name = await house.agent()
    for one in (agent, same_name):
        page = await ada.get(one.url(prompt="none"))
        assert page.status_code == 200
        assert hidden(page, "request")


async def test_the_page_cannot_be_framed_and_its_form_may_reach_the_client(
    house: House, ada: Browser, agent: Agent
) -> None:
    page = await ada.get(agent.url())
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' https: https://agent.example;" in policy
    assert page.headers["x-frame-options"] == "DENY"
    native = await house.agent("cursor://anysphere.cursor-mcp/oauth/callback")
    assert "form-action 'self' https: cursor:;" in (await ada.get(native.url())).headers["content-security-policy"]
    six = await house.agent("http://[::1]:7/cb")
    assert "form-action 'self' https: http:;" in (await ada.get(six.url())).headers["content-security-policy"]


async def test_an_answer_without_the_sessions_token_is_refused(
    house: House, home: Tenant, ada: Browser, bob: Browser, agent: Agent
) -> None:
    secret = await agent.ask(ada)
    for wrong in ("", bob.csrf, ada.csrf[:-1]):
        refused = await approve(ada, secret, home.repositories[0], csrf=wrong)
        assert refused.status_code == 403
    crossed = await ada.post(f"{ISSUER}/oauth/authorize", {"request": secret}, origin="https://evil.example")
    assert crossed.status_code == 403
    assert await codes(house, home) == 0


async def test_only_the_browser_that_saw_the_page_can_answer(
    house: House, home: Tenant, elsewhere: Tenant, ada: Browser, bob: Browser, agent: Agent
) -> None:
    secret = await agent.ask(ada)
    stolen = await approve(bob, secret, elsewhere.repositories[0])
    assert stolen.status_code == 400
    assert "location" not in stolen.headers
    assert await codes(house, elsewhere) == 0
    assert (await approve(ada, secret, home.repositories[0])).status_code == 303


async def test_a_get_approves_nothing_and_other_methods_do_not_exist(house: House, ada: Browser, agent: Agent) -> None:
    secret = await agent.ask(ada)
    tried = await ada.get(f"{ISSUER}/oauth/authorize?request={secret}&answer=approve&csrf={ada.csrf}")
    assert tried.status_code == 400
    for method in ("PUT", "DELETE", "PATCH"):
        refused = await house.http.request(method, "/oauth/authorize", headers=ada.headers())
        assert refused.status_code == 405
        assert refused.headers["allow"] == "GET, POST"


async def test_an_agents_token_cannot_consent_for_its_owner(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    bearer = {"authorization": f"Bearer {tokens['access_token']}", "cookie": f"{COOKIE}={ada.cookie}"}
    for response in (
        await house.http.get(agent.url(), headers=bearer),
        await house.http.post("/oauth/authorize", data={"csrf": ada.csrf}, headers=bearer),
    ):
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "agent_scope_denied"


async def test_a_form_sent_twice_gives_the_same_answer_and_one_connection(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    secret = await agent.ask(ada)
    answers = []

    async def send() -> None:
        answers.append(await approve(ada, secret, home.repositories[0]))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(send)
    assert len({one.headers["location"] for one in answers}) == 1
    assert await codes(house, home) == 1
    assert len(await house.rows(home.id, select(connection.c.id))) == 1
    assert (await agent.redeem(sent_back(answers[0])["code"])).status_code == 200
    late = await approve(ada, secret, home.repositories[0])
    assert late.status_code == 400  # the code was used: bringing it back would end the tokens
    denied = await ada.post(f"{ISSUER}/oauth/authorize", {"request": secret, "answer": "deny"})
    assert denied.status_code == 400


async def test_no_means_no_and_stays_no(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    secret = await agent.ask(ada)
    first = await ada.post(f"{ISSUER}/oauth/authorize", {"request": secret, "answer": "deny"})
    back = sent_back(first)
    assert (back["error"], back["iss"], back["state"]) == ("access_denied", ISSUER, "s t&ate")
    second = await approve(ada, secret, home.repositories[0])
    assert second.headers["location"] == first.headers["location"]
    assert await codes(house, home) == 0
    assert await house.entries(home.id, agent.id) == ["connection.denied"]


async def test_a_private_address_gets_its_answer_as_it_is(house: House, ada: Browser) -> None:
    uri = "cursor://anysphere.cursor-mcp/oauth/callback"
    agent = await house.agent(uri)
    page = await ada.get(agent.url())
    assert uri in page.text
    answered = await ada.post("/oauth/authorize", {"request": hidden(page, "request"), "answer": "deny"})
    assert answered.headers["location"].startswith(f"{uri}?error=access_denied&")


async def test_who_was_signed_out_meanwhile_answers_nothing(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    secret = await agent.ask(ada)
    await ada.post("/sign-out", {})
    refused = await approve(ada, secret, home.repositories[0])
    assert refused.status_code == 401
    assert "location" not in refused.headers
    assert await codes(house, home) == 0


async def test_a_page_that_waited_longer_than_ten_minutes_is_worth_nothing(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    secret = await agent.ask(ada)
    aged = update(oauth_request).where(oauth_request.c.client == agent.id)
    await house.change(home.id, aged.values(expires_at=func.clock_timestamp()))
    assert (await approve(ada, secret, home.repositories[0])).status_code == 400
    assert (await ada.post(f"{ISSUER}/oauth/authorize", {"request": secret, "answer": "deny"})).status_code == 400


async def test_a_made_up_page_is_worth_nothing(home: Tenant, ada: Browser) -> None:
    for secret in ("", "x", "a" * 100_000, "\u202e"):
        assert (await approve(ada, secret, home.repositories[0])).status_code == 400


async def test_a_form_that_is_filled_in_wrongly_comes_back_and_can_be_sent_again(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    secret = await agent.ask(ada)
    wrong: list[dict[str, Any]] = [
        {"repository": []},
        {"repository": ["no-id"]},
        {"repository": ["00000000-0000-0000-0000-000000000000"]},
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\u202eb"},
        {"name": "two\nlines"},
        {"lifetime": "10y"},
        {"lifetime": ""},
    ]
    for changes in wrong:
        again = await approve(ada, secret, home.repositories[0], **changes)
        assert again.status_code == 422, changes
        assert 'role="alert"' in again.text
        assert hidden(again, "request") == secret
    assert await codes(house, home) == 0
    assert (await approve(ada, secret, home.repositories[0])).status_code == 303


async def test_a_field_that_is_there_twice_is_refused(home: Tenant, ada: Browser, agent: Agent) -> None:
    secret = await agent.ask(ada)
    form = {"request": secret, "answer": "approve", "name": "n", "lifetime": "1d"}
    for field, value in form.items():
        doubled = {**form, field: [value, value]}
        assert (await approve(ada, secret, home.repositories[0], **doubled)).status_code == 400, field


async def test_another_tenants_repository_is_not_on_the_page_and_cannot_be_chosen(
    house: House, home: Tenant, elsewhere: Tenant, ada: Browser, agent: Agent
) -> None:
    page = await ada.get(agent.url())
    assert str(home.repositories[0]) in page.text
    assert str(elsewhere.repositories[0]) not in page.text
    stolen = await approve(ada, hidden(page, "request"), home.repositories[0], elsewhere.repositories[0])
    assert stolen.status_code == 422
    assert await codes(house, home) == 0


async def test_who_only_reads_a_project_can_connect_nothing(house: House, home: Tenant, agent: Agent) -> None:
    reader = await house.browser(await house.person(home, role="reader"))
    page = await reader.get(agent.url())
    assert "there is nothing to connect to" in page.text
    assert (await approve(reader, hidden(page, "request"), home.repositories[0])).status_code == 422


async def test_an_owner_can_let_agents_propose_and_it_is_written_down(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    first, second = home.repositories
    page = await ada.get(agent.url())
    assert page.text.count("let agents propose here") == 2
    back = await approve(ada, hidden(page, "request"), first, second, open=[str(first)])
    assert back.status_code == 303
    rows = {row.id: row for row in await house.rows(home.id, select(repository))}
    assert (rows[first].agents_may_propose, rows[first].version) == (True, 2)
    assert (rows[second].agents_may_propose, rows[second].version) == (False, 1)
    assert await house.entries(home.id, str(first)) == ["repository.agents_may_propose"]
    assert (await ada.get(agent.url())).text.count("let agents propose here") == 1
    assert "let agents propose here" not in (await ada.get(agent.url(scope="repo:read"))).text


async def test_a_maintainer_connects_but_cannot_let_agents_propose(house: House, home: Tenant, agent: Agent) -> None:
    maintainer = await house.browser(await house.person(home, role="maintainer"))
    page = await maintainer.get(agent.url())
    assert "let agents propose here" not in page.text
    secret = hidden(page, "request")
    where = home.repositories[0]
    refused = await approve(maintainer, secret, where, open=[str(where)])
    assert refused.status_code == 403
    assert not (await house.rows(home.id, select(repository.c.agents_may_propose).where(repository.c.id == where)))[0][
        0
    ]
    assert (await approve(maintainer, secret, where)).status_code == 303


async def test_rights_that_went_while_the_page_was_open_grant_nothing(house: House, home: Tenant, agent: Agent) -> None:
    who = await house.person(home)
    browser = await house.browser(who)
    secret = await agent.ask(browser)
    await house.change(home.id, update(membership).where(membership.c.person == who).values(state="revoked"))
    assert (await approve(browser, secret, home.repositories[0])).status_code == 422
    assert await codes(house, home) == 0


async def test_a_second_consent_replaces_the_grants_and_narrows_older_tokens(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    first, second = home.repositories
    tokens = await agent.connect(ada, first)
    await agent.consent(ada, second, scope="repo:read")
    [row] = await house.rows(home.id, select(connection))
    assert (row.scopes, row.version) == (["repo:read"], 2)
    assert (await agent.call(tokens["access_token"])).json()["scopes"] == ["repo:read"]
    wider = await agent.refresh(tokens["refresh_token"], scope="repo:propose")
    assert wider.json()["error"] == "invalid_scope"
    refreshed = (await agent.refresh(tokens["refresh_token"])).json()
    assert refreshed["scope"] == "repo:read"


async def test_a_revoked_connection_stays_revoked_and_a_new_consent_makes_a_new_one(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    old = await agent.connect(ada, home.repositories[0])
    await house.change(home.id, update(connection).values(state="revoked"))
    new = await agent.connect(ada, home.repositories[0])
    states = [row.state for row in await house.rows(home.id, select(connection.c.state))]
    assert sorted(states) == ["live", "revoked"]
    assert (await agent.call(old["access_token"])).status_code == 401
    assert (await agent.call(new["access_token"])).status_code == 200


async def test_a_paused_connection_is_not_revived_by_a_consent(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    await agent.connect(ada, home.repositories[0])
    await house.change(home.id, update(connection).values(state="paused"))
    assert (await approve(ada, await agent.ask(ada), home.repositories[0])).status_code == 403
    [row] = await house.rows(home.id, select(connection.c.state))
    assert row.state == "paused"


async def test_two_pages_for_one_client_make_one_connection(
    house: House, home: Tenant, ada: Browser, agent: Agent
) -> None:
    pages = [await agent.ask(ada) for _ in range(6)]
    async with anyio.create_task_group() as group:
        for secret in pages:
            group.start_soon(approve, ada, secret, home.repositories[0])
    [row] = await house.rows(home.id, select(connection))
    assert row.version == 6
    assert await codes(house, home) == 6


@pytest.mark.parametrize(("choice", "days"), [("1d", 1), ("30d", 30), ("1y", 365), ("never", None)])
async def test_a_connection_lasts_as_long_as_was_chosen(
    house: House, home: Tenant, ada: Browser, agent: Agent, choice: str, days: int | None
) -> None:
    await approve(ada, await agent.ask(ada), home.repositories[0], lifetime=choice)
    left = func.round(func.extract("epoch", connection.c.expires_at - func.clock_timestamp()) / 86_400)
    [row] = await house.rows(home.id, select(left.label("days")))
    assert row.days == days


async def test_a_hostile_name_is_shown_as_text(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    hostile = "<script>alert(1)</script>\"'&"
    changed = update(oauth_client).where(oauth_client.c.id == agent.id).values(name=hostile)
    await house.change(home.id, changed)
    page = await ada.get(agent.url())
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text

"""Signing in with a link, coming back to where one was, and signing out (A21)."""

import re
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import select, text, update

from service.edge.entering import NEXT_COOKIE
from service.edge.guard import COOKIE
from service.grants.tables import session
from service.identity.sessions import find_session
from service.kit.actor import SERVICE_TENANT
from tests.identity.house import ISSUER, Agent, Browser, House, Tenant, hidden

pytestmark = pytest.mark.anyio


def cookies(response: httpx.Response) -> dict[str, str]:
    """Each cookie that is set, with its attributes."""
    pairs = (line.partition("=") for line in response.headers.get_list("set-cookie"))
    return {name: rest for name, _, rest in pairs}


def value(cookie: str) -> str:
    return cookie.partition(";")[0].strip('"')


async def sign_in(house: House, link: str, **cookie: str) -> httpx.Response:
    sent = {"cookie": "; ".join(f"{name}={held}" for name, held in cookie.items())} if cookie else {}
    return await house.http.post("/sign-in", data={"link": link}, headers=sent)


async def test_opening_a_link_uses_nothing_up_and_its_button_signs_in_once(house: House, home: Tenant) -> None:
    link = await house.link(await house.person(home))
    for _ in range(3):
        page = await house.http.get(f"/sign-in?link={link}")
        assert page.status_code == 200
        assert hidden(page, "link") == link
    first = await sign_in(house, link)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = cookies(first)[COOKIE]
    for attribute in ("Secure", "HttpOnly", "SameSite=lax", "Path=/"):
        assert attribute in cookie
    assert "Domain" not in cookie
    found = await find_session(house.parts.database, value(cookie))
    assert found
    assert await house.entries(SERVICE_TENANT, str(found.id)) == ["session.opened"]
    second = await sign_in(house, link)
    assert second.status_code == 401
    assert COOKIE not in cookies(second)


async def test_links_that_are_not_ours_open_nothing(house: House, home: Tenant) -> None:
    link = await house.link(await house.person(home))
    for wrong in ("", "x", link[:-1], link + "A", "\u202e", "a" * 100_000):
        refused = await sign_in(house, wrong)
        assert refused.status_code == 401
        assert "placet owner link" in refused.text


async def test_the_page_without_a_link_says_how_to_get_one(house: House) -> None:
    page = await house.http.get("/sign-in")
    assert page.status_code == 200
    assert "placet owner link EMAIL" in page.text


async def test_who_came_from_an_agent_lands_on_its_consent_page(house: House, home: Tenant, agent: Agent) -> None:
    sent = await house.http.get(agent.url())
    page = await house.http.get(sent.headers["location"])
    wanted = value(cookies(page)[NEXT_COOKIE])
    signed_in = await sign_in(house, await house.link(await house.person(home)), **{NEXT_COOKIE: wanted})
    assert signed_in.status_code == 303
    assert value(cookies(signed_in)[NEXT_COOKIE]) == ""
    browser = Browser(house.http, value(cookies(signed_in)[COOKIE]))
    landed = await browser.get(signed_in.headers["location"])
    assert landed.status_code == 200
    assert hidden(landed, "request")
    # Signed in already, one is sent on at once.
    again = await browser.get(sent.headers["location"])
    assert again.headers["location"] == signed_in.headers["location"]


async def test_nobody_is_sent_to_another_site_after_signing_in(house: House, home: Tenant) -> None:
    who = await house.person(home)
    for wrong in (
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\/evil.example",
        "/x\r\nset-cookie: a=b",
        "/x;y",
        "javascript:alert(1)",
        "x",
        "",
        "/" + "a" * 4_000,
        "/\t/evil.example",
        "/\u202e",
    ):
        page = await house.http.get(f"/sign-in?next={quote(wrong, safe='')}")
        assert NEXT_COOKIE not in cookies(page), wrong
        if wrong.isprintable() and wrong.isascii():
            signed_in = await sign_in(house, await house.link(who), **{NEXT_COOKIE: wrong})
            assert signed_in.headers["location"] in {"/", "/x"}, wrong


async def test_another_site_cannot_sign_a_browser_in(house: House, home: Tenant) -> None:
    link = await house.link(await house.person(home))
    for origin in ("https://evil.example", "null"):
        refused = await house.http.post("/sign-in", data={"link": link}, headers={"origin": origin})
        assert refused.status_code == 403
    assert (await house.http.post("/sign-in", data={"link": link}, headers={"origin": ISSUER})).status_code == 303


async def test_signing_in_again_makes_a_new_session_and_ends_the_one_before(
    house: House, home: Tenant, elsewhere: Tenant, ada: Browser
) -> None:
    link = await house.link(await house.person(elsewhere))
    page = await ada.get(f"/sign-in?link={link}")
    assert hidden(page, "csrf") == ada.csrf
    assert (await sign_in(house, link, **{COOKIE: ada.cookie})).status_code == 403
    response = await ada.post("/sign-in", {"link": link})
    fresh = value(cookies(response)[COOKIE])
    assert fresh != ada.cookie
    assert await find_session(house.parts.database, ada.cookie) is None
    assert await find_session(house.parts.database, fresh)


async def test_a_cookie_that_somebody_planted_is_not_what_signing_in_uses(house: House, home: Tenant) -> None:
    planted = f"plt_{'0' * 32}_{'a' * 43}"
    response = await sign_in(house, await house.link(await house.person(home)), **{COOKIE: planted})
    assert value(cookies(response)[COOKIE]) != planted
    assert await find_session(house.parts.database, planted) is None


async def test_signing_out_ends_the_session_at_once(house: House, ada: Browser) -> None:
    found = await find_session(house.parts.database, ada.cookie)
    assert found
    assert (await house.http.post("/sign-out", headers=ada.headers())).status_code == 403  # no token
    assert (await ada.get("/sign-out")).status_code == 405
    response = await ada.post("/sign-out", {})
    assert response.status_code == 303
    assert re.search(r"Max-Age=0", cookies(response)[COOKIE])
    assert await find_session(house.parts.database, ada.cookie) is None
    assert await house.entries(SERVICE_TENANT, str(found.id)) == ["session.opened", "session.ended"]


@pytest.mark.parametrize(("column", "hours"), [("seen_at", 12), ("expires_at", 0)])
async def test_a_session_ends_when_it_is_idle_or_old(house: House, ada: Browser, column: str, hours: int) -> None:
    found = await find_session(house.parts.database, ada.cookie)
    assert found
    past = text(f"clock_timestamp() - interval '{hours} hours'")
    aged = update(session).where(session.c.id == found.id).values({column: past})
    await house.change(SERVICE_TENANT, aged)
    assert await find_session(house.parts.database, ada.cookie) is None
    [row] = await house.rows(SERVICE_TENANT, select(session.c.ended_at).where(session.c.id == found.id))
    assert row.ended_at is None


async def test_an_agent_cannot_sign_anybody_in_or_out(house: House, home: Tenant, ada: Browser, agent: Agent) -> None:
    tokens = await agent.connect(ada, home.repositories[0])
    for path in ("/sign-in", "/sign-out"):
        refused = await house.http.post(path, headers={"authorization": f"Bearer {tokens['access_token']}"})
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "agent_scope_denied"

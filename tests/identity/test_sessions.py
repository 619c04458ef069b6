"""Sessions: seen, and ended one by one or all at once (A21)."""

from typing import Any

import pytest
from sqlalchemy import select

from service.edge.guard import COOKIE
from service.edge.ways import browser_words
from service.grants.tables import session
from service.identity.sessions import find_session, open_session
from service.kit.actor import SERVICE_TENANT
from tests.identity.house import Browser, House
from tests.identity.jar import CHROME, jar

pytestmark = pytest.mark.anyio
SETTINGS = "/settings/sign-in"


async def browsers(house: House, who: Any, count: int) -> list[Browser]:
    return [await house.browser(who) for _ in range(count)]


async def test_a_person_sees_its_sessions_and_which_one_this_is(house: House, ada: Browser) -> None:
    mine = jar(house, ada)
    fresh = jar(house)
    who = (await mine.session()).person
    assert (await fresh.form("/sign-in", link=await house.link(who))).status_code == 303
    page = (await fresh.get(SETTINGS)).text
    assert page.count("last seen") == 2
    assert page.count("this one") == 1
    assert "Chrome on Linux" in page
    assert CHROME not in page


async def test_sessions_end_one_by_one_or_all_others_at_once(house: House, ada: Browser, bob: Browser) -> None:
    mine, theirs = jar(house, ada), jar(house, bob)
    first, second, third = await browsers(house, (await mine.session()).person, 3)
    found = await find_session(house.parts.database, first.cookie)
    assert found
    assert (await theirs.form(f"/settings/sessions/{found.id}")).status_code == 404
    assert await find_session(house.parts.database, first.cookie)
    assert (await mine.form(f"/settings/sessions/{found.id}")).status_code == 303
    assert await find_session(house.parts.database, first.cookie) is None
    assert (await mine.form(f"/settings/sessions/{found.id}")).status_code == 404
    assert (await mine.form("/settings/sessions", action="end")).status_code == 303
    for gone in (second, third):
        assert (await jar(house, gone).get(SETTINGS)).status_code == 303  # to sign in
    assert await mine.session()
    assert await theirs.session()
    assert await house.entries(SERVICE_TENANT, str(found.id)) == ["session.opened", "session.ended"]


async def test_every_form_needs_the_sessions_token(house: House, ada: Browser) -> None:
    mine = jar(house, ada)
    paths = ("/settings/sessions", f"{SETTINGS}/password", f"{SETTINGS}/app", f"{SETTINGS}/recovery", "/prove")
    for path in paths:
        answer = await house.http.post(path, data={"password": "x"}, headers={"cookie": f"{COOKIE}={ada.cookie}"})
        assert answer.status_code == 403, path
    mine.csrf = "wrong"
    assert (await mine.json(f"{SETTINGS}/passkey/options")).status_code == 403


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (CHROME, "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1", "Safari on iPhone"),
        ("<script>alert(1)</script>", "A browser"),
        ("", "A browser"),
    ],
)
def test_of_what_a_browser_says_only_known_words_are_shown(agent: str, words: str) -> None:
    assert browser_words(agent) == words


async def test_what_a_browser_calls_itself_is_cut_and_cleaned(house: House, ada: Browser) -> None:
    who = (await jar(house, ada).session()).person
    secret = await open_session(house.parts.database, await house.link(who), browser="\x00a\u202e\n" + "b" * 5_000)
    found = await find_session(house.parts.database, secret)
    assert found
    [row] = await house.rows(SERVICE_TENANT, select(session.c.browser).where(session.c.id == found.id))
    assert row.browser == "a" + "b" * 199

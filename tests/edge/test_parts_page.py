"""A part over pages without a script and over the API: chosen, shown as a proposal, approved, withdrawn."""

import re
from html import unescape
from uuid import UUID

import pytest
from sqlalchemy import text

from service.contract.data import Json
from tests.stage import House, Stage, Web

pytestmark = pytest.mark.anyio
LINES = "".join(f"line {number}\n" for number in range(1, 21))
FILES = {"README.md": b"# Orchard\n", "app.py": LINES.encode()}
CHANGED = LINES.replace("line 2\n", "line <two>\n").replace("line 18\n", "line \u202e18\n")


@pytest.fixture
async def house(stage: Stage) -> House:
    return await stage.house(FILES)


async def whole(house: House) -> Json:
    files = ({"path": "app.py", "content": CHANGED}, {"path": "new.txt", "content": "<b>new</b>\n"})
    return await house.propose(house.arguments(*files))


async def get(web: Web, browser: dict[str, str], path: str) -> str:
    answer = await web.http.get(path, headers=browser)
    assert answer.status_code == 200, answer.text
    return answer.text


async def post(web: Web, browser: dict[str, str], path: str, **fields: object) -> tuple[int, str]:
    """What a form sends, and where that leads, or the page."""
    answer = await web.http.post(path, data={"csrf": browser["x-csrf-token"], **fields}, headers=browser)
    return answer.status_code, answer.headers.get("location", answer.text)


def actions(page: str, name: str) -> list[str]:
    return [unescape(one) for one in re.findall(rf'(?:action|formaction)="([^"]*/{name}\?[^"]*)"', page)]


async def chosen(web: Web, house: House, browser: dict[str, str], *keep: str) -> tuple[Json, str]:
    """Choose on the page; the whole, and the address of the part's card."""
    shown = await whole(house)
    card = await get(web, browser, f"/proposals/{shown['proposal_id']}")
    [link] = re.findall(r'href="(/proposals/[^"]*/parts[^"]*)"', card)
    [action] = actions(await get(web, browser, unescape(link)), "parts")
    status, place = await post(web, browser, action, keep=list(keep))
    assert status == 303
    return shown, place


async def test_a_part_is_chosen_looked_at_and_approved_without_a_script(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    shown, place = await chosen(web, house, browser, "1.1")
    card = await get(web, browser, place)
    assert "Part of another proposal." in card
    assert f'href="/proposals/{shown["proposal_id"]}?tenant={house.tenant}"' in card
    assert "Left out of <code>app.py</code>: 1 change, at line 18" in card
    assert "Left out: <code>new.txt</code>" in card
    assert "/parts?" not in card
    assert 'value="decline"' not in card
    assert f'href="{place}"'.replace("&", "&amp;") in await get(web, browser, f"/proposals/{shown['proposal_id']}")
    [digest] = re.findall(r'name="card_digest" value="([0-9a-f]{64})"', card)
    [decision] = actions(card, "decision")
    status, where = await post(web, browser, decision, card_digest=digest, verdict="approve")
    assert status == 303
    made = {"proposal_id": where.split("/")[2].partition("?")[0], "card_digest": digest}
    await house.execute(made)
    assert house.content("app.py").decode() == LINES.replace("line 2\n", "line <two>\n")
    ended = await get(web, browser, f"/proposals/{shown['proposal_id']}")
    assert "Approved in part." in ended
    assert made["proposal_id"] in ended


async def test_the_page_shows_every_change_with_what_it_hides(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    shown = await whole(house)
    page = await get(web, browser, f"/proposals/{shown['proposal_id']}/parts")
    assert re.findall(r'name="keep" value="([^"]*)"', page) == ["1", "1.1", "1.2", "2"]
    assert "line &lt;two&gt;" in page
    assert "&lt;b&gt;new&lt;/b&gt;" in page
    assert "U+202E" in page
    assert "\u202e" not in page
    assert not re.findall(r'value="[^"]*" checked', page)


@pytest.mark.parametrize(("keep", "told"), [([], "Nothing was chosen."), (["1", "2"], "Everything was chosen")])
async def test_a_choice_that_is_none_is_shown_again_with_what_was_ticked(
    web: Web, house: House, keep: list[str], told: str
) -> None:
    browser = await web.browser(house.owner)
    shown = await whole(house)
    status, page = await post(web, browser, f"/proposals/{shown['proposal_id']}/parts", keep=keep)
    assert status == 422
    assert told in page
    assert re.findall(r'value="([^"]*)" checked', page) == keep


async def test_a_part_is_withdrawn_on_its_card_and_the_whole_waits_on(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    shown, place = await chosen(web, house, browser, "2")
    assert re.findall(r'<span class="badge [a-z]+">a part</span>', await get(web, browser, "/")) != []
    [action] = actions(await get(web, browser, place), "withdrawal")
    status, back = await post(web, browser, action)
    assert ">a part<" not in await get(web, browser, "/")
    assert (status, back) == (303, f"/proposals/{shown['proposal_id']}?tenant={house.tenant}")
    page = await get(web, browser, back)
    assert "A part of this waits too." not in page
    assert 'value="approve"' in page
    assert "An owner took this part back" in await get(web, browser, place)


async def test_a_part_is_chosen_approved_and_withdrawn_over_the_api(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    shown = await whole(house)
    where = f"/api/v1/proposals/{shown['proposal_id']}"
    card = (await web.http.get(where, headers=browser)).json()
    assert (card["divisible"], card["parts"], card["part_of"]) == (True, [], None)
    parts = (await web.http.get(f"{where}/parts", headers=browser)).json()
    assert parts == {
        "proposal_id": shown["proposal_id"],
        "parts": [
            {
                "id": "1",
                "paths": ["app.py"],
                "hunks": [{"id": "1.1", "old": [2, 1], "new": [2, 1]}, {"id": "1.2", "old": [18, 1], "new": [18, 1]}],
            },
            {"id": "2", "paths": ["new.txt"], "hunks": []},
        ],
    }
    made = (await web.http.post(f"{where}/parts", json={"keep": ["2"]}, headers=browser)).json()["proposal_id"]
    again = (await web.http.post(f"{where}/parts", json={"keep": ["2"]}, headers=browser)).json()["proposal_id"]
    assert made == again
    assert (await web.http.get(where, headers=browser)).json()["parts"] == [made]
    part = (await web.http.get(f"/api/v1/proposals/{made}", headers=browser)).json()
    assert (part["part_of"], part["divisible"]) == (shown["proposal_id"], False)
    answer = await web.http.post(f"/api/v1/proposals/{made}/withdrawal", headers=browser)
    assert answer.json() == {"proposal_id": shown["proposal_id"]}
    assert (await web.http.post(f"{where}/withdrawal", headers=browser)).json()["error"]["code"] == "not_a_part"
    other = (await web.http.post(f"{where}/parts", json={"keep": ["1.2"]}, headers=browser)).json()["proposal_id"]
    made_of = (await web.http.get(f"/api/v1/proposals/{other}", headers=browser)).json()
    decided = await house.decide({"proposal_id": other, "card_digest": made_of["card_digest"]})
    assert decided.state == "approved"
    told = (await web.http.get(where, headers=browser)).json()
    assert (told["state"], told["outcome"]["reason"]) == ("declined", "partly_approved")
    assert told["outcome"]["approved_part"] == other


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "parts", None), ("POST", "parts", {"keep": ["1"]}), ("POST", "withdrawal", None)],
)
@pytest.mark.parametrize("who", ["reader", "stranger", "agent"])
async def test_who_may_not_decide_gets_nothing(
    web: Web, house: House, neighbour: House, who: str, method: str, path: str, body: Json | None
) -> None:
    shown = await whole(house)
    made = await house.stage.divide(house.owner, UUID(shown["proposal_id"]), ["1"])
    subject = made if path == "withdrawal" else shown["proposal_id"]
    if who == "agent":
        headers = {"authorization": f"Bearer {await web.token(house.agent)}"}
    else:
        headers = await web.browser(house.owner if who == "reader" else neighbour.owner)
    if who == "reader":
        async with house.stage.owner_db.bound(house.tenant) as tx:
            await tx.execute(text("UPDATE membership SET role = 'reader'"))
    answer = await web.http.request(method, f"/api/v1/proposals/{subject}/{path}", json=body, headers=headers)
    codes = {"reader": (403, "forbidden"), "stranger": (404, "not_found"), "agent": (403, "agent_scope_denied")}
    assert (answer.status_code, answer.json()["error"]["code"]) == codes[who]

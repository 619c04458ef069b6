"""Nothing is approved that was not sent in full to the very session that approves: by pages, a script, or the API."""

import re
from dataclasses import replace
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select

from service.contract.data import Json
from service.edge.desk import card
from service.kit.errors import Code, Refusal
from service.proposals import decide
from service.proposals.tables import reading
from tests.stage import House, Web

pytestmark = pytest.mark.anyio

SMALL, BIG = "small line\n" * 20, "".join(f"value_{number} = {number}\n" for number in range(5_000))


@pytest.fixture
async def shown(house: House) -> Json:
    """A proposal of three files, of which the second is big."""
    files = [
        {"path": path, "content": content} for path, content in (("a.txt", SMALL), ("big.py", BIG), ("z.txt", SMALL))
    ]
    return await house.propose(
        {
            "repository_id": str(house.repository),
            "branch": "main",
            "message": "Three files",
            "reason": "To see whether they are read.",
            "files": files,
        }
    )


@pytest.fixture(autouse=True)
def no_writer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """None runs here."""
    monkeypatch.setattr(decide, "WAIT_SECONDS", 0.01)


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with little room, as a proposal has that is larger than these."""
    monkeypatch.setattr(card, "FILE_BYTES", 50_000)


async def approve(web: Web, browser: dict[str, str], shown: Json, **more: object) -> httpx.Response:
    form = {"csrf": browser["x-csrf-token"], "card_digest": shown["card_digest"], "verdict": "approve", **more}
    return await web.http.post(f"/proposals/{shown['proposal_id']}/decision", data=form, headers=browser)


async def state(house: House, shown: Json) -> str:
    return str((await house.read(shown))["status"])


@pytest.mark.usefixtures("folds")
async def test_a_folded_file_keeps_the_proposal_waiting_until_it_is_opened(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    page = await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    assert "1 file is not opened yet." in page.text
    assert re.search(r'<button class="yes"[^>]* disabled', page.text)
    assert "value_11" not in page.text
    refused = await approve(web, browser, shown)
    assert (refused.status_code, await state(house, shown)) == (409, "pending")
    assert "1 file was not shown to you in full." in refused.text
    [link] = re.findall(r'<a href="(/proposals/[^"]*/files/2[^"]*)"', page.text)
    opened = await web.http.get(link.replace("&amp;", "&"), headers=browser)
    assert "value_11" in opened.text
    again = await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    assert "opened before" in again.text
    assert not re.search(r'<button class="yes"[^>]* disabled', again.text)
    await approve(web, browser, shown)
    assert await house.execute(shown)
    assert await state(house, shown) == "executed"


@pytest.mark.usefixtures("folds")
async def test_what_a_script_asks_for_is_the_piece_of_the_page_and_the_button_that_it_arms(
    web: Web, house: House, shown: Json
) -> None:
    browser = await web.browser(house.owner)
    await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    piece = await web.http.get(f"/proposals/{shown['proposal_id']}/files/2", headers={**browser, "hx-request": "true"})
    assert piece.text.startswith('<section class="panel file long" id="file-2"')
    assert re.search(r'<button class="yes" id="yes"(?![^>]*disabled)[^>]*data-hx-swap-oob="true"', piece.text)
    assert "<html" not in piece.text


async def test_another_session_of_the_same_person_has_seen_nothing(web: Web, house: House, shown: Json) -> None:
    first, second = await web.browser(house.owner), await web.browser(house.owner)
    await web.http.get(f"/proposals/{shown['proposal_id']}", headers=first)
    refused = await approve(web, second, shown)
    assert refused.status_code == 409
    assert "The card was not opened in this session." in refused.text
    assert (await approve(web, first, shown)).status_code == 303


async def test_a_head_request_shows_nothing_and_counts_for_nothing(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    for path in ("", "/files/1", "/files/2", "/files/3"):
        assert (await web.http.head(f"/proposals/{shown['proposal_id']}{path}", headers=browser)).status_code == 200
    assert (await approve(web, browser, shown)).status_code == 409
    assert await state(house, shown) == "pending"


async def test_the_api_approves_once_each_file_was_asked_for(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    where = f"/api/v1/proposals/{shown['proposal_id']}"
    body = {"verdict": "approve", "card_digest": shown["card_digest"]}
    assert (await web.http.post(f"{where}/decision", json=body, headers=browser)).status_code == 409
    files = (await web.http.get(where, headers=browser)).json()["files"]
    assert [(file["place"], file["sent"]) for file in files] == [(1, False), (2, False), (3, False)]
    for left, file in ((2, files[0]), (1, files[1]), (0, files[2])):
        refused = await web.http.post(f"{where}/decision", json=body, headers=browser)
        assert refused.json()["error"]["code"] == "not_shown_in_full"
        assert refused.json()["error"]["files"] == left + 1
        found = (await web.http.get(f"{where}/files/{file['place']}", headers=browser)).json()
        assert (found["unsent"], found["path"]) == (left, file["path"])
    assert found["new"] == {"encoding": "utf-8", "data": SMALL}
    assert (await web.http.post(f"{where}/decision", json=body, headers=browser)).status_code in {200, 202}


@pytest.mark.parametrize("place", ["0", "01", "4", "-1", "1e3", "\uff19", "99999999999999999999", "1%2f..%2f2"])
async def test_a_place_that_is_none_is_not_found(web: Web, house: House, shown: Json, place: str) -> None:
    browser = await web.browser(house.owner)
    for start in ("", "/api/v1"):
        answer = await web.http.get(f"{start}/proposals/{shown['proposal_id']}/files/{place}", headers=browser)
        assert answer.status_code == 404
    assert (await approve(web, browser, shown)).status_code == 409


async def test_a_decline_needs_no_reading(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    await approve(web, browser, shown, verdict="decline")
    assert await state(house, shown) == "declined"


async def test_what_was_read_at_another_digest_counts_for_nothing(house: House, shown: Json) -> None:
    await house.decide(shown, "decline", read=False)
    again = await house.propose()
    async with house.stage.app_db.bound(house.tenant) as tx:
        await tx.execute(
            reading.insert().values(
                tenant=house.tenant,
                session=house.owner.actor.session,
                proposal=UUID(again["proposal_id"]),
                digest="0" * 64,
                files=0,
                sent=[],
            )
        )
    with pytest.raises(Refusal) as refused:
        await house.decide(again, read=False)
    assert refused.value.code is Code.NOT_SHOWN


async def test_files_count_once_however_often_they_are_sent(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    for _ in range(3):
        await web.http.get(f"/api/v1/proposals/{shown['proposal_id']}/files/1", headers=browser)
    async with house.stage.app_db.bound(house.tenant) as tx:
        row = (await tx.execute(select(reading.c.files, reading.c.sent))).one()
    assert (row.files, row.sent) == (3, [1])
    assert (await approve(web, browser, shown)).status_code == 409


async def test_an_owner_without_a_session_approves_nothing(house: House, shown: Json) -> None:
    nobody = replace(house.owner, actor=replace(house.owner.actor, session=None))
    with pytest.raises(Refusal) as refused:
        await house.decide(shown, owner=nobody)
    assert refused.value.code is Code.NOT_SHOWN
    stranger = replace(house.owner, actor=replace(house.owner.actor, session=uuid4()))
    with pytest.raises(Refusal):
        await house.decide(shown, owner=stranger, read=False)

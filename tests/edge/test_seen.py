"""What a person has marked as seen: his own, on the change itself, and never what an approval hangs on."""

import re
from dataclasses import replace
from uuid import UUID

import desk_views as views
import pytest
from sqlalchemy import func, select, update

from service.contract.data import Json
from service.edge.desk import card
from service.proposals.seen import KEPT, change_of
from service.proposals.tables import seen
from tests.stage import House, Web

pytestmark = pytest.mark.anyio
NAMES = ("a.txt", "b.txt", "c.txt")


def files(**contents: str) -> list[Json]:
    return [{"path": name, "content": contents.get(name[0], f"{name}\n")} for name in NAMES]


@pytest.fixture
async def shown(house: House) -> Json:
    return await house.propose(house.arguments(*files()))


async def mark(
    web: Web, browser: dict[str, str], shown: Json, place: int, on: str = "yes", **more: str
) -> tuple[int, str]:
    where = f"/proposals/{shown['proposal_id']}/files/{place}/seen"
    form = {"csrf": browser["x-csrf-token"], "seen": on}
    answer = await web.http.post(where, data=form, headers={**browser, **more})
    return answer.status_code, answer.text or answer.headers.get("location", "")


async def look(web: Web, browser: dict[str, str], shown: Json) -> tuple[str, list[str]]:
    """What the rail says, and which files are closed to their heads."""
    page = (await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)).text
    said = re.findall(r'id="marks"[^>]*>(.*?)\n?</p>', page)
    return said[0], re.findall(r'<section class="panel file marked" id="(.*?)"', page)


async def test_a_mark_closes_a_file_in_every_browser_of_the_person_until_it_is_taken_off(
    web: Web, house: House, shown: Json
) -> None:
    browser = await web.browser(house.owner)
    assert await look(web, browser, shown) == ("0 of 3 files marked as seen", [])
    status, location = await mark(web, browser, shown, 2)
    assert (status, location.endswith("#file-2")) == (303, True)
    await mark(web, browser, shown, 2)
    for again in (browser, await web.browser(house.owner)):
        assert await look(web, again, shown) == ("1 of 3 files marked as seen", ["file-2"])
    await mark(web, browser, shown, 2, "no")
    assert await look(web, browser, shown) == ("0 of 3 files marked as seen", [])


async def test_marks_hold_for_the_same_change_proposed_again_and_fall_off_what_changed(
    web: Web, house: House, shown: Json
) -> None:
    browser = await web.browser(house.owner)
    for place in (1, 2):
        await mark(web, browser, shown, place)
    again = await house.propose(house.arguments(*files(b="other\n")))
    assert await look(web, browser, again) == ("1 of 3 files marked as seen", ["file-1"])


async def test_marks_are_the_persons_own(web: Web, house: House, shown: Json) -> None:
    other = await house.stage.house()
    same = await other.propose(other.arguments(*files()))
    browser = await web.browser(house.owner)
    await mark(web, browser, shown, 1)
    stranger = await web.browser(other.owner)
    assert await look(web, stranger, same) == ("0 of 3 files marked as seen", [])
    assert (await mark(web, stranger, shown, 1))[0] == 404
    assert (await mark(web, {**browser, "x-csrf-token": "forged"}, shown, 1))[0] == 403


@pytest.mark.parametrize(("place", "on", "status"), [(4, "yes", 404), (0, "yes", 404), (1, "maybe", 422)])
async def test_what_is_no_file_or_no_mark_is_refused(
    web: Web, house: House, shown: Json, place: int, on: str, status: int
) -> None:
    assert (await mark(web, await web.browser(house.owner), shown, place, on))[0] == status


async def test_a_script_gets_the_files_piece_and_the_count(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    await look(web, browser, shown)
    _, piece = await mark(web, browser, shown, 1, **{"hx-request": "true"})
    assert piece.startswith('<section class="panel file marked" id="file-1"')
    assert "<details><summary>Show the change again</summary>" in piece
    assert 'id="marks" data-hx-swap-oob="true">1 of 3 files marked as seen' in piece
    assert "<html" not in piece


async def test_a_mark_shows_nothing_and_approves_nothing(
    web: Web, house: House, shown: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card, "FILE_BYTES", 0)
    browser = await web.browser(house.owner)
    await look(web, browser, shown)
    for place in (1, 2, 3):
        _, piece = await mark(web, browser, shown, place, **{"hx-request": "true"})
        assert "not opened yet" in piece
        assert "<table" not in piece
    form = {"csrf": browser["x-csrf-token"], "card_digest": shown["card_digest"], "verdict": "approve"}
    refused = await web.http.post(f"/proposals/{shown['proposal_id']}/decision", data=form, headers=browser)
    assert refused.status_code == 409
    assert "3 files were not shown to you in full." in refused.text


async def test_parts_show_the_same_marks(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    await mark(web, browser, shown, 3)
    choosing = await web.http.get(f"/proposals/{shown['proposal_id']}/parts", headers=browser)
    assert choosing.text.count('<span class="badge good">seen</span>') == 1
    part = await house.stage.divide(house.owner, UUID(shown["proposal_id"]), ["3"])
    assert await look(web, browser, {"proposal_id": str(part)}) == ("1 of 1 file marked as seen", ["file-1"])


async def test_marks_of_long_ago_go(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    await mark(web, browser, shown, 1)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(seen).values(marked_at=func.clock_timestamp() - KEPT * 2))
    await mark(web, browser, shown, 2)
    async with house.stage.app_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(func.count()).select_from(seen)) == 1


def test_a_mark_is_on_path_modes_and_contents() -> None:
    file = views.file_view(b"a", b"1", b"2")
    others = (
        replace(file, path=b"b"),
        replace(file, old_path=b"b"),
        replace(file, new_mode=0o100755),
        replace(file, old_mode=0),
        replace(file, old=b"2", new=b"1"),
        replace(file, old=None),
        replace(file, new=None),
    )
    assert len({change_of(one) for one in (file, *others)}) == 1 + len(others)
    assert change_of(replace(file, of="elsewhere", seen=True)) == change_of(file)

"""Colours are kept, and nothing depends on them: not a proposal, not a page, and never the text."""

import html
import re
import zlib
from datetime import timedelta

import desk_views as views
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, text, update

from service.contract.data import Json
from service.edge.desk.diffview import panel
from service.edge.desk.visible import Visible
from service.proposals.coloured import KEPT
from service.proposals.desk import colouring
from service.proposals.desk.colouring import Colouring
from service.proposals.tables import coloured
from service.repositories.colour import PLAIN, Colours, Key, Palette, key_of, unpack
from service.tools.registry import ProposeEntry
from tests.stage import REGISTRY, House, Web

pytestmark = pytest.mark.anyio

CODE = "".join(
    f'def say_{number}(what: str) -> str:\n    return f"<b>{{what}}</b> & {number}"\n' for number in range(9)
)
TEXTS = st.text(st.sampled_from("ab<&>\"'\r\t \u202e\u200b\udcff\u00e9"), max_size=8)


@given(st.lists(TEXTS, max_size=6))
def test_many_texts_are_shown_as_each_of_them_is(texts: list[str]) -> None:
    one, all_at_once = Visible(), Visible()
    assert list(all_at_once.texts(texts)) == [one.text(text) for text in texts]
    assert (all_at_once.hidden, all_at_once.stray) == (one.hidden, one.stray)


def test_a_text_that_holds_a_line_end_stays_one_text() -> None:
    assert Visible().texts(["a\n<b>", "c"]) == ["a\n&lt;b&gt;", "c"]


@given(st.lists(st.integers(0, 120), min_size=2, max_size=40), st.binary(max_size=20), st.booleans())
def test_wrong_stretches_cannot_change_the_text(edges: list[int], junk: bytes, split: bool) -> None:
    old, new = b"one <1>\ntwo & 2\nthree\n", "one <2>\ntw\u00f6 & 2\nthree\nfour".encode()
    pairs = sorted(edges)[: len(edges) // 2 * 2]
    wrong = Colours(pairs, bytes(edge % 5 for edge in pairs[::2])).pack()
    keys = [key_of(b"a.py", content) for content in (old, new)]
    known = {key: packed for key, packed in zip(keys, (wrong, zlib.compress(junk)), strict=True) if key}
    shown = [
        panel(views.file_view(b"a.py", old, new), 1, palette, "split" if split else "unified").rows
        for palette in (Palette(known), Palette())
    ]
    wrongly, rightly = (re.sub(r"<span class=\"t-[a-z]+\">|</span>", "", str(rows)) for rows in shown)
    assert wrongly == rightly


def test_colours_are_packed_and_unpacked_and_what_is_none_is_plain() -> None:
    palette = Palette()
    made = palette.colours(b"a.py", CODE.encode())
    [packed] = palette.made.values()
    assert list(unpack(packed).edges) == list(made.edges)
    assert unpack(packed).kinds == made.kinds != b""
    for junk in (b"", b"junk", zlib.compress(b"12345678\xff"), zlib.compress(b"123"), packed[:-9]):
        assert unpack(junk) in {PLAIN, unpack(junk)}
        assert all(kind < 5 for kind in unpack(junk).kinds)


def test_a_page_has_so_much_time_for_colours_and_no_more() -> None:
    palette = Palette(_left=0.0)
    assert palette.colours(b"a.py", CODE.encode()) == PLAIN
    assert palette.made == {}


@pytest.fixture
async def shown(house: House) -> Json:
    return await house.propose(house.arguments({"path": "say.py", "content": CODE}))


async def propose(web: Web, house: House) -> Json:
    """As the web process does."""
    entry = REGISTRY.find("propose_file_import")
    assert isinstance(entry, ProposeEntry)
    sent = house.arguments({"path": "say.py", "content": CODE}, idempotency_key="to-be-coloured")
    return (await entry.call(sent, web.parts.ports(house.agent))).model_dump(mode="json")


async def kept(house: House) -> set[Key]:
    async with house.stage.app_db.bound(house.tenant) as tx:
        return {Key(*row) for row in await tx.execute(select(*list(coloured.c)[1:4]))}


async def test_what_a_page_had_to_colour_is_known_to_the_next_one(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    first = await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    assert await kept(house) == {key_of(b"say.py", CODE.encode())}
    card = await house.card(shown)
    palette = Palette(card.colours.packed)
    assert [palette.colours(file.path, file.new).kinds[:1] for file in card.files] == [b"\x01"]
    assert palette.made == {}
    assert "t-keyword" in first.text
    again = await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    assert html.unescape(again.text).count("t-keyword") == html.unescape(first.text).count("t-keyword")


async def test_colours_of_one_tenant_are_none_of_another(web: Web, house: House) -> None:
    other_house = await house.stage.house()
    files = {"path": "say.py", "content": CODE}
    one, other = await house.propose(house.arguments(files)), await other_house.propose(other_house.arguments(files))
    await web.http.get(f"/proposals/{one['proposal_id']}", headers=await web.browser(house.owner))
    assert (await house.card(one)).colours.packed
    assert (await other_house.card(other)).colours.packed == {}


async def test_a_proposal_is_coloured_before_anybody_looks(web: Web, house: House) -> None:
    shown = await propose(web, house)
    assert await kept(house) == set()
    await web.parts.colouring.next()
    assert set((await house.card(shown)).colours.packed) == {key_of(b"say.py", CODE.encode())}


async def test_what_cannot_be_coloured_ends_neither_the_work_nor_the_proposal(
    web: Web, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colouring, "files_of", None)
    shown = await propose(web, house)
    await web.parts.colouring.next()
    assert (await house.read(shown))["status"] == "pending"


async def test_only_so_many_wait_for_their_colours(house: House) -> None:
    waiting = Colouring(house.stage.app_db, house.stage.storage)
    for _ in range(colouring.WAITING_MOST + 1):
        waiting.soon(house.tenant, house.repository)


async def test_a_card_is_shown_where_the_database_takes_no_colours(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    async with house.stage.owner_db.directory() as tx:
        await tx.execute(text("REVOKE INSERT ON coloured FROM placet_app"))
    try:
        page = await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    finally:
        async with house.stage.owner_db.directory() as tx:
            await tx.execute(text("GRANT INSERT ON coloured TO placet_app"))
    assert (page.status_code, await kept(house)) == (200, set())
    assert "t-keyword" in page.text


async def test_colours_that_nobody_used_for_long_go_and_a_use_keeps_them(web: Web, house: House, shown: Json) -> None:
    browser = await web.browser(house.owner)
    old = await house.propose(house.arguments({"path": "old.py", "content": f"# old\n{CODE}"}))
    for one in (shown, old):
        await web.http.get(f"/proposals/{one['proposal_id']}", headers=browser)
    long_ago = func.clock_timestamp() - KEPT + timedelta(minutes=-1)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(coloured).values(used_at=long_ago))
    await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    assert await kept(house) == {key_of(b"say.py", CODE.encode())}
    async with house.stage.app_db.bound(house.tenant) as tx:
        used = await tx.scalar(select(coloured.c.used_at > func.clock_timestamp() - timedelta(minutes=5)))
    assert used

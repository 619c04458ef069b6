"""Every page with an attack in every field that anybody but us fills: 249 payloads, and each code point that hides."""

import re
from functools import cache
from html.parser import HTMLParser

import desk_views as views
import httpx
import pytest

from service.contract.hidden import label
from tests.payloads import PAYLOADS
from tests.poison import HIDDEN, poisoned

pytestmark = pytest.mark.anyio
# Nothing of anybody is on them, or names, addresses and sentences that are refused where they hide something.
SILENT = {"consent", "missing", "not-connected", "notifications", "sign-in", "sign-in-how"}


ALIKE = {
    f"card-{state}" for state in ("executing", "cancelled", "expired", "reader", "whole", "partly", "long", "hostile")
}
"""Cards that are made of nothing that is not on the others."""
PAGES = views.GALLERY.keys() - ALIKE


class Shape(HTMLParser):
    """Which elements a page has, each with the names of its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[str, ...]]] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, tuple(sorted(name for name, _ in attrs))))


@cache
def desk_of(text: str) -> views.CraftedDesk:
    return views.gallery(lambda view: poisoned(view, text) if text else view)


async def read(name: str, text: str = "") -> str:
    transport = httpx.ASGITransport(views.crafted_app(desk_of(text)))
    async with httpx.AsyncClient(transport=transport, base_url=views.ISSUER) as client:
        return (await client.get(views.GALLERY[name])).text


async def usual() -> set[tuple[str, tuple[str, ...]]]:
    """What pages are made of where nobody attacks."""
    return {one for name in views.GALLERY for one in Shape(await read(name)).found}


def test_there_are_two_hundred_payloads_and_all_code_points() -> None:
    assert len(set(PAYLOADS)) >= 200
    assert len(HIDDEN) == 4_287


async def test_no_payload_in_any_field_makes_an_element_or_an_attribute() -> None:
    known = await usual()
    for name in PAGES:
        page = await read(name, " ".join(PAYLOADS))
        assert Shape(page).found - known == set(), name
        assert "<script>ran()" not in page
        title = page.partition("<title>")[2].partition("</title>")[0]
        assert "<" not in title, name


async def test_each_hidden_code_point_in_every_field_is_a_mark_on_every_page() -> None:
    marks = {label(char) for char in HIDDEN}
    for name in PAGES - SILENT:
        page = await read(name, HIDDEN)
        shown = re.sub(r'(<input type="checkbox" name="acknowledged" value=")[^"]*', r"\1", page)  # sent, never shown
        assert set(HIDDEN) & set(shown) - set("\r") == set(), name
        assert marks <= set(re.findall(r"U\+[0-9A-F]{4,5} [^<\]]+", shown)), name

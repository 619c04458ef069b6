"""A card in a real Chromium: lines side by side, and files marked as seen, with a script and without."""

import shutil

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.windows import link, served, tab
from tests.stage import House, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium in the path")]


async def enter(page: Page, origin: str, house: House, proposal: str) -> None:
    await page.goto(f"{origin}/sign-in?link={await link(house)}")
    await page.get_by_role("button", name="Sign in").first.click()
    await page.wait_for_url(f"{origin}/")
    await page.goto(f"{origin}/proposals/{proposal}")


async def test_lines_lie_side_by_side_and_files_are_marked_as_seen(stage: Stage, chromium: Browser) -> None:
    house = await stage.house({"app.py": b"one = 1\ntwo = 2\nthree = 3\n"})
    changed = {"path": "app.py", "content": "one = 1\ntwo = 22\nthree = 3\n"}
    shown = await house.propose(house.arguments(changed, {"path": "new.txt", "content": "new\n"}))
    said: list[str] = []
    async with served(stage) as origin:
        page = await tab(chromium, said)
        await enter(page, origin, house, shown["proposal_id"])
        await with_a_script(page)
        plain = await chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
        other = await plain.new_page()
        await enter(other, origin, house, shown["proposal_id"])
        await without_one(other)
        await page.context.close()
        await plain.close()
    assert said == []


async def with_a_script(page: Page) -> None:
    file = page.locator("#file-1")
    await page.get_by_role("link", name="Side by side").click()
    old, new = file.locator(".half.del"), file.locator(".half.add")
    await expect(old.locator("mark")).to_have_text("2")
    await expect(new.locator("mark")).to_have_text("22")
    left, right = await old.bounding_box(), await new.bounding_box()
    assert left
    assert right
    assert (left["y"], left["x"] < right["x"]) == (right["y"], True)
    address = page.url
    await file.get_by_role("button", name="Mark as seen").click()
    await expect(page.locator("#marks")).to_have_text("1 of 2 files marked as seen")
    await expect(file.get_by_role("button", name="Seen")).to_be_focused()
    await expect(new).to_be_hidden()
    await file.get_by_text("Show the change again").click()
    await expect(new).to_be_visible()
    assert page.url == address


async def without_one(page: Page) -> None:
    file = page.locator("#file-1")
    await expect(page.locator("#marks")).to_have_text("1 of 2 files marked as seen")
    await expect(file.get_by_text("two = 22")).to_be_hidden()
    await file.get_by_role("button", name="Seen").click()
    await expect(page.locator("#marks")).to_have_text("0 of 2 files marked as seen")
    await expect(file.get_by_text("two = 22")).to_be_visible()
    await page.goto(f"{page.url.partition('#')[0]}&view=split")
    for address in (page.url, page.url.replace("&view=split", "")):  # it is remembered
        await page.goto(address)
        below = [await file.locator(one).bounding_box() for one in (".half.del", ".half.add")]
        assert below[0]
        assert below[1]
        assert below[0]["x"] == below[1]["x"]  # there is no room for two
        await expect(file.locator(".half.kept.old").first).to_be_hidden()
        assert await page.locator("html").evaluate("html => html.scrollWidth - html.clientWidth") == 0

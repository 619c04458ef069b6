"""The inbox in a real browser with scripts: keys move and open, and an open page hears of what changes."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn

from service.app import build_parts, serve
from service.commands.server import Server
from service.edge.guard import COOKIE
from service.settings import Settings
from tests.stage import House, Stage, Web

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(CHROMIUM is None, reason="no chromium in the path")]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
BOUND_MS = 30_000
WINDOWS = [(1280, 880, "light"), (390, 844, "dark")]


@dataclass
class Opened:
    """A signed-in browser on the running service."""

    origin: str
    house: House
    tab: Any

    async def propose(self, name: str) -> str:
        """A proposal of one file; gives its id."""
        shown = await self.house.propose(self.house.arguments({"path": name, "content": f"{name}\n"}, message=name))
        return str(shown["proposal_id"])

    async def focused(self) -> str:
        """What has the focus: the place of a line's link, or its text."""
        found: str = await self.tab.locator(":focus").evaluate("one => one.getAttribute('href') || one.innerText")
        return found


@pytest.fixture(params=WINDOWS, ids=["desk", "phone"])
async def opened(stage: Stage, house: House, request: pytest.FixtureRequest) -> AsyncIterator[Opened]:
    from playwright.async_api import async_playwright

    width, height, scheme = request.param
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://localhost:{listener.getsockname()[1]}"
    settings = Settings("", origin, stage.storage.root, bytes(range(32)), None)
    async with stage.waiter.running(), async_playwright() as playwright:
        parts = build_parts(settings, stage.app_db, stage.waiter)
        config = uvicorn.Config(serve(parts), ws="none", lifespan="off", log_config=None)
        server = Server(config, parts.streams.end)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        async with httpx.AsyncClient(base_url=origin) as http:
            cookie = (await Web(stage, http, parts).browser(house.owner))["cookie"].partition("=")[2]
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        window = await chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        await window.add_cookies(
            [{"name": COOKIE, "value": cookie, "url": origin.replace("http", "https"), "secure": True}]
        )
        tab = await window.new_page()
        tab.set_default_timeout(BOUND_MS)
        said: list[str] = []
        tab.on("pageerror", lambda error: said.append(str(error)))
        yield Opened(origin, house, tab)
        server.should_exit = True  # with the page open: the stop does not wait for it
        await asyncio.wait_for(running, BOUND_MS / 1000)
        await chromium.close()
        assert said == []


async def test_keys_move_open_and_show_themselves(opened: Opened) -> None:
    first, second = await opened.propose("a.txt"), await opened.propose("b.txt")
    tab = opened.tab
    await tab.goto(opened.origin)
    for key, expected in (("j", first), ("j", second), ("j", second), ("k", first)):
        await tab.keyboard.press(key)
        assert expected in await opened.focused()
    await tab.keyboard.press("?")
    assert await tab.get_by_role("dialog", name="Keys").is_visible()
    await tab.keyboard.press("Escape")
    await tab.keyboard.press("/")
    await tab.keyboard.type("jo?")
    assert await tab.get_by_role("searchbox").input_value() == "jo?"
    assert not await tab.get_by_role("dialog").is_visible()
    await tab.get_by_role("searchbox").blur()
    await tab.keyboard.press("j")
    async with tab.expect_navigation():
        await tab.keyboard.press("o")
    assert first in tab.url


async def test_on_a_card_keys_go_to_the_buttons_and_decide_nothing(opened: Opened) -> None:
    waits = await opened.propose("a.txt")
    tab = opened.tab
    await tab.goto(f"{opened.origin}/proposals/{waits}")
    for key, expected in (("a", "Approve"), ("d", "Decline")):
        await tab.keyboard.press(key)
        assert expected in await opened.focused()
    read = await opened.house.own.read(waits, 0)
    assert read["status"] == "pending"


async def test_keys_can_be_turned_off_and_stay_off(opened: Opened) -> None:
    await opened.propose("a.txt")
    tab = opened.tab
    await tab.goto(opened.origin)
    await tab.get_by_role("button", name="all keys").click()
    await tab.get_by_label("Use these keys in this browser").uncheck()
    await tab.get_by_role("button", name="Close").click()
    for _ in range(2):
        await tab.keyboard.press("j")
        assert await tab.locator("#inbox a:focus").count() == 0
        await tab.reload()


async def test_an_open_inbox_shows_what_comes_and_counts_it_in_the_title(opened: Opened) -> None:
    from playwright.async_api import expect

    tab = opened.tab
    await tab.goto(opened.origin)
    assert await tab.title() == "Inbox · Placet"
    await opened.propose("a.txt")
    await expect(tab).to_have_title("(1) Inbox · Placet", timeout=BOUND_MS)
    assert await tab.get_by_role("heading", name="One thing waits for you").is_visible()
    await tab.keyboard.press("j")
    assert "/proposals/" in await opened.focused()
    await opened.propose("b.txt")
    await expect(tab).to_have_title("(2) Inbox · Placet", timeout=BOUND_MS)
    assert "/proposals/" in await opened.focused()


async def test_an_open_card_says_that_it_changed_and_moves_nothing(opened: Opened) -> None:
    waits = await opened.propose("a.txt")
    tab = opened.tab
    await tab.goto(f"{opened.origin}/proposals/{waits}")
    before = await tab.get_by_role("button", name="Approve").bounding_box()
    shown = {"proposal_id": waits, "card_digest": await tab.locator("[name=card_digest]").input_value()}
    await opened.propose("b.txt")
    await tab.get_by_role("link", name="Inbox 2").wait_for()
    assert await tab.get_by_text("This has changed since you opened it.").count() == 0
    await opened.house.decide(shown, "decline")
    await tab.get_by_text("This has changed since you opened it.").wait_for()
    assert await tab.get_by_role("button", name="Approve").bounding_box() == before
    await tab.get_by_role("link", name="Show it.").click()
    await tab.get_by_text("Declined by").wait_for()

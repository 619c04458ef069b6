"""The owner's pages in a real browser without JavaScript, on a desk and on a phone, light and dark."""

import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import desk_views as views
import pytest
import uvicorn

from service.proposals.view import Verdicts

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium in the path")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def _id(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, name)


CARDS = {
    "everyday": views.CARD_VIEW,
    **views.STATES,
    "kinds": views.ALL_KINDS,
    "grave": views.GRAVE,
    "hostile": views.hostile_card(),
    "long": views.with_files(
        views.file_view(b"dist/" + b"deep/" * 40 + b"app.min.js", b"a=1;" * 25_000, b"a=1;" * 12_500 + b"b=2;" * 12_500)
    ),
}
PAGES = {
    "inbox": "/",
    "decided": "/?show=decided",
    "connections": "/connections",
    "repositories": "/repositories",
    "ledger": "/ledger?before=215",
    "notifications": "/settings/notifications",
    "missing": "/proposals/nothing",
    "parts": f"/proposals/{_id('everyday')}/parts",
    **{name: f"/asking/{name}" for name in views.ASKING},
    **{f"card-{name}": f"/proposals/{_id(name)}" for name in CARDS},
}


@pytest.fixture(scope="module")
def crafted() -> views.CraftedDesk:
    return views.CraftedDesk(cards={_id(name): replace(card, id=_id(name)) for name, card in CARDS.items()})


@pytest.fixture(scope="module")
def origin(crafted: views.CraftedDesk) -> Iterator[str]:
    """Where the pages are served."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(views.crafted_app(crafted), log_level="warning", ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://localhost:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module", params=[(1280, 880, "light"), (390, 844, "dark")], ids=["desk", "phone"])
def window(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A window in which no script runs."""
    width, height, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=False
    )
    yield context
    context.close()


@pytest.fixture
def tab(window: Any, origin: str) -> Iterator[Any]:
    """A tab of it on our pages; whatever its console says, such as a broken content policy, fails the test."""
    said: list[str] = []
    page = window.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.set_default_timeout(20_000)
    page.goto(f"{origin}/assets/placet.svg")
    yield page
    page.close()
    assert [text for text in said if "the server responded with a status of 4" not in text] == []


def go(tab: Any, path: str) -> None:
    tab.goto(tab.url.split("/", 3)[0] + "//" + tab.url.split("/", 3)[2] + path)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_breaks_no_policy(tab: Any, name: str) -> None:
    go(tab, PAGES[name])
    assert tab.locator("html").evaluate("html => html.scrollWidth - html.clientWidth") == 0


def test_approve_sends_nothing_before_every_warning_is_ticked(tab: Any, crafted: views.CraftedDesk) -> None:
    crafted.asked.clear()
    go(tab, PAGES["card-everyday"])
    approve = tab.get_by_role("button", name="Approve")
    approve.click()
    tab.get_by_label("Runs on your machines.").check()
    approve.click()
    assert crafted.asked == []
    tab.get_by_label("1 hidden character").check()
    with tab.expect_navigation():
        approve.click()
    names = tuple(note.name for note in views.WARNINGS)
    assert crafted.asked == [(views.TENANT, _id("everyday"), Verdicts("approve", views.DIGEST, frozenset(names)))]
    assert f"/proposals/{_id('everyday')}?" in tab.url


def test_decline_needs_no_tick_and_takes_a_note(tab: Any, crafted: views.CraftedDesk) -> None:
    crafted.asked.clear()
    go(tab, PAGES["card-everyday"])
    tab.get_by_text("Write a note for the agent").click()
    tab.get_by_label("Note for the agent").fill("Use the lock file.\nPlease.")
    with tab.expect_navigation():
        tab.get_by_role("button", name="Decline").click()
    said = Verdicts("decline", views.DIGEST, note="Use the lock file.\nPlease.")
    assert crafted.asked == [(views.TENANT, _id("everyday"), said)]


def test_the_decision_is_in_sight_from_the_first_line_to_the_last(tab: Any) -> None:
    go(tab, PAGES["card-kinds"])
    approve = tab.get_by_role("button", name="Approve")
    for file in ("file-1", "file-12"):
        tab.locator(f"#{file}").scroll_into_view_if_needed()
        box = approve.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= tab.viewport_size["height"]


def test_a_connection_is_revoked_in_two_steps(tab: Any, crafted: views.CraftedDesk) -> None:
    crafted.asked.clear()
    go(tab, PAGES["connections"])
    revoke = tab.get_by_role("button", name="Revoke claude-research")
    assert not revoke.is_visible()
    tab.get_by_text("Revoke…").first.click()
    with tab.expect_navigation():
        revoke.click()
    assert crafted.asked == [(views.TENANT, views.CONNECTIONS.lines[0].id, "revoke")]


def test_everything_is_reached_with_the_keyboard(tab: Any) -> None:
    go(tab, PAGES["card-everyday"])
    reached: list[str] = []
    while "Decline" not in reached and len(reached) < 40:
        tab.keyboard.press("Tab")
        reached.append(tab.locator(":focus").evaluate("one => one.innerText || one.name || one.tagName"))
    assert reached[0] == "Skip to the content"
    assert reached.count("acknowledged") == 2
    assert reached.index("acknowledged") < reached.index("Approve") < reached.index("Decline")

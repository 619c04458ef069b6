"""The owner's pages in a real browser without JavaScript, on a desk and on a phone, light and dark."""

import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import desk_views as views
import pytest
import uvicorn

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium in the path")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESK, PHONE = (1280, 880), (390, 844)


def _id(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, name)


CARDS = {
    "everyday": views.CARD_VIEW,
    **views.STATES,
    "kinds": views.ALL_KINDS,
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
    "missing": "/proposals/nothing",
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


@pytest.fixture
def open_page(browser: Any, origin: str) -> Iterator[Any]:
    """Open an address in a fresh window in which no script runs; whatever the console says fails the test."""
    said: list[str] = []
    contexts: list[Any] = []

    def open_in(path: str, size: tuple[int, int] = DESK, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, java_script_enabled=False
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(origin + path)
        return page

    yield open_in
    for context in contexts:
        context.close()
    assert [text for text in said if "404" not in text and "409" not in text] == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "light"), (DESK, "dark"), (PHONE, "dark")])
def test_a_page_fits_its_window_and_keeps_the_policy(
    open_page: Any, tmp_path: Path, name: str, size: tuple[int, int], scheme: str
) -> None:
    page = open_page(PAGES[name], size, scheme)
    wide = page.locator("html").evaluate("html => html.scrollWidth - html.clientWidth")
    page.screenshot(path=tmp_path / f"{name}-{size[0]}-{scheme}.png", full_page=name != "card-long")
    assert wide == 0

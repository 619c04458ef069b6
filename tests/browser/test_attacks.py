"""Every page in a real browser: nothing that somebody else wrote runs, and everybody can use it (WCAG 2.2 AA)."""

import shutil
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import desk_views as views
import pytest

from tests.browser.windows import gallery_at
from tests.payloads import PAYLOADS
from tests.poison import poisoned

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium in the path")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
ATTACKED = (
    *("inbox", "connections", "connection", "repository", "folder", "content", "history", "branches", "commit"),
    *("restore-points", "people", "ledger", "parts", "file", "card-everyday", "card-stale", "card-failed", "card-part"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def poison() -> Iterator[str]:
    """The gallery with every payload in every field."""
    with gallery_at(views.gallery(lambda view: poisoned(view, " ".join(PAYLOADS)))) as origin:
        yield origin


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with gallery_at(views.gallery()) as found:
        yield found


@pytest.mark.parametrize("name", ATTACKED)
def test_no_payload_in_any_field_runs_or_asks_the_policy(browser: Any, poison: str, name: str) -> None:
    page, told = browser.new_page(), []
    page.expose_function("ran", lambda: told.append("it ran"))
    page.on("dialog", lambda dialog: (told.append("a dialog"), dialog.dismiss()))
    page.on("console", lambda message: "Content Security Policy" in message.text and told.append(message.text))
    page.on("request", lambda request: request.url.startswith(poison) or told.append(request.url))
    page.goto(poison + views.GALLERY[name], wait_until="load")
    page.mouse.wheel(0, 4_000)
    assert page.evaluate("document.readyState") == "complete"
    assert page.url == poison + views.GALLERY[name]
    page.close()
    assert told == []


def violations(page: Any) -> Any:
    page.evaluate(AXE)
    return page.evaluate("rules => axe.run(document, rules)", RULES)["violations"]


def test_what_keeps_somebody_from_a_page_is_found(browser: Any) -> None:
    page = browser.new_page()
    page.set_content('<html lang="en"><title>x</title><main><img src="data:,"><input></main></html>')
    assert {one["id"] for one in violations(page)} >= {"image-alt", "label"}
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["desk", "phone"])
def test_nobody_is_kept_from_any_page(browser: Any, origin: str, width: int, scheme: Any) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
    )
    page, found = context.new_page(), {}
    for name, path in views.GALLERY.items():
        page.goto(origin + path, wait_until="load")
        for one in violations(page):
            found[name, one["id"], one["impact"]] = [node["html"][:200] for node in one["nodes"]][:3]
    context.close()
    assert found == {}

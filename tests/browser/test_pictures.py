"""The pictures of the pages under docs/pages. `make pictures` takes them anew; a page without a picture fails here."""

import shutil
from pathlib import Path
from typing import Any, Final

import desk_views as views
import pytest

from tests.browser.windows import gallery_at

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium in the path")
FOLDER: Final = Path(__file__).parents[2] / "docs" / "pages"
DESK: Final = (
    *("inbox", "card-everyday", "card-grave", "card-moved", "card-executed", "card-partly", "parts", "sign-in-how"),
    *("consent", "repositories", "repository", "folder", "content", "history", "branches", "commit", "restore-points"),
    *("connections", "connection", "people", "ledger", "notifications", "tenant"),
)
PHONE: Final = ("inbox", "card-everyday", "parts", "repository", "ledger", "people")
DARK: Final = ("inbox", "card-everyday")
PICTURES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    **{name: (name, {"viewport": {"width": 1280, "height": 880}}) for name in DESK},
    **{f"{name}-phone": (name, {"viewport": {"width": 390, "height": 844}}) for name in PHONE},
    **{f"{name}-dark": (name, {"viewport": {"width": 1280, "height": 880}, "color_scheme": "dark"}) for name in DARK},
    "card-everyday-es": ("card-everyday", {"viewport": {"width": 1280, "height": 880}, "locale": "es"}),
}


def test_every_picture_can_be_taken(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    folder = FOLDER if request.config.getoption("--pictures") else tmp_path
    names = PICTURES if request.config.getoption("--pictures") else ["inbox", "card-everyday-phone"]
    with gallery_at(views.gallery()) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for name in names:
            page_name, window = PICTURES[name]
            page = browser.new_page(**window)
            page.goto(origin + views.GALLERY[page_name], wait_until="load")
            page.screenshot(path=folder / f"{name}.png")
            page.close()
        browser.close()
    assert all((folder / f"{name}.png").stat().st_size > 5_000 for name in names)


def test_the_pictures_in_the_docs_are_of_these_pages() -> None:
    assert {one.stem for one in FOLDER.glob("*.png")} == PICTURES.keys()
    told = (FOLDER / "README.md").read_text()
    assert all(f"{name}.png" in told for name in PICTURES)

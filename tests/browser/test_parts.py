"""A part of a proposal in a real Chromium: ticked, looked at, approved, and only that lands."""

import shutil

import pytest
from playwright.async_api import Browser, expect

from service.proposals import decide
from tests.browser.windows import link, served, tab
from tests.stage import Stage, git

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium in the path")]


async def test_one_change_of_a_file_is_ticked_looked_at_and_approved(
    stage: Stage, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "WAIT_SECONDS", 0.01)  # no writer runs here but the test's own
    lines = "".join(f"line {number}\n" for number in range(1, 21))
    house = await stage.house({"app.py": lines.encode()})
    changed = lines.replace("line 2\n", "line two\n").replace("line 18\n", "line eighteen\n")
    files = ({"path": "app.py", "content": changed}, {"path": "new.txt", "content": "new\n"})
    shown = await house.propose(house.arguments(*files))
    said: list[str] = []
    async with served(stage) as origin:
        page = await tab(chromium, said)
        await page.goto(f"{origin}/sign-in?link={await link(house)}")
        await page.get_by_role("button", name="Sign in").first.click()
        await page.wait_for_url(f"{origin}/")
        await page.goto(f"{origin}/proposals/{shown['proposal_id']}")
        await page.get_by_role("link", name="Choose what to approve").click()
        await page.get_by_role("button", name="Show me what I ticked").click()
        await expect(page.get_by_text("Nothing was chosen.").first).to_be_visible()
        await page.get_by_label("Line 18 changed app.py").check()
        await page.get_by_role("button", name="Show me what I ticked").click()
        await expect(page.get_by_text("Part of another proposal.")).to_be_visible()
        await expect(page.get_by_text("Left out of app.py: 1 change, at line 2")).to_be_visible()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_text("The writer is at work.")).to_be_visible()
        made = {"proposal_id": page.url.rpartition("/")[2].partition("?")[0]}
        await page.context.close()
    assert await house.execute(made)
    assert git(house.path, "show", "main:app.py").decode() == lines.replace("line 18\n", "line eighteen\n")
    assert (await house.read(shown))["outcome"]["code"] == "partly_approved"
    assert [line for line in said if "status of 4" not in line] == []

"""Decisions in a real Chromium: a folded file is opened in place, changes are asked for, a passkey signs the commit."""

import re
import shutil

import pytest
from playwright.async_api import Browser, Page, expect

from service.edge.desk import card
from service.proposals import decide
from service.writer.verify import judge, read_commit, read_signers
from tests.browser.windows import link, served, tab
from tests.stage import House, Stage, git

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium in the path")]
SETTINGS = "/settings/sign-in"


@pytest.fixture(autouse=True)
def no_writer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """None runs here but the test's own."""
    monkeypatch.setattr(decide, "WAIT_SECONDS", 0.01)


async def enter(page: Page, origin: str, house: House) -> None:
    """Sign in with a link, as a person does."""
    await page.goto(f"{origin}/sign-in?link={await link(house)}")
    await page.get_by_role("button", name="Sign in").first.click()
    await page.wait_for_url(f"{origin}/")


async def test_a_passkey_signs_the_commit_itself_and_the_published_file_proves_it(
    stage: Stage, house: House, chromium: Browser
) -> None:
    said: list[str] = []
    shown = await house.propose()
    async with served(stage) as origin:
        page = await tab(chromium, said)
        await enter(page, origin, house)
        await page.goto(f"{origin}{SETTINGS}")
        await page.get_by_label("Name of the new passkey").fill("Laptop")
        await page.get_by_role("button", name="Add a passkey").click()
        await page.get_by_text("Rename or remove").first.click()
        await page.get_by_role("button", name="Sign my approvals with it").click()
        await expect(page.get_by_text("signs your approvals")).to_be_visible()
        await page.goto(f"{origin}/proposals/{shown['proposal_id']}")
        await page.get_by_role("button", name="Approve and sign").click()
        await expect(page.get_by_text("The writer is at work.")).to_be_visible()
        await page.context.close()
    assert await house.execute(shown)
    content = git(house.path, "cat-file", "commit", "main")
    found = judge(read_commit(content), read_signers(await house.signers()))
    assert (found.standing, found.by) == ("owner", house.owner.email)
    assert [line for line in said if "status of 4" not in line] == []


async def test_a_folded_file_is_opened_in_place_and_that_arms_the_button(
    stage: Stage, house: House, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card, "FILE_BYTES", 2_000)
    said: list[str] = []
    content = "".join(f"line {number}\n" for number in range(300))
    shown = await house.propose(house.arguments({"path": "long.txt", "content": content}))
    async with served(stage) as origin:
        page = await tab(chromium, said)
        await enter(page, origin, house)
        await page.goto(f"{origin}/proposals/{shown['proposal_id']}")
        yes = page.get_by_role("button", name="Approve")
        await expect(yes).to_be_disabled()
        await expect(page.get_by_text("1 file is not opened yet.")).to_be_visible()
        await page.get_by_role("link", name="Open this file").click()
        await expect(page.get_by_text("line 299", exact=True)).to_be_visible()
        await expect(yes).to_be_enabled()
        assert re.fullmatch(rf"{origin}/proposals/{shown['proposal_id']}", page.url)
        await yes.click()
        await expect(page.get_by_text("The writer is at work.")).to_be_visible()
        await page.context.close()
    assert await house.execute(shown)
    assert [line for line in said if "status of 4" not in line] == []
    assert git(house.path, "show", "main:long.txt").decode() == content


async def test_changes_are_asked_for_with_a_note_that_the_agent_reads(
    stage: Stage, house: House, chromium: Browser
) -> None:
    shown = await house.propose()
    async with served(stage) as origin:
        page = await tab(chromium, [])
        await enter(page, origin, house)
        await page.goto(f"{origin}/proposals/{shown['proposal_id']}")
        await page.get_by_text("Write a note for the agent").click()
        await page.get_by_label("Note for the agent").fill("Smaller, please.")
        await page.get_by_role("button", name="Ask for changes").click()
        await expect(page.get_by_text("Sent back for changes.", exact=True)).to_be_visible()
        await page.context.close()
    told = await house.read(shown)
    assert told["outcome"] == {"code": "changes_requested", "note": "Smaller, please."}
    assert told["next"]["arguments"] == {"repository_id": str(house.repository)}

"""How proposals end, as a person does it in a real Chromium, on a desk and on a phone."""

import re
import shutil
from dataclasses import dataclass

import pytest
from playwright.async_api import Browser, Page, expect
from sqlalchemy import func, text, update

from service.proposals import decide
from service.proposals.tables import proposal
from tests.browser.windows import link, served
from tests.stage import House, Stage, Web, git

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium in the path"),
    pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"]),
]


@pytest.fixture(autouse=True)
def no_writer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """None runs here but the test's own."""
    monkeypatch.setattr(decide, "WAIT_SECONDS", 0.01)


@dataclass
class Person:
    """An owner at a page."""

    house: House
    page: Page
    origin: str

    async def open(self, shown: dict[str, str]) -> None:
        await self.page.goto(f"{self.origin}/proposals/{shown['proposal_id']}")
        over = await self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0

    async def press(self, name: str) -> None:
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def sees(self, words: str) -> None:
        await expect(self.page.get_by_text(words, exact=False).first).to_be_visible()


async def enter(chromium: Browser, origin: str, house: House, width: int) -> Person:
    context = await chromium.new_context(viewport={"width": width, "height": 844})
    page = await context.new_page()
    page.set_default_timeout(20_000)
    await page.goto(f"{origin}/sign-in?link={await link(house)}")
    await page.get_by_role("button", name="Sign in").first.click()
    await page.wait_for_url(f"{origin}/")
    return Person(house, page, origin)


async def test_what_is_acknowledged_and_approved_is_executed_and_undone(
    stage: Stage, house: House, chromium: Browser, width: int
) -> None:
    files = house.arguments({"path": ".github/workflows/build.yml", "content": "on: push\n"})
    shown = await house.propose(files)
    async with served(stage) as origin:
        person = await enter(chromium, origin, house, width)
        await person.open(shown)
        await person.press("Approve")
        await person.sees("of 1 warning still to tick")
        await person.page.get_by_label("Runs code.").check()
        await person.press("Approve")
        await person.sees("The writer is at work.")
        assert await house.execute(shown)
        await person.open(shown)
        await person.sees("Done.")
        await person.press("Undo this…")
        await person.page.wait_for_url(re.compile(f"{origin}/proposals/(?!{shown['proposal_id']})"))
        undo = {"proposal_id": person.page.url.rsplit("/", 1)[1].partition("?")[0]}
        for box in await person.page.locator("input[name=acknowledged]").all():
            await box.check()
        await person.press("Approve")
        await person.sees("The writer is at work.")
        assert await house.execute(undo)
        await person.page.context.close()
    assert b".github" not in git(house.path, "ls-tree", "-r", "--name-only", "main")


async def test_what_is_declined_stale_or_expired_says_so_and_is_wanted_again(
    stage: Stage, house: House, chromium: Browser, width: int
) -> None:
    declined, stale, expired = [await house.propose() for _ in range(3)]
    async with served(stage) as origin:
        person = await enter(chromium, origin, house, width)
        await person.open(declined)
        await person.page.get_by_text("Write a note for the agent").click()
        await person.page.get_by_label("Note for the agent").fill("Not today.")
        await person.press("Decline")
        await person.sees("Declined.")
        await person.sees("Not today.")
        tree = git(house.path, "rev-parse", "main^{tree}").decode().strip()
        rival = git(house.path, "commit-tree", tree, "-p", "main", "-m", "Rival").decode().strip()
        git(house.path, "update-ref", "refs/heads/main", rival)
        await person.open(stale)
        await person.sees("The branch has moved by 1 commit since this was proposed.")
        await person.press("Approve")
        await person.sees("Stale: the branch moved first.")
        await person.press("Ask the agent to propose again")
        await person.sees("The agent was asked to propose it again:")
        async with stage.owner_db.bound(house.tenant) as tx:
            over = func.clock_timestamp() - text("interval '1 second'")
            await tx.execute(update(proposal).where(proposal.c.id == expired["proposal_id"]).values(expires_at=over))
        await person.open(expired)
        await person.sees("Expired.")
        assert await person.page.get_by_role("button", name="Approve").count() == 0
        await person.page.context.close()
    assert (await house.read(declined))["status"] == "declined"
    assert (await house.read(stale))["status"] == "stale"


async def test_a_connection_is_revoked_by_one_press_and_its_token_is_dead_at_once(
    stage: Stage, house: House, web: Web, chromium: Browser, width: int
) -> None:
    token = await web.token(house.agent)
    assert "result" in await web.call(token, "list_repositories", {})
    async with served(stage) as origin:
        person = await enter(chromium, origin, house, width)
        await person.page.goto(f"{origin}/connections/{house.agent.id}")
        await person.page.get_by_role("button", name="Revoke").click()
        await person.sees("revoked")
        await person.page.context.close()
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "list_repositories", "arguments": {}},
    }
    headers = {"authorization": f"Bearer {token}", "mcp-protocol-version": "2025-11-25"}
    assert (await web.http.post("/mcp", json=asked, headers=headers)).status_code == 401

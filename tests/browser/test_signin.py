"""A real Chromium with an authenticator of its own: a passkey is added, used to sign in, and asked for by the card."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, Page
from sqlalchemy import select, update

from service.grants.tables import session
from tests.browser.windows import link, served, tab
from tests.stage import House

pytestmark = pytest.mark.anyio
CHROMIUM = shutil.which("chromium")


async def destructive(house: House) -> dict[str, Any]:
    first = house.head()
    await house.land(await house.propose())
    words = {"repository_id": str(house.repository), "reason": "Because.", "branch": "main", "target": first}
    return await house.propose(words, tool="propose_reset")


async def grow_old(house: House) -> None:
    """Let it be long since any session of the owner was opened and proved."""
    from datetime import UTC, datetime

    past = datetime(2020, 1, 1, tzinfo=UTC)
    mine = update(session).where(session.c.person == house.owner.actor.id)
    async with house.stage.owner_db.directory() as tx:
        await tx.execute(mine.values(created_at=past))
        await tx.execute(mine.where(session.c.proved_at.is_not(None)).values(proved_at=past))


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on the path")
async def test_a_passkey_is_added_signs_in_and_is_asked_for_before_history_is_rewritten(
    house: House, chromium: Browser
) -> None:
    said: list[str] = []
    shown = await destructive(house)
    with anyio.fail_after(90):
        async with served(house.stage) as issuer:
            page = await tab(chromium, said)
            await page.goto(f"{issuer}/sign-in?link={await link(house)}")
            await page.get_by_role("button", name="Sign in").click()
            await page.wait_for_url(f"{issuer}/")  # nothing stands between a newcomer and the inbox
            await page.goto(f"{issuer}/settings/sign-in")
            await page.get_by_label("Name of the new passkey").fill("Test key")
            await page.get_by_role("button", name="Add a passkey").click()
            await page.get_by_role("heading", name="Test key").wait_for()
            assert await page.get_by_text("Sign my approvals with it").count() == 1

            await page.get_by_role("button", name="Sign out").click()
            await page.wait_for_url(f"{issuer}/sign-in")
            await page.get_by_role("button", name="Sign in with a passkey").click()
            await page.wait_for_url(f"{issuer}/")

            await grow_old(house)
            card = f"{issuer}/proposals/{shown['proposal_id']}?tenant={house.tenant}"
            await page.goto(card)
            await decide(page)
            await page.get_by_role("link", name="Show that it is you").click()
            await page.get_by_role("button", name="Use a passkey").click()
            await page.wait_for_url(card)
            assert (await house.read(shown))["status"] == "pending"
            await decide(page)
            await page.get_by_text("Approved by").wait_for()
            await page.context.close()
    assert (await house.read(shown))["status"] == "approved"
    async with house.stage.owner_db.directory() as tx:
        ways = select(session.c.way).where(session.c.person == house.owner.actor.id, session.c.ended_at.is_(None))
        assert (await tx.execute(ways)).scalars().all() == ["passkey"]
    assert [text for text in said if "status of 4" not in text] == []


async def decide(page: Page) -> None:
    for box in await page.locator('input[name="acknowledged"]').all():
        await box.check()
    await page.locator('input[name="confirmed"]').fill("main")
    await page.get_by_role("button", name="Approve").click()


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on the path")
async def test_without_a_script_the_other_ways_are_there(house: House, chromium: Browser, tmp_path: Path) -> None:
    async with served(house.stage) as issuer:
        context = await chromium.new_context(java_script_enabled=False)
        page = await context.new_page()
        page.set_default_timeout(20_000)
        await page.goto(f"{issuer}/sign-in")
        assert not await page.get_by_role("button", name="Sign in with a passkey").is_visible()
        await page.get_by_text("Other ways to sign in").click()
        await page.get_by_label("Password", exact=True).fill("something long enough")
        await page.goto(f"{issuer}/sign-in?link={await link(house)}")
        await page.get_by_role("button", name="Sign in").click()
        await page.goto(f"{issuer}/settings/sign-in")
        await page.get_by_text("Set a password…").click()
        await page.get_by_label("New password").fill("seven green bottles, hanging")
        await page.get_by_role("button", name="Set the password").click()
        await page.get_by_role("button", name="Set up an app").click()
        box = await page.locator(".qr svg").bounding_box()
        assert box
        assert box["width"] > 100
        await page.get_by_role("textbox", name="Code").wait_for()

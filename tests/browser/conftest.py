"""What the tests in a real browser share."""

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        await browser.close()

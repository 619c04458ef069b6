"""A real browser goes the whole way: sign in, consent, back to the client and on from there."""

import shutil
import socket
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
import uvicorn
from playwright.async_api import Page, async_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route

from tests.identity.house import House

pytestmark = pytest.mark.anyio
CHROMIUM = shutil.which("chromium")


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield await browser.new_page()
        await browser.close()


@pytest.fixture
async def client_port() -> AsyncIterator[int]:
    """A client that listens on loopback; it sends the browser on, as some do."""

    async def receive(request: Request) -> RedirectResponse:
        return RedirectResponse(f"/done?{request.url.query}")

    async def done(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("You can close this page.")

    listener = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/cb", receive), Route("/done", done)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listener])
        yield listener.getsockname()[1]
        server.should_exit = True


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on the path")
async def test_a_person_signs_in_consents_and_comes_back_to_the_client(
    served: House, page: Page, client_port: int
) -> None:
    home = await served.tenant(2)
    link = await served.link(await served.person(home))
    agent = await served.agent(f"http://127.0.0.1:{client_port}/cb")
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    with anyio.fail_after(60):
        await page.goto(agent.url(issuer=served.parts.issuer))
        assert "placet owner link EMAIL" in await page.text_content("main")
        await page.goto(f"{served.parts.issuer}/sign-in?link={link}")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Connect", exact=True).wait_for()
        await page.get_by_label("site / repo-1").check()
        await page.get_by_label("let agents propose here").nth(1).check()
        await page.get_by_role("button", name="Connect", exact=True).dblclick()
        await page.wait_for_url("**/done?*")
    query = parse_qs(urlsplit(page.url).query)
    assert query["iss"] == [served.parts.issuer]
    assert (await agent.redeem(query["code"][0])).status_code == 200
    assert refused == []

"""The whole web process before a real Chromium that has an authenticator, and a person who has a link."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from desk_views import CraftedDesk, crafted_app
from playwright.async_api import Browser, Page

from service.app import build_parts, serve
from service.identity.sessions import new_link
from service.settings import Settings
from tests.identity.serving import listening
from tests.stage import House, Stage

AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@asynccontextmanager
async def served(stage: Stage) -> AsyncIterator[str]:
    """The whole web process behind a real server; its origin."""
    async with listening() as (listener, run), stage.waiter.running():
        issuer = f"http://localhost:{listener.getsockname()[1]}"
        parts = build_parts(Settings("", issuer, stage.storage.root, b"s" * 32, None), stage.app_db, stage.waiter)
        run(serve(parts))
        yield issuer


@contextmanager
def gallery_at(crafted: CraftedDesk) -> Iterator[str]:
    """The pages of a crafted desk behind a real server; their origin."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(crafted_app(crafted), log_level="warning", ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://localhost:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


async def tab(chromium: Browser, said: list[str]) -> Page:
    """A page whose browser has an authenticator."""
    context = await chromium.new_context(viewport={"width": 1280, "height": 880})
    page = await context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: said.append(message.text))
    devtools = await context.new_cdp_session(page)
    await devtools.send("WebAuthn.enable")
    await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return page


async def link(house: House) -> str:
    async with house.stage.owner_db.directory() as tx:
        return await new_link(tx, house.owner.actor.id)

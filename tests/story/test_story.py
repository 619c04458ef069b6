"""The whole story as people live it: `placet up`, the official Python client, a browser, and stock git afterwards."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from playwright.async_api import Page, async_playwright

from service.contract.data import Json
from tests.official_client import Memory
from tests.stage import git

pytestmark = pytest.mark.anyio
CHROMIUM = shutil.which("chromium")
CALLBACK = "http://localhost:43117/callback"
PATIENCE_SECONDS = 120


@dataclass
class Running:
    """A server that `placet up` started, and its signed-in owner."""

    ready: Json
    cookie: str

    @property
    def repository(self) -> Path:
        return Path(self.ready["repository_path"])

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[httpx.AsyncClient]:
        """The owner's browser, less the browser."""
        async with httpx.AsyncClient(base_url=self.ready["issuer"], headers={"cookie": self.cookie}) as http:
            csrf = (await http.get("/api/v1/session")).json()["csrf"]
            http.headers["x-csrf-token"] = csrf
            yield http


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("story")
    command = [sys.executable, "-m", "service.cli", "up", "--json", "--port", "0", "--data-dir", str(folder / "data")]
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            link = parse_qs(urlsplit(ready["owner_url"]).query)["link"][0]
            answer = httpx.post(f"{ready['issuer']}/sign-in", data={"link": link})
            cookie = answer.headers["set-cookie"].partition(";")[0]
            yield Running(ready, cookie)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_SECONDS)


@dataclass
class Consent:
    """The person in front of the client: opens its page, reads it, says yes."""

    server: Running
    pages: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)

    async def browse(self, url: str) -> None:
        async with self.server.owner() as owner:
            page = await owner.get(url)
            self.pages.append(page.text)
            fields = {
                name: unescape(value)
                for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text)
            }
            sent = {**fields, "answer": "approve", "lifetime": "1d", "name": "Claude",
                    "repository": self.server.ready["repository_id"]}  # fmt: skip
            self.back.append((await owner.post("/oauth/authorize", data=sent)).headers["location"])

    async def callback(self) -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.back.pop()).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query["iss"])


@asynccontextmanager
async def agent(server: Running, mode: str) -> AsyncIterator[tuple[Client, Consent]]:
    """The official client, connected by OAuth from nothing but the URL."""
    consent = Consent(server)
    metadata = OAuthClientMetadata(client_name="The official client", redirect_uris=[CALLBACK],
                                   token_endpoint_auth_method="none")  # fmt: skip
    url = server.ready["mcp_url"]
    provider = OAuthClientProvider(url, metadata, Memory(), consent.browse, consent.callback)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=40) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client, consent


async def call(client: Client, tool: str, **arguments: Any) -> Json:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: Json = result.structured_content
    return found


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")])
async def test_the_official_client_reads_proposes_and_sees_it_executed(
    running: Running, mode: str, version: str
) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        async with agent(running, mode) as (client, consent), running.owner() as owner:
            (repository,) = (await call(client, "list_repositories"))["repositories"]
            assert client.session.protocol_version == version
            (page,) = consent.pages
            assert all(words in page for words in ("The official client", "localhost:43117", "storefront"))
            where = {"repository_id": repository["repository_id"]}
            readme = await call(client, "read_repository", **where, view="file", path="README.md")
            text = readme["file"]["content"] + f"\nBy {version}.\n"
            shown = await call(
                client, "propose_file_import", **where, branch="main", message=f"Sign as {version}", reason="To sign.",
                files=[{"path": "README.md", "content": text, "expected_blob_oid": readme["file"]["oid"]}],
                idempotency_key=f"key-{version}",
            )  # fmt: skip
            assert shown["status"] == "pending"
            own = f"/api/v1/proposals/{shown['proposal_id']}"
            assert (await owner.get(f"{own}/files/1")).json()["new"]["data"] == text
            decision = {"verdict": "approve", "card_digest": shown["card_digest"], "acknowledged": [], "note": ""}
            answer = await owner.post(f"{own}/decision", json=decision, timeout=20)
            assert (answer.status_code, answer.json()["status"]) == (200, "executed")
            ended = await call(client, "read_proposal", proposal_id=shown["proposal_id"], wait_seconds=20)
    assert (ended["status"], ended["outcome"]["commit"]) == ("executed", answer.json()["commit"])
    subject, author, committer = git(running.repository, "log", "-1", "--format=%s|%an|%ce", "main").decode().split("|")
    assert subject == f"Sign as {version}"
    assert author.startswith("Claude (conn-")
    assert committer.strip() == (await session(running))["email"]
    assert git(running.repository, "fsck", "--strict", "--no-dangling") == b""


async def session(running: Running) -> Json:
    async with running.owner() as owner:
        found: Json = (await owner.get("/api/v1/session")).json()
        return found


@pytest.fixture
def link(running: Running) -> str:
    """A fresh sign-in link, as the command gives it."""
    me = httpx.get(f"{running.ready['issuer']}/api/v1/session", headers={"cookie": running.cookie}).json()["email"]
    words = [sys.executable, "-m", "service.cli", "owner", "link", me, "--data-dir", running.ready["data_dir"]]
    (found,) = re.findall(r"http://\S+", subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return found


@pytest.fixture
async def page(link: str) -> AsyncIterator[Page]:
    """A browser that the owner is signed in to."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        context = await browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        await page.goto(link)
        await page.get_by_role("button", name="Sign in").click()
        yield page
        await browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path")
async def test_the_owner_opens_the_card_ticks_the_warning_approves_and_sees_executed(
    running: Running, page: Page
) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        async with agent(running, "2026-07-28") as (client, _):
            (repository,) = (await call(client, "list_repositories"))["repositories"]
            shown = await call(
                client, "propose_file_import", repository_id=repository["repository_id"], branch="main",
                message="Add a script", reason="It counts the crates.", idempotency_key="key-browser",
                files=[{"path": "scripts/count.sh", "content": "#!/bin/sh\nls | wc -l\n", "mode": "100755"}],
            )  # fmt: skip
        await page.goto(running.ready["issuer"])
        await page.locator(f"a[href*='{shown['proposal_id']}']").first.click()
        assert "It counts the crates." in await page.content()
        await page.get_by_role("button", name="Approve").click()
        assert await page.get_by_text("still to tick").count()
        await page.get_by_role("checkbox").check()
        await page.get_by_role("button", name="Approve").click()
        content = await page.content()
    head = git(running.repository, "rev-parse", "main").decode().strip()
    assert head in content
    assert shown["proposal_id"] in page.url
    assert git(running.repository, "show", "main:scripts/count.sh") == b"#!/bin/sh\nls | wc -l\n"

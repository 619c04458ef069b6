"""The owner's browser, without one: a session cookie, the pages' forms, and the owner API."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

COOKIE = "__Host-placet"
DECISION_SECONDS = 30.0  # the service itself waits 10 s for the writer


class Loopback(httpx.AsyncHTTPTransport):
    """Goes to 127.0.0.1 for `localhost`, as browsers do, also where no file says that this is what it means.

    Source: RFC 6761, section 6.3.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "localhost":
            request.url = request.url.copy_with(host="127.0.0.1")  # the Host header keeps the name
        return await super().handle_async_request(request)


@dataclass
class Owner:
    """A signed-in person. The cookie is `Secure`; on http://localhost browsers send it, httpx has to be told."""

    http: httpx.AsyncClient
    cookie: str = field(default="", repr=False)
    csrf: str = field(default="", repr=False)

    async def sign_in(self, link: str) -> str:
        """Use a one-time link up. Gives the address of the person."""
        secret = parse_qs(urlsplit(link).query)["link"][0]
        response = await self.http.post("/sign-in", data={"link": secret})
        cookies = SimpleCookie()
        for line in response.headers.get_list("set-cookie"):
            cookies.load(line)
        self.cookie = cookies[COOKIE].value
        session = (await self.get("/api/v1/session")).json()
        self.csrf = session["csrf"]
        return str(session["email"])

    async def get(self, url: str) -> httpx.Response:
        return await self.http.get(url, headers=self._headers())

    async def post_form(self, url: str, form: dict[str, str]) -> httpx.Response:
        return await self.http.post(url, data=form, headers=self._headers())

    async def decide(self, proposal: str, verdict: str, note: str = "") -> httpx.Response:
        """Look at the card and at each of its files, acknowledge every warning on it, decide."""
        card: dict[str, Any] = (await self.get(f"/api/v1/proposals/{proposal}")).json()
        for file in card["files"]:
            await self.get(f"/api/v1/proposals/{proposal}/files/{file['place']}")
        names = [warning["name"] for warning in card["warnings"]]
        return await self.click(proposal, verdict, card["card_digest"], names, note)

    async def click(
        self, proposal: str, verdict: str, digest: str, acknowledged: Sequence[str] = (), note: str = ""
    ) -> httpx.Response:
        """Decide on the card with this digest, as it was seen."""
        body = {"verdict": verdict, "card_digest": digest, "acknowledged": list(acknowledged), "note": note}
        url = f"/api/v1/proposals/{proposal}/decision"
        headers = {**self._headers(), "x-csrf-token": self.csrf}
        return await self.http.post(url, json=body, headers=headers, timeout=DECISION_SECONDS)

    def _headers(self) -> dict[str, str]:
        return {"cookie": f"{COOKIE}={self.cookie}"}

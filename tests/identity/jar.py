"""A browser that keeps cookies and says where its requests come from, as a real one does."""

import re
from dataclasses import dataclass, field
from typing import Any

import httpx

from service.edge.guard import COOKIE
from service.identity.sessions import find_session
from tests.identity.house import ISSUER, Browser, House

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"


@dataclass
class Jar:
    """One browser, signed in or not."""

    house: House
    origin: str = ISSUER
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""
    address: str = "127.0.0.1"

    async def get(self, url: str) -> httpx.Response:
        return await self._send("GET", url)

    async def form(self, url: str, **fields: Any) -> httpx.Response:
        return await self._send("POST", url, data={"csrf": self.csrf, **fields})

    async def json(self, url: str, body: Any = None) -> httpx.Response:
        return await self._send("POST", url, json=body if body is not None else {})

    async def _send(self, method: str, url: str, **body: Any) -> httpx.Response:
        held = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"cookie": held, "origin": self.origin, "user-agent": CHROME, "x-csrf-token": self.csrf}
        transport = httpx.ASGITransport(self.house.transport.app, client=(self.address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=ISSUER) as http:
            sent = {name: value for name, value in headers.items() if value and (method != "GET" or name != "origin")}
            answer = await http.request(method, url, headers=sent, **body)
        for line in answer.headers.get_list("set-cookie"):
            name, _, rest = line.partition("=")
            value = rest.partition(";")[0].strip('"')
            self.cookies.pop(name, None)
            if value and not re.search("Max-Age=0(;|$)", line):
                self.cookies[name] = value
        if self.session_secret:
            found = await find_session(self.house.parts.database, self.session_secret)
            self.csrf = found.csrf if found else ""
        return answer

    @property
    def session_secret(self) -> str:
        return self.cookies.get(COOKIE, "")

    async def session(self) -> Any:
        """The live session of this browser, or None."""
        return await find_session(self.house.parts.database, self.session_secret)


def jar(house: House, browser: Browser | None = None, **more: Any) -> Jar:
    """A new browser, or one that goes on with the cookie of another."""
    made = Jar(house, **more)
    if browser:
        made.cookies[COOKIE], made.csrf = browser.cookie, browser.csrf
    return made

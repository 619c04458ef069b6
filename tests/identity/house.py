"""A service in process with two tenants, browsers that are signed in, and agents that connect."""

import base64
import hashlib
import html
import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID, uuid4

import httpx
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.responses import Response

from service.edge import oauth, signin
from service.edge.errors import json_response
from service.edge.guard import COOKIE, Call, Endpoint, routes
from service.edge.parts import Parts
from service.grants.tables import membership, person, person_tenant, project, tenant
from service.identity.sessions import find_session, new_link, open_session
from service.kit.database import Database
from service.ledger.tables import ledger_entry
from service.repositories.tables import repository

ISSUER = "http://localhost:8000"
CALLBACK = "https://agent.example/callback"


async def answer_mcp(call: Call) -> Response:
    """What stands in for the MCP endpoint: who is calling, or the challenge."""
    if call.actor is None:
        metadata = f"{call.parts.issuer}/.well-known/oauth-protected-resource/mcp"
        challenge = f'Bearer resource_metadata="{metadata}", scope="repo:read repo:propose"'
        return json_response({"error": "invalid_token"}, 401, {"www-authenticate": challenge})
    return json_response({"connection": str(call.actor.id), "scopes": sorted(call.actor.scopes)})


def build(parts: Parts) -> Starlette:
    """The authorization server, signing in, and the stand-in for the MCP endpoint."""
    mcp = [Endpoint("POST", path, "mcp.call", answer_mcp) for path in ("/mcp", "/mcp/secure")]
    return Starlette(routes=list(routes((*oauth.ENDPOINTS, *signin.ENDPOINTS, *mcp), parts)))


@dataclass(frozen=True)
class Tenant:
    id: UUID
    name: str
    project: UUID
    repositories: tuple[UUID, ...]


@dataclass
class Browser:
    """A person's browser: it has one cookie, and it reads forms."""

    http: httpx.AsyncClient
    cookie: str = ""
    csrf: str = ""

    async def get(self, url: str) -> httpx.Response:
        return await self.http.get(url, headers=self.headers())

    async def post(self, url: str, form: dict[str, Any], **headers: str) -> httpx.Response:
        return await self.http.post(url, data={"csrf": self.csrf, **form}, headers={**self.headers(), **headers})

    def headers(self) -> dict[str, str]:
        return {"cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {}


def hidden(page: httpx.Response, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page.text)
    assert found, page.text
    return html.unescape(found[1])


def sent_back(response: httpx.Response) -> dict[str, str]:
    """The parameters of an authorization response."""
    assert response.status_code == 303, response.text
    return {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}


@dataclass
class Agent:
    """A registered client with one pair of PKCE values."""

    http: httpx.AsyncClient
    id: str
    redirect_uri: str
    secret: str | None = None
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    def url(self, issuer: str = ISSUER, **changes: Any) -> str:
        """The authorization request, with parameters changed; None leaves one out."""
        query = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect_uri,
            "scope": "repo:read repo:propose",
            "state": "s t&ate",
            "resource": f"{issuer}/mcp",
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            **changes,
        }
        present = {name: value for name, value in query.items() if value is not None}
        return f"{issuer}/oauth/authorize?{urlencode(present, doseq=True)}"

    async def ask(self, browser: Browser, **changes: Any) -> str:
        """Open the consent page and give its secret."""
        page = await browser.get(self.url(**changes))
        assert page.status_code == 200, page.text
        return hidden(page, "request")

    async def consent(self, browser: Browser, where: UUID, **changes: Any) -> dict[str, str]:
        """Ask, and let the person say yes to one repository."""
        return sent_back(await approve(browser, await self.ask(browser, **changes), where))

    async def post(self, path: str, form: dict[str, Any], **headers: Any) -> httpx.Response:
        proof = {"client_id": self.id} | ({"client_secret": self.secret} if self.secret else {})
        return await self.http.post(f"/oauth/{path}", data={**proof, **form}, headers=headers)

    async def redeem(self, code: str, **changes: Any) -> httpx.Response:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            **changes,
        }
        return await self.post("token", {name: value for name, value in form.items() if value is not None})

    async def refresh(self, token: str, **changes: Any) -> httpx.Response:
        return await self.post("token", {"grant_type": "refresh_token", "refresh_token": token, **changes})

    async def connect(self, browser: Browser, where: UUID, **changes: Any) -> dict[str, Any]:
        """The whole way to tokens."""
        response = await self.redeem((await self.consent(browser, where, **changes))["code"])
        assert response.status_code == 200, response.text
        tokens: dict[str, Any] = response.json()
        return tokens

    async def call(self, token: str) -> httpx.Response:
        return await self.http.post("/mcp", headers={"authorization": f"Bearer {token}"})


async def approve(browser: Browser, secret: str, *where: UUID, **changes: Any) -> httpx.Response:
    """Send the consent form with a yes."""
    form = {
        "request": secret,
        "answer": "approve",
        "name": "My agent",
        "lifetime": "30d",
        "repository": [str(one) for one in where],
        **changes,
    }
    return await browser.post("/oauth/authorize", form)


@dataclass
class House:
    """The service with what tests need beside it."""

    parts: Parts
    owner_db: Database
    http: httpx.AsyncClient
    transport: httpx.ASGITransport

    async def tenant(self, repositories: int = 1) -> Tenant:
        """A tenant with one project and its repositories."""
        made = Tenant(uuid4(), f"t-{uuid4().hex}", uuid4(), tuple(uuid4() for _ in range(repositories)))
        async with self.owner_db.bound(made.id) as tx:
            await tx.execute(tenant.insert().values(id=made.id, name=made.name))
            await tx.execute(project.insert().values(tenant=made.id, id=made.project, name="site"))
            for number, one in enumerate(made.repositories):
                row = {"tenant": made.id, "id": one, "project": made.project, "name": f"repo-{number}"}
                await tx.execute(repository.insert().values(row))
        return made

    async def person(self, *tenants: Tenant, role: str = "owner") -> UUID:
        """A person with this role in the project of each tenant."""
        made = uuid4()
        async with self.owner_db.directory() as tx:
            await tx.execute(person.insert().values(id=made, email=f"{made.hex}@example.org", name="Ada"))
            for one in tenants:
                await tx.execute(person_tenant.insert().values(person=made, tenant=one.id))
        for one in tenants:
            async with self.owner_db.bound(one.id) as tx:
                row = {"tenant": one.id, "id": uuid4(), "project": one.project, "person": made, "role": role}
                await tx.execute(membership.insert().values(row))
        return made

    async def link(self, who: UUID) -> str:
        async with self.owner_db.directory() as tx:
            return await new_link(tx, who)

    async def browser(self, who: UUID) -> Browser:
        """A browser in which this person is signed in."""
        cookie = await open_session(self.parts.database, await self.link(who))
        session = await find_session(self.parts.database, cookie)
        assert session
        return Browser(self.http, cookie, session.csrf)

    async def agent(self, redirect_uri: str = CALLBACK, method: str = "none", name: str = "An agent") -> Agent:
        """A client that registered itself."""
        metadata = {"redirect_uris": [redirect_uri], "token_endpoint_auth_method": method, "client_name": name}
        response = await self.http.post("/oauth/register", json=metadata)
        assert response.status_code == 201, response.text
        body = response.json()
        return Agent(self.http, body["client_id"], redirect_uri, body.get("client_secret"))

    async def change(self, where: UUID, statement: Any) -> int:
        """Change rows of a tenant as their owner; how many."""
        async with self.owner_db.bound(where) as tx:
            return (await tx.execute(statement)).rowcount

    async def rows(self, where: UUID, statement: Any) -> list[Any]:
        async with self.owner_db.bound(where) as tx:
            return list((await tx.execute(statement)).all())

    async def entries(self, where: UUID, subject: str) -> list[str]:
        """The kinds of the ledger entries about a thing, in order."""
        statement = select(ledger_entry.c.kind).where(ledger_entry.c.subject == subject).order_by(ledger_entry.c.seq)
        return [row.kind for row in await self.rows(where, statement)]

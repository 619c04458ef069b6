"""A tenant with one connection, and the service as an ASGI application over a real database."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import func, text
from starlette.applications import Starlette

from service.contract.operation import Operation
from service.contract.ports import Json, Ports, RepositoryFacts, Snapshot
from service.edge.guard import COOKIE, routes
from service.edge.mcp import ENDPOINTS
from service.edge.mcp.cursors import SignedCursors
from service.edge.parts import Parts
from service.grants.tables import connection, oauth_client, person, tenant
from service.identity.tables import access_token, session
from service.kit.actor import Actor
from service.kit.database import Database
from service.kit.errors import Code, Refusal
from service.kit.secrets import new_secret, secret_hash

ISSUER = "http://localhost:8000"
SECRET = bytes(range(32))
MODERN = "2026-07-28"


@dataclass
class World:
    """What the tools of a test see; `seen` is what reached them, `error` is raised by every call."""

    repositories: list[RepositoryFacts] = field(default_factory=list)
    seen: list[tuple[str, Any]] = field(default_factory=list)
    error: BaseException | None = None

    async def list(self, after: str, most: int) -> list[RepositoryFacts]:
        self.note("list", after)
        return [one for one in self.repositories if one.repository_id > after][:most]

    async def facts(self, repository_id: str) -> RepositoryFacts:
        self.note("facts", repository_id)
        for one in self.repositories:
            if one.repository_id == repository_id:
                return one
        raise Refusal(Code.NOT_FOUND, "There is no such repository.")

    async def open(self, repository_id: str) -> Snapshot:
        raise Refusal(Code.NOT_FOUND, f"There is no repository {repository_id}.")

    def note(self, what: str, value: object) -> None:
        self.seen.append((what, value))
        if self.error is not None:
            raise self.error


@dataclass
class Proposing:
    """Proposals that are only noted; `hold` makes a read wait until it is cancelled."""

    world: World
    answers: dict[str, Json] = field(default_factory=dict)
    hold: asyncio.Event | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def submit(self, operation: Operation[Any], request: Any, key: str, sent: Json) -> Json:
        self.world.note("submit", (operation.kind, request, key, sent))
        return proposal("1", status="pending", tool=operation.kind)

    async def read(self, proposal_id: str, wait_seconds: int) -> Json:
        self.world.note("read", (proposal_id, wait_seconds))
        if self.hold is not None:
            self.hold.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        if proposal_id not in self.answers:
            raise Refusal(Code.NOT_FOUND, "There is no such proposal.")
        return self.answers[proposal_id]

    async def list(self, *, repository_id: str | None, state: str | None, after: str, most: int) -> list[Json]:
        self.world.note("list", (repository_id, state, after, most))
        return [one for key, one in sorted(self.answers.items()) if key > after][:most]

    async def cancel(self, proposal_id: str) -> Json:
        self.world.note("cancel", proposal_id)
        return {**await self.read(proposal_id, 0), "status": "cancelled"}


def proposal(proposal_id: str, **changed: Any) -> Json:
    """A proposal as the port gives it."""
    return {
        "proposal_id": proposal_id,
        "status": "pending",
        "repository_id": "0" * 8,
        "tool": "propose_file_import",
        "reason": "Because.",
        "created_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-01-02T00:00:00Z",
        "card_digest": "0" * 64,
        "review_url": f"{ISSUER}/proposals/{proposal_id}",
        "pins": [],
        "branch_moved": False,
        "received": [],
        "headline": {"code": "files_change", "params": {}},
        **changed,
    }


@dataclass
class Tenant:
    """A tenant with a person, a client and a connection."""

    id: UUID
    person: UUID
    connection: UUID
    client: str


@dataclass
class Site:
    """The service with one tenant."""

    database: Database
    tenant: Tenant
    world: World
    proposals: Proposing
    parts: Parts
    app: Starlette

    async def token(self, scope: str = "repo:read repo:propose", *, seconds: int = 3600, resource: str = "") -> str:
        """A new access token of the connection."""
        secret = new_secret(self.tenant.id)
        async with self.database.bound(self.tenant.id) as tx:
            await tx.execute(
                access_token.insert().values(
                    tenant=self.tenant.id,
                    hash=secret_hash(secret),
                    connection=self.tenant.connection,
                    scope=scope,
                    resource=resource or self.parts.mcp_url,
                    family=uuid4(),
                    expires_at=func.clock_timestamp() + text(f"interval '{seconds} seconds'"),
                )
            )
        return secret

    async def cookie(self) -> str:
        """A browser session of the person."""
        secret = new_secret(self.tenant.id)
        async with self.database.directory() as tx:
            await tx.execute(
                session.insert().values(
                    id=uuid4(),
                    hash=secret_hash(secret),
                    csrf="csrf",
                    person=self.tenant.person,
                    tenant=self.tenant.id,
                    expires_at=func.clock_timestamp() + text("interval '1 hour'"),
                )
            )
        return f"{COOKIE}={secret}"

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ISSUER)


@pytest.fixture
async def site(owner_db: Database, app_db: Database) -> Site:
    made = await _tenant(owner_db)
    world = World()
    proposals = Proposing(world)
    parts = Parts(app_db, ISSUER, ports=_ports(world, proposals), desk=None)  # type: ignore[arg-type]
    return Site(owner_db, made, world, proposals, parts, Starlette(routes=routes(ENDPOINTS, parts)))


def _ports(world: World, proposals: Proposing) -> Callable[[Actor], Ports]:
    return lambda actor: Ports(actor, world, proposals, SignedCursors(SECRET, actor), asyncio.to_thread)


async def _tenant(database: Database) -> Tenant:
    made = Tenant(uuid4(), uuid4(), uuid4(), f"client-{uuid4().hex}")
    async with database.directory() as tx:
        await tx.execute(tenant.insert().values(id=made.id, name=made.id.hex))
        await tx.execute(person.insert().values(id=made.person, email=f"{made.id.hex}@example.org", name="Ada"))
        await tx.execute(
            oauth_client.insert().values(id=made.client, name="Claude", redirect_uris=[], auth_method="none")
        )
    async with database.bound(made.id) as tx:
        await tx.execute(
            connection.insert().values(
                tenant=made.id,
                id=made.connection,
                client=made.client,
                name="Claude",
                granted_by=made.person,
                scopes=["repo:read", "repo:propose"],
            )
        )
    return made

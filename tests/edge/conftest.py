"""The service over a real database and an empty repository, with every call of a port written down."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import httpx
import pytest
from starlette.applications import Starlette

from service.app import build_parts, serve
from service.contract.ports import Ports
from service.edge.parts import Parts
from service.kit.actor import Actor
from service.kit.database import Database
from service.settings import Settings
from tests.stage import House, Stage, Web

ISSUER = "http://localhost:8000"


@dataclass
class World:
    """What reached the ports; `error` is raised by every call of one."""

    seen: list[tuple[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self, port: Any) -> Any:
        return _Watched(self, port)


class _Watched:
    """A real port whose calls are noted before they are made."""

    def __init__(self, world: World, port: Any) -> None:
        self._world = world
        self._port = port

    def __getattr__(self, name: str) -> Any:
        async def noted(*arguments: Any, **named: Any) -> Any:
            self._world.seen.append((name, arguments or named))
            if self._world.error is not None:
                raise self._world.error
            if name == "read":
                self._world.reading.set()
            try:
                return await getattr(self._port, name)(*arguments, **named)
            except asyncio.CancelledError:
                self._world.cancelled.set()
                raise

        return noted


@dataclass
class Site:
    """The service with one tenant."""

    house: House
    world: World
    parts: Parts
    app: Starlette

    @property
    def database(self) -> Database:
        return self.house.stage.owner_db

    @property
    def tenant(self) -> UUID:
        return self.house.tenant

    async def token(self, scope: str = "repo:read repo:propose", *, seconds: int = 3600, resource: str = "") -> str:
        """A new access token of the connection."""
        async with self.http() as http:
            web = Web(self.house.stage, http, self.parts)
            return await web.token(self.house.agent, scope, seconds=seconds, resource=resource)

    async def cookie(self) -> str:
        """A browser session of the owner."""
        async with self.http() as http:
            return (await Web(self.house.stage, http, self.parts).browser(self.house.owner))["cookie"]

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ISSUER)


@pytest.fixture
async def site(stage: Stage) -> Site:
    house, world = await stage.house(None), World()
    settings = Settings("", ISSUER, stage.storage.root, bytes(range(32)), None)
    parts = build_parts(settings, stage.app_db, stage.waiter)

    def ports(actor: Actor) -> Ports:
        real = parts.ports(actor)
        return replace(real, repositories=world.watch(real.repositories), proposals=world.watch(real.proposals))

    watched = replace(parts, ports=ports)
    return Site(house, world, watched, serve(watched))

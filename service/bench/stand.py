"""A service to measure: web, embedded PostgreSQL and a writer as processes of their own, and its owner and an agent.

Web and database are started as `placet up` starts them. The writer is production's, or one of `service.bench.hand`.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

import httpx
from rich.console import Console
from sqlalchemy import insert, select, text, update

from service.bench.memory import children
from service.bench.projects import BRANCH, build, pack_refs
from service.grants.manage import add_repository, let_agents_propose
from service.grants.tables import connection, connection_repository, project, tenant
from service.kit.actor import system
from service.kit.database import Database
from service.repositories.placement import FIRST_SHARD, Storage
from service.scenario.agent import Agent
from service.scenario.owner import Loopback, Owner
from service.scenario.play import Hand, Here, writer_environment
from service.scenario.told import Told
from service.up.place import Place, UpRefused
from service.up.progress import Ready
from service.up.run import Up, Wanted
from service.worker import EXECUTORS
from service.writer.keys import stop_signing

Kind = Literal["ours", "plumbing", "naive"]
MANY = 1_000_000
REQUEST_SECONDS = 60.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Project:
    """A repository of the service that is measured."""

    id: str
    path: Path
    files: int


@dataclass(frozen=True)
class Proposed:
    """A proposal that waits for its owner. `sent` is what made it; sent again it is a replay."""

    id: str
    digest: str
    sent: dict[str, Any] = field(repr=False)


@dataclass
class Stand:
    """What the measures share. `database` acts as the owner of the tables."""

    ready: Ready
    place: Place
    database: Database
    owner: Owner
    agent: Agent

    @property
    def tenant(self) -> UUID:
        return UUID(str(self.ready.tenant))

    async def add(self, files: int, branches: Sequence[str] = (), more: Iterable[bytes] = ()) -> Project:
        """A repository of so many files, and what `more` adds, open to the agent; the branches start where main is."""
        repository, storage = uuid4(), Storage(self.place.repositories)
        path = storage.path(FIRST_SHARD, self.tenant, repository)
        await asyncio.to_thread(build, path, files, more)
        await asyncio.to_thread(pack_refs, path, branches)
        actor = system(self.tenant)
        async with self.database.bound(self.tenant) as tx:
            first = await tx.scalar(select(project.c.id))
            await add_repository(tx, actor, first, repository, f"project-{repository.hex[:8]}")
            await let_agents_propose(tx, actor, repository, on=True)
            mine = await tx.scalar(select(connection.c.id).where(connection.c.client == self.agent.client))
            reach = insert(connection_repository)
            await tx.execute(reach.values(tenant=self.tenant, connection=mine, repository=repository))
        return Project(str(repository), path, files)

    async def propose(self, where: Project, files: dict[str, str], branch: str = BRANCH) -> Proposed:
        """Propose these contents by path, as the agent."""
        sent = {
            "repository_id": where.id,
            "branch": branch.removeprefix("refs/heads/"),
            "message": "Change files",
            "reason": "To measure.",
            "files": [{"path": path, "content": content} for path, content in files.items()],
            "idempotency_key": f"bench-{uuid4()}",
        }
        return await self.propose_again(sent)

    async def propose_again(self, sent: dict[str, Any]) -> Proposed:
        """The same call, whether or not it was made before."""
        answer = await self.agent.call("propose_file_import", **sent)
        return Proposed(answer["proposal_id"], answer["card_digest"], sent)

    async def read(self, what: Proposed) -> None:
        """Have its files sent in full, as the owner: nothing else can be approved."""
        for place in range(1, len(what.sent["files"]) + 1):
            await self.owner.get(f"/api/v1/proposals/{what.id}/files/{place}")

    async def click(self, what: Proposed) -> dict[str, Any]:
        """Approve, as the owner. Gives the answer with its HTTP status as `http`."""
        response = await self.owner.click(what.id, "approve", what.digest)
        body: dict[str, Any] = response.json()
        return {**body.get("error", body), "http": response.status_code}

    async def hurry(self) -> None:
        """Make everything due that a killed writer had claimed; it would be in three seconds."""
        async with self.database.directory() as tx:
            await tx.execute(text("UPDATE work_queue SET due = clock_timestamp() WHERE kind = 'execute'"))

    @asynccontextmanager
    async def writer(self, kind: Kind, processes: int = 1) -> AsyncIterator[list[Hand]]:
        """Writer processes of one kind, with all their executors, for as long as the block lasts."""
        async with AsyncExitStack() as stack:
            environment, log = writer_environment(self.ready, self.place), self.place.log("writer")
            module, word = ("service.cli", "writer") if kind == "ours" else ("service.bench.hand", kind)
            hands = [Hand(environment, log, module) for _ in range(processes)]
            for hand in hands:
                stack.push_async_callback(hand.stop)
                await hand.start(word)
            async with asyncio.timeout(REQUEST_SECONDS):
                while any(len(children(hand.pid)) < EXECUTORS for hand in hands):  # noqa: ASYNC110  forks ring no bell
                    await asyncio.sleep(_LOOK_SECONDS)
            yield hands


def own_database_only() -> None:
    """Refuse to fill somebody's database. Raises UpRefused."""
    if os.environ.get("DATABASE_URL"):
        raise UpRefused("own_database_only", "A measure fills a database of its own: unset DATABASE_URL.")


@asynccontextmanager
async def stand(folder: Path) -> AsyncIterator[Stand]:
    """A fresh service in this folder, with its owner signed in and an agent connected.

    Raises:
        UpRefused: DATABASE_URL names a database, which is not to be measured in.
    """
    own_database_only()
    here = Here(Told(Console(file=sys.stderr)), asyncio.get_running_loop().create_future())
    server = Up(Wanted(folder, port=0, writer=False), here)
    running = asyncio.create_task(server.run())
    try:
        running.add_done_callback(here.did_not_start)
        async with _met(await here.where, Place(folder)) as met:
            yield met
    finally:
        server.stop()
        await asyncio.wait({running})


@asynccontextmanager
async def _met(ready: Ready, place: Place) -> AsyncIterator[Stand]:
    database = Database(ready.database_url, "placet_owner", size=2)
    try:
        async with httpx.AsyncClient(base_url=ready.issuer, timeout=REQUEST_SECONDS, transport=Loopback()) as http:
            owner, agent = Owner(http), Agent(http, ready.mcp_url)
            await owner.sign_in(str(ready.owner_url))
            await agent.connect(owner, str(ready.repository_id), "Claude")
            found = Stand(ready, place, database, owner, agent)
            async with database.bound(found.tenant) as tx:
                await tx.execute(update(tenant).where(tenant.c.id == found.tenant).values(pending_most=MANY))
                await stop_signing(tx, system(found.tenant))  # eight git processes cannot make the same commit signed
            yield found
    finally:
        await database.close()

"""A small world to act in: two tenants, each with people, a repository made by stock git, and a connection."""

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio.to_thread
import httpx
from sqlalchemy import func, select

from service.app import build_parts, serve
from service.contract.data import Json
from service.contract.ports import Ports
from service.edge.guard import COOKIE
from service.edge.mcp.cursors import SignedCursors
from service.edge.parts import Parts
from service.grants.manage import add_membership, add_project, add_repository, add_tenant, let_agents_propose
from service.grants.reach import ReachedRepositories
from service.grants.tables import connection, connection_repository, oauth_client, person, person_tenant
from service.identity.sessions import new_link, open_session
from service.identity.tables import access_token
from service.kit.actor import Actor, system
from service.kit.database import Database
from service.kit.sealed import Sealer
from service.kit.secrets import new_secret, secret_hash
from service.proposals.again import AskAgain
from service.proposals.conflicts import OwnConflicts
from service.proposals.decide import Decide, Decided, Decider, Verdicts
from service.proposals.desk.cards import OwnerCards
from service.proposals.dividing import Dividing
from service.proposals.execute import Execute
from service.proposals.own import OwnProposals
from service.proposals.planning import load_card
from service.proposals.reading import record_sent
from service.proposals.restore import ReachedRestorePoints
from service.proposals.scanning import check_secrets
from service.proposals.signing import Signing
from service.proposals.store import ProposalStore
from service.proposals.submit import Submit
from service.proposals.tables import proposal
from service.proposals.undo import Undo
from service.proposals.view import CardView
from service.proposals.waiting import Waiter
from service.repositories.bare import BareRepository
from service.repositories.placement import Storage
from service.settings import Settings
from service.tools.registry import ProposeEntry, discover
from service.writer.keys import create_key, owner_keys, public_keys
from service.writer.signature import PublicKey, allowed_signers
from service.writer.write import Step

FILES = {"README.md": b"# Orchard\n", "app.py": b"print('hello')\n", "win.txt": b"x\r\ny\r\nz\r\n"}
ISSUER = "http://localhost:8765"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Original"), ("EMAIL", "original@example.org"), ("DATE", "1700000000 +0000"))
    },
}
REGISTRY = discover()
SEALER = Sealer(b"k" * 32)
"""What the writer of these tests opens signing keys with."""


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run stock git in a folder."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=stdin, capture_output=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def make_repository(path: Path, files: Mapping[str, bytes] | None, executable: tuple[str, ...] = ()) -> None:
    """A bare repository as stock git makes it, with one commit on main, or none; git makes each kind once a process."""
    kind = (None if files is None else tuple(files.items()), executable)
    if kind not in _MADE:
        with tempfile.TemporaryDirectory(prefix="placet-made-") as folder:
            _make_by_git(Path(folder, "r.git"), files, executable)
            _MADE[kind] = _content_of(Path(folder, "r.git"))
    folders, contents = _MADE[kind]
    path.mkdir(parents=True, exist_ok=True)
    for name in folders:
        (path / name).mkdir()
    for name, content in contents.items():
        (path / name).write_bytes(content)


_MADE: dict[Any, tuple[list[str], dict[str, bytes]]] = {}
"""The folders and files of each kind of repository that was made."""


def _content_of(path: Path) -> tuple[list[str], dict[str, bytes]]:
    found = sorted(path.rglob("*"))
    folders = [str(one.relative_to(path)) for one in found if one.is_dir()]
    return folders, {str(one.relative_to(path)): one.read_bytes() for one in found if one.is_file()}


def _make_by_git(path: Path, files: Mapping[str, bytes] | None, executable: tuple[str, ...]) -> None:
    git(path.parent, "init", "-q", "--bare", "-b", "main", "--template=", str(path))
    if files is None:
        return
    lines = []
    for name, content in files.items():
        blob = git(path, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
        mode = "100755" if name in executable else "100644"
        lines.append(f"{mode} {blob}\t{name}")
    git(path, "update-index", "--index-info", stdin=("\n".join(lines) + "\n").encode())
    tree = git(path, "write-tree").decode().strip()
    commit = git(path, "commit-tree", tree, "-m", "First").decode().strip()
    git(path, "update-ref", "refs/heads/main", commit)
    (path / "index").unlink()


@dataclass
class House:
    """One tenant with its people, its repository and its connection."""

    tenant: UUID
    project: UUID
    repository: UUID
    path: Path
    agent: Actor
    owner: Decider
    stage: "Stage" = field(repr=False)

    @property
    def own(self) -> OwnProposals:
        return self.stage.own(self.agent)

    def head(self, branch: str = "main") -> str:
        found = git(self.path, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").decode().strip()
        return found or "0" * 40

    def content(self, path: str, revision: str = "main") -> bytes:
        return git(self.path, "cat-file", "blob", f"{revision}:{path}")

    def arguments(self, *files: Json, **more: Any) -> Json:
        """What an agent sends to propose_file_import."""
        return {
            "repository_id": str(self.repository),
            "branch": "main",
            "message": "Change files",
            "reason": "Because it was asked.",
            "files": list(files) or [{"path": "new.txt", "content": "new\n"}],
            **more,
        }

    async def propose(
        self,
        arguments: Json | None = None,
        key: str | None = None,
        agent: Actor | None = None,
        tool: str = "propose_file_import",
    ) -> Json:
        """Propose as the endpoint does: the raw arguments through the registry."""
        entry = REGISTRY.find(tool)
        assert isinstance(entry, ProposeEntry)
        sent = {**(arguments or self.arguments()), "idempotency_key": key or f"key-{uuid4()}"}
        answer = await entry.call(sent, self.stage.ports(agent or self.agent))
        return answer.model_dump(mode="json")

    async def call(self, tool: str, arguments: Json) -> Json:
        """Call a tool as the endpoint does."""
        entry = REGISTRY.find(tool)
        assert entry is not None
        return (await entry.call(arguments, self.stage.ports(self.agent))).model_dump(mode="json")

    async def undo(self, shown: Json) -> Json:
        """Propose, as the owner, what takes this back; as much of it as a decision needs."""
        made = await self.stage.undo(self.owner, UUID(shown["proposal_id"]))
        async with self.stage.app_db.bound(self.tenant) as tx:
            digest = await tx.scalar(select(proposal.c.digest).where(proposal.c.id == made))
        return {"proposal_id": str(made), "card_digest": digest}

    async def card(self, shown: Json) -> CardView:
        """What the owner's page is made of."""
        cards = self.stage.cards
        return await cards.read(self.owner.actor, UUID(shown["proposal_id"]))

    async def land(self, shown: Json) -> Decided:
        """Approve it and let a writer execute it."""
        await self.decide(shown)
        await self.execute(shown)
        return await self.decide(shown)

    async def read(self, shown: Json) -> Json:
        return await self.own.read(shown["proposal_id"], 0)

    async def decide(
        self, shown: Json, verdict: str = "approve", *, owner: Decider | None = None, read: bool = True, **said: Any
    ) -> Decided:
        """Decide as an owner who read the card, unless `read` is False, and acknowledged every warning; `decide` waits
        for no writer here.
        """
        async with self.stage.app_db.bound(self.tenant) as tx:
            card = await tx.scalar(select(proposal.c.card).where(proposal.c.id == UUID(shown["proposal_id"])))
        warnings = load_card(card).warnings if card else ()
        typed = frozenset(str(note.params["confirm"]) for note in warnings if "confirm" in note.params)
        names = frozenset(note.name for note in warnings)
        given = {"digest": shown["card_digest"], "acknowledged": names, "confirmed": typed, **said}
        who = owner or self.owner
        async with self.stage.app_db.bound(self.tenant) as tx:
            if card and who.actor.session and read:
                seen = (UUID(shown["proposal_id"]), who.actor.session, shown["card_digest"])
                await record_sent(tx, *seen, of=0, places=())
        return await self.stage.decide(who, UUID(shown["proposal_id"]), Verdicts(verdict, **given))  # type: ignore[arg-type]

    async def sign(self) -> PublicKey:
        """Have this tenant's commits signed from now on."""
        async with self.stage.owner_db.bound(self.tenant) as tx:
            return await create_key(tx, system(self.tenant), SEALER)

    async def signers(self) -> str:
        """The tenant's allowed-signers file as it is now."""
        async with self.stage.app_db.bound(self.tenant) as tx:
            return allowed_signers(await public_keys(tx), ISSUER, await owner_keys(tx))

    async def execute(self, shown: Json, step: Step = lambda _name: None, *, sealer: Sealer | None = SEALER) -> bool:
        """Let a writer execute it, here and now."""
        return await self.executor(step, sealer)(self.tenant, UUID(shown["proposal_id"]))

    def executor(self, step: Step = lambda _name: None, sealer: Sealer | None = SEALER) -> Execute:
        """A writer's own."""
        store = ProposalStore(self.stage.writer_db, self.stage.storage)
        return Execute(store, BareRepository, lambda _taken: None, step, sealer)


@dataclass
class Stage:
    """The databases and the storage on which houses are built."""

    owner_db: Database
    app_db: Database
    writer_db: Database
    storage: Storage

    def __post_init__(self) -> None:
        self.waiter = Waiter(self.app_db)
        self.submit = Submit(self.app_db, self.storage, "localhost")
        store = ProposalStore(self.app_db, self.storage)
        self.decide = Decide(store, BareRepository, anyio.to_thread.run_sync, _AtOnce(), check_secrets)
        self.signing = Signing(self.decide, ISSUER)
        self.again = AskAgain(self.app_db)
        self.undo = Undo(self.app_db, self.submit, REGISTRY.operations())
        self.divide = Dividing(self.app_db, self.storage, self.submit.planners, REGISTRY.operations())
        self.cards = OwnerCards(self.app_db, self.storage, self.decide, self.signing, self.undo, self.again)

    def own(self, actor: Actor) -> OwnProposals:
        operations = REGISTRY.operations()
        return OwnProposals(actor, self.app_db, self.storage, self.submit, self.waiter, operations, ISSUER)

    def ports(self, actor: Actor) -> Ports:
        return Ports(
            actor=actor,
            repositories=ReachedRepositories(actor, self.app_db, self.storage),
            proposals=self.own(actor),
            conflicts=OwnConflicts(actor, self.app_db, self.storage),
            restore_points=ReachedRestorePoints(actor, self.app_db),
            cursors=SignedCursors(b"s" * 32, actor),
            in_thread=anyio.to_thread.run_sync,
        )

    async def person(self, tenant: UUID, name: str = "Olive Owner") -> tuple[UUID, str]:
        who, email = uuid4(), f"{uuid4().hex[:12]}@example.org"
        async with self.owner_db.directory() as tx:
            await tx.execute(person.insert().values(id=who, email=email, name=name))
            await tx.execute(person_tenant.insert().values(person=who, tenant=tenant))
        return who, email

    async def house(self, files: Mapping[str, bytes] | None = FILES, executable: tuple[str, ...] = ()) -> House:
        """A tenant of its own with everything an agent needs to propose."""
        tenant, repository = uuid4(), uuid4()
        actor = system(tenant)
        async with self.owner_db.bound(tenant) as tx:
            await add_tenant(tx, actor, f"t-{tenant.hex[:10]}")
            project = await add_project(tx, actor, "orchard")
            await add_repository(tx, actor, project, repository, "storefront")
            await let_agents_propose(tx, actor, repository, on=True)
        who, email = await self.person(tenant)
        async with self.owner_db.bound(tenant) as tx:
            await add_membership(tx, actor, project, who, "owner")
            path = (await self.storage.place(tx, repository)).path
        make_repository(path, files, executable)
        owner = Decider(Actor("owner", tenant, who, email, session=uuid4()), "Olive Owner", email)
        agent = await self.connect(tenant, who, repository)
        return House(tenant, project, repository, path, agent, owner, self)

    async def connect(self, tenant: UUID, granter: UUID, repository: UUID, name: str = "Claude") -> Actor:
        """A live connection to the repository."""
        client, mine = f"client-{uuid4()}", uuid4()
        scopes = ["repo:read", "repo:propose"]
        async with self.owner_db.directory() as tx:
            await tx.execute(
                oauth_client.insert().values(
                    id=client, name=name, redirect_uris=["http://localhost/cb"], auth_method="none"
                )
            )
        async with self.owner_db.bound(tenant) as tx:
            await tx.execute(
                connection.insert().values(
                    tenant=tenant, id=mine, client=client, name=name, granted_by=granter, scopes=scopes
                )
            )
            await tx.execute(
                connection_repository.insert().values(tenant=tenant, connection=mine, repository=repository)
            )
        return Actor("agent", tenant, mine, name, frozenset(scopes))


class _AtOnce:
    """Waits for no writer: tests run the writer themselves."""

    def expecting(self, _proposal_id: str) -> AbstractContextManager["_AtOnce"]:
        return nullcontext(self)

    async def until(self, look: Callable[[], Awaitable[Any]], _seconds: float) -> Any:
        return await look()


@dataclass
class Web:
    """The whole web process, called in process, by an agent, a browser, or nobody."""

    stage: Stage
    http: httpx.AsyncClient
    parts: Parts

    async def token(
        self, agent: Actor, scope: str = "repo:read repo:propose", *, seconds: int = 3600, resource: str = ""
    ) -> str:
        """A new access token of a connection."""
        secret = new_secret(agent.tenant)
        async with self.stage.owner_db.bound(agent.tenant) as tx:
            await tx.execute(
                access_token.insert().values(
                    tenant=agent.tenant,
                    hash=secret_hash(secret),
                    connection=agent.id,
                    scope=scope,
                    resource=resource or self.parts.mcp_url,
                    family=uuid4(),
                    expires_at=func.clock_timestamp() + timedelta(seconds=seconds),
                )
            )
        return secret

    async def browser(self, owner: Decider) -> dict[str, str]:
        """The headers of a signed-in browser, its session's token among them."""
        async with self.stage.owner_db.directory() as tx:
            link = await new_link(tx, owner.actor.id)
        cookie = f"{COOKIE}={await open_session(self.stage.app_db, link)}"
        answer = await self.http.get("/api/v1/session", headers={"cookie": cookie})
        return {"cookie": cookie, "x-csrf-token": answer.json()["csrf"]}

    async def call(self, token: str, tool: str, arguments: Json) -> Json:
        """Call a tool as a client of 2025-11-25 does; the whole JSON-RPC answer."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {"authorization": f"Bearer {token}", "mcp-protocol-version": "2025-11-25"}
        answer = await self.http.post("/mcp", json=body, headers=headers)
        found: Json = answer.json()
        return found


@asynccontextmanager
async def open_web(stage: Stage) -> AsyncIterator[Web]:
    """The application as production builds it."""
    settings = Settings("", ISSUER, stage.storage.root, b"s" * 32, None)
    async with stage.waiter.running():
        parts = build_parts(settings, stage.app_db, stage.waiter)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(serve(parts)), base_url=ISSUER) as http:
            yield Web(stage, http, parts)

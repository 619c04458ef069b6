"""The story, from the first sign-in to the last commit."""

import asyncio
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from rich.console import Console
from sqlalchemy import update

from service.grants.tables import tenant
from service.kit.database import Database
from service.repositories.git import Call, run
from service.scenario.agent import Agent, NotAsExpected
from service.scenario.owner import Loopback, Owner
from service.scenario.told import Told
from service.up.place import Place
from service.up.progress import Ready
from service.up.run import Up, Wanted
from service.up.supervise import dying_with_us

GIT_SECONDS = 30.0
WAIT_SECONDS = 20
WRITER_STOP_SECONDS = 40.0
FORMAT = "--format=%h  author %an <%ae>%n         committer %cn <%ce>%n         %s"


@dataclass(frozen=True)
class Here:
    """Where the scenario's own server says that it is ready."""

    told: Told
    where: "asyncio.Future[Ready]"

    def say(self, sentence: str) -> None:
        self.told.aside(f"  {sentence}")

    def ready(self, ready: Ready) -> None:
        self.where.set_result(ready)

    def did_not_start(self, run: "asyncio.Task[None]") -> None:
        """Whoever waits for it to be ready hears why it will not be."""
        if not self.where.done():
            self.where.set_exception(run.exception() or RuntimeError("the server stopped before it was ready"))


@dataclass
class Hand:
    """A writer's process, to be started and killed at will; `module` is what it runs."""

    environment: dict[str, str]
    log: Path
    module: str = "service.scenario.hand"
    process: asyncio.subprocess.Process | None = None

    async def start(self, *words: str) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *dying_with_us(sys.executable, "-I", "-m", self.module, *words),
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id; 0 before it was started."""
        return self.process.pid if self.process else 0

    async def ended(self) -> int:
        """Its exit status; negative for a signal."""
        return await self.process.wait() if self.process else 0

    async def stop(self) -> None:
        if self.process and self.process.returncode is None:
            self.process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), WRITER_STOP_SECONDS)


@dataclass
class Story:
    """What the steps share."""

    told: Told
    ready: Ready
    owner: Owner
    agent: Agent
    hand: Hand

    @property
    def repository(self) -> str:
        return str(self.ready.repository_id)

    async def play(self) -> None:
        """Every step, in order."""
        await self._meet()
        base = await self._read()
        a, b = await self._propose(base)
        first = await self._decide(a, b)
        await self._lose_the_writer(first)
        await self._decide_again(a)
        await self._too_late()
        self._show_log()

    async def _meet(self) -> None:
        email = await self.owner.sign_in(str(self.ready.owner_url))
        self.told.line("the owner signs in with the link", email, right="@" in email)
        again = await self.owner.http.post("/sign-in", data={"link": str(self.ready.owner_url).partition("link=")[2]})
        self.told.line(
            "the same link again", str(again.status_code), right=again.status_code == httpx.codes.UNAUTHORIZED
        )
        scope = await self.agent.connect(self.owner, self.repository, "Scenario agent")
        self.told.line("an agent connects: register, consent, token", scope, right=scope == "repo:read repo:propose")

    async def _read(self) -> str:
        found = await self.agent.call("read_repository", repository_id=self.repository, view="file", path="README.md")
        text = str((found.get("file") or found).get("content", found))
        self.told.line("read README.md", _short(text), right="Storefront" in text)
        return self._head()

    async def _propose(self, base: str) -> tuple[str, str]:
        a = await self._ask("a", "docs/DELIVERY.md", "We deliver on Fridays.\n", "Say when we deliver")
        self.told.line("propose A", _status(a), right=a["status"] == "pending" and not a["replayed"])
        again = await self._ask("a", "docs/DELIVERY.md", "We deliver on Fridays.\n", "Say when we deliver")
        same = again["replayed"] and again["proposal_id"] == a["proposal_id"]
        self.told.line("the same again", f"{_status(again)}, replayed", right=bool(same))
        other = await self._ask("a", "docs/DELIVERY.md", "We deliver on Mondays.\n", "Say when we deliver")
        code = str(other.get("code"))
        self.told.line("same key, other body", code, right=code == "idempotency_key_reused_with_different_body")
        b = await self._ask("b", "docs/RETURNS.md", "Send it back within 30 days.\n", "Say how to return", base)
        self.told.line("propose B on the same base", _status(b), right=b["status"] == "pending")
        return str(a["proposal_id"]), str(b["proposal_id"])

    async def _decide(self, a: str, b: str) -> str:
        tried = await self.agent.http.post(
            f"/api/v1/proposals/{a}/decision",
            json={"verdict": "approve", "card_digest": "", "acknowledged": [], "note": ""},
            headers={"authorization": f"Bearer {self.agent.token}"},
        )
        denied = tried.status_code == httpx.codes.FORBIDDEN and _code(tried) == "agent_scope_denied"
        self.told.line("the agent decides A itself", f"{tried.status_code} {_code(tried)}", right=denied)
        await self.hand.start()
        done = await self.owner.decide(a, "approve")
        commit = str(done.json().get("commit"))
        executed = _is(done, httpx.codes.OK, "executed", replayed=False) and commit == self._head()
        self.told.line("the owner approves A", _said(done), right=executed)
        late = await self.owner.decide(b, "approve")
        stale = _is(late, httpx.codes.OK, "stale", replayed=False) and late.json().get("head") == commit
        self.told.line("the owner approves B", f"{_said(late)}, head {str(late.json().get('head'))[:12]}", right=stale)
        await self.hand.stop()
        return commit

    async def _lose_the_writer(self, base: str) -> None:
        b2 = await self._ask("b2", "docs/RETURNS.md", "Send it back within 30 days.\n", "Say how to return", base)
        self.told.line("propose B2 on the new head", _status(b2), right=b2["status"] == "pending")
        before = self._count()
        await self.hand.start("dies")
        lost = await self.owner.decide(str(b2["proposal_id"]), "approve")
        signal = await self.hand.ended()
        unknown = lost.status_code == httpx.codes.ACCEPTED and _code(lost) == "outcome_unknown"
        self.told.line("approve B2, the writer dies after Git", f"{lost.status_code} {_code(lost)}", right=unknown)
        commit = self._head()
        moved = signal < 0 and commit != base and self._count() == before + 1
        self.told.line("what Git has meanwhile", f"{commit[:12]}, one new commit", right=moved)
        await self.hand.start()
        again = await self.owner.decide(str(b2["proposal_id"]), "approve")
        once = _is(again, httpx.codes.OK, "executed", replayed=True) and again.json().get("commit") == commit
        self.told.line("the writer starts again; approve again", _said(again), right=once)
        self.told.line("no second commit", f"{self._count()} commits", right=self._count() == before + 1)

    async def _decide_again(self, a: str) -> None:
        again = await self.owner.decide(a, "approve")
        self.told.line("approve A again", _said(again), right=_is(again, httpx.codes.OK, "executed", replayed=True))
        read = await self.agent.call("read_proposal", proposal_id=a)
        commit = str((read.get("outcome") or {}).get("commit"))
        self.told.line("the agent reads A", f"{_status(read)} {commit[:12]}", right=read["status"] == "executed")

    async def _too_late(self) -> None:
        c = await self._ask("c", "docs/PRICES.md", "Prices may change.\n", "Say that prices change")
        no = await self.owner.decide(str(c["proposal_id"]), "decline", "Not needed.")
        self.told.line("decline C", _said(no), right=_is(no, httpx.codes.OK, "declined", replayed=False))
        late = await self.owner.decide(str(c["proposal_id"]), "approve")
        self.told.line("approve after decline", _said(late), right=_is_over(late, "declined"))
        await self._proposals_live(1)
        d = await self._ask("d", "docs/JOBS.md", "We look for pickers.\n", "Say that we look for people")
        ended = await self.agent.call("read_proposal", proposal_id=d["proposal_id"], wait_seconds=WAIT_SECONDS)
        self.told.line("D waits longer than it may", _status(ended), right=ended["status"] == "expired")
        late = await self.owner.decide(str(d["proposal_id"]), "approve")
        self.told.line("approve after expiry", _said(late), right=_is_over(late, "expired"))

    def _show_log(self) -> None:
        self.told.aside("\ngit log:")
        self.told.aside(self._git("log", FORMAT, "main"))
        authors = self._git("log", "--format=%ae %ce", "-2", "main").splitlines()
        right = all(line.startswith("conn-") and " conn-" not in line for line in authors)
        self.told.line("author is the connection, committer the owner", f"{len(authors)} commits", right=right)
        found = self._git("fsck", "--strict", "--no-dangling")
        self.told.line("git fsck --strict", found or "clean", right=not found)

    async def _ask(self, key: str, path: str, content: str, message: str, base: str | None = None) -> dict[str, Any]:
        return await self.agent.call(
            "propose_file_import",
            repository_id=self.repository,
            branch="main",
            message=message,
            reason="Customers ask for it every week.",
            files=[{"path": path, "content": content, "action": "create"}],
            idempotency_key=f"scenario-{key}",
            **({"expected_base_oid": base} if base else {}),
        )

    async def _proposals_live(self, seconds: int) -> None:
        """How long the tenant's next proposals wait; the operator's setting."""
        database = Database(self.ready.database_url, "placet_owner", size=1)
        tenant_id = UUID(str(self.ready.tenant))
        try:
            async with database.bound(tenant_id) as tx:
                await tx.execute(update(tenant).where(tenant.c.id == tenant_id).values(proposal_seconds=seconds))
        finally:
            await database.close()

    def _head(self) -> str:
        return self._git("rev-parse", "refs/heads/main")

    def _count(self) -> int:
        return int(self._git("rev-list", "--count", "refs/heads/main"))

    def _git(self, *arguments: str) -> str:
        return run(Call(Path(str(self.ready.repository_path)), arguments, GIT_SECONDS)).decode().strip()


async def play(console: Console) -> bool:
    """Play it on a server of its own in a fresh data directory. True when every line was as it must be."""
    told = Told(console)
    with tempfile.TemporaryDirectory(prefix="placet-scenario-") as folder:
        here = Here(told, asyncio.get_running_loop().create_future())
        server = Up(Wanted(Path(folder), port=0, writer=False), here)
        running = asyncio.create_task(server.run())
        try:
            running.add_done_callback(here.did_not_start)
            await _tell(told, await here.where, Place(Path(folder)))
        finally:
            server.stop()
            await asyncio.wait({running})
    console.print(f"\n{told.steps} steps, {'all as they must be' if told.right else 'not all as they must be'}.")
    return told.right


async def _tell(told: Told, ready: Ready, place: Place) -> None:
    hand = Hand(writer_environment(ready, place), place.log("writer"))
    async with httpx.AsyncClient(base_url=ready.issuer, timeout=WAIT_SECONDS + 10, transport=Loopback()) as http:
        story = Story(told, ready, Owner(http), Agent(http, ready.mcp_url), hand)
        try:
            await story.play()
        except (NotAsExpected, KeyError, httpx.HTTPError) as error:
            told.line("the story cannot go on", f"{type(error).__name__}: {error}", right=False)
        finally:
            await hand.stop()


def writer_environment(ready: Ready, place: Place) -> dict[str, str]:
    """What a writer of this server sees."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "DATABASE_URL": ready.database_url,
        "PLACET_ISSUER": ready.issuer,
        "PLACET_REPOSITORIES": str(place.repositories),
        "PLACET_SECRET_FILE": str(place.secret),
        **place.keys_settings(),
    }


def _is(response: httpx.Response, status: int, state: str, *, replayed: bool) -> bool:
    body = response.json()
    return response.status_code == status and body.get("status") == state and body.get("replayed") is replayed


def _is_over(response: httpx.Response, state: str) -> bool:
    return response.status_code == httpx.codes.CONFLICT and _error(response).get("status") == state


def _error(response: httpx.Response) -> dict[str, Any]:
    """The error of an owner API answer, or its body where there is none."""
    body: dict[str, Any] = response.json()
    found: dict[str, Any] = body.get("error", body)
    return found


def _code(response: httpx.Response) -> str:
    return str(_error(response).get("code"))


def _said(response: httpx.Response) -> str:
    """An answer of the owner API in a few words."""
    body = _error(response)
    words = [str(response.status_code), str(body.get("code", "")), str(body.get("status", ""))]
    words += ["replayed"] if body.get("replayed") else []
    words += [str(body["commit"])[:12]] if body.get("commit") else []
    return " ".join(word for word in words if word)


def _status(answer: dict[str, Any]) -> str:
    return str(answer.get("status", answer.get("code")))


def _short(text: str) -> str:
    return text.strip().splitlines()[0][:60]

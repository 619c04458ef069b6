"""PostgreSQL hangs, dies and loses answers: callers hear of it in time, and the key tells what had happened."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import httpx
import pytest

from service.contract.data import Json
from service.kit.errors import Code, Refusal
from service.kit.postgres import ADMIN, EmbeddedPostgres
from tests.faults.oracle import Answer, judge
from tests.faults.proxy import How, Proxy, proxy
from tests.faults.server import answers_again, hung, own_server, own_stage
from tests.faults.sizes import ALL, FORM, sampled
from tests.stage import House, Web, open_web

pytestmark = pytest.mark.anyio
ANSWER_SECONDS = 20  # the service gives up after 4 (kit.database.ANSWER_SECONDS); the rest is for a busy machine
ATTEMPTS_MOST = 5
CUT_COMMITS, KILLED_COMMITS = (8, 3) if FORM == "suite" else (ALL, ALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with own_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
async def link(server: EmbeddedPostgres) -> AsyncIterator[Proxy]:
    async with linked(server) as made:
        yield made


@asynccontextmanager
async def linked(server: EmbeddedPostgres) -> AsyncIterator[Proxy]:
    with TemporaryDirectory(prefix="placet-") as folder:  # a socket's path is short
        async with proxy(Path(folder), server.url(ADMIN)) as made:
            yield made


@pytest.fixture
async def own_house(server: EmbeddedPostgres, link: Proxy, tmp_path: Path) -> AsyncIterator[House]:
    """A house whose web and writer reach the database through the proxy."""
    async with own_stage(server.url(ADMIN), tmp_path, behind=link.url) as stage:
        yield await stage.house()


Routes = dict[str, Callable[[], Awaitable[httpx.Response]]]
Heard = dict[str, tuple[httpx.Response, float]]


async def every_route(web: Web, house: House, shown: Json) -> Routes:
    """What needs the database: tools of every kind, the owner's pages and API, tokens, readiness."""
    token, browser, http = await web.token(house.agent), await web.browser(house.owner), web.http
    agent = {"authorization": f"Bearer {token}", "mcp-protocol-version": "2025-11-25"}

    def call(tool: str, arguments: Json) -> Callable[[], Awaitable[httpx.Response]]:
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return lambda: http.post("/mcp", json=body, headers=agent)

    here, own = {"repository_id": str(house.repository)}, {"proposal_id": shown["proposal_id"]}
    pages = ("/", "/connections", "/repositories", "/ledger", f"/proposals/{own['proposal_id']}")
    answers = ("/api/v1/session", "/api/v1/proposals", f"/api/v1/proposals/{own['proposal_id']}")
    decision = {"verdict": "decline", "card_digest": shown["card_digest"], "acknowledged": [], "note": ""}
    form = {"grant_type": "refresh_token", "refresh_token": f"plt_{house.tenant}_x", "client_id": "x"}
    return {
        "propose": call("propose_file_import", {**house.arguments(), "idempotency_key": "a key of mine"}),
        "list_repositories": call("list_repositories", {}),
        "read_repository": call("read_repository", {**here, "view": "tree"}),
        "search_code": call("search_code", {**here, "query": "hello"}),
        "list_proposals": call("list_proposals", {}),
        "read_proposal": call("read_proposal", {**own, "wait_seconds": 25}),
        "cancel_proposal": call("cancel_proposal", own),
        **{path: lambda path=path: http.get(path, headers=browser) for path in (*pages, *answers)},  # type: ignore[misc]
        "decision": lambda: http.post(f"{answers[-1]}/decision", json=decision, headers=browser),
        "token": lambda: http.post("/oauth/token", data=form),
        "readyz": lambda: http.get("/readyz"),
    }


async def ask(routes: Routes) -> Heard:
    """All routes at once: the answer of each, and after how many seconds it came."""

    async def one(call: Callable[[], Awaitable[httpx.Response]]) -> tuple[httpx.Response, float]:
        began = time.monotonic()
        return await call(), time.monotonic() - began

    return dict(zip(routes, await asyncio.gather(*(one(call) for call in routes.values())), strict=True))


async def test_while_the_database_hangs_every_route_says_so_and_then_goes_on(
    own_house: House, server: EmbeddedPostgres, record_property: Callable[..., None]
) -> None:
    root, url = own_house.stage.storage.root, server.url(ADMIN)
    async with AsyncExitStack() as stack:
        connected = await stack.enter_async_context(open_web(own_house.stage))
        fresh = await stack.enter_async_context(open_web(await stack.enter_async_context(own_stage(url, root))))
        shown = await own_house.propose()
        asked = [await every_route(one, own_house, shown) for one in (connected, fresh)]
        await fresh.stage.app_db.close()  # connects anew
        # The first COMMIT identifies the caller.
        stalled, halfway = zip(*[await _halfway(stack, server, own_house, at) for at in (2, 3)], strict=True)
        with hung(server):
            heard = [*await asyncio.gather(*(ask(routes) for routes in asked), *halfway)]
        slow = {name: seconds for one in heard for name, (_, seconds) in one.items() if seconds > ANSWER_SECONDS}
        assert slow == {}
        said = {name: answer.status_code for one in heard[:2] for name, (answer, _) in one.items()}
        assert {name: status for name, status in said.items() if status != 503} == {}
        assert ["unavailable" in one["propose"][0].text for one in heard[2:]] == [True, True]
        record_property("slowest answer, s", round(max(seconds for one in heard for _, seconds in one.values()), 2))
        await answers_again(own_house.stage.app_db)
        late = await ask({"propose": asked[0]["propose"]})  # the third COMMIT, still stalled, holds locks
        assert late["propose"][1] < ANSWER_SECONDS
        for link in stalled:
            link.arm(0, "before")
        for routes in asked:
            routes.pop("read_proposal")  # it waits for the end
            assert {answer.status_code for answer, _ in (await ask(routes)).values()} <= {200, 401, 409}


async def _halfway(
    stack: AsyncExitStack, server: EmbeddedPostgres, house: House, at: int
) -> "tuple[Proxy, asyncio.Task[Heard]]":
    """A call for which the database hangs already, from its COMMIT with this number on."""
    link = await stack.enter_async_context(linked(server))
    stage = own_stage(server.url(ADMIN), house.stage.storage.root, behind=link.url)
    web = await stack.enter_async_context(open_web(await stack.enter_async_context(stage)))
    await answers_again(web.stage.app_db)
    call = (await every_route(web, house, {"proposal_id": "", "card_digest": ""}))["propose"]
    link.arm(at, "stalled")
    asked = asyncio.create_task(ask({"propose": call}))
    async with asyncio.timeout(ANSWER_SECONDS):
        await link.strikes.wait()
    return link, asked


async def test_an_answer_lost_around_any_commit_of_a_life_is_found_again_by_its_key(
    own_house: House, link: Proxy, record_property: Callable[..., None]
) -> None:
    link.arm(0, "before")
    await live(own_house, "undisturbed")
    points = [(at, how) for at in sampled(link.commits, CUT_COMMITS) for how in _ways(at)]
    answers: list[Answer] = []
    for at, how in points:
        link.arm(at, how)
        answers += await live(own_house, f"{how} the commit {at}")
        assert link.strikes.is_set()
    record_property("commits cut", len(points))
    link.arm(0, "before")
    assert await judge(own_house.stage.owner_db, own_house.stage.storage, own_house.tenant, answers) == []


async def test_a_connection_on_which_the_server_has_said_farewell_is_known_to_be_broken(
    own_house: House, link: Proxy
) -> None:
    await own_house.propose()
    await link.dismiss()
    assert await repeated(own_house.propose, _nothing)


def _ways(at: int) -> tuple[How, ...]:
    """Before and after each commit; in the ordinary tests by turns."""
    ways: tuple[How, ...] = ("before", "after")
    return (ways[at % 2],) if FORM == "suite" else ways


async def test_a_server_killed_at_a_commit_and_started_again_has_lost_and_doubled_nothing(
    own_house: House, link: Proxy, server: EmbeddedPostgres, record_property: Callable[..., None]
) -> None:
    link.arm(0, "before")
    await live(own_house, "undisturbed")
    answers: list[Answer] = []
    slowest = 0.0
    for number, at in enumerate(sampled(link.commits, KILLED_COMMITS)):
        down: list[float] = []

        def blow(down: list[float] = down) -> None:
            down.append(time.monotonic())
            os.kill(server.pid, signal.SIGKILL)

        async def again(down: list[float] = down) -> None:
            if down:
                server.start_again()
                await answers_again(own_house.stage.owner_db)
                down.clear()

        link.arm(at, "after" if number % 2 else "before", blow)
        began = time.monotonic()
        answers += await live(own_house, f"killed at the commit {at}", again)
        slowest = max(slowest, time.monotonic() - began)
        assert link.strikes.is_set()
    record_property("longest life with a restart of the server, s", round(slowest, 2))
    assert await judge(own_house.stage.owner_db, own_house.stage.storage, own_house.tenant, answers) == []


async def _nothing() -> None:
    """Nothing has to be mended before a call is repeated."""


async def live(house: House, name: str, mend: Callable[[], Awaitable[None]] = _nothing) -> list[Answer]:
    """One proposal from its submission to its end, each caller repeating until it is answered."""
    changed = house.arguments({"path": f"{name}.txt", "content": f"{name}\n"})
    shown = await repeated(lambda: house.propose(changed, key=name), mend)
    again = await repeated(lambda: house.propose(changed, key=name), mend)
    assert (again["proposal_id"], again["replayed"]) == (shown["proposal_id"], True)
    approved = await repeated(lambda: house.decide(shown), mend)
    await repeated(lambda: house.execute(shown), mend)
    done = await repeated(lambda: house.decide(shown), mend)
    assert (done.state, done.replayed) == ("executed", True)
    own = UUID(shown["proposal_id"])
    return [Answer(own, "pending"), Answer(own, approved.state), Answer(own, done.state, done.outcome["commit"])]


async def repeated(call: Callable[[], Awaitable[Any]], mend: Callable[[], Awaitable[None]]) -> Any:
    """The answer of a call, made again while the service says that it is not available."""
    for _ in range(ATTEMPTS_MOST):
        try:
            return await call()
        except Refusal as refusal:
            assert refusal.code is Code.UNAVAILABLE, refusal.body()  # noqa: PT017  the call may also succeed
            await mend()
    raise AssertionError("it was never answered")

"""kill -9 of web, writer and PostgreSQL at random moments while agents propose and owners decide, retrying by key."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import func, select

from service.contract.data import Json
from service.grants.tables import connection
from service.kit.actor import Actor
from service.proposals.tables import proposal
from tests.faults.oracle import Answer, judge
from tests.faults.server import answers_again
from tests.faults.sizes import SIZES
from tests.faults.trio import VICTIMS, Trio, trio
from tests.stage import House, Web

pytestmark = pytest.mark.anyio
SEED = int(os.environ.get("PLACET_SEED", "1"))
HOUSES, HANDS = 3, 2  # of each house, so that two meet on one branch
PAUSE_SECONDS_MOST = 0.2
STEP_SECONDS = 40  # a caller who repeats is answered by then
REST_SECONDS = 30
RETRY_SECONDS = 0.05
WAITING = ("approved", "executing")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with trio(tmp_path_factory.mktemp("service")) as running:
        yield running


@contextmanager
def telling(service: Trio) -> Iterator[None]:
    """What the processes said last stands in the report of a failure."""
    try:
        yield
    except BaseException as error:
        error.add_note(service.last_words())
        raise


@dataclass
class Hand:
    """An agent and an owner who work off one proposal after the other, and note each answer they got."""

    name: str
    house: House
    agent: Actor
    token: str
    browser: dict[str, str]
    http: httpx.AsyncClient
    chance: Random
    keys: int = 0
    answers: list[Answer] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0

    async def work(self, over: asyncio.Event) -> None:
        while not over.is_set():
            self.keys += 1
            shown = await self._propose(f"{self.name} {self.keys:06}")
            self.answers.append(Answer(UUID(shown["proposal_id"]), "pending"))
            verdict = self.chance.choices(("approve", "decline", "cancel"), (17, 2, 1))[0]
            await (self._cancel(shown) if verdict == "cancel" else self._decide(shown, verdict))

    async def _propose(self, key: str) -> Json:
        file = {"path": f"{key}.txt".replace(" ", "-"), "content": f"{key}\n"}
        sent = {**self.house.arguments(file), "idempotency_key": key}
        return await self._answered(lambda: self._tool("propose_file_import", sent))

    async def _cancel(self, shown: Json) -> None:
        told = await self._answered(lambda: self._tool("cancel_proposal", {"proposal_id": shown["proposal_id"]}))
        self.answers.append(Answer(UUID(told["proposal_id"]), told["status"]))

    async def _decide(self, shown: Json, verdict: str) -> None:
        own = f"/api/v1/proposals/{shown['proposal_id']}"
        await self._answered(lambda: self.http.get(f"{own}/files/1", headers=self.browser))
        url = f"{own}/decision"
        sent = {"verdict": verdict, "card_digest": shown["card_digest"], "acknowledged": [], "note": ""}
        told = await self._answered(lambda: self.http.post(url, json=sent, headers=self.browser))
        self.answers.append(Answer(UUID(told["proposal_id"]), told["status"], told["commit"]))

    def _tool(self, name: str, arguments: Json) -> Awaitable[httpx.Response]:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"authorization": f"Bearer {self.token}", "mcp-protocol-version": "2025-11-25"}
        return self.http.post("/mcp", json=body, headers=headers)

    async def _answered(self, call: Callable[[], Awaitable[httpx.Response]]) -> Json:
        """Make the call again until it has been answered; whatever else is said than "later" is an error."""
        last, began = None, time.monotonic()
        for _ in range(int(STEP_SECONDS / RETRY_SECONDS)):
            last = await self._sent(call)
            if (told := self._read(last)) is not None:
                self.longest = max(self.longest, time.monotonic() - began)
                return told
            await asyncio.sleep(RETRY_SECONDS)
        raise AssertionError(f"never answered, but for {last and last.text}")

    async def _sent(self, call: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response | None:
        try:
            return await call()
        except httpx.TransportError as error:
            self.refused[type(error).__name__] += 1
            return None

    def _read(self, answer: httpx.Response | None) -> Json | None:
        if answer is None:
            return None
        told: Json = answer.json()
        result = told.get("result", told)
        failed = result.get("_meta", {}).get("placet/error", {}) if result.get("isError") else told.get("error", {})
        if answer.status_code in {202, 503} or failed.get("code") == "unavailable":
            self.refused[str(answer.status_code)] += 1
            return None
        assert answer.status_code == 200, answer.text
        assert not failed, failed
        return dict(result.get("structuredContent", result))


async def _hands(stack: AsyncExitStack, service: Trio) -> list[Hand]:
    stage = await stack.enter_async_context(service.stage())
    http = await stack.enter_async_context(service.http(STEP_SECONDS))
    hands = []
    for number in range(HOUSES):
        house = await stage.house()
        for hand in range(HANDS):
            agent = await stage.connect(house.tenant, house.owner.actor.id, house.repository)
            visitor = Web(stage, http, Resource(f"{service.issuer}/mcp"))  # type: ignore[arg-type]
            token, browser = await visitor.token(agent), await visitor.browser(house.owner)
            chance = Random(f"{SEED} {number} {hand}")  # noqa: S311
            hands.append(Hand(f"{number}-{hand}", house, agent, token, browser, http, chance))
    return hands


@dataclass(frozen=True)
class Resource:
    """What a token is for."""

    mcp_url: str


async def test_whatever_is_killed_under_load_nothing_is_lost_or_doubled_or_contradicted(
    service: Trio, record_property: Callable[[str, Any], None]
) -> None:
    record_property("PLACET_SEED", SEED)
    async with AsyncExitStack() as stack:
        stack.enter_context(telling(service))
        hands = await _hands(stack, service)
        began = time.monotonic()
        record_property("killed", dict(await _attack(service, hands)))
        record_property("seconds of kills", round(time.monotonic() - began, 1))
        began = time.monotonic()
        await answers_again(hands[0].house.stage.owner_db)
        for hand in hands[::HANDS]:
            await _at_rest(hand.house)
        record_property("seconds until rest", round(time.monotonic() - began, 1))
        record_property("answers", dict(Counter(one.state for hand in hands for one in hand.answers)))
        record_property("asked again after", dict(sum((hand.refused for hand in hands), Counter())))
        record_property("longest until answered, s", round(max(hand.longest for hand in hands), 1))
        for number in range(HOUSES):
            await _check(hands[number * HANDS : (number + 1) * HANDS])


async def _attack(service: Trio, hands: list[Hand]) -> Counter[str]:
    """Kill while all hands work; whoever waits for an answer then still gets it."""
    chance, over, killed = Random(SEED), asyncio.Event(), Counter[str]()  # noqa: S311
    working = [asyncio.create_task(hand.work(over)) for hand in hands]
    for _ in range(SIZES.random_kills):
        await _progress(hands, working)
        await asyncio.sleep(chance.uniform(0, PAUSE_SECONDS_MOST))  # the moment is what is random
        victim = chance.choice(VICTIMS)
        await service.kill(victim, chance)
        killed[victim] += 1
    over.set()
    await asyncio.gather(*working)
    return killed


async def _progress(hands: list[Hand], working: "list[asyncio.Task[None]]") -> None:
    """Somebody got an answer since this was called."""
    had = sum(len(hand.answers) for hand in hands)
    async with asyncio.timeout(STEP_SECONDS):
        while sum(len(hand.answers) for hand in hands) == had:
            done, _ = await asyncio.wait(working, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()


async def _at_rest(house: House) -> None:
    """No proposal waits for the writer any more."""
    waits = select(func.count()).where(proposal.c.state.in_(WAITING))
    for _ in range(int(REST_SECONDS / RETRY_SECONDS)):
        async with house.stage.owner_db.bound(house.tenant) as tx:
            if not await tx.scalar(waits):
                return
        await asyncio.sleep(RETRY_SECONDS)
    raise AssertionError("a proposal was left behind")


async def _check(hands: list[Hand]) -> None:
    house = hands[0].house
    stage = house.stage
    answers = [one for hand in hands for one in hand.answers]
    assert await judge(stage.owner_db, stage.storage, house.tenant, answers) == []
    async with stage.owner_db.bound(house.tenant) as tx:
        found = await tx.execute(
            select(proposal.c.connection, func.count().label("rows")).group_by(proposal.c.connection)
        )
        rows = {row.connection: row.rows for row in found}
        assert await tx.scalar(select(func.count()).select_from(connection)) == HANDS + 1
    assert rows == {hand.agent.id: hand.keys for hand in hands}

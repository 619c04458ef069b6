"""Disks that are full, read-only or slow: reads go on, nothing is lost, and it goes on by itself when they are well."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, text

from service.contract.data import Json
from service.kit.postgres import ADMIN, EmbeddedPostgres
from service.proposals.states import FINAL
from service.proposals.tables import proposal
from service.repositories.placement import Storage
from service.settings import Settings
from service.worker import run_worker
from tests.faults.disks import Disk, slow_flushes, small_disk
from tests.faults.forks import end, fork
from tests.faults.oracle import Answer, judge
from tests.faults.server import answers_again, own_server, own_stage
from tests.faults.sizes import FORM, sampled
from tests.stage import ISSUER, SEALER, House, Web, open_web

pytestmark = pytest.mark.anyio
REPOSITORIES_SIZE, DATABASE_SIZE = "4m", "120m"
PAGES = 24  # more than an execution needs
SAMPLES = 6 if FORM == "suite" else PAGES
TRIES = 6 if FORM == "suite" else 60  # of 100 KB each
FLUSH_SECONDS = 0.1 if FORM == "suite" else 2.0
WAIT_SECONDS = 60
ENDED_SECONDS = 120
READ_SECONDS = 20  # a busy machine's; what it took is printed


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", REPOSITORIES_SIZE) as mounted:
        yield mounted


@pytest.fixture
async def storage(disk: Disk) -> Storage:
    return Storage(disk.path / "repositories")


@contextmanager
def a_writer(url: str, house: House, folder: Path) -> Iterator[int]:
    settings = Settings(url, ISSUER, house.stage.storage.root, b"s" * 32, None)
    pid = fork(run_worker, settings, SEALER, 1, log=folder / "writer.log")
    try:
        yield pid
    finally:
        end(pid)


async def state_of(house: House, shown: Json) -> str:
    async with house.stage.app_db.bound(house.tenant) as tx:
        return str(await tx.scalar(select(proposal.c.state).where(proposal.c.id == UUID(shown["proposal_id"]))))


async def until(house: House, shown: Json, seconds: float) -> str:
    """The state in which it ended."""
    async with house.stage.waiter.running():

        async def look() -> str | None:
            state = await state_of(house, shown)
            return state if state in FINAL else None

        found = await house.stage.waiter.until(shown["proposal_id"], look, seconds)
    assert found, await state_of(house, shown)
    return found


async def reads(web: Web, house: House, shown: Json, token: str, browser: dict[str, str]) -> list[float]:
    """Every kind of read is answered; after how many seconds."""
    took = []
    for path in ("/", f"/proposals/{shown['proposal_id']}", "/ledger", "/repositories"):
        began = time.monotonic()
        assert (await web.http.get(path, headers=browser)).status_code == 200
        took.append(time.monotonic() - began)
    here = {"repository_id": str(house.repository)}
    for tool, arguments in (("read_repository", {**here, "view": "tree"}), ("list_proposals", {})):
        began = time.monotonic()
        result = (await web.call(token, tool, arguments))["result"]
        assert not result["isError"], result
        took.append(time.monotonic() - began)
    return took


async def all_well(house: House, *answers: Answer) -> None:
    assert await judge(house.stage.owner_db, house.stage.storage, house.tenant, answers) == []


async def test_with_whatever_room_is_left_an_approved_proposal_waits_for_more_and_is_executed_then(
    house: House, disk: Disk, record_property: Callable[[str, Any], None]
) -> None:
    answers, refused = [], 0
    for pages in [point - 1 for point in sampled(PAGES, SAMPLES)]:
        shown = await house.propose(house.arguments({"path": f"{pages}.txt", "content": f"{pages}\n" * 500}))
        await house.decide(shown)
        with disk.full(pages):
            await house.execute(shown)
            state = await state_of(house, shown)
            assert state in {"approved", "executing", "executed"}
            refused += state != "executed"
        await house.execute(shown)
        assert await state_of(house, shown) == "executed"
        answers.append(Answer(UUID(shown["proposal_id"]), "executed", house.head()))
    assert refused
    record_property("refused for want of room", refused)
    await all_well(house, *answers)


@pytest.mark.parametrize("how", ["full", "read_only"])
async def test_while_a_repository_cannot_be_written_everything_else_goes_on_and_afterwards_the_writer_by_itself(
    house: House, disk: Disk, database_url: str, tmp_path: Path, how: str
) -> None:
    async with open_web(house.stage) as web:
        token, browser = await web.token(house.agent), await web.browser(house.owner)
        shown = await house.propose()
        with a_writer(database_url, house, tmp_path):
            with getattr(disk, how)():
                await house.decide(shown)
                await asyncio.to_thread(_said, tmp_path / "writer.log", "the disk refuses")
                await reads(web, house, shown, token, browser)
                later = await web.call(
                    token, "propose_file_import", {**house.arguments(), "idempotency_key": "later on"}
                )
                assert not later["result"]["isError"]
                assert await state_of(house, shown) == "approved"
            assert await until(house, shown, WAIT_SECONDS) == "executed"
    await all_well(house, Answer(UUID(shown["proposal_id"]), "executed", house.head()))


def _said(log: Path, words: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while words not in log.read_text("utf-8"):
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.01)


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedPostgres, Disk]]:
    folder = tmp_path_factory.mktemp("small") / "disk"
    with small_disk(folder, DATABASE_SIZE) as mounted, own_server(mounted.path / "data") as server:
        yield server, mounted


async def test_while_the_database_has_no_room_proposals_are_refused_reads_go_on_and_afterwards_all_is_as_before(
    small_server: tuple[EmbeddedPostgres, Disk], tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    server, mounted = small_server
    async with own_stage(server.url(ADMIN), tmp_path) as stage, open_web(stage) as web:
        house = await stage.house()
        token, browser = await web.token(house.agent), await web.browser(house.owner)
        shown = await house.propose()
        told, bodies = Counter[str](), {}
        with mounted.full():
            await _leave_unseen(house)
            for number in range(TRIES):
                sent = {**house.arguments(_noise(number)), "idempotency_key": f"number {number:06}"}
                answer = (await web.call(token, "propose_file_import", sent))["result"]
                said = answer["_meta"]["placet/error"]["code"] if answer["isError"] else "pending"
                told[said] += 1
                bodies[sent["idempotency_key"]] = (sent, answer.get("structuredContent"))
            await reads(web, house, shown, token, browser)
        record_property("told", dict(told))
        assert told["storage_full"]
        assert set(told) <= {"storage_full", "unavailable", "pending"}
        await answers_again(stage.app_db)
        answers = []
        for sent, before in bodies.values():
            now = (await web.call(token, "propose_file_import", sent))["result"]["structuredContent"]
            assert before is None or now["proposal_id"] == before["proposal_id"]
            await house.own.cancel(now["proposal_id"])
            answers.append(Answer(UUID(now["proposal_id"]), "cancelled"))
        await house.decide(shown)
        await house.execute(shown)
        await all_well(house, *answers, Answer(UUID(shown["proposal_id"]), "executed", house.head()))


def _noise(number: int) -> Json:
    """A file that no compression makes smaller."""
    return {"path": f"{number}.txt", "content": secrets.token_urlsafe(70_000)}


async def _leave_unseen(house: House) -> None:
    """The session was seen long ago, so that the next page would note it anew."""
    async with house.stage.owner_db.directory() as tx:
        await tx.execute(text("UPDATE session SET seen_at = seen_at - interval '10 minutes'"))


async def test_slow_flushes_make_the_writer_slow_and_nothing_else(
    house: House, database_url: str, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    async with open_web(house.stage) as web:
        token, browser = await web.token(house.agent), await web.browser(house.owner)
        with a_writer(database_url, house, tmp_path) as writer:
            await _tried(house)
            shown = await house.propose()
            with slow_flushes(FLUSH_SECONDS, writer):
                began = time.monotonic()
                await house.decide(shown)
                took = []
                while (state := await state_of(house, shown)) not in FINAL:
                    took += await reads(web, house, shown, token, browser)
                    assert time.monotonic() - began < ENDED_SECONDS, (tmp_path / "writer.log").read_text("utf-8")
                record_property("seconds until executed", round(time.monotonic() - began, 1))
                record_property("slowest read, s", round(max(took), 3))
        assert (state, max(took) < READ_SECONDS) == ("executed", True)
        log = tmp_path / "writer.log"
        assert "killed" not in log.read_text("utf-8")
    await all_well(house, Answer(UUID(shown["proposal_id"]), "executed", house.head()))


async def _tried(house: House) -> None:
    """The writer works: it has executed something."""
    shown = await house.propose(house.arguments({"path": "first.txt", "content": "first\n"}))
    await house.decide(shown)
    assert await until(house, shown, WAIT_SECONDS) == "executed"

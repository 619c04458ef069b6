"""The measures over HTTP at tiny size, on one service with processes of its own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from service.bench import cost, crash, desk, race, serve
from service.bench.past import ROWS, compare, fill
from service.bench.stand import Stand, stand
from service.proposals.tables import coloured, proposal
from service.up.place import UpRefused
from service.worker import EXECUTORS

pytestmark = pytest.mark.anyio
FILES = 100


@pytest.fixture(scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    async with stand(tmp_path_factory.mktemp("bench")) as found:
        yield found


async def test_one_approval_is_timed_beside_its_git_part(it: Stand, tmp_path: Path) -> None:
    found = await serve.one_by_one(it, tmp_path, rounds=1)
    names = (serve.PROPOSE, serve.PROPOSE_AGAIN, serve.CLICK, serve.CLICK_AGAIN, serve.GIT_PART)
    assert all(found.rows[0][f"{name}, ms"] > 0 for name in names)
    assert [target.most for target in found.targets] == [3.0, 1.0]


@pytest.mark.parametrize(("kind", "repositories", "writers"), [("ours", 2, 2), ("plumbing", 1, 1)])
async def test_a_load_is_counted_with_its_memory(it: Stand, kind: Any, repositories: int, writers: int) -> None:
    row = (await serve.load(it, kind, FILES, repositories, writers, seconds=0.1)).row()
    assert row["approvals/s"] > 0
    assert row["proposals/s"] > 0
    assert row["writer processes"] == 1 + EXECUTORS
    assert 10 < row["writer PSS, MB"] < row["writer RSS, MB"]
    assert 10 < row["web PSS, MB"] < row["web RSS, MB"]


async def test_a_card_is_opened_in_each_way_and_the_second_time_its_colours_are_known(it: Stand) -> None:
    times = await desk.opened(it, rounds=1)
    assert set(times.seconds) == {desk.COLD, desk.CACHED, desk.SPLIT}
    async with it.database.bound(it.tenant) as tx:
        assert await tx.scalar(select(func.count()).select_from(coloured)) == 2 * desk.FILES


@pytest.mark.parametrize("mode", race.MODES)
async def test_a_race_ends_and_is_counted(it: Stand, mode: Any) -> None:
    row = await race.run(it, mode, 1, 2)
    assert (row["trials"], row["of clicks again"], row["replays"]) == (2, 4, 4)
    if mode == "ours":
        assert (row["executed"], row["stale"]) == (2, 2)
        assert not any(row[name] for name in ("lost commits", "false stale", "duplicates"))


@pytest.mark.parametrize("mode", crash.MODES)
async def test_a_crash_ends_and_is_counted(it: Stand, mode: Any) -> None:
    row = await crash.run(it, mode, 1, 2)
    assert (row["trials"], row["replays"], row["executors killed"]) == (2, 2, 4)
    if mode == "ours":
        assert row["executed"] == 2
        assert not any(row[name] for name in ("stale", "lost commits", "false stale", "duplicates"))


@pytest.mark.parametrize("mode", cost.MODES)
async def test_every_call_has_its_cost(it: Stand, mode: Any) -> None:
    async with it.writer(mode):
        (row,) = await cost.run({mode: it}, 1, 1)
    names = (serve.PROPOSE, serve.PROPOSE_AGAIN, serve.CLICK, serve.CLICK_AGAIN, cost.STALE)
    assert all(row[f"{name}, ms"] > 0 for name in names)


async def test_an_execution_is_timed_with_a_past(it: Stand) -> None:
    where = await it.add(FILES)
    await fill(it, where, 50)
    async with it.database.bound(it.tenant) as tx:
        executed = select(func.count()).where(proposal.c.state == "executed", proposal.c.key.like("past-%"))
        assert await tx.scalar(executed) == 50
    times = await compare({"only": (it, where)}, rounds=1)
    assert times.median("only") > 0
    assert ROWS == (1_000, 1_000_000)


async def test_a_database_of_somebody_elses_is_not_measured_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/production")
    with pytest.raises(UpRefused, match="DATABASE_URL"):
        async with stand(tmp_path):
            pass

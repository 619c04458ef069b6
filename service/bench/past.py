"""Whether an execution takes longer where very many proposals were executed before: all of it, database included."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import asyncpg
from sqlalchemy import select
from sqlalchemy.engine import make_url

from service.bench.execution import NotExecuted, no_step
from service.bench.projects import chosen, content
from service.bench.results import Results, Target, Times
from service.bench.stand import Project, Proposed, Stand, stand
from service.grants.tables import connection
from service.kit.database import Database
from service.proposals.execute import Execute
from service.proposals.states import WORK
from service.proposals.store import ProposalStore
from service.repositories.bare import BareRepository
from service.repositories.placement import Storage

ROWS = (1_000, 1_000_000)
ROUNDS = 100
FILES = 100
_MOST = 1.2
_WARM = 5
_FILL_SECONDS = 3_600.0

# As an executed proposal leaves it, with texts of a usual length; triggers and foreign keys rest meanwhile.
_PAST = "INSERT INTO {} SELECT $1::uuid, {} FROM proposal WHERE tenant = $1::uuid AND key LIKE 'past-%'"
FILL = (
    """
    INSERT INTO proposal (tenant, id, repository, connection, key, body_hash, kind, kind_version, request, pins, plan,
      card, manifest, digest, state, outcome, created_at, expires_at, ended_at)
    SELECT $1::uuid, gen_random_uuid(), $2::uuid, $3::uuid, 'past-' || n, md5(n::text), 'propose_file_import', 1,
      repeat('r', 300), '[]', repeat('p', 300), repeat('c', 300), repeat('m', 200), md5(n::text), 'executed', '{}',
      at, at + interval '1 day', at
    FROM (SELECT n, clock_timestamp() - make_interval(secs => n) AS at FROM generate_series(1, $4::int) AS n) AS past
    """,
    _PAST.format("staging (tenant, proposal, objects)", "id, '\\x00'"),
    _PAST.format(
        "decision (tenant, proposal, person, verdict, digest, acknowledged, note, committer, decided_at)",
        "id, gen_random_uuid(), 'approve', digest, '[]', '', '\\x00', ended_at",
    ),
    _PAST.format(
        "intent (tenant, proposal, epoch, moves, commits, marker)", "id, 1, repeat('m', 200), '\\x00', digest"
    ),
    _PAST.format(
        "ref_move (tenant, id, repository, ref, old, new, actor, proposal)",
        "gen_random_uuid(), repository, 'refs/heads/main', digest, digest, 'writer', id",
    ),
    """
    INSERT INTO ledger_entry (tenant, seq, at, kind, subject, body, previous, hash)
    SELECT $1::uuid, head.seq + n, clock_timestamp(), 'proposal.executed', '', repeat('b', 400), head.hash, head.hash
    FROM ledger_head AS head, generate_series(1, $2::int) AS n WHERE head.tenant = $1::uuid
    """,
    "UPDATE ledger_head SET seq = seq + $2::int WHERE tenant = $1::uuid",
)


def past(folder: Path, rows: tuple[int, int] = ROWS, rounds: int = ROUNDS) -> Results:
    """Measure in `folder`: two services with so many past proposals, an execution in each by turns."""
    few, many = (f"{count:,} past proposals" for count in rows)

    async def run() -> Times:
        async with AsyncExitStack() as stack:
            grounds = {}
            for name, count in ((few, rows[0]), (many, rows[1])):
                it = await stack.enter_async_context(stand(folder / f"past-{count}"))
                grounds[name] = it, await it.add(FILES)
                await fill(*grounds[name], count)
            return await compare(grounds, rounds)

    times = asyncio.run(run())
    target = Target("an execution with many past proposals over one with few", times.ratio(many, few), most=_MOST)
    note = "The whole of `Execute` on 1 file of 10 KB, in this process, the database beside it; by turns."
    return Results("Past proposals", [times.row()], [target], note)


async def fill(it: Stand, where: Project, count: int) -> None:
    """Put so many executed proposals into the past of a repository."""
    async with it.database.bound(it.tenant) as tx:
        mine = await tx.scalar(select(connection.c.id).where(connection.c.client == it.agent.client))
    url = make_url(it.ready.database_url).set(drivername="postgresql")
    admin = await asyncpg.connect(url.render_as_string(hide_password=False), command_timeout=_FILL_SECONDS)
    try:
        await admin.execute("SET session_replication_role = replica")
        first, *others, ledger, head = FILL
        await admin.execute(first, it.tenant, UUID(where.id), mine, count)
        for statement in others:
            await admin.execute(statement, it.tenant)
        for statement in (ledger, head):
            await admin.execute(statement, it.tenant, count)
        await admin.execute("VACUUM ANALYZE")
        await admin.execute("CHECKPOINT")
    finally:
        await admin.close()


async def compare(grounds: dict[str, tuple[Stand, Project]], rounds: int) -> Times:
    """Execute by turns in each of the services."""
    times = Times()
    async with AsyncExitStack() as stack:
        writers = {}
        for name, (it, _) in grounds.items():
            database = Database(it.ready.database_url, "placet_writer", size=2)
            stack.push_async_callback(database.close)
            store = ProposalStore(database, Storage(it.place.repositories))
            writers[name] = Execute(store, BareRepository, lambda _taken: None, no_step, None)
        for number in range(rounds + _WARM):
            for name, (it, where) in grounds.items():
                files = {path: content((number, path)) for path in chosen(FILES, 1, number)}
                seconds = await _executed(it, await it.propose(where, files), writers[name])
                if number >= _WARM:
                    times.add(name, seconds)
    return times


async def _executed(it: Stand, what: Proposed, execute: Execute) -> float:
    """Approve over HTTP, execute here. Gives the seconds that this took."""
    await it.read(what)
    async with it.database.listen(WORK) as notices:
        clicked = asyncio.create_task(it.click(what))
        await notices.get()
    began = time.perf_counter()
    await execute(it.tenant, UUID(what.id))
    seconds = time.perf_counter() - began
    if (answer := await clicked)["status"] != "executed":
        raise NotExecuted(str(answer))
    return seconds

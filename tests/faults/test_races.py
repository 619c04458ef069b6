"""Races at a barrier, in threads and in processes, on the real database and real repositories.

The order is the tenant's ledger: a change of rights whose entry stands before `proposal.executing` was committed
before the point of no return, and nothing may be executed after it.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio.to_thread
import pytest
from sqlalchemy import func, select, update

from service.contract.data import Json, Oid
from service.contract.plan import MoveRef
from service.grants.manage import (
    add_clause,
    add_membership,
    add_repository,
    change_role,
    change_state,
    let_agents_propose,
)
from service.grants.policy import Clause
from service.grants.tables import connection, connection_repository, membership
from service.kit.actor import Actor, system
from service.kit.database import Bound
from service.ledger.tables import ledger_entry, ref_move
from service.proposals.decide import Decide, Decider, Verdicts
from service.proposals.execute import Execute
from service.proposals.expire import expire
from service.proposals.push import Push
from service.proposals.scanning import check_secrets
from service.proposals.store import ProposalStore
from service.proposals.tables import proposal
from service.repositories.bare import BareRepository
from service.repositories.lease import LeaseBusy
from service.repositories.placement import Storage
from service.repositories.refs import LockHeld, RefMoved
from service.repositories.tables import repository
from service.settings import Settings
from service.worker import run_worker
from tests.faults.forks import end, fork
from tests.faults.oracle import Answer, judge
from tests.faults.racers import Racers, Told, heard, racers
from tests.faults.sizes import SIZES
from tests.stage import ISSUER, SEALER, House, git, open_web

pytestmark = pytest.mark.anyio
ROUNDS = range(SIZES.race_rounds)
CROWD, AGENTS = 50, 100
DEADLINE_SECONDS = 30


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repositories")


@pytest.fixture(scope="module")
def crowd(database_url: str, root: Path) -> Iterator[Racers]:
    with racers(database_url, root) as made:
        yield made


@pytest.fixture
async def storage(root: Path) -> Storage:
    return Storage(root)


# What a racer does.


async def approve(house: House, shown: Json, owner: Decider | None = None) -> str:
    """Approve, and be the writer as well."""
    await house.decide(shown, owner=owner)
    return await execute(house, shown)


async def execute(house: House, shown: Json) -> str:
    """Be the writer, until it has ended; gives the state."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (state := await state_of(house, shown)) in {"approved", "executing"}:
            await house.execute(shown)
    return state


async def decline(house: House, shown: Json) -> str:
    """Decline as the web does, which tells a loser how it ended."""
    stage = house.stage
    store = ProposalStore(stage.app_db, stage.storage)
    deciding = Decide(store, BareRepository, anyio.to_thread.run_sync, stage.waiter, check_secrets)
    return (await deciding(house.owner, UUID(shown["proposal_id"]), Verdicts("decline", shown["card_digest"]))).state


async def cancel(house: House, shown: Json) -> str:
    return str((await house.own.cancel(shown["proposal_id"]))["status"])


async def run_out(house: House, shown: Json) -> str:
    """Expire it as the worker does."""
    store = ProposalStore(house.stage.writer_db, house.stage.storage)
    await expire(store, system(house.tenant), UUID(shown["proposal_id"]))
    return await state_of(house, shown)


async def push(house: House, new: Oid, head: Oid) -> str:
    """Be the writer of a push that takes main from `head` to `new`."""
    store = ProposalStore(house.stage.writer_db, house.stage.storage)
    run = Execute(store, BareRepository, lambda _taken: None, lambda _step: None, SEALER)
    pushing = Push(store, BareRepository, run.lease, run.step)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                await pushing(house.owner.actor, house.repository, [MoveRef(ref="refs/heads/main", old=head, new=new)])
            except RefMoved:
                return "refused"
            except (LeaseBusy, LockHeld):
                continue
            return "pushed"


async def propose(house: House, bodies: list[Json], key: str) -> list[Told]:
    """Many calls at once with one key."""

    async def one(arguments: Json) -> tuple[str, bool]:
        shown = await house.propose(arguments, key=key)
        return shown["proposal_id"], shown["replayed"]

    return list(await asyncio.gather(*(heard(one(body)) for body in bodies)))


async def revoke(house: House, _shown: Json) -> None:
    await changed(house, lambda tx, actor: change_state(tx, actor, connection, house.agent.id, "revoked"))


async def forbid(house: House, _shown: Json) -> None:
    clause = Clause("deny", "path", "**")
    await changed(house, lambda tx, actor: add_clause(tx, actor, house.agent.id, clause))


async def turn_off(house: House, _shown: Json) -> None:
    await changed(house, lambda tx, actor: let_agents_propose(tx, actor, house.repository, on=False))


async def close_repository(house: House, _shown: Json) -> None:
    await changed(house, lambda tx, actor: change_state(tx, actor, repository, house.repository, "revoked"))


async def demote(house: House, _shown: Json) -> None:
    await changed(house, lambda tx, actor: change_role(tx, actor, house.project, house.owner.actor.id, "reader"))


async def put_out(house: House, _shown: Json) -> None:
    async def work(tx: Bound, actor: Actor) -> None:
        mine = await tx.scalar(select(membership.c.id).where(membership.c.person == house.owner.actor.id))
        await change_state(tx, actor, membership, mine, "revoked")

    await changed(house, work)


async def changed(house: House, work: Callable[[Bound, Actor], Awaitable[None]]) -> None:
    await house.stage.owner_db.repeat(house.tenant, lambda tx: work(tx, system(tx.tenant)))


async def late(house: House, shown: Json, looks: int, run: Callable[[House, Json], Awaitable[Any]]) -> Any:
    """Do it after so many looks at the proposal: the other's head start, so that each wins sometimes."""
    for _ in range(looks):
        await state_of(house, shown)
    return await run(house, shown)


# What is seen afterwards.


async def state_of(house: House, shown: Json) -> str:
    async with house.stage.app_db.bound(house.tenant) as tx:
        return str(await tx.scalar(select(proposal.c.state).where(proposal.c.id == UUID(shown["proposal_id"]))))


async def entries(house: House, since: int) -> dict[str, int]:
    """The sequence numbers of this round's ledger entries by their kinds."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        found = await tx.execute(select(ledger_entry.c.kind, ledger_entry.c.seq).where(ledger_entry.c.seq > since))
        return {row.kind: row.seq for row in found}


async def last(house: House) -> int:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        return int(await tx.scalar(select(func.max(ledger_entry.c.seq))))


async def all_well(house: House, *answers: Answer) -> None:
    assert await judge(house.stage.owner_db, house.stage.storage, house.tenant, answers) == []


def answer(shown: Json, state: str) -> Answer:
    return Answer(UUID(shown["proposal_id"]), state)


# Two at once.


async def test_of_two_approvals_on_one_base_one_is_executed_and_the_other_is_stale(house: House, crowd: Racers) -> None:
    answers = []
    for number in ROUNDS:
        pair = [
            await house.propose(house.arguments({"path": f"{number}-{side}.txt", "content": "x\n"})) for side in "ab"
        ]
        ends = await crowd.race(number, house, *((approve, shown) for shown in pair))
        assert sorted(str(one.given) for one in ends) == ["executed", "stale"]
        answers += [answer(shown, one.given) for shown, one in zip(pair, ends, strict=True)]
    assert git(house.path, "rev-list", "--count", "main") == b"%d\n" % (SIZES.race_rounds + 1)
    await all_well(house, *answers)


@pytest.mark.parametrize(
    ("other", "done"),
    [(decline, "declined"), (cancel, "cancelled"), (run_out, "expired")],
    ids=["decline", "cancel", "expiry"],
)
async def test_who_loses_to_an_approval_or_wins_over_it_hears_the_end_and_it_stays(
    house: House, crowd: Racers, other: Callable[..., Awaitable[str]], done: str, record_property: Callable[..., None]
) -> None:
    answers, seen = [], Counter[str]()
    for number in ROUNDS:
        shown = await house.propose(house.arguments({"path": f"{number}.txt", "content": "x\n"}))
        if other is run_out:
            await _expires_soon(house, shown, number % 10 * 25)
        yes, no = await crowd.race(number, house, (approve, shown), (late, shown, number % 4, other))
        state = await state_of(house, shown)
        seen[state] += 1
        assert state in {"executed", done}
        if state == done:
            assert (yes.code, yes.status, (yes.body or {})["status"]) == ("proposal_ended", 409, done)
            assert no.given in ({done, "pending"} if other is run_out else {done})  # the sweep may come too early
        else:
            assert yes.given == "executed"
            _check_loser(no, other)
        answers.append(answer(shown, state))
    record_property("ends", dict(seen))
    await all_well(house, *answers)


def _check_loser(no: Told, other: Callable[..., Awaitable[str]]) -> None:
    if other is run_out:  # the sweep just finds nothing to do, or not yet
        assert no.given in {"pending", "approved", "executing", "executed"}
    else:
        assert no.status == 409
        assert no.body
        assert no.body["status"] in ({"executed"} if other is decline else {"approved", "executing", "executed"})


async def _expires_soon(house: House, shown: Json, milliseconds: int) -> None:
    """Its time ends while it is decided on, more or less."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        soon = func.clock_timestamp() + timedelta(milliseconds=milliseconds)
        await tx.execute(update(proposal).where(proposal.c.id == UUID(shown["proposal_id"])).values(expires_at=soon))


Change = Callable[[House, Json], Awaitable[None]]
CHANGES: dict[Change, str] = {
    revoke: "connection.revoked",
    forbid: "policy.added",
    turn_off: "repository.agents_may_propose",
    close_repository: "repository.revoked",
    demote: "membership.role",
    put_out: "membership.revoked",
}


@pytest.mark.parametrize("change", CHANGES, ids=["revoked", "policy", "off", "repository", "role", "membership"])
async def test_nothing_is_executed_after_a_change_of_rights_that_was_committed_before_the_point_of_no_return(
    house: House,
    crowd: Racers,
    change: Change,
    record_property: Callable[..., None],
) -> None:
    answers, seen = [], Counter[str]()
    for number in ROUNDS:
        own = await _fresh_rights(house, change)
        shown = await own.propose(own.arguments({"path": f"{number}.txt", "content": "x\n"}))
        decided = number // 2 % 2  # the decision takes part in the race, or only the writer
        if decided:
            await own.decide(shown)
        since = await last(own)
        looks = number % 10 * (2 if decided else 4)
        yes, no = await crowd.race(number, own, (execute if decided else approve, shown), (late, shown, looks, change))
        assert no == Told()
        state = await state_of(own, shown)
        assert state in {"executed", "failed"} or (state == "pending" and yes.status in {403, 404})
        seen[state] += 1
        told = await entries(own, since)
        if state == "executed":
            assert told["proposal.executing"] < told[CHANGES[change]]
        answers.append(answer(shown, state))
        if change is turn_off:
            async with own.stage.owner_db.bound(own.tenant) as tx:
                await let_agents_propose(tx, system(own.tenant), own.repository, on=True)
    record_property("ends", dict(seen))
    await all_well(house, *answers)


async def _fresh_rights(house: House, change: Change) -> House:
    """The house with rights of this round alone, where the change cannot be taken back."""
    stage = house.stage
    if change is close_repository:
        mine = uuid4()
        async with stage.owner_db.bound(house.tenant) as tx:
            await add_repository(tx, system(house.tenant), house.project, mine, f"r-{mine.hex[:10]}")
            await let_agents_propose(tx, system(house.tenant), mine, on=True)
            await tx.execute(
                connection_repository.insert().values(tenant=house.tenant, connection=house.agent.id, repository=mine)
            )
            path = (await stage.storage.place(tx, mine)).path
        shutil.copytree(house.path, path)
        return replace(house, repository=mine, path=path)
    if change in {demote, put_out}:
        who, email = await stage.person(house.tenant)
        async with stage.owner_db.bound(house.tenant) as tx:
            await add_membership(tx, system(house.tenant), house.project, who, "maintainer")
        session = Actor("owner", house.tenant, who, email, session=uuid4())
        return replace(house, owner=Decider(session, "Olive Owner", email))
    if change is turn_off:
        return house
    return replace(house, agent=await stage.connect(house.tenant, house.owner.actor.id, house.repository))


async def test_of_an_approval_and_a_push_to_its_branch_one_moves_it_and_the_other_is_told(
    house: House, crowd: Racers, record_property: Callable[..., None]
) -> None:
    answers, seen = [], Counter[str]()
    for number in ROUNDS:
        shown = await house.propose(house.arguments({"path": f"{number}.txt", "content": "x\n"}))
        head = Oid(house.head())
        tree = git(house.path, "rev-parse", f"{head}^{{tree}}").decode().strip()
        new = Oid(git(house.path, "commit-tree", tree, "-p", head, "-m", f"Pushed {number}").decode().strip())
        await house.decide(shown)
        pair: list[tuple[Any, ...]] = [(execute, shown), (push, new, head)]
        ends = await crowd.race(number, house, *(pair if number % 3 else pair[::-1]))
        told = sorted(str(one.given) for one in ends)
        assert told in (["executed", "refused"], ["pushed", "stale"])
        seen[told[0]] += 1
        assert git(house.path, "rev-list", "--count", f"{head}..main") == b"1\n"
        answers.append(answer(shown, "executed" if told[0] == "executed" else "stale"))
    record_property("ends", dict(seen))
    await all_well(house, *answers)


async def test_two_writers_with_one_proposal_execute_it_once(house: House, crowd: Racers) -> None:
    answers = []
    for number in ROUNDS:
        shown = await house.propose(house.arguments({"path": f"{number}.txt", "content": "x\n"}))
        await house.decide(shown)
        ends = await crowd.race(number, house, (execute, shown), (execute, shown))
        assert [one.given for one in ends] == ["executed", "executed"]
        answers.append(Answer(UUID(shown["proposal_id"]), "executed", house.head()))
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(func.count()).select_from(ref_move)) == SIZES.race_rounds
    await all_well(house, *answers)


async def test_a_hundred_equal_proposals_at_once_with_one_key_are_one(house: House, crowd: Racers) -> None:
    answers = []
    for number in ROUNDS:
        body = house.arguments({"path": f"{number}.txt", "content": "x\n"})
        half = [body] * (AGENTS // 2)
        ends = await crowd.race(number, house, *[(propose, half, f"race {number:04}")] * 2)
        told = Counter(one.given for end_ in ends for one in end_.given)
        (made, first), (same, again) = sorted(told, key=lambda one: one[1])
        assert (made, first, again) == (same, False, True)
        assert (told[made, False], told[made, True]) == (1, AGENTS - 1)
        answers.append(answer({"proposal_id": made}, "pending"))
        await house.own.cancel(made)  # twenty may wait
    await all_well(house, *answers)


async def test_of_two_bodies_with_one_key_one_wins_and_the_other_is_told(house: House, crowd: Racers) -> None:
    for number in ROUNDS:
        bodies = [house.arguments({"path": f"{number}{side}.txt", "content": "x\n"}) for side in "ab"]
        ends = await crowd.race(number, house, *((propose, [body], f"race {number:04}") for body in bodies))
        told = sorted((one.given[0] for one in ends), key=lambda one: one.status)
        made, replayed = told[0].given
        assert (replayed, told[1].status) == (False, 409)
        assert told[1].code == "idempotency_key_reused_with_different_body"
        assert told[1].body["proposal_id"] == made
        await house.own.cancel(made)
    await all_well(house)


@contextmanager
def a_writer(url: str, house: House, folder: Path) -> Iterator[None]:
    """A real writer process, beside whatever the test does."""
    settings = Settings(url, ISSUER, house.stage.storage.root, b"s" * 32, None)
    pid = fork(run_worker, settings, SEALER, 1, log=folder / "writer.log")
    try:
        yield
    finally:
        end(pid)


async def test_of_fifty_approvals_at_once_over_http_one_is_the_execution_and_the_others_repeat_its_commit(
    house: House, database_url: str, tmp_path: Path
) -> None:
    commits = []
    with a_writer(database_url, house, tmp_path):
        async with open_web(house.stage) as web:
            browser = await web.browser(house.owner)
            for number in ROUNDS:
                shown = await house.propose(house.arguments({"path": f"{number}.txt", "content": "x\n"}))
                own = f"/api/v1/proposals/{shown['proposal_id']}"
                assert (await web.http.get(f"{own}/files/1", headers=browser)).status_code == 200
                url = f"{own}/decision"
                sent = {"verdict": "approve", "card_digest": shown["card_digest"], "acknowledged": [], "note": ""}
                answers = await asyncio.gather(*(web.http.post(url, json=sent, headers=browser) for _ in range(CROWD)))
                assert {one.status_code for one in answers} == {200}
                told = Counter((one.json()["status"], one.json()["commit"], one.json()["replayed"]) for one in answers)
                commit = house.head()
                assert told == {("executed", commit, False): 1, ("executed", commit, True): CROWD - 1}
                commits.append(Answer(UUID(shown["proposal_id"]), "executed", commit))
    assert git(house.path, "rev-list", "--count", "main") == b"%d\n" % (SIZES.race_rounds + 1)
    await all_well(house, *commits)

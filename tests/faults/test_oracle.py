"""The oracle itself: it is silent on a good house, and it sees each invariant broken."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from service.contract.data import Json
from service.grants.manage import add_clause, change_role, change_state, let_agents_propose
from service.grants.policy import Clause
from service.grants.tables import connection
from service.kit.actor import system
from service.ledger.append import append
from service.ledger.tables import ref_move
from tests.faults.oracle import Answer, Violation, judge
from tests.faults.sizes import ALL, FORMS, sampled
from tests.stage import House, git

pytestmark = pytest.mark.anyio

GUARDED = ("ledger_entry", "ref_move", "connection")  # by triggers, which the owner can turn off


@dataclass
class Scene:
    """A house with one executed proposal and one that is pending."""

    house: House
    done: Json
    pending: Json

    @property
    def marker(self) -> str:
        return f"refs/proposals/{self.done['proposal_id']}"

    async def sql(self, statement: str, shown: Json | None = None) -> None:
        async with self.house.stage.owner_db.bound(self.house.tenant) as tx:
            for table in GUARDED:
                await tx.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
            await tx.execute(text(statement), {"id": UUID((shown or self.done)["proposal_id"])})
            for table in GUARDED:
                await tx.execute(text(f"ALTER TABLE {table} ENABLE TRIGGER USER"))

    async def judged(self, *answers: Answer, over: bool = True) -> list[Violation]:
        stage = self.house.stage
        return await judge(stage.owner_db, stage.storage, self.house.tenant, answers, over=over)


@pytest.fixture
async def scene(house: House) -> Scene:
    done = await house.propose(
        house.arguments({"path": "docs/é.md", "content": "x\n"}, {"path": "app.py", "action": "delete"})
    )
    await house.decide(done)
    await house.execute(done)
    return Scene(house, done, await house.propose(house.arguments({"path": "b", "content": "b\n"})))


def forged(scene: Scene, shown: Json, body: str = "another") -> str:
    """A commit that says it is a proposal's, and to which nothing points."""
    message = f"{body}\n\nProposal: {shown['proposal_id']}\n".encode()
    return git(scene.house.path, "commit-tree", "main^{tree}", "-p", "main", stdin=message).decode().strip()


async def approved_and_left(scene: Scene) -> None:
    await scene.house.decide(scene.pending)


async def ended_twice(scene: Scene) -> None:
    async with scene.house.stage.owner_db.bound(scene.house.tenant) as tx:
        await append(tx, system(tx.tenant), "proposal.failed", scene.done["proposal_id"], was="executed")


async def still_in_the_queue(scene: Scene) -> None:
    await scene.sql(
        "INSERT INTO work_queue (kind, tenant, subject, repository)"
        " SELECT 'execute', tenant, id, repository FROM proposal WHERE id = :id"
    )


async def marker_lost(scene: Scene) -> None:
    git(scene.house.path, "update-ref", "-d", scene.marker)


async def marker_elsewhere(scene: Scene) -> None:
    git(scene.house.path, "update-ref", scene.marker, "main^")


async def branch_back(scene: Scene) -> None:
    git(scene.house.path, "update-ref", "refs/heads/main", "main^")


async def marker_of_a_failed_one(scene: Scene) -> None:
    await scene.sql("UPDATE proposal SET state = 'failed' WHERE id = :id")


async def marker_of_nobody(scene: Scene) -> None:
    git(scene.house.path, "update-ref", f"refs/proposals/{uuid4()}", "main")


async def second_commit(scene: Scene) -> None:
    forged(scene, scene.done)


async def declined_and_executed(scene: Scene) -> None:
    await scene.house.decide(scene.pending, "decline")
    forged(scene, scene.pending)


async def executed_undecided(scene: Scene) -> None:
    await scene.sql("DELETE FROM decision WHERE proposal = :id")


async def revoked_before_the_intent(scene: Scene) -> None:
    await taken_and_given_back_unseen(scene, revoke, "UPDATE connection SET state = 'live'")


async def role_lost_before_the_intent(scene: Scene) -> None:
    await taken_and_given_back_unseen(scene, read_only, "UPDATE membership SET role = 'owner'")


async def switched_off_before_the_intent(scene: Scene) -> None:
    await taken_and_given_back_unseen(scene, switch_off, "UPDATE repository SET agents_may_propose = true")


async def policy_stricter_before_the_intent(scene: Scene) -> None:
    await taken_and_given_back_unseen(scene, forbid, "DELETE FROM policy_clause")


async def taken_and_given_back_unseen(scene: Scene, take: Callable[[Scene], Awaitable[None]], statement: str) -> None:
    await scene.house.decide(scene.pending)
    await take(scene)
    await scene.sql(statement)
    await scene.house.execute(scene.pending)
    assert (await scene.house.read(scene.pending))["status"] == "executed"


async def revoke(scene: Scene) -> None:
    async with scene.house.stage.owner_db.bound(scene.house.tenant) as tx:
        await change_state(tx, scene.house.owner.actor, connection, scene.house.agent.id, "revoked")


async def read_only(scene: Scene) -> None:
    house = scene.house
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await change_role(tx, house.owner.actor, house.project, house.owner.actor.id, "reader")


async def switch_off(scene: Scene) -> None:
    async with scene.house.stage.owner_db.bound(scene.house.tenant) as tx:
        await let_agents_propose(tx, scene.house.owner.actor, scene.house.repository, on=False)


async def forbid(scene: Scene) -> None:
    async with scene.house.stage.owner_db.bound(scene.house.tenant) as tx:
        await add_clause(tx, scene.house.owner.actor, scene.house.agent.id, Clause("deny", "path", "b"))


async def another_manifest(scene: Scene) -> None:
    await scene.sql("UPDATE proposal SET manifest = replace(manifest, 'docs', 'dogs') WHERE id = :id")


async def another_message(scene: Scene) -> None:
    await scene.sql("UPDATE proposal SET plan = replace(plan, 'Change files', 'Other files') WHERE id = :id")


async def entry_changed(scene: Scene) -> None:
    await scene.sql(
        "UPDATE ledger_entry SET body = replace(body, 'pending', 'penning') WHERE kind = 'proposal.pending'"
    )


async def entry_missing(scene: Scene) -> None:
    await scene.sql("DELETE FROM ledger_entry WHERE kind = 'proposal.executing'")


async def state_without_an_entry(scene: Scene) -> None:
    await scene.sql("UPDATE proposal SET state = 'stale' WHERE id = :id", scene.pending)


async def ref_move_missing(scene: Scene) -> None:
    await scene.sql("DELETE FROM ref_move")


async def ref_move_twice(scene: Scene) -> None:
    await scene.sql(
        "INSERT INTO ref_move (tenant, id, repository, ref, old, new, actor, proposal)"
        " SELECT tenant, gen_random_uuid(), repository, ref, old, new, actor, proposal FROM ref_move"
    )


async def lock_left(scene: Scene) -> None:
    (scene.house.path / "refs/heads/main.lock").touch()


async def pack_torn(scene: Scene) -> None:
    pack = next(scene.house.path.glob("objects/pack/*.pack"))
    pack.chmod(0o600)
    pack.write_bytes(pack.read_bytes()[:-1] + b"?")


SABOTAGE = [
    ("I1", approved_and_left),
    ("I1", ended_twice),
    ("I1", still_in_the_queue),
    ("I2", marker_lost),
    ("I2", marker_elsewhere),
    ("I2", branch_back),
    ("I2", marker_of_a_failed_one),
    ("I2", marker_of_nobody),
    ("I3", second_commit),
    ("I4", declined_and_executed),
    ("I4", executed_undecided),
    ("I4", revoked_before_the_intent),
    ("I4", role_lost_before_the_intent),
    ("I4", switched_off_before_the_intent),
    ("I4", policy_stricter_before_the_intent),
    ("I6", another_manifest),
    ("I6", another_message),
    ("I7", entry_changed),
    ("I7", entry_missing),
    ("I7", state_without_an_entry),
    ("I7", ref_move_missing),
    ("I7", ref_move_twice),
    ("I8", lock_left),
    ("I8", pack_torn),
]


@pytest.mark.parametrize(("invariant", "sabotage"), SABOTAGE, ids=[one.__name__ for _, one in SABOTAGE])
async def test_each_broken_invariant_is_seen(
    scene: Scene, invariant: str, sabotage: Callable[[Scene], Awaitable[None]]
) -> None:
    await sabotage(scene)
    assert invariant in {one.invariant for one in await scene.judged()}


async def test_what_was_answered_must_still_be_so(scene: Scene) -> None:
    done, pending = UUID(scene.done["proposal_id"]), UUID(scene.pending["proposal_id"])
    commit = scene.house.head()
    kept = [Answer(done, "pending"), Answer(done, "approved"), Answer(done, "executed", commit)]
    assert await scene.judged(*kept, Answer(pending, "pending")) == []
    for broken in (
        Answer(done, "stale"),
        Answer(done, "executed", "0" * 40),
        Answer(pending, "approved"),
        Answer(uuid4(), "pending"),
    ):
        assert [one.invariant for one in await scene.judged(broken)] == ["I5"], broken


async def test_a_branch_that_moved_on_or_was_moved_by_a_known_hand_is_explained(scene: Scene) -> None:
    await scene.house.decide(scene.pending)
    await scene.house.execute(scene.pending)
    assert await scene.judged() == []
    first, second = git(scene.house.path, "rev-parse", "main~2", "main").decode().split()
    git(scene.house.path, "update-ref", "refs/heads/main", first)
    assert {one.invariant for one in await scene.judged()} == {"I2"}
    async with scene.house.stage.owner_db.bound(scene.house.tenant) as tx:
        where = {"repository": scene.house.repository, "ref": "refs/heads/main"}
        moved = {"id": uuid4(), "old": second, "new": first, "actor": "a person"}
        await tx.execute(ref_move.insert().values(tenant=tx.tenant, **where, **moved))
    assert await scene.judged() == []


async def test_before_the_end_a_writer_may_be_in_the_middle(scene: Scene) -> None:
    await scene.house.decide(scene.pending)
    (scene.house.path / "refs/heads/main.lock").touch()
    assert await scene.judged(over=False) == []
    assert {one.invariant for one in await scene.judged()} == {"I1", "I8"}


def test_a_sample_is_spread_evenly_from_the_first_to_the_last() -> None:
    assert sampled(3, 40) == [1, 2, 3]
    assert sampled(100, 4) == [1, 34, 67, 100]
    assert len(sampled(1_000, 40)) == 40
    assert sampled(77, ALL) == list(range(1, 78))
    assert sampled(9, 1) == [1]


def test_the_long_form_is_never_smaller_than_the_shorter_ones() -> None:
    suite, short, long = (vars(FORMS[name]).values() for name in ("suite", "short", "long"))
    assert all(one <= two <= three for one, two, three in zip(suite, short, long, strict=True))

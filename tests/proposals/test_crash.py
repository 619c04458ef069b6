"""What an executor finds that a crash, a person's hand or a restored database left: one end, or nothing is touched."""

import errno
from collections.abc import Sequence
from uuid import uuid4

import pytest
from sqlalchemy import func, select, text

from service.contract.data import Json, Oid
from service.contract.plan import MoveRef
from service.grants.manage import change_state
from service.grants.tables import connection
from service.kit.actor import system
from service.ledger.tables import ledger_entry
from service.proposals.execute import ATTEMPTS_MOST, LEASE_SECONDS
from service.proposals.tables import intent, proposal, restore_point, work_queue
from service.repositories.bare import BareRepository
from service.repositories.lease import Lease
from service.repositories.refs import RefTransaction
from service.writer.intent import MARKERS
from service.writer.keys import rotate_key
from service.writer.reconcile import roll_forward
from service.writer.tables import signing_key
from tests.stage import SEALER, House, git
from tests.verifying import holds

pytestmark = pytest.mark.anyio


async def test_a_right_taken_after_the_approval_and_before_the_intent_ends_in_failed(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await change_state(tx, house.owner.actor, connection, house.agent.id, "revoked")
    before = house.head()
    await house.execute(shown)
    assert house.head() == before
    async with house.stage.owner_db.bound(house.tenant) as tx:
        row = (await tx.execute(select(proposal.c.state, proposal.c.outcome))).one()
    assert row.state == "failed"
    assert '"what":"connection"' in row.outcome


async def test_who_holds_the_lease_is_waited_for_and_nothing_is_lost(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    with Lease.acquire(house.path, LEASE_SECONDS):
        assert not await house.execute(shown)
    assert await house.execute(shown)
    assert (await house.read(shown))["status"] == "executed"


async def test_a_marker_that_somebody_else_made_moves_nothing_and_raises_the_alarm(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    before = house.head()
    git(house.path, "update-ref", f"refs/proposals/{shown['proposal_id']}", before)
    await house.execute(shown)
    assert house.head() == before
    assert (await house.read(shown))["status"] == "approved"
    async with house.stage.owner_db.bound(house.tenant) as tx:
        kinds = (await tx.execute(select(ledger_entry.c.kind))).scalars().all()
        due = work_queue.c.due > func.clock_timestamp() + text("interval '50 minutes'")
        later = select(func.count()).select_from(work_queue).where(due, work_queue.c.kind == "execute")
        assert await tx.scalar(later.where(work_queue.c.tenant == house.tenant)) == 1
    assert "writer.alarm" in kinds


async def alarms(house: House) -> int:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        mine = select(func.count()).select_from(ledger_entry).where(ledger_entry.c.kind == "writer.alarm")
        return int(await tx.scalar(mine))


@pytest.mark.parametrize("how", ["symbolic", "rubbish"])
async def test_a_branch_that_a_stranger_made_no_branch_is_an_alarm_and_moves_nothing(house: House, how: str) -> None:
    shown = await house.propose()
    await house.decide(shown)
    git(house.path, "update-ref", "refs/heads/two", house.head())
    if how == "symbolic":
        git(house.path, "symbolic-ref", "refs/heads/main", "refs/heads/two")
    else:
        (house.path / "refs/heads/main").write_text("rubbish\n")
    assert not await house.execute(shown)
    assert await alarms(house) == 1
    assert (await house.read(shown))["status"] in {"approved", "executing"}
    git(house.path, "symbolic-ref", "--delete", "refs/heads/main") if how == "symbolic" else None
    (house.path / "refs/heads/main").write_text(git(house.path, "rev-parse", "refs/heads/two").decode())
    while not await house.execute(shown):
        pass
    assert (await house.read(shown))["status"] == "executed"


async def test_an_alarm_is_told_once_each_time(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    git(house.path, "update-ref", f"refs/proposals/{shown['proposal_id']}", house.head())
    for _ in range(3):
        await house.execute(shown)
    assert await alarms(house) == 3


class Crash(BaseException):
    """The end of a process, as far as a step can make it."""


def crash(name: str) -> None:
    if name == "packed":
        raise Crash


async def test_what_dies_five_times_over_a_proposal_gives_it_up_and_says_why(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    before = house.head()
    crashes = 0
    while (await house.read(shown))["status"] in {"approved", "executing"}:
        assert crashes < ATTEMPTS_MOST + 1
        try:
            await house.execute(shown, crash)
        except Crash:
            crashes += 1
    found = await house.read(shown)
    assert (found["status"], found["outcome"]["code"], crashes) == ("failed", "could_not_write", ATTEMPTS_MOST)
    assert "operator" in found["outcome"]["message"]
    assert house.head() == before


async def test_staged_objects_that_do_not_read_back_are_never_written(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    before = house.head()
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(text("UPDATE staging SET objects = overlay(objects placing '\\\\x00'::bytea from 40)"))
    assert await house.execute(shown)
    found = await house.read(shown)
    assert (found["status"], found["outcome"]["code"]) == ("failed", "manifest_differs")
    assert house.head() == before


async def test_an_intent_that_is_made_again_names_the_key_that_signs_it(house: House) -> None:
    await house.sign()
    shown = await house.propose()
    await house.decide(shown)
    with pytest.raises(Crash):
        await house.execute(shown, crash)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await rotate_key(tx, system(house.tenant), SEALER)
        live = await tx.scalar(select(signing_key.c.id).where(signing_key.c.state == "live"))
    while not await house.execute(shown):
        pass
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(intent.c.signing_key)) == live
    assert holds(house.path, house.head(), await house.signers())


async def test_a_database_older_than_git_believes_the_commit_that_speaks_of_its_proposal(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    await house.execute(shown)
    commit = house.head()
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(text("DELETE FROM intent"))
        await tx.execute(text("UPDATE proposal SET state = 'approved', outcome = NULL, ended_at = NULL"))
    await house.execute(shown)
    found = await house.read(shown)
    assert (found["status"], found["outcome"]["commit"], house.head()) == ("executed", commit, commit)


async def before_the_intent(house: House) -> None:
    """As after a restore of the database to when it had just been approved."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        for statement in (
            "DELETE FROM intent",
            "DELETE FROM restore_point",
            "DELETE FROM work_queue WHERE kind = 'drop'",
            "UPDATE proposal SET state = 'approved', outcome = NULL, ended_at = NULL WHERE state = 'executed'",
        ):
            await tx.execute(text(statement))


WITHOUT_A_COMMIT: dict[str, Json] = {
    "propose_branch_delete": {"branches": ["side"], "into": "main"},
    "propose_reset": {"branch": "main", "target": "side"},
    "propose_tag": {"name": "v1", "target": "main", "message": "Release"},
    "propose_branch": {"branch": "topic", "source": "main"},
}


async def ready(house: House, tool: str) -> Json:
    """Main one commit above side, and a proposal that makes no commit, approved."""
    git(house.path, "update-ref", "refs/heads/side", house.head())
    made = git(house.path, "commit-tree", "main^{tree}", "-p", "main", "-m", "Above").decode().strip()
    git(house.path, "update-ref", "refs/heads/main", made)
    words = {"repository_id": str(house.repository), "reason": "Because it was asked."}
    shown = await house.propose({**words, **WITHOUT_A_COMMIT[tool]}, tool=tool)
    await house.decide(shown)
    return shown


@pytest.mark.parametrize("tool", WITHOUT_A_COMMIT)
async def test_a_database_older_than_git_believes_what_an_execution_without_a_commit_left(
    house: House, tool: str
) -> None:
    shown = await ready(house, tool)
    await house.execute(shown)
    whole = (await house.read(shown))["outcome"]
    refs = git(house.path, "for-each-ref")
    await before_the_intent(house)
    await house.execute(shown)
    found = await house.read(shown)
    assert (found["status"], found["outcome"]) == ("executed", whole)
    assert (await alarms(house), git(house.path, "for-each-ref")) == (0, refs)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(func.count()).select_from(restore_point)) == 1
        assert await tx.scalar(select(func.count()).where(work_queue.c.kind == "drop")) == 1
    await house.land(await house.undo(shown))


async def test_what_moved_on_after_it_is_believed_as_well(house: House) -> None:
    shown = await ready(house, "propose_reset")
    await house.execute(shown)
    made = git(house.path, "commit-tree", "main^{tree}", "-p", "main", "-m", "Later").decode().strip()
    git(house.path, "update-ref", "refs/heads/main", made)
    await before_the_intent(house)
    await house.execute(shown)
    assert ((await house.read(shown))["status"], house.head()) == ("executed", made)


@pytest.mark.parametrize("tool", ["propose_branch_delete", "propose_reset", "propose_branch"])
async def test_a_marker_alone_is_no_execution(house: House, tool: str) -> None:
    shown = await ready(house, tool)
    for target in ("main", "side"):
        git(house.path, "update-ref", f"{MARKERS}{shown['proposal_id']}", f"refs/heads/{target}")
        refs = git(house.path, "for-each-ref")
        await house.execute(shown)
        assert ((await house.read(shown))["status"], git(house.path, "for-each-ref")) == ("approved", refs)
    assert await alarms(house) == 2


class _Unflushed(RefTransaction):
    """Moves of refs on a disk that reports an error when a marker's folder is flushed."""

    def commit_moves(self) -> None:
        super().commit_moves()
        if any(move.ref.startswith(MARKERS) for move in self._set):
            raise OSError(errno.EIO, "the folder of the markers")


class _BadDisk(BareRepository):
    def ref_steps(self, marker: tuple[str, Oid] | None, moves: Sequence[MoveRef]) -> RefTransaction:
        return _Unflushed(self.path, marker, moves)


async def test_while_the_marker_cannot_be_flushed_no_other_ref_moves(house: House) -> None:
    """A branch that lasts without its marker would be a commit that nobody is told of."""
    before = house.head()
    made = git(house.path, "commit-tree", "main^{tree}", "-p", before, "-m", "Made").decode().strip()
    marker = (f"{MARKERS}{uuid4()}", Oid(made))
    git(house.path, "update-ref", *marker)
    move = MoveRef(ref="refs/heads/main", old=Oid(before), new=Oid(made))
    with pytest.raises(OSError, match="markers"):
        roll_forward(_BadDisk(house.path), marker, [move], lambda _move, _head: False)
    assert house.head() == before
    assert roll_forward(BareRepository(house.path), marker, [move], lambda _move, _head: False) == (move,)
    assert house.head() == made

"""Undo, restore points and conflicts with the real database, the real writer and stock git beside them."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, insert, select, text, update

from service.contract.data import Json
from service.grants.manage import add_membership
from service.grants.tables import connection, membership, project, tenant
from service.kit.actor import Actor
from service.kit.errors import Code, Refusal
from service.ledger.tables import ledger_entry
from service.proposals.conflicts import KEPT, KEPT_MOST
from service.proposals.decide import Decider
from service.proposals.restore import Drop
from service.proposals.store import ProposalStore
from service.proposals.tables import conflict, proposal, restore_point, work_queue
from service.repositories.bare import BareRepository
from service.repositories.tables import repository
from service.writer.write import Step
from tests.faults.oracle import judge
from tests.stage import House, git

pytestmark = pytest.mark.anyio


def words(house: House, **more: Any) -> Json:
    return {"repository_id": str(house.repository), "reason": "Because it was asked.", **more}


def refs(house: House, prefix: str = "refs") -> dict[str, str]:
    lines = git(house.path, "for-each-ref", "--format=%(refname) %(objectname)", prefix).decode().splitlines()
    return dict(line.split() for line in lines)


def grow(house: House, branch: str, path: str, content: bytes) -> str:
    """Another commit on a branch, made by stock git; the branch is made from main where it is not there."""
    tip = house.head(branch) if house.head(branch).strip("0") else house.head()
    blob = git(house.path, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
    git(house.path, "read-tree", tip)
    git(house.path, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    tree = git(house.path, "write-tree").decode().strip()
    made = git(house.path, "commit-tree", tree, "-p", tip, "-m", f"Grow {path}").decode().strip()
    git(house.path, "update-ref", f"refs/heads/{branch}", made)
    (house.path / "index").unlink()
    return made


async def reset(house: House) -> tuple[Json, str, str]:
    """A reset of main by one commit that was executed; where it was, and where it is."""
    first = house.head()
    second = grow(house, "main", "late.txt", b"late\n")
    shown = await house.propose(words(house, branch="main", target=first), tool="propose_reset")
    assert (await house.land(shown)).state == "executed"
    return shown, second, first


async def test_what_a_reset_leaves_behind_is_kept_listed_read_and_brought_back_by_undo(house: House) -> None:
    shown, before, after = await reset(house)
    own = shown["proposal_id"]
    assert house.head() == after
    assert refs(house, "refs/restore") == {f"refs/restore/{own}/kept/heads/main": before}
    outcome = (await house.read(shown))["outcome"]
    assert outcome["restore_point_id"] == own
    moves = [{"ref": "refs/heads/main", "old": before, "new": after}]
    assert outcome["moves"] == moves
    listed = await house.call("list_restore_points", {"repository_id": str(house.repository)})
    assert [one["restore_point_id"] for one in listed["restore_points"]] == [own]
    assert (await house.call("read_restore_point", {"restore_point_id": own}))["moves"] == moves
    undone = await house.undo(shown)
    assert await house.undo(shown) == undone, "asked again it is the same proposal"
    assert (await house.land(undone)).state == "executed"
    assert house.head() == before
    git(house.path, "fsck", "--strict")


async def test_an_undo_is_the_owners_own_proposal_and_its_commit_says_so(house: House) -> None:
    shown = await house.propose()
    await house.land(shown)
    undone = await house.undo(shown)
    assert (await house.land(undone)).state == "executed"
    said = git(house.path, "log", "-1", "--format=%an <%ae>%n%cn <%ce>%n%(trailers)", "main").decode()
    assert said.count(f"Olive Owner <{house.owner.email}>") == 2
    assert "Connection:" not in said
    assert f"Proposal: {undone['proposal_id']}" in said
    assert "new.txt" not in git(house.path, "ls-tree", "-r", "--name-only", "main").decode()
    assert await judge(house.stage.owner_db, house.stage.storage, house.tenant) == []


async def test_an_undo_that_ended_in_vain_may_be_proposed_anew_and_an_undo_be_undone(house: House) -> None:
    shown = await house.propose()
    await house.land(shown)
    first = await house.undo(shown)
    await house.decide(first, "decline")
    second = await house.undo(shown)
    assert second["proposal_id"] != first["proposal_id"]
    await house.land(second)
    third = await house.undo(second)
    await house.land(third)
    assert house.content("new.txt") == b"new\n"


async def may_undo(house: House, shown: Json) -> bool:
    """What the card offers."""
    cards = house.stage.cards
    return (await cards.read(house.owner.actor, UUID(shown["proposal_id"]))).may_undo


async def test_an_undo_that_was_undone_may_be_proposed_anew_and_the_card_offers_it_only_then(house: House) -> None:
    shown = await house.propose()
    assert not await may_undo(house, shown)
    await house.land(shown)
    taken, offered = shown, []
    made = []
    for _ in range(3):  # undo, redo, undo the redo
        offered.append(await may_undo(house, taken))
        taken = await house.undo(taken)
        made.append(taken["proposal_id"])
        offered.append(await may_undo(house, shown))
        await house.land(taken)
        offered.append(await may_undo(house, shown))
        if len(made) == 2:
            assert (await house.undo(shown))["proposal_id"] not in made
            again = await house.undo(shown)
            await house.decide(again, "decline")
    assert "new.txt" not in git(house.path, "ls-tree", "-r", "--name-only", "main").decode()
    assert (await house.undo(shown))["proposal_id"] == made[0], "undone once more by what undid the redo"
    assert offered == [True, False, False, True, False, True, True, True, False]


async def test_of_two_owners_who_click_undo_often_at_once_one_proposes(house: House) -> None:
    shown = await house.propose()
    await house.land(shown)
    who, email = await house.stage.person(house.tenant, "Otto Owner")
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await add_membership(tx, house.owner.actor, house.project, who, "owner")
    other = Decider(Actor("owner", house.tenant, who, email, session=uuid4()), "Otto Owner", email)
    own = UUID(shown["proposal_id"])
    clicks = [house.stage.undo(one, own) for _ in range(10) for one in (house.owner, other)]
    assert len(set(await asyncio.gather(*clicks))) == 1
    async with house.stage.app_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(func.count()).where(proposal.c.undoes == own)) == 1


async def test_a_restore_point_that_was_dropped_takes_nothing_back(house: House) -> None:
    shown, *_ = await reset(house)
    assert await may_undo(house, shown)
    own = UUID(shown["proposal_id"])
    await let_go(house, own)
    assert await dropper(house)(house.tenant, own, house.repository)
    assert not await may_undo(house, shown)
    with pytest.raises(Refusal) as caught:
        await house.undo(shown)
    assert caught.value.code is Code.NOTHING_TO_UNDO


async def test_the_undo_of_a_plan_that_only_committed_leaves_what_others_committed_later(house: House) -> None:
    steps = [
        {
            "kind": "propose_file_import",
            "arguments": {"branch": "main", "message": f"Add {name}", "files": [{"path": name, "content": "1\n"}]},
        }
        for name in ("one.txt", "two.txt")
    ]
    shown = await house.propose(words(house, steps=steps), tool="propose_plan")
    assert (await house.land(shown)).state == "executed"
    later = grow(house, "main", "later.txt", b"later\n")
    undone = await house.undo(shown)
    assert (await house.land(undone)).state == "executed"
    assert git(house.path, "rev-parse", "main~2").decode().strip() == later
    names = git(house.path, "ls-tree", "--name-only", "main").decode().split()
    assert "later.txt" in names
    assert not {"one.txt", "two.txt"} & set(names)


@pytest.mark.parametrize("state", ["pending", "declined", "stale"])
async def test_what_was_not_executed_has_no_undo(house: House, state: str) -> None:
    shown = await house.propose()
    if state == "declined":
        await house.decide(shown, "decline")
    if state == "stale":
        grow(house, "main", "other.txt", b"other\n")
        await house.decide(shown)
    with pytest.raises(Refusal) as caught:
        await house.undo(shown)
    assert caught.value.code is Code.NOTHING_TO_UNDO


async def test_who_may_not_decide_may_not_undo_and_an_owner_who_lost_his_role_executes_nothing(house: House) -> None:
    shown = await house.propose()
    await house.land(shown)
    undone = await house.undo(shown)
    await house.decide(undone)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(membership).values(role="reader"))
    head = house.head()
    await house.execute(undone)
    async with house.stage.app_db.bound(house.tenant) as tx:
        state = await tx.scalar(select(proposal.c.state).where(proposal.c.id == UUID(undone["proposal_id"])))
    assert (state, house.head()) == ("failed", head)
    with pytest.raises(Refusal) as caught:
        await house.stage.undo(house.owner, UUID(shown["proposal_id"]))
    assert caught.value.code is Code.FORBIDDEN


async def test_no_agent_sees_or_withdraws_a_proposal_of_the_owner(house: House) -> None:
    shown = await house.propose()
    await house.land(shown)
    undone = await house.undo(shown)
    for asked in (house.own.read(undone["proposal_id"], 0), house.own.cancel(undone["proposal_id"])):
        with pytest.raises(Refusal) as caught:
            await asked
        assert caught.value.code is Code.NOT_FOUND


def dropper(house: House, step: Step = lambda _name: None) -> Drop:
    store = ProposalStore(house.stage.writer_db, house.stage.storage)
    return Drop(store, BareRepository, house.executor().lease, step)


async def let_go(house: House, restore_point_id: UUID) -> None:
    """Let the time of a restore point be over."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        over = update(restore_point).where(restore_point.c.id == restore_point_id)
        await tx.execute(over.values(expires_at=func.clock_timestamp()))


async def queued_drop(house: House, subject: UUID, due: str = "") -> Any:
    """When a restore point is to be dropped; None where nobody asks. `due` as SQL: ask for it, then."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        if due:
            row = {"kind": "drop", "tenant": house.tenant, "subject": subject, "repository": house.repository}
            await tx.execute(insert(work_queue).values(**row, due=text(due)))
        asked = (work_queue.c.subject == subject) & (work_queue.c.kind == "drop")
        return await tx.scalar(select(work_queue.c.due).where(asked))


async def entries(house: House, kind: str) -> int:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        return int(await tx.scalar(select(func.count()).where(ledger_entry.c.kind == kind)))


async def test_who_asks_early_for_a_drop_gets_none_and_it_comes_in_its_time(house: House) -> None:
    first = house.head()
    second = grow(house, "main", "late.txt", b"late\n")
    shown = await house.propose(words(house, branch="main", target=first), tool="propose_reset")
    own = UUID(shown["proposal_id"])
    early = await queued_drop(house, own, "clock_timestamp()")
    await house.land(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        expires = await tx.scalar(select(restore_point.c.expires_at).where(restore_point.c.id == own))
    assert early < await queued_drop(house, own) == expires
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(work_queue).where(work_queue.c.kind == "drop").values(due=func.clock_timestamp()))
    assert not await dropper(house)(house.tenant, own, house.repository)
    assert await queued_drop(house, own) >= expires
    assert list(refs(house, "refs/restore").values()) == [second]


async def test_a_drop_of_what_is_no_restore_point_does_nothing_and_is_forgotten(house: House) -> None:
    shown = await house.propose()
    own = UUID(shown["proposal_id"])
    for strange in (own, uuid4()):
        await queued_drop(house, strange, "clock_timestamp()")
        git(house.path, "update-ref", f"refs/restore/{strange}/kept/heads/main", house.head())
        assert await dropper(house)(house.tenant, strange, house.repository)
        assert await queued_drop(house, strange) is None
    assert len(refs(house, "refs/restore")) == 2
    assert await entries(house, "restore_point.dropped") == 0


async def test_two_who_drop_the_same_say_so_once(house: House) -> None:
    shown, *_ = await reset(house)
    own = UUID(shown["proposal_id"])
    await let_go(house, own)
    lost = []

    def fall(name: str) -> None:
        if name == "push moved" and not lost:
            lost.append(name)
            raise Crash

    with pytest.raises(Crash):
        await dropper(house, fall)(house.tenant, own, house.repository)
    await asyncio.gather(*(until(dropper(house), house, own) for _ in range(2)))
    assert (await entries(house, "restore_point.dropped"), refs(house, "refs/restore")) == (1, {})


class Crash(BaseException):
    """The end of a process, as far as a step can make it."""


async def until(drop: Drop, house: House, restore_point_id: UUID) -> None:
    while not await drop(house.tenant, restore_point_id, house.repository):
        pass


async def test_a_restore_point_whose_time_is_over_goes_and_takes_nothing_else_along(house: House) -> None:
    shown, _, after = await reset(house)
    own = UUID(shown["proposal_id"])
    async with house.stage.owner_db.bound(house.tenant) as tx:
        due = await tx.scalar(select(work_queue.c.due).where(work_queue.c.subject == own, work_queue.c.kind == "drop"))
        assert due == await tx.scalar(select(restore_point.c.expires_at).where(restore_point.c.id == own))
    drop = dropper(house)
    assert not await drop(house.tenant, own, house.repository), "not yet"
    assert refs(house, "refs/restore")
    await let_go(house, own)
    assert await drop(house.tenant, own, house.repository)
    assert await drop(house.tenant, own, house.repository), "asked again it is done already"
    assert (refs(house, "refs/restore"), house.head()) == ({}, after)
    with pytest.raises(Refusal) as caught:
        await house.call("read_restore_point", {"restore_point_id": str(own)})
    assert caught.value.code is Code.NOT_FOUND
    assert await judge(house.stage.owner_db, house.stage.storage, house.tenant) == []
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert not await tx.scalar(select(func.count()).where(work_queue.c.subject == own, work_queue.c.kind == "drop"))


async def test_gc_takes_no_restore_point(house: House) -> None:
    shown, before, _ = await reset(house)
    git(house.path, "gc", "--prune=now", "-q")
    undone = await house.undo(shown)
    await house.land(undone)
    assert house.head() == before


async def test_restore_points_and_conflicts_of_another_tenant_do_not_exist(house: House, neighbour: House) -> None:
    shown, *_ = await reset(house)
    refused = await conflicted(house)
    asked = {
        "read_restore_point": {"restore_point_id": shown["proposal_id"]},
        "list_restore_points": {"repository_id": str(house.repository)},
        "read_conflicts": {"conflict_id": refused.details["conflict_id"]},
    }
    for tool, arguments in asked.items():
        strange = {name: str(uuid4()) for name in arguments}
        bodies = []
        for sent in (arguments, strange):
            with pytest.raises(Refusal) as caught:
                await neighbour.call(tool, sent)
            bodies.append(caught.value.body())
        assert bodies[0] == bodies[1]


GONE = {
    "the repository is paused": (repository, {"state": "paused"}),
    "the project is revoked": (project, {"state": "revoked"}),
    "who granted it is no member": (membership, {"state": "revoked"}),
    "the connection is revoked": (connection, {"state": "revoked"}),
    "the tenant is paused": (tenant, {"state": "paused"}),
}


@pytest.mark.parametrize("how", GONE)
async def test_whose_rights_are_gone_reads_nothing_that_was_kept(house: House, how: str) -> None:
    shown, *_ = await reset(house)
    refused = await conflicted(house)
    asked = {
        "read_repository": {"repository_id": str(house.repository)},
        "list_restore_points": {"repository_id": str(house.repository)},
        "read_restore_point": {"restore_point_id": shown["proposal_id"]},
        "read_conflicts": {"conflict_id": refused.details["conflict_id"]},
    }
    for tool, arguments in asked.items():
        await house.call(tool, arguments)
    table, values = GONE[how]
    mine = table.c.id == house.tenant if table is tenant else table.c.tenant == house.tenant
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(table).where(mine).values(**values))
    for tool, arguments in asked.items():
        with pytest.raises(Refusal) as caught:
            await house.call(tool, arguments)
        assert caught.value.code is Code.NOT_FOUND, tool


async def test_whosever_conflict_is_a_day_old_goes_with_the_next(house: House) -> None:
    await conflicted(house)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        old = func.clock_timestamp() - KEPT
        await tx.execute(update(conflict).values(made_at=old))
    other = await house.stage.connect(house.tenant, house.owner.actor.id, house.repository, "Codex")
    with pytest.raises(Refusal):
        await house.propose(words(house, branch="main", source="side"), tool="propose_merge", agent=other)
    async with house.stage.app_db.bound(house.tenant) as tx:
        assert list((await tx.execute(select(conflict.c.connection))).scalars()) == [other.id]


async def conflicted(house: House) -> Refusal:
    """A merge that could not agree with itself."""
    grow(house, "side", "app.py", b"print('side')\n")
    grow(house, "main", "app.py", b"print('main')\n")
    with pytest.raises(Refusal) as caught:
        await house.propose(words(house, branch="main", source="side"), tool="propose_merge")
    return caught.value


async def test_a_merge_that_conflicts_names_paths_and_regions_and_its_sides_can_be_read(house: House) -> None:
    refused = await conflicted(house)
    assert refused.code is Code.CONFLICTS
    (told,) = refused.details["paths"]
    assert told["path"] == "app.py"
    assert told["regions"]
    listed = await house.call("read_conflicts", {"conflict_id": refused.details["conflict_id"]})
    assert (listed["total"], listed["operation"]) == (1, "propose_merge")
    whole = await house.call("read_conflicts", {"conflict_id": refused.details["conflict_id"], "path": "app.py"})
    (one,) = whole["paths"]
    sides = {name: one[name]["content"] for name in ("base", "ours", "theirs")}
    assert sides == {"base": "print('hello')\n", "ours": "print('main')\n", "theirs": "print('side')\n"}
    assert one["regions"] == [
        {name: {"line": 1, "lines": 1} for name in ("base", "ours", "theirs")},
    ]
    async with house.stage.app_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(func.count()).select_from(proposal)) == 0


async def test_of_many_conflicts_the_last_are_kept(house: House) -> None:
    first = await conflicted(house)
    for _ in range(KEPT_MOST):
        with pytest.raises(Refusal):
            await house.propose(words(house, branch="main", source="side"), tool="propose_merge")
    async with house.stage.app_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(func.count()).select_from(conflict)) == KEPT_MOST
    with pytest.raises(Refusal) as caught:
        await house.call("read_conflicts", {"conflict_id": first.details["conflict_id"]})
    assert caught.value.code is Code.NOT_FOUND


async def test_every_propose_answer_says_who_else_is_at_work_and_where_they_meet(house: House) -> None:
    other = await house.stage.connect(house.tenant, house.owner.actor.id, house.repository, "Codex")
    await house.propose(house.arguments({"path": "app.py", "content": "1\n"}), agent=other)
    await house.propose(house.arguments({"path": "far.txt", "content": "1\n"}), agent=other)
    shown = await house.propose(house.arguments({"path": "app.py", "content": "2\n"}))
    (told,) = shown["other_agents"]
    assert (told["connection"], told["pending"]) == ("Codex", 2)
    met = {tuple(one["paths"]): one["refs"] for one in told["overlapping"]}
    assert met == {("app.py",): ["refs/heads/main"], (): ["refs/heads/main"]}
    assert shown["status"] == "pending"


async def test_who_types_nothing_or_another_name_rewrites_no_history(house: House) -> None:
    first = house.head()
    grow(house, "main", "late.txt", b"late\n")
    shown = await house.propose(words(house, branch="main", target=first), tool="propose_reset")
    for typed in ((), ("mian",), ("",)):
        with pytest.raises(Refusal) as caught:
            await house.decide(shown, confirmed=frozenset(typed))
        assert caught.value.code is Code.CONFIRMATION_OPEN
        assert caught.value.details["confirm"] == ["main"]
    assert (await house.read(shown))["status"] == "pending"
    assert (await house.land(shown)).state == "executed"


async def test_proposals_of_one_group_are_stored_with_it_and_decided_alone(house: House) -> None:
    shown = [
        await house.propose(words(house, branch=name, source="main", group_id="release-2026"), tool="propose_branch")
        for name in ("one", "two")
    ]
    assert [one["group_id"] for one in shown] == ["release-2026"] * 2
    await house.land(shown[0])
    assert [(await house.read(one))["status"] for one in shown] == ["executed", "pending"]

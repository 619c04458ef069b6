"""The life of a proposal: proposed, decided, executed, on real PostgreSQL and real git."""

from uuid import UUID

import pytest
from sqlalchemy import select

from service.grants.manage import add_membership, change_state
from service.grants.tables import membership
from service.kit.errors import Code, Refusal
from service.proposals.store import ProposalStore
from service.proposals.tables import work_queue
from tests.stage import House, git

pytestmark = pytest.mark.anyio


async def test_an_approved_proposal_becomes_one_commit_with_author_committer_and_trailers(house: House) -> None:
    before = house.head()
    shown = await house.propose(house.arguments({"path": "docs/a.md", "content": "a\n"}, message="Add a\n\nWhy: so."))
    assert shown["status"] == "pending"
    assert house.head() == before
    decided = await house.decide(shown)
    assert decided.state == "approved"
    assert await house.execute(shown)
    ended = await house.read(shown)
    assert ended["status"] == "executed"
    assert ended["outcome"]["commit"] == house.head()
    line = git(house.path, "log", "-1", "--format=%an|%ae|%cn|%ce|%P", "main").decode().strip()
    handle = f"conn-{house.agent.id.hex[:12]}"
    assert line == f"Claude ({handle})|{handle}@localhost|Olive Owner|{house.owner.email}|{before}"
    trailers = git(house.path, "log", "-1", "--format=%(trailers:only,unfold)", "main").decode().split("\n")
    assert trailers[:4] == [
        f"Proposal: {shown['proposal_id']}",
        f"Approved-by: {house.owner.email}",
        f"Connection: {handle}",
        f"Reviewed-digest: {shown['card_digest']}",
    ]
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""
    marker = git(house.path, "rev-parse", f"refs/proposals/{shown['proposal_id']}").decode().strip()
    assert marker == house.head()


async def test_nothing_touches_git_before_an_approval(house: House) -> None:
    objects = git(house.path, "count-objects", "-v")
    await house.propose()
    assert git(house.path, "count-objects", "-v") == objects


async def test_the_second_approval_on_one_base_is_stale_and_says_the_head(house: House) -> None:
    first = await house.propose(house.arguments({"path": "README.md", "content": "1\n"}))
    second = await house.propose(house.arguments({"path": "app.py", "content": "2\n"}))
    await house.decide(first)
    await house.decide(second)
    await house.execute(first)
    await house.execute(second)
    stale = await house.read(second)
    assert stale["status"] == "stale"
    assert stale["outcome"]["head"] == house.head() == (await house.read(first))["outcome"]["commit"]
    assert house.content("app.py") == b"print('hello')\n"


async def test_a_stale_base_is_already_seen_at_the_decision(house: House) -> None:
    first, second = await house.propose(), await house.propose()
    await house.decide(first)
    await house.execute(first)
    assert (await house.read(second))["branch_moved"]
    decided = await house.decide(second)
    assert (decided.state, decided.outcome["head"]) == ("stale", house.head())


async def test_the_same_key_and_body_is_the_same_proposal_in_whatever_state_it_is(house: House) -> None:
    shown = await house.propose(key="one-key-1")
    again = await house.propose(key="one-key-1")
    assert (again["proposal_id"], again["replayed"], shown["replayed"]) == (shown["proposal_id"], True, False)
    await house.decide(shown)
    await house.execute(shown)
    later = await house.propose(key="one-key-1")
    assert (later["proposal_id"], later["status"]) == (shown["proposal_id"], "executed")


async def test_the_same_key_with_one_byte_other_is_refused_and_nothing_is_stored(house: House) -> None:
    await house.propose(key="one-key-1")
    other = house.arguments({"path": "new.txt", "content": "New\n"})
    with pytest.raises(Refusal) as caught:
        await house.propose(other, key="one-key-1")
    assert caught.value.code is Code.KEY_REUSED
    assert len(await house.own.list(repository_id=None, state=None, after="", most=10)) == 1


async def test_ten_identical_proposes_at_once_are_one_proposal(house: House) -> None:
    import asyncio

    shown = await asyncio.gather(*(house.propose(key="one-key-1") for _ in range(10)))
    assert len({one["proposal_id"] for one in shown}) == 1
    assert sum(not one["replayed"] for one in shown) == 1


async def test_the_same_key_from_another_connection_is_its_own_proposal(house: House) -> None:
    other = await house.stage.connect(house.tenant, house.owner.actor.id, house.repository)
    first, second = await house.propose(key="one-key-1"), await house.propose(key="one-key-1", agent=other)
    assert first["proposal_id"] != second["proposal_id"]


async def test_approving_again_gives_the_same_commit_as_a_replay(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    await house.execute(shown)
    again = await house.decide(shown)
    assert (again.state, again.replayed, again.outcome["commit"]) == ("executed", True, house.head())
    await house.execute(shown)
    assert git(house.path, "rev-list", "--count", "main").strip() == b"2"


async def test_what_was_declined_cannot_be_approved(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown, "decline", note="Not now.")
    assert (await house.read(shown))["outcome"]["note"] == "Not now."
    with pytest.raises(Refusal) as caught:
        await house.decide(shown)
    assert (caught.value.code, caught.value.details["status"]) == (Code.PROPOSAL_ENDED, "declined")


async def test_an_expired_proposal_cannot_be_approved_and_is_marked_as_such(house: House) -> None:
    shown = await house.propose()
    await age(house, shown)
    with pytest.raises(Refusal) as caught:
        await house.decide(shown)
    assert caught.value.details["status"] == "expired"
    assert (await house.read(shown))["status"] == "expired"


async def test_the_sweep_expires_what_is_due_and_nothing_else(house: House) -> None:
    from service.kit.actor import system
    from service.proposals.expire import expire

    due, waiting = await house.propose(), await house.propose()
    await age(house, due)
    for shown in (due, waiting):
        await expire(ProposalStore(house.stage.writer_db, house.stage.storage), system(house.tenant), _id(shown))
    assert (await house.read(due))["status"] == "expired"
    assert (await house.read(waiting))["status"] == "pending"
    async with house.stage.owner_db.bound(house.tenant) as tx:
        kept = await tx.execute(select(work_queue.c.subject).where(work_queue.c.tenant == house.tenant))
        assert kept.scalars().all() == [_id(waiting)]  # it will be looked at when its time is over


async def test_a_withdrawn_proposal_is_over_and_withdrawing_again_says_the_same(house: House) -> None:
    shown = await house.propose()
    for _ in range(2):
        assert (await house.own.cancel(shown["proposal_id"]))["status"] == "cancelled"
    with pytest.raises(Refusal) as caught:
        await house.decide(shown)
    assert caught.value.details["status"] == "cancelled"


async def test_an_old_tab_decides_nothing(house: House) -> None:
    shown = await house.propose()
    with pytest.raises(Refusal) as caught:
        await house.decide(shown, digest="0" * 64)
    assert caught.value.code is Code.CARD_CHANGED
    assert (await house.read(shown))["status"] == "pending"


async def test_a_warning_that_was_not_acknowledged_stops_the_approval_and_is_named(house: House) -> None:
    shown = await house.propose(house.arguments({"path": "run.sh", "content": "#!/bin/sh\n", "mode": "100755"}))
    with pytest.raises(Refusal) as caught:
        await house.decide(shown, acknowledged=frozenset())
    assert caught.value.details["warnings"] == ["becomes_executable:run.sh"]


async def test_the_cap_on_waiting_proposals_holds_exactly_also_at_once(house: House) -> None:
    import asyncio

    done = await asyncio.gather(*(house.propose() for _ in range(24)), return_exceptions=True)
    refused = [one for one in done if isinstance(one, Refusal)]
    assert {one.code for one in refused} == {Code.TOO_MANY_PENDING}
    assert len(done) - len(refused) == 20


async def test_only_a_member_who_may_decide_decides(house: House, neighbour: House) -> None:
    shown = await house.propose()
    with pytest.raises(Refusal) as caught:
        await house.decide(shown, owner=neighbour.owner)
    assert caught.value.code is Code.NOT_FOUND


async def test_a_connections_proposals_do_not_exist_for_another(house: House, neighbour: House) -> None:
    shown = await house.propose()
    other = await house.stage.connect(house.tenant, house.owner.actor.id, house.repository)
    for stranger in (neighbour.agent, other):
        for call in (lambda own: own.read(shown["proposal_id"], 0), lambda own: own.cancel(shown["proposal_id"])):
            with pytest.raises(Refusal) as caught:
                await call(house.stage.own(stranger))
            assert caught.value.body() == Refusal(Code.NOT_FOUND, "There is no such proposal.").body()


def _id(shown: dict[str, str]) -> "UUID":
    return UUID(shown["proposal_id"])


async def age(house: House, shown: dict[str, str]) -> None:
    """Let its time be over, as only the owner of the tables can."""
    from sqlalchemy import text

    async with house.stage.owner_db.bound(house.tenant) as tx:
        statement = text("UPDATE proposal SET expires_at = clock_timestamp() - interval '1 second' WHERE id = :id")
        await tx.execute(statement, {"id": shown["proposal_id"]})


async def test_a_person_who_was_taken_out_of_a_project_may_be_added_again(house: House) -> None:
    who, _ = await house.stage.person(house.tenant, "Rita Reader")
    async with house.stage.owner_db.bound(house.tenant) as tx:
        first = await add_membership(tx, house.owner.actor, house.project, who, "owner")
        await change_state(tx, house.owner.actor, membership, first, "revoked")
        assert await add_membership(tx, house.owner.actor, house.project, who, "reader") == first
        row = (await tx.execute(select(membership).where(membership.c.id == first))).one()
        assert (row.state, row.role, row.version) == ("live", "reader", 3)
        with pytest.raises(Refusal) as caught:
            await add_membership(tx, house.owner.actor, house.project, who, "owner")
    assert caught.value.code is Code.NAME_TAKEN


@pytest.mark.parametrize("verdict", ["approve", "decline"])
async def test_the_owners_note_reaches_the_agent_whatever_the_verdict(house: House, verdict: str) -> None:
    shown = await house.propose()
    await house.decide(shown, verdict, note="Thank you.")
    if verdict == "approve":
        await house.execute(shown)
    assert (await house.read(shown))["outcome"]["note"] == "Thank you."

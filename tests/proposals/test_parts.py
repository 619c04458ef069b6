"""An owner approves a part: it is chosen byte for byte, shown again, and ends the whole; the whole ends its parts."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from sqlalchemy import select, text

from service.contract.data import Json
from service.kit.actor import system
from service.kit.errors import Code, Refusal
from service.ledger.tables import ledger_entry
from service.proposals.decide import Decided
from service.proposals.expire import expire
from service.proposals.planning import load_card
from service.proposals.store import ProposalStore
from service.proposals.tables import proposal, work_queue
from tests.stage import House, Stage, git

pytestmark = pytest.mark.anyio
LINES = "".join(f"line {number}\n" for number in range(1, 21))
FILES = {"README.md": b"# Orchard\n", "app.py": LINES.encode(), "win.txt": b"x\r\ny\r\nz\r\n"}
CHANGED = LINES.replace("line 2\n", "line two\nand more\n").replace("line 18\n", "").removesuffix("\n")
ASKED: tuple[Json, ...] = (
    {"path": "app.py", "content": CHANGED},
    {"path": "new.txt", "content": "new\n"},
    {"path": "docs.md", "action": "rename", "from_path": "README.md"},
)


@pytest.fixture
async def house(stage: Stage) -> House:
    return await stage.house(FILES)


async def whole(house: House, *files: Json) -> Json:
    return await house.propose(house.arguments(*(files or ASKED)))


async def choose(house: House, shown: Json, *keep: str) -> Json:
    """Choose a part; as much of it as a decision needs."""
    made = await house.stage.divide(house.owner, UUID(shown["proposal_id"]), keep)
    return await part(house, made)


async def part(house: House, made: UUID) -> Json:
    async with house.stage.app_db.bound(house.tenant) as tx:
        digest = await tx.scalar(select(proposal.c.digest).where(proposal.c.id == made))
    return {"proposal_id": str(made), "card_digest": digest}


async def state(house: House, shown: Json) -> str:
    async with house.stage.app_db.bound(house.tenant) as tx:
        return str(await tx.scalar(select(proposal.c.state).where(proposal.c.id == UUID(shown["proposal_id"]))))


async def entries(house: House) -> list[tuple[str, str]]:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        rows = await tx.execute(select(ledger_entry.c.kind, ledger_entry.c.subject).order_by(ledger_entry.c.seq))
        return [(row.kind, row.subject) for row in rows]


async def withdraw(house: House, shown: Json) -> UUID:
    return await house.stage.divide.withdraw(house.owner, UUID(shown["proposal_id"]))


async def test_a_part_lands_byte_for_byte_and_the_agent_reads_what_was_left_out(house: House) -> None:
    shown = await whole(house)
    chosen = await choose(house, shown, "1.2", "2")
    assert (await house.read(shown))["status"] == "pending"
    done = await house.decide(chosen, note="The rest next week.")
    assert done.state == "approved"
    told = await house.read(shown)
    assert told["status"] == "declined"
    left = [
        {
            "path": "app.py",
            "hunks": [[2, 1, 2, 2], [20, 1, 20, 1]],
        },
        {"path": "new.txt"},
    ]
    assert told["outcome"] == {
        "code": "partly_approved",
        "note": "The rest next week.",
        "proposal_id": chosen["proposal_id"],
        "left_out": left,
        "left_out_count": 2,
    }
    assert told["next"]["arguments"]["proposal_id"] == chosen["proposal_id"]
    await house.execute(chosen)
    read = await house.call("read_proposal", {"proposal_id": chosen["proposal_id"]})
    assert (read["status"], read["part_of"]) == ("executed", shown["proposal_id"])
    assert house.content("app.py") == LINES.replace("line 18\n", "").encode()
    assert house.content("docs.md") == b"# Orchard\n"
    assert git(house.path, "ls-tree", "-r", "--name-only", "main").decode().split() == ["app.py", "docs.md", "win.txt"]
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""


async def test_the_part_has_the_same_proposer_pins_author_date_and_expiry_and_a_digest_of_its_own(house: House) -> None:
    shown = await whole(house)
    chosen = await choose(house, shown, "3")
    async with house.stage.app_db.bound(house.tenant) as tx:
        first, second = (await tx.execute(select(proposal).order_by(proposal.c.created_at))).all()
    same = ("repository", "connection", "person", "kind", "kind_version", "request", "pins", "expires_at")
    assert [getattr(first, name) for name in same] == [getattr(second, name) for name in same]
    assert second.parent == first.id
    assert second.key.startswith("placet:")
    assert second.digest not in {first.digest, ""}
    card, other = load_card(second.card), load_card(first.card)
    assert card.agent_words == other.agent_words
    assert card.headline.params["created"] == 1
    await house.decide(chosen)
    await house.execute(chosen)
    author, message = git(house.path, "log", "-1", "--format=%an <%ae> %at%n%s", "main").decode().splitlines()
    assert author in first.plan
    assert message == "Change files"


async def test_the_card_of_a_part_is_computed_for_it_alone(house: House) -> None:
    shown = await whole(
        house,
        {"path": ".github/workflows/ci.yml", "content": "run: \u202eevil\n"},
        {"path": "plain.txt", "content": "x\n"},
    )
    card = (await house.card(await choose(house, shown, "2"))).card
    assert card.warnings == ()
    [section] = [one for one in card.sections if one.code == "part"]
    assert [(note.code, note.at) for note in section.notes] == [
        ("part_of", shown["proposal_id"]),
        ("left_out", ".github/workflows/ci.yml"),
    ]
    other = (await house.card(await choose(house, shown, "1"))).card
    assert [note.code for note in other.warnings] == ["runs_or_redirects", "hidden_characters"]


@pytest.mark.parametrize(
    ("keep", "code", "field"),
    [
        ((), Code.CHOOSE_SOME, "keep"),
        (("1", "2", "3"), Code.CHOOSE_SOME, "keep"),
        (("1.1", "1.2", "1.3", "2", "3"), Code.CHOOSE_SOME, "keep"),
        (("4",), Code.INVALID_ARGUMENT, "keep"),
        (("1.4", "2"), Code.INVALID_ARGUMENT, "keep"),
        (("2.1",), Code.INVALID_ARGUMENT, "keep"),
        (("\u202e",), Code.INVALID_ARGUMENT, "keep"),
    ],
)
async def test_nothing_everything_and_what_is_no_part_are_refused(
    house: House, keep: tuple[str, ...], code: Code, field: str
) -> None:
    shown = await whole(house)
    with pytest.raises(Refusal) as refused:
        await choose(house, shown, *keep)
    assert (refused.value.code, refused.value.details["field"]) == (code, field)


@pytest.mark.parametrize("what", ["one file", "another operation", "a part", "a branch that moved"])
async def test_what_cannot_be_divided_says_so(house: House, what: str) -> None:
    shown = await whole(house)
    code = Code.NOT_DIVISIBLE
    if what == "one file":
        shown = await whole(house, {"path": "new.txt", "content": "new\n"})
    elif what == "another operation":
        asked = {"branch": "next", "source": "main", "reason": "r", "repository_id": str(house.repository)}
        shown = await house.propose(asked, tool="propose_branch")
    elif what == "a part":
        shown = await choose(house, shown, "1")
    else:
        await house.land(await whole(house, {"path": "other.txt", "content": "x\n"}))
        code = Code.BASE_MOVED
    with pytest.raises(Refusal) as refused:
        await choose(house, shown, "1")
    assert refused.value.code is code


async def test_the_same_choice_is_the_same_part_however_it_is_said_and_a_new_one_once_that_was_withdrawn(
    house: House,
) -> None:
    shown = await whole(house)
    ways = [await choose(house, shown, *keep) for keep in (("1",), ("1.1", "1.2", "1.3"), ("1", "1.2"))]
    both = await asyncio.gather(*(choose(house, shown, "3") for _ in range(3)))
    assert len({one["proposal_id"] for one in ways}) == len({one["proposal_id"] for one in both}) == 1
    assert str(await withdraw(house, ways[0])) == shown["proposal_id"]
    assert await withdraw(house, ways[0])
    assert await state(house, ways[0]) == "cancelled"
    again = await choose(house, shown, "1")
    assert again["proposal_id"] != ways[0]["proposal_id"]
    assert (await entries(house)).count(("proposal.cancelled", ways[0]["proposal_id"])) == 1
    assert await state(house, shown) == "pending"


Ends = Callable[[House, Json], Awaitable[object]]


async def declines(house: House, shown: Json) -> object:
    return await house.decide(shown, "decline")


async def asks_for_changes(house: House, shown: Json) -> object:
    return await house.decide(shown, "changes", note="Another way.")


async def approves(house: House, shown: Json) -> object:
    return await house.decide(shown)


async def cancels(house: House, shown: Json) -> object:
    return await house.own.cancel(shown["proposal_id"])


async def comes_late(house: House, shown: Json) -> object:
    git(
        house.path,
        "update-ref",
        "refs/heads/main",
        git(house.path, "commit-tree", "main^{tree}", "-m", "x").decode().strip(),
    )
    return await house.decide(shown)


async def expires(house: House, shown: Json) -> object:
    await over(house)
    store = ProposalStore(house.stage.writer_db, house.stage.storage)
    return await expire(store, system(house.tenant), UUID(shown["proposal_id"]))


async def over(house: House) -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(text("UPDATE proposal SET expires_at = clock_timestamp() - interval '1 second'"))


@pytest.mark.parametrize(
    ("end", "after"),
    [
        (declines, "declined"),
        (asks_for_changes, "declined"),
        (approves, "approved"),
        (cancels, "cancelled"),
        (comes_late, "stale"),
        (expires, "expired"),
    ],
)
async def test_however_the_whole_ends_its_parts_end_with_it_and_nothing_of_them_lands(
    house: House, end: Ends, after: str
) -> None:
    shown = await whole(house)
    parts = [await choose(house, shown, "1.1"), await choose(house, shown, "2")]
    await end(house, shown)
    assert await state(house, shown) == after
    for one in parts:
        assert await state(house, one) == "cancelled"
        with pytest.raises(Refusal) as refused:
            await house.decide(one)
        assert (refused.value.code, refused.value.details["outcome"]) == (Code.PROPOSAL_ENDED, {"code": "whole_ended"})
    told = [entry for entry in await entries(house) if entry[0] == "proposal.cancelled"]
    ended = sorted(one["proposal_id"] for one in parts) + ([shown["proposal_id"]] if after == "cancelled" else [])
    assert sorted(subject for _, subject in told) == sorted(ended)
    with pytest.raises(Refusal) as refused:
        await choose(house, shown, "3")
    assert refused.value.code is Code.PROPOSAL_ENDED


async def test_a_part_that_is_approved_ends_its_siblings_too(house: House) -> None:
    shown = await whole(house)
    first, second = await choose(house, shown, "1"), await choose(house, shown, "2")
    await house.decide(first)
    assert [await state(house, one) for one in (shown, first, second)] == ["declined", "approved", "cancelled"]
    assert (await entries(house))[-3:] == [
        ("proposal.approved", first["proposal_id"]),
        ("proposal.declined", shown["proposal_id"]),
        ("proposal.cancelled", second["proposal_id"]),
    ]


async def test_a_part_that_comes_too_late_takes_the_whole_with_it_and_the_agent_is_asked_there(house: House) -> None:
    shown = await whole(house)
    chosen = await choose(house, shown, "1")
    await comes_late(house, chosen)
    assert [await state(house, one) for one in (shown, chosen)] == ["stale", "stale"]
    await house.stage.again(house.owner, UUID(chosen["proposal_id"]), "On the new head, please.")
    told = await house.read(shown)
    assert told["outcome"]["propose_again"] == "On the new head, please."
    assert told["next"]["tool"] == "propose_file_import"
    assert (await house.card(chosen)).wanted_again == "On the new head, please."


async def test_a_part_that_becomes_stale_in_the_writer_leaves_the_whole_declined(house: House) -> None:
    shown = await whole(house)
    chosen, rival = await choose(house, shown, "1"), await whole(house, {"path": "b.txt", "content": "b\n"})
    await house.decide(chosen)
    await house.land(rival)
    await house.execute(chosen)
    assert [await state(house, one) for one in (shown, chosen)] == ["declined", "stale"]
    await house.stage.again(house.owner, UUID(chosen["proposal_id"]), "")
    assert (await house.read(shown))["next"]["tool"] == "propose_file_import"


async def test_an_agent_neither_lists_nor_withdraws_a_part_and_has_as_much_room_as_before(house: House) -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(text("UPDATE tenant SET pending_most = 2"))
    shown = await whole(house)
    chosen = await choose(house, shown, "1")
    assert (await whole(house, {"path": "b.txt", "content": "b\n"}))["status"] == "pending"
    listed = await house.call("list_proposals", {})
    assert chosen["proposal_id"] not in {one["proposal_id"] for one in listed["proposals"]}
    with pytest.raises(Refusal) as refused:
        await house.own.cancel(chosen["proposal_id"])
    assert refused.value.code is Code.OWNERS_PART
    assert await state(house, chosen) == "pending"
    assert (await house.call("read_proposal", {"proposal_id": chosen["proposal_id"]}))["part_of"] == shown[
        "proposal_id"
    ]


@pytest.mark.parametrize("key", ["placet:1234", "PLACET:1234", "Placet:part-of-it"])
async def test_an_agents_key_does_not_begin_as_the_services_own_do(house: House, key: str) -> None:
    with pytest.raises(Refusal) as refused:
        await house.propose(key=key)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.details["field"] == "idempotency_key"


@pytest.mark.parametrize("verdict", ["decline", "changes"])
async def test_a_part_is_withdrawn_and_not_declined(house: House, verdict: str) -> None:
    chosen = await choose(house, await whole(house), "1")
    with pytest.raises(Refusal) as refused:
        await house.decide(chosen, verdict, note="No.")
    assert refused.value.code is Code.OWNERS_PART
    assert await state(house, chosen) == "pending"


async def test_what_is_no_part_or_has_ended_is_not_withdrawn(house: House) -> None:
    shown = await whole(house)
    chosen = await choose(house, shown, "1")
    await house.decide(chosen)
    for one, code in ((shown, Code.NOT_A_PART), (chosen, Code.PROPOSAL_ENDED)):
        with pytest.raises(Refusal) as refused:
            await withdraw(house, one)
        assert refused.value.code is code


@pytest.mark.parametrize("who", ["reader", "stranger"])
async def test_who_may_not_decide_neither_chooses_nor_withdraws(house: House, neighbour: House, who: str) -> None:
    shown = await whole(house)
    chosen = await choose(house, shown, "1")
    if who == "reader":
        async with house.stage.owner_db.bound(house.tenant) as tx:
            await tx.execute(text("UPDATE membership SET role = 'reader'"))
    asking = house.owner if who == "reader" else neighbour.owner
    for refused_to in (
        house.stage.divide(asking, UUID(shown["proposal_id"]), ["2"]),
        house.stage.divide.withdraw(asking, UUID(chosen["proposal_id"])),
    ):
        with pytest.raises(Refusal) as refused:
            await refused_to
        assert refused.value.code is (Code.FORBIDDEN if who == "reader" else Code.NOT_FOUND)


async def test_a_connection_that_was_revoked_gets_no_part(house: House) -> None:
    shown = await whole(house)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(text("UPDATE connection SET state = 'revoked'"))
    with pytest.raises(Refusal) as refused:
        await choose(house, shown, "1")
    assert refused.value.code is Code.FORBIDDEN


async def test_two_owners_who_decide_at_once_on_the_whole_and_on_parts_of_it_never_both_have_their_way(
    house: House,
) -> None:
    for turn in range(4):
        shown = await whole(house, *({"path": f"{turn}-{name}.txt", "content": "x\n"} for name in "abc"))
        parts = [await choose(house, shown, keep) for keep in ("1", "2")]
        asked = [house.decide(one) for one in (*parts, shown)] + [
            withdraw(house, parts[0]),
            house.own.cancel(shown["proposal_id"]),
        ]
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, Decided | Refusal | UUID | dict) for one in done), done
        states = [await state(house, one) for one in (shown, *parts)]
        assert states.count("approved") <= 1
        assert "pending" not in states
        assert states[0] in {"approved", "cancelled"} or "approved" in states[1:]
        for one in (shown, *parts):
            await house.execute(one)


async def test_only_the_whole_is_in_the_queue_of_what_expires(house: House) -> None:
    shown = await whole(house)
    chosen = await choose(house, shown, "1")
    async with house.stage.owner_db.directory() as tx:
        waits = set((await tx.execute(select(work_queue.c.subject).where(work_queue.c.kind == "expire"))).scalars())
    assert UUID(shown["proposal_id"]) in waits
    assert UUID(chosen["proposal_id"]) not in waits
    await over(house)
    with pytest.raises(Refusal) as refused:
        await house.decide(chosen)
    assert refused.value.code is Code.PROPOSAL_ENDED


async def test_the_undo_of_a_part_takes_back_what_landed(house: House) -> None:
    chosen = await choose(house, await whole(house), "1", "3")
    await house.land(chosen)
    await house.land(await house.undo(chosen))
    assert house.content("app.py") == FILES["app.py"]
    assert git(house.path, "ls-tree", "-r", "--name-only", "main").decode().split() == [
        "README.md",
        "app.py",
        "win.txt",
    ]

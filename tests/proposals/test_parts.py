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
    assert told["outcome"] == {
        "code": "partly_approved",
        "note": "The rest next week.",
        "proposal_id": chosen["proposal_id"],
        "left_out": [
            {"path": "app.py", "hunks": [{"old": [2, 1], "new": [2, 2]}, {"old": [20, 1], "new": [20, 1]}]},
            {"path": "new.txt", "hunks": None},
        ],
        "left_out_count": 2,
    } | {"left_out": told["outcome"]["left_out"]}
    assert [one["path"] for one in told["outcome"]["left_out"]] == ["app.py", "new.txt"]
    assert told["outcome"]["left_out"][0]["hunks"][0] == {"old": [2, 1], "new": [2, 2]}
    assert told["next"]["arguments"]["proposal_id"] == chosen["proposal_id"]
    await house.execute(chosen)
    read = await house.call("read_proposal", {"proposal_id": chosen["proposal_id"]})
    assert (read["status"], read["part_of"]) == ("executed", shown["proposal_id"])
    assert house.content("app.py") == LINES.replace("line 18\n", "").encode()
    assert house.content("docs.md") == b"# Orchard\n"
    assert git(house.path, "ls-tree", "-r", "--name-only", "main").decode().split() == ["app.py", "docs.md", "win.txt"]
    assert git(house.path, "fsck", "--strict", "--no-dangling") == b""

"""The inbox over the real database: every waiting proposal is reached, filters find, and no tenant sees another's."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, insert, select, update

from service.contract.data import Json
from service.grants.manage import add_membership
from service.grants.tables import membership, person_tenant
from service.kit.actor import system
from service.proposals.desk.inbox import PAGE
from service.proposals.tables import proposal
from tests.stage import House, Stage, Web

pytestmark = pytest.mark.anyio

HOSTILE = (
    "%",
    "_",
    "\\",
    "'; DROP TABLE proposal; --",
    "%' OR '1'='1",
    "<script>alert(1)</script>",
    "💥" * 40,
)
LINKS = re.compile(r'href="/proposals/([0-9a-f-]{36})\?')


@pytest.fixture
async def browser(web: Web, house: House) -> dict[str, str]:
    return await web.browser(house.owner)


async def listed(web: Web, browser: dict[str, str], **query: str) -> Json:
    """A page of the owner API's list."""
    answer = await web.http.get("/api/v1/proposals", params=query, headers=browser)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def ids(web: Web, browser: dict[str, str], **query: str) -> list[str]:
    return [line["proposal_id"] for line in (await listed(web, browser, **query))["proposals"]]


async def pages(web: Web, browser: dict[str, str], **query: str) -> AsyncIterator[Json]:
    """Every page of a list; an endless one fails."""
    after = ""
    for _ in range(20):
        page = await listed(web, browser, **query, **({"after": after} if after else {}))
        yield page
        after = page["after"]
        if not after:
            return
    pytest.fail("the list does not end")


async def copies(house: House, shown: Json, number: int, **values: Any) -> set[str]:
    """As many more of a proposal, in one statement, each a second younger than the one before."""
    made = [uuid4() for _ in range(number)]
    async with house.stage.owner_db.bound(house.tenant) as tx:
        row = (await tx.execute(select(proposal).where(proposal.c.id == UUID(shown["proposal_id"])))).one()._asdict()
        rows = [
            {**row, "id": one, "key": str(one), "created_at": row["created_at"] + timedelta(seconds=place), **values}
            for place, one in enumerate(made, 1)
        ]
        await tx.execute(insert(proposal), rows)
    return {str(one) for one in made}


async def alter(house: House, shown: Json, **values: Any) -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(proposal).where(proposal.c.id == UUID(shown["proposal_id"])).values(**values))


async def test_every_waiting_proposal_is_reached_by_the_pages_and_by_the_api(
    web: Web, house: House, browser: dict[str, str]
) -> None:
    shown = await house.propose()
    everything = {shown["proposal_id"]} | await copies(house, shown, 2 * PAGE)
    told = [line["proposal_id"] async for page in pages(web, browser) for line in page["proposals"]]
    assert (len(told), set(told)) == (2 * PAGE + 1, everything)
    seen: list[str] = []
    link = "/"
    while link:
        text = (await web.http.get(link, headers=browser)).text
        seen += LINKS.findall(text)
        following = re.search(r'<a class="button" href="([^"]*)">Show what follows', text)
        link = following[1].replace("&amp;", "&") if following else ""
    assert (len(seen), set(seen)) == (2 * PAGE + 1, everything)


async def test_what_is_decided_between_two_pages_takes_nothing_from_the_next(
    web: Web, house: House, browser: dict[str, str]
) -> None:
    shown = await house.propose()
    everything = {shown["proposal_id"]} | await copies(house, shown, PAGE + 5)
    seen: set[str] = set()
    async for page in pages(web, browser):
        seen |= {line["proposal_id"] for line in page["proposals"]}
        await alter(house, shown, state="cancelled", ended_at=func.clock_timestamp())  # the oldest of its group
    assert seen == everything


async def test_an_ended_list_is_paged_to_its_end_with_what_is_under_way(
    web: Web, house: House, browser: dict[str, str]
) -> None:
    shown = await house.propose()
    under_way = await copies(house, shown, PAGE + 2, state="approved")
    ended = await copies(house, shown, PAGE, state="executed", ended_at=datetime.now(UTC))
    told = [line["proposal_id"] async for page in pages(web, browser, show="decided") for line in page["proposals"]]
    assert len(told) == len(under_way | ended)
    assert set(told[: len(under_way)]) == under_way
    assert set(told) == under_way | ended


async def test_groups_come_by_their_oldest_and_are_whole(web: Web, house: House, browser: dict[str, str]) -> None:
    second = await house.stage.connect(house.tenant, house.owner.actor.id, house.repository, "Codex")
    old = await house.propose(house.arguments({"path": "a", "content": "1"}))
    other = await house.propose(house.arguments({"path": "b", "content": "1"}), agent=second)
    young = await house.propose(house.arguments({"path": "c", "content": "1"}))
    assert await ids(web, browser) == [one["proposal_id"] for one in (old, young, other)]


async def test_each_list_holds_its_own_and_is_counted(web: Web, house: House, browser: dict[str, str]) -> None:
    ends = {
        "missed": {"state": "expired"},
        "today": {"state": "declined"},
        "stale": {"state": "stale"},
        "ended": {"state": "cancelled"},
    }
    shown = await house.propose()
    now = {"ended_at": datetime.now(UTC)}
    made = {show: await copies(house, shown, 1, **values, **now) for show, values in ends.items()}
    ago = {"ended_at": datetime.now(UTC) - timedelta(hours=25)}
    made["decided"] = made["today"] | await copies(house, shown, 1, state="executed", **ago)
    made["waiting"] = {shown["proposal_id"]}
    for show, expected in made.items():
        assert set(await ids(web, browser, show=show)) == expected, show
    counts = (await listed(web, browser))["counts"]
    assert counts == {show: len(expected) for show, expected in made.items()}


async def test_filters_keep_what_they_name(web: Web, house: House, browser: dict[str, str]) -> None:
    codex = await house.stage.connect(house.tenant, house.owner.actor.id, house.repository, "Codex")
    plain = await house.propose(house.arguments({"path": "a.txt", "content": "1\n"}))
    warned = await house.propose(house.arguments({"path": "b.txt", "content": "a\u202eb\n"}), agent=codex)
    branch = {"repository_id": str(house.repository), "branch": "side", "source": "main", "reason": "For later."}
    made = await house.propose(branch, tool="propose_branch")
    await alter(house, made, expires_at=func.clock_timestamp() + timedelta(hours=1))
    await alter(house, plain, group_id="cleaning")
    cases: dict[str, tuple[dict[str, str], list[Json]]] = {
        "proposer": ({"proposer": str(codex.id)}, [warned]),
        "repository": ({"repository": str(house.repository)}, [plain, made, warned]),
        "another repository": ({"repository": str(uuid4())}, []),
        "kind": ({"kind": "propose_branch"}, [made]),
        "group": ({"group": "cleaning"}, [plain]),
        "soon": ({"soon": "1"}, [made]),
        "warned": ({"warned": "1"}, [warned]),
        "two": ({"warned": "1", "soon": "1"}, []),
    }
    for name, (query, expected) in cases.items():
        page = await listed(web, browser, **query)
        assert [one["proposal_id"] for one in page["proposals"]] == [one["proposal_id"] for one in expected], name
        assert page["matching"] == len(expected), name
        text = (await web.http.get("/", params=query, headers=browser)).text
        assert LINKS.findall(text) == [one["proposal_id"] for one in expected], name


async def test_a_search_finds_the_message_the_reason_the_branch_and_the_paths(
    web: Web, house: House, browser: dict[str, str]
) -> None:
    files = house.arguments({"path": "docs/Straße.md", "content": "1\n"}, message="Pin 100% of_it\n\nBody here")
    found = await house.propose({**files, "reason": "Lockfile drift."})
    await house.propose(house.arguments({"path": "other.txt", "content": "1\n"}))
    for words in ("PIN", "100%", "of_it", "body", "lockfile DRIFT", "straße", "main pin", "docs/"):
        assert found["proposal_id"] in await ids(web, browser, q=words), words
    for words in ("lockfile absent", "params", "agent_words", "headline"):
        assert await ids(web, browser, q=words) == [], words
    assert await ids(web, browser, q="100%") == [found["proposal_id"]]
    assert await ids(web, browser, q="of_it") == [found["proposal_id"]]


@pytest.mark.parametrize("words", HOSTILE)
async def test_a_hostile_search_finds_nothing_and_is_shown_as_text(
    web: Web, house: House, browser: dict[str, str], words: str
) -> None:
    await house.propose()
    answer = await web.http.get("/", params={"q": words}, headers=browser)
    assert answer.status_code == 200
    assert LINKS.findall(answer.text) == []
    assert "<script>alert" not in answer.text
    assert "Nothing here matches." in answer.text


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"q": "a" * 201}, "text_rejected"),
        ({"q": "a b c d e f g h i"}, "invalid_argument"),
        ({"q": "a\x00"}, "text_rejected"),
        ({"q": "\u202e"}, "text_rejected"),
        ({"repository": "x"}, "invalid_argument"),
        ({"proposer": "%00"}, "invalid_argument"),
        ({"kind": "\x07"}, "text_rejected"),
        ({"group": "g" * 201}, "text_rejected"),
        ({"after": "x"}, "invalid_cursor"),
        ({"after": "1.2.3.4.5"}, "invalid_cursor"),
        ({"after": f"{'9' * 18}.{UUID(int=1)}.{UUID(int=1)}.1.{UUID(int=1)}"}, "invalid_cursor"),
        ({"after": "-.x", "show": "stale"}, "invalid_cursor"),
        ({"after": "1" * 200}, "invalid_cursor"),
        ({"show": "all"}, "invalid_argument"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_name(
    web: Web, browser: dict[str, str], query: dict[str, str], code: str
) -> None:
    told = await web.http.get("/api/v1/proposals", params=query, headers=browser)
    page = await web.http.get("/", params=query, headers=browser)
    assert told.json()["error"]["code"] == code
    assert told.status_code == page.status_code
    assert 400 <= told.status_code < 500


async def test_no_list_search_or_glance_reaches_another_tenant(
    web: Web, house: House, neighbour: House, browser: dict[str, str]
) -> None:
    theirs = await neighbour.propose(neighbour.arguments(message="Only theirs"))
    queries: list[dict[str, str]] = [{}, {"q": "theirs"}, {"repository": str(neighbour.repository)}]
    queries.append({"proposer": str(neighbour.agent.id)})
    for query in queries:
        assert await ids(web, browser, **query) == []
        assert theirs["proposal_id"] not in (await web.http.get("/", params=query, headers=browser)).text
    for named in (theirs["proposal_id"], str(uuid4()), "x"):
        answer = await web.http.get("/api/v1/glance", params={"proposal": named}, headers=browser)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    foreign = await web.http.get("/api/v1/glance", params={"tenant": str(neighbour.tenant)}, headers=browser)
    assert foreign.status_code == 404


async def test_the_mark_of_a_proposal_changes_with_its_branch_and_its_state(
    web: Web, house: House, browser: dict[str, str]
) -> None:
    waits = await house.propose(house.arguments({"path": "a", "content": "1\n"}))
    other = await house.propose(house.arguments({"path": "b", "content": "1\n"}))

    async def mark() -> str:
        query = {"proposal": waits["proposal_id"]}
        found: str = (await web.http.get("/api/v1/glance", params=query, headers=browser)).json()["mark"]
        return found

    page = (await web.http.get(f"/proposals/{waits['proposal_id']}", headers=browser)).text
    first = await mark()
    assert f'data-mark="{first}"' in page
    await house.land(other)
    moved = await mark()
    await house.decide(waits, "decline")
    assert len({first, moved, await mark()}) == 3


async def test_a_person_of_two_tenants_switches_and_a_look_alone_switches_nothing(
    stage: Stage, web: Web, house: House, neighbour: House, browser: dict[str, str]
) -> None:
    person = house.owner.actor.id
    async with stage.owner_db.directory() as tx:
        await tx.execute(insert(person_tenant).values(person=person, tenant=neighbour.tenant))
    async with stage.owner_db.bound(neighbour.tenant) as tx:
        await add_membership(tx, system(neighbour.tenant), neighbour.project, person, "owner")
    theirs = await neighbour.propose()
    there = {"tenant": str(neighbour.tenant)}
    looked = await web.http.get("/", params=there, headers={**browser, "x-placet-looks": "1"})
    assert theirs["proposal_id"] in looked.text
    here = (await web.http.get("/", headers=browser)).text
    assert theirs["proposal_id"] not in here
    assert f'href="/?tenant={neighbour.tenant}"' in here
    assert theirs["proposal_id"] in (await web.http.get("/", params=there, headers=browser)).text
    assert theirs["proposal_id"] in (await web.http.get("/", headers=browser)).text


async def test_a_tenant_without_repository_is_told_what_to_do_first(
    stage: Stage, web: Web, house: House, browser: dict[str, str]
) -> None:
    async with stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(membership).values(state="revoked"))
    assert "There is no repository yet." in (await web.http.get("/", headers=browser)).text

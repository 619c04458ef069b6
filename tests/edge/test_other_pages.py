"""Connections, people, the ledger with its filters, and what holds in a tenant: the pages beside the proposals."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import insert, select, update

import service
from service.edge.desk import entries
from service.grants.manage import add_clause, add_membership, change_state
from service.grants.policy import Clause
from service.grants.tables import connection, membership, person, person_credential, person_tenant
from service.kit.actor import system
from service.kit.errors import Code
from service.ledger.tables import ledger_entry
from tests.stage import House, Web

pytestmark = pytest.mark.anyio


async def colleague(house: House, role: str = "owner") -> dict[str, Any]:
    """Somebody else in the project: his id, address and membership."""
    who, email = uuid4(), f"{uuid4().hex[:12]}@example.org"
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(insert(person).values(id=who, email=email, name="Colleague <b>"))
        await tx.execute(insert(person_tenant).values(person=who, tenant=house.tenant))
        one = await add_membership(tx, system(house.tenant), house.project, who, role)  # type: ignore[arg-type]
    return {"id": who, "email": email, "membership": one}


async def my_membership(house: House) -> UUID:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        found = await tx.scalar(select(membership.c.id).where(membership.c.person == house.owner.actor.id))
    return UUID(str(found))


async def take_out(web: Web, browser: dict[str, str], one: UUID) -> httpx.Response:
    form = {"csrf": browser["x-csrf-token"], "action": "revoke"}
    return await web.http.post(f"/people/{one}", data=form, headers=browser)


async def test_a_connections_page_says_what_it_may_do_and_what_became_of_it(house: House, web: Web) -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        for clause in (Clause("deny", "path", ".github/**"), Clause("allow", "branch", "agent/<i>*")):
            await add_clause(tx, system(house.tenant), house.agent.id, clause)
    browser = await web.browser(house.owner)
    page = (await web.http.get(f"/connections/{house.agent.id}", headers=browser)).text
    assert "It may not change <code>.github/**</code>." in page
    assert "It may change the branch <code>agent/&lt;i&gt;*</code>, and what other such lines say." in page
    assert f"proposer={house.agent.id}" in page
    listed = (await web.http.get("/connections", headers=browser)).text
    assert f'href="/connections/{house.agent.id}?' in listed


async def test_a_connection_that_takes_a_token_is_seen_to(house: House, web: Web) -> None:
    browser = await web.browser(house.owner)
    address = f"/connections/{house.agent.id}"
    assert "never" in (await web.http.get(address, headers=browser)).text.partition("last took a token")[2][:80]
    async with house.stage.owner_db.bound(house.tenant) as tx:
        used = update(connection).where(connection.c.id == house.agent.id)
        await tx.execute(used.values(used_at=datetime.now(UTC) - timedelta(minutes=9)))
    assert "9 minutes ago" in (await web.http.get(address, headers=browser)).text


async def test_people_are_shown_with_role_and_ways_to_owners_and_without_ways_to_others(house: House, web: Web) -> None:
    reader = await colleague(house, "reader")
    async with house.stage.owner_db.directory() as tx:
        way = {"id": uuid4(), "person": reader["id"], "kind": "passkey", "name": "Phone", "handle": uuid4().bytes}
        await tx.execute(insert(person_credential).values(**way))
    page = (await web.http.get("/people", headers=await web.browser(house.owner))).text
    assert "Colleague &lt;b&gt;" in page
    assert "signs in with passkey" in page
    who = house.owner
    theirs = {"cookie": (await sign_in(web, reader["id"], who))["cookie"]}
    seen = (await web.http.get("/people", headers=theirs)).text
    assert reader["email"] in seen
    assert "signs in with" not in seen
    assert "Take out" not in seen


async def sign_in(web: Web, who: UUID, like: Any) -> dict[str, str]:
    """The headers of this person's browser."""
    actor = type(like.actor)("owner", like.actor.tenant, who, "x")
    return await web.browser(type(like)(actor, "x", "x@example.org"))


async def test_who_is_taken_out_decides_nothing_any_more(house: House, web: Web) -> None:
    other = await colleague(house)
    browser = await web.browser(house.owner)
    assert (await take_out(web, browser, other["membership"])).status_code == 303
    assert other["email"] not in (await web.http.get("/people", headers=browser)).text
    theirs = await sign_in(web, other["id"], house.owner)
    shown = await house.propose()
    assert (await web.http.get(f"/proposals/{shown['proposal_id']}", headers=theirs)).status_code == 404
    async with house.stage.owner_db.bound(house.tenant) as tx:
        kinds = (await tx.execute(select(ledger_entry.c.kind).order_by(ledger_entry.c.seq.desc()).limit(2))).scalars()
        assert "membership.revoked" in set(kinds)


async def test_the_last_owner_stays_also_when_two_take_each_other_out_at_once(house: House, web: Web) -> None:
    mine = await my_membership(house)
    browser = await web.browser(house.owner)
    refused = await take_out(web, browser, mine)
    assert refused.status_code == Code.LAST_OWNER.value.status
    assert "A project keeps at least one owner." in refused.text
    other = await colleague(house)
    theirs = await sign_in(web, other["id"], house.owner)
    both = await asyncio.gather(take_out(web, browser, other["membership"]), take_out(web, theirs, mine))
    assert min(answer.status_code for answer in both) == 303
    async with house.stage.owner_db.bound(house.tenant) as tx:
        live = (membership.c.project == house.project) & (membership.c.state == "live") & (membership.c.role == "owner")
        assert len((await tx.execute(select(membership.c.id).where(live))).all()) == 1


async def test_of_three_owners_who_take_each_other_out_in_a_ring_one_comes_too_late(house: House, web: Web) -> None:
    three = [await colleague(house) for _ in range(3)]
    browsers = [await sign_in(web, one["id"], house.owner) for one in three]
    ring = zip(browsers, [*three[1:], three[0]], strict=True)
    answers = await asyncio.gather(*(take_out(web, browser, one["membership"]) for browser, one in ring))
    assert sorted({answer.status_code for answer in answers}) == [303, 404]


@pytest.mark.parametrize("role", ["maintainer", "reader"])
async def test_only_an_owner_takes_people_out(house: House, web: Web, role: str) -> None:
    other = await colleague(house, role)
    theirs = await sign_in(web, other["id"], house.owner)
    answer = await take_out(web, theirs, await my_membership(house))
    assert answer.status_code == Code.FORBIDDEN.value.status
    assert "Only an owner of the project changes who is in it." in answer.text


async def test_who_has_something_to_prove_with_proves_it_before_somebody_is_taken_out(house: House, web: Web) -> None:
    other = await colleague(house)
    async with house.stage.owner_db.directory() as tx:
        way = {"id": uuid4(), "person": house.owner.actor.id, "kind": "passkey", "name": "P", "handle": uuid4().bytes}
        await tx.execute(insert(person_credential).values(**way))
    answer = await take_out(web, await web.browser(house.owner), other["membership"])
    assert answer.status_code == Code.PROOF_NEEDED.value.status
    assert "/prove?next=/people" in answer.text


async def told(web: Web, browser: dict[str, str], **query: str) -> list[str]:
    """The kinds of the entries that a filter finds."""
    answer = await web.http.get("/ledger", params=query, headers=browser)
    assert answer.status_code == 200
    return re.findall(r'<span title="([^"]+)">', answer.text)


async def test_the_ledger_is_filtered_by_what_by_whom_of_what_and_when(house: House, web: Web) -> None:
    shown = await house.propose()
    await house.land(shown)
    await colleague(house)
    browser = await web.browser(house.owner)
    proposals = await told(web, browser, kind="proposal")
    assert set(proposals) == {"proposal.pending", "proposal.approved", "proposal.executing", "proposal.executed"}
    assert await told(web, browser, actor=str(house.agent.id)) == ["proposal.pending"]
    assert set(await told(web, browser, subject=shown["proposal_id"])) == {*proposals, "decision.approve"}
    assert "membership.added" in await told(web, browser, kind="membership", since="2020-01-01")
    assert await told(web, browser, until="2020-01-01") == []
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert len(await told(web, browser, since="2020-01-01", until=today)) >= 4
    page = (await web.http.get("/ledger", params={"kind": "proposal"}, headers=browser)).text
    assert f'href="/proposals/{shown["proposal_id"]}?tenant={house.tenant}"' in page
    assert "A proposal was executed" in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kind": "proposal.pending"}, "`kind` is"),
        ({"kind": "%"}, "`kind` is"),
        ({"actor": "x"}, "`actor` is"),
        ({"since": "yesterday"}, "`since` is"),
        ({"until": "2026-13-01"}, "`until` is"),
        ({"until": "9999-12-31"}, "`until` is"),
        ({"subject": "x" * 300}, "200"),
    ],
)
async def test_a_filter_that_is_none_is_refused_by_its_field(
    house: House, web: Web, query: dict[str, str], words: str
) -> None:
    browser = {**await web.browser(house.owner), "accept": "application/json"}
    answer = await web.http.get("/ledger", params=query, headers=browser)
    assert answer.status_code == 422
    assert words in answer.text


async def test_an_entry_says_what_its_details_name_and_hides_nothing(house: House, web: Web) -> None:
    assert entries.words("membership.role", {"was": "reader", "role": "<b>\u202e"}) == (
        'A person has another role: reader → &lt;b&gt;<span class="hid">U+202E RLO</span>'
    )
    assert entries.words("policy.added", {}) == "A clause was added to a policy: "
    assert entries.words("moon.landed<", {}) == "<code>moon.landed&lt;</code>"


async def test_every_kind_that_the_service_writes_has_words(house: House) -> None:
    shown = await house.propose()
    await house.land(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await change_state(tx, system(house.tenant), connection, house.agent.id, "paused")
        written = set((await tx.execute(select(ledger_entry.c.kind))).scalars())
    assert written - {"session.opened"} <= entries._WORDS.keys()


def test_every_kind_that_code_writes_down_has_words() -> None:
    kind = re.compile(rf'"((?:{"|".join(entries.SUBJECTS)})\.[a-z_]+)"')
    code = [line for path in Path(service.__file__).parent.rglob("*.py") for line in path.read_text().splitlines()]
    found = {one for line in code if "append(" in line or "note(" in line for one in kind.findall(line)}
    assert {"decision.refused", "connection.used_code", "webhook.removed"} <= found
    assert found <= entries._WORDS.keys()


async def test_what_holds_in_a_tenant_is_for_its_people_alone(house: House, web: Web, neighbour: House) -> None:
    page = await web.http.get("/settings/tenant", headers=await web.browser(house.owner))
    assert "24 h" in page.text
    assert "90 days" in page.text
    theirs = await web.browser(neighbour.owner)
    assert (await web.http.get(f"/settings/tenant?tenant={house.tenant}", headers=theirs)).status_code == 404

"""What an owner is told of a proposal that hangs on something which is gone."""

import re

import pytest

from service.grants.manage import add_clause, change_state, let_agents_propose
from service.grants.policy import Clause
from service.grants.tables import connection
from tests.stage import House, Web

pytestmark = pytest.mark.anyio
HINDRANCES = {
    "a revoked connection": "The connection is revoked.",
    "proposals off": "Agents may not propose in this repository.",
    "a stricter policy": "The owner&#39;s policy denies this branch.",
}


async def hinder(house: House, how: str) -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        if how == "a revoked connection":
            await change_state(tx, house.owner.actor, connection, house.agent.id, "revoked")
        elif how == "proposals off":
            await let_agents_propose(tx, house.owner.actor, house.repository, on=False)
        else:
            await add_clause(tx, house.owner.actor, house.agent.id, Clause("deny", "branch", "main"))


@pytest.mark.parametrize("how", HINDRANCES)
async def test_the_card_says_why_it_cannot_be_approved_and_says_it_again_when_one_tries(
    web: Web, house: House, how: str
) -> None:
    shown = await house.propose()
    browser = await web.browser(house.owner)
    address = f"/proposals/{shown['proposal_id']}"
    assert "cannot be approved" not in (await web.http.get(address, headers=browser)).text
    await hinder(house, how)
    page = (await web.http.get(address, headers=browser)).text
    assert "This cannot be approved now." in page
    assert HINDRANCES[how] in page
    form = {"verdict": "approve", "card_digest": shown["card_digest"], "note": ""}
    tried = await web.http.post(f"{address}/decision", data=form, headers=browser)
    assert tried.status_code == 403
    assert "Nothing was decided." in tried.text
    assert HINDRANCES[how] in tried.text
    declined = await web.http.post(f"{address}/decision", data={**form, "verdict": "decline"}, headers=browser)
    assert declined.status_code == 303


async def test_a_declined_card_shows_no_committer_and_no_approval(web: Web, house: House) -> None:
    shown = await house.propose()
    browser = await web.browser(house.owner)
    await house.decide(shown, "decline")
    page = (await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)).text
    assert re.search(r"committer \(nobody\)", page)
    assert "Approved-by" not in page


async def test_an_approval_that_ends_stale_is_a_decision(web: Web, house: House) -> None:
    first, second = await house.propose(), await house.propose()
    await house.decide(first)
    await house.execute(first)
    await house.decide(second)
    browser = await web.browser(house.owner)
    page = (await web.http.get(f"/proposals/{second['proposal_id']}", headers=browser)).text
    assert re.search(r"Approved by", page)

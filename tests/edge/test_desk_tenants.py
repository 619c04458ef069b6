"""Links carry their tenant: through the guard, on the real database, with the real desk."""

from uuid import uuid4

import pytest

from service.grants.manage import add_membership
from service.grants.tables import person_tenant
from service.kit.actor import system
from tests.stage import House, Web

pytestmark = pytest.mark.anyio


async def also_owns(house: House, other: House) -> None:
    """Make the first house's owner an owner in the other as well."""
    who = house.owner.actor.id
    async with house.stage.owner_db.directory() as tx:
        await tx.execute(person_tenant.insert().values(person=who, tenant=other.tenant))
    async with house.stage.owner_db.bound(other.tenant) as tx:
        await add_membership(tx, system(other.tenant), other.project, who, "owner")


async def session_of(web: Web, house: House) -> dict[str, str]:
    """A browser of the house's owner, looking at the house."""
    browser = await web.browser(house.owner)
    await web.http.get(f"/?tenant={house.tenant}", headers=browser)
    return browser


async def test_a_link_to_another_tenant_of_mine_opens_there_and_stays_there(
    web: Web, house: House, neighbour: House
) -> None:
    await also_owns(house, neighbour)
    browser = await session_of(web, house)
    shown = await neighbour.propose()
    path = f"/proposals/{shown['proposal_id']}"
    assert (await web.http.get(path, headers=browser)).status_code == 404
    assert (await web.http.get(f"{path}?tenant={neighbour.tenant}", headers=browser)).status_code == 200
    assert (await web.http.get(path, headers=browser)).status_code == 200


async def test_a_form_acts_in_the_tenant_of_its_page_whatever_another_tab_looks_at(
    web: Web, house: House, neighbour: House
) -> None:
    await also_owns(house, neighbour)
    browser = await session_of(web, house)
    shown = await neighbour.propose()
    path = f"/proposals/{shown['proposal_id']}/decision?tenant={neighbour.tenant}"
    data = {"csrf": browser["x-csrf-token"], "verdict": "decline", "card_digest": shown["card_digest"]}
    answer = await web.http.post(path, data=data, headers=browser)
    assert (answer.status_code, (await neighbour.read(shown))["status"]) == (303, "declined")


async def test_a_link_to_a_tenant_that_is_not_mine_is_one_to_none(web: Web, house: House, neighbour: House) -> None:
    browser = await session_of(web, house)
    shown = await neighbour.propose()
    path = f"/proposals/{shown['proposal_id']}"
    pages = [
        await web.http.get(f"{path}?tenant={tenant}", headers=browser)
        for tenant in (neighbour.tenant, uuid4(), "nothing", "%00")
    ]
    assert {page.status_code for page in pages} == {404}
    assert len({page.text for page in pages}) == 1
    session = await web.http.get("/api/v1/session", headers=browser)
    assert session.json()["tenant"] == str(house.tenant)


async def test_an_agent_reaches_no_page_of_the_desk(web: Web, house: House) -> None:
    token = await web.token(house.agent)
    shown = await house.propose()
    headers = {"authorization": f"Bearer {token}"}
    path = f"/proposals/{shown['proposal_id']}"
    for answer in (
        await web.http.get(path, headers=headers),
        await web.http.post(f"{path}/decision", data={"verdict": "approve"}, headers=headers),
        await web.http.post(f"/api/v1{path}/decision", json={"verdict": "approve"}, headers=headers),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "agent_scope_denied")
    assert (await house.read(shown))["status"] == "pending"

"""A fresh proof before what is hard to take back: asked of who has something to prove with, and recorded."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, update

from service.grants.tables import person_credential, session
from service.identity.sessions import Session, find_session, new_link, open_session, prove
from service.kit.actor import SERVICE_TENANT
from service.kit.errors import Code, Refusal
from service.proposals.tables import decision
from service.proposals.view import Decider
from tests.stage import House, Web

pytestmark = pytest.mark.anyio


async def decider(house: House) -> Decider:
    """The owner, in a session that is really there."""
    async with house.stage.owner_db.directory() as tx:
        link = await new_link(tx, house.owner.actor.id)
    found = await find_session(house.stage.app_db, await open_session(house.stage.app_db, link))
    assert found
    return Decider(found.actor, house.owner.name, house.owner.email)


async def give_passkey(house: House) -> None:
    row = {"id": uuid4(), "person": house.owner.actor.id, "kind": "passkey", "name": "x", "handle": uuid4().bytes}
    async with house.stage.owner_db.directory() as tx:
        await tx.execute(person_credential.insert().values(row))


async def prove_it(house: House, who: Decider, by: Any) -> None:
    async with house.stage.app_db.bound(SERVICE_TENANT) as tx:
        row = (await tx.execute(select(session).where(session.c.id == who.actor.session))).one()
        found = Session(row.id, row.person, who.email, who.name, row.tenant, row.csrf, row.expires_at)
        await prove(tx, found, by)


async def destructive(house: House) -> dict[str, Any]:
    """A reset of main, which takes a commit off it."""
    first = house.head()
    await house.land(await house.propose())
    words = {"repository_id": str(house.repository), "reason": "Because.", "branch": "main", "target": first}
    return await house.propose(words, tool="propose_reset")


async def proof_of_decision(house: House, shown: dict[str, Any]) -> str:
    async with house.stage.app_db.bound(house.tenant) as tx:
        mine = decision.c.proposal == UUID(shown["proposal_id"])
        return str(await tx.scalar(select(decision.c.proof).where(mine)))


@pytest.mark.parametrize("by", ["passkey", "password", "oidc"])
async def test_what_is_hard_to_take_back_waits_for_a_fresh_proof_and_records_it(house: House, by: str) -> None:
    who = await decider(house)
    shown = await destructive(house)
    await give_passkey(house)
    with pytest.raises(Refusal) as refused:
        await house.decide(shown, owner=who)
    assert refused.value.code is Code.PROOF_NEEDED
    assert (await house.read(shown))["status"] == "pending"
    await prove_it(house, who, by)
    assert (await house.decide(shown, owner=who)).state == "approved"
    assert await proof_of_decision(house, shown) == by


async def test_a_proof_is_fresh_for_five_minutes_and_for_its_session_alone(house: House) -> None:
    who, other = await decider(house), await decider(house)
    shown = await destructive(house)
    await give_passkey(house)
    await prove_it(house, other, "passkey")
    with pytest.raises(Refusal, match="hard to take back"):
        await house.decide(shown, owner=who)
    await prove_it(house, who, "passkey")
    async with house.stage.owner_db.directory() as tx:
        old = update(session).where(session.c.id == who.actor.session)
        await tx.execute(old.values(proved_at=datetime(2020, 1, 1, tzinfo=UTC)))
    with pytest.raises(Refusal, match="hard to take back"):
        await house.decide(shown, owner=who)
    assert (await house.decide(shown, "decline", owner=who)).state == "declined"  # a no needs none


async def test_who_has_only_links_decides_with_what_is_typed(house: House) -> None:
    shown = await destructive(house)
    assert (await house.decide(shown, owner=await decider(house))).state == "approved"
    assert await proof_of_decision(house, shown) == "session"


async def test_an_everyday_approval_asks_for_no_proof(house: House) -> None:
    await give_passkey(house)
    shown = await house.propose()
    assert (await house.decide(shown, owner=await decider(house))).state == "approved"
    assert await proof_of_decision(house, shown) == "session"


async def test_the_card_leads_to_the_proof_and_back_with_nothing_decided(web: Web, house: House) -> None:
    shown = await destructive(house)
    await give_passkey(house)
    browser = await web.browser(house.owner)
    view = await house.card(shown)
    warnings = [note.name for note in view.card.warnings]
    typed = [str(note.params["confirm"]) for note in view.card.warnings if "confirm" in note.params]
    form = {"verdict": "approve", "card_digest": shown["card_digest"], "acknowledged": warnings, "confirmed": typed}
    card = f"/proposals/{shown['proposal_id']}"
    await web.http.get(card, headers=browser)
    answer = await web.http.post(f"{card}/decision", headers=browser, data=form)
    assert answer.status_code == 403
    assert f'href="/prove?next={card}%3Ftenant%3D{house.tenant}"' in answer.text
    assert (await house.read(shown))["status"] == "pending"
    told = await web.http.post(f"/api/v1{card}/decision", headers=browser, json=form)
    assert told.json()["error"]["code"] == "proof_needed"

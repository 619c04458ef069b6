"""Passkeys against a software authenticator: added, used, copied, forged, replayed and removed (A19, A21)."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from service.grants.tables import person_credential, session
from service.identity.passkeys import PASSKEYS_MOST
from service.kit.actor import SERVICE_TENANT
from tests.identity.authenticator import PRESENT, Authenticator, text
from tests.identity.house import ISSUER, Browser, House, Tenant
from tests.identity.jar import Jar, jar

pytestmark = pytest.mark.anyio
SETTINGS = "/settings/sign-in"


async def add(browser: Jar, key: Authenticator, name: str = "Laptop") -> Any:
    options = (await browser.json(f"{SETTINGS}/passkey/options")).json()
    return await browser.json(f"{SETTINGS}/passkey", {"credential": key.make(options), "name": name})


async def sign_in(browser: Jar, key: Authenticator) -> Any:
    options = (await browser.json("/sign-in/passkey/options")).json()
    return await browser.json("/sign-in/passkey", {"credential": key.use(options)})


async def keep_old(house: House, browser: Jar) -> None:
    """Let it be an hour since this session was opened and proved."""
    found = await browser.session()
    hour = {"created_at": "2020-01-01T00:00:00+00:00"}
    from datetime import datetime

    past = datetime.fromisoformat(hour["created_at"])
    mine = update(session).where(session.c.id == found.id)
    await house.change(SERVICE_TENANT, mine.values(created_at=past))
    await house.change(SERVICE_TENANT, mine.where(session.c.proved_at.is_not(None)).values(proved_at=past))


@pytest.mark.parametrize(("es256", "counts"), [(True, True), (False, True), (True, False)])
async def test_a_passkey_is_added_by_who_came_with_a_link_and_signs_in_without_a_name(
    house: House, ada: Browser, es256: bool, counts: bool
) -> None:
    mine, key = jar(house, ada), Authenticator(ISSUER, es256=es256, counts=counts)
    assert (await add(mine, key)).status_code == 200
    fresh = jar(house)
    for _ in range(2):
        answer = await sign_in(fresh, key)
        assert (answer.status_code, answer.json()) == (200, {"next": "/"})
        found = await fresh.session()
        assert (found.person, found.recent) == ((await mine.session()).person, True)
    [row] = await house.rows(SERVICE_TENANT, select(person_credential).where(person_credential.c.handle == key.id))
    assert (row.es256, row.transports, row.counter) == (es256, ["internal"], key.count)
    assert row.used_at is not None
    assert await house.entries(SERVICE_TENANT, str(row.id)) == ["credential.added"]
    page = await fresh.get(SETTINGS)
    assert "Laptop" in page.text
    assert ("Sign my approvals with it" in page.text) is es256


async def test_options_ask_for_a_verified_person_and_name_no_passkey_before_sign_in(house: House, ada: Browser) -> None:
    mine = jar(house, ada)
    made = (await mine.json(f"{SETTINGS}/passkey/options")).json()
    assert made["rp"] == {"id": "localhost", "name": "Placet"}
    assert made["authenticatorSelection"]["userVerification"] == "required"
    assert made["authenticatorSelection"]["residentKey"] == "required"
    assert made["pubKeyCredParams"][0]["alg"] == -7
    asked = (await jar(house).json("/sign-in/passkey/options")).json()
    assert asked["allowCredentials"] == []
    assert asked["userVerification"] == "required"
    assert len(asked["challenge"]) == 43  # 32 bytes


WRONG: dict[str, dict[str, Any]] = {
    "another origin": {"changes": {"origin": "https://evil.example"}},
    "another port": {"changes": {"origin": "http://localhost:9999"}},
    "a frame of another site": {"changes": {"crossOrigin": True}},
    "the other ceremony": {"changes": {"type": "webauthn.create"}},
    "nobody verified": {"flags": PRESENT},
    "nobody there": {"flags": 0},
    "another service": {"origin": "http://evil.example:8000", "changes": {"origin": ISSUER}},
    "a challenge of its own": {"changes": {"challenge": text(bytes(32))}},
    "another person's handle": {"user": uuid4().bytes},
    "a key of its own": {"key": Authenticator(ISSUER).key},
    "a passkey that nobody has": {"id": b"unknown"},
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_answer_that_is_wrong_in_one_thing_signs_nobody_in(house: House, ada: Browser, wrong: str) -> None:
    key = Authenticator(ISSUER)
    assert (await add(jar(house, ada), key)).status_code == 200
    for name, value in WRONG[wrong].items():
        setattr(key, name, value)
    fresh = jar(house)
    answer = await sign_in(fresh, key)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "sign_in_refused"
    assert fresh.session_secret == ""


@pytest.mark.parametrize("wrong", ["another origin", "a frame of another site", "nobody verified", "another service"])
async def test_a_passkey_that_was_made_wrong_is_not_stored(house: House, ada: Browser, wrong: str) -> None:
    mine, key = jar(house, ada), Authenticator(ISSUER)
    for name, value in WRONG[wrong].items():
        setattr(key, name, value)
    assert (await add(mine, key)).status_code == 401
    assert await house.rows(SERVICE_TENANT, select(person_credential).where(person_credential.c.handle == key.id)) == []


@pytest.mark.parametrize(
    "credential",
    [{}, {"id": 1}, {"rawId": [], "response": {}}, {"response": {"clientDataJSON": "%%%"}}, {"response": 7},
     {"id": "a", "rawId": "a", "response": {"clientDataJSON": text(b"[]")}},
     {"response": {"clientDataJSON": text(b'{"type":"webauthn.get","challenge":5,"origin":"x"}')}}],
)  # fmt: skip
async def test_what_is_no_answer_at_all_is_refused_and_not_an_error(
    house: House, ada: Browser, credential: dict[str, Any]
) -> None:
    for browser, path in ((jar(house), "/sign-in/passkey"), (jar(house, ada), f"{SETTINGS}/passkey")):
        answer = await browser.json(path, {"credential": credential, "name": "x"})
        assert answer.status_code == 401, answer.text
    assert (await jar(house).json("/sign-in/passkey", {"credential": []})).status_code == 422


async def test_a_challenge_is_for_one_browser_one_purpose_and_one_use(house: House, ada: Browser) -> None:
    mine, key = jar(house, ada), Authenticator(ISSUER, counts=False)
    assert (await add(mine, key)).status_code == 200
    fresh, other = jar(house), jar(house)
    options = (await fresh.json("/sign-in/passkey/options")).json()
    answer = {"credential": key.use(options)}
    await other.json("/sign-in/passkey/options")
    assert (await other.json("/sign-in/passkey", answer)).status_code == 401  # another browser's
    assert (await mine.json("/prove/passkey", answer)).status_code == 401  # for signing in, not for proving
    held = dict(fresh.cookies)
    assert (await fresh.json("/sign-in/passkey", answer)).status_code == 200
    fresh.cookies = held
    fresh.csrf = ""
    assert (await fresh.json("/sign-in/passkey", answer)).status_code == 401  # used
    proof = {"credential": key.use((await mine.json("/prove/passkey/options")).json())}
    late = jar(house)
    late.cookies = held
    assert (await late.json("/sign-in/passkey", proof)).status_code == 401  # for proving, not for signing in


async def test_a_wrong_answer_uses_its_challenge_up(house: House, ada: Browser) -> None:
    key = Authenticator(ISSUER, counts=False)
    assert (await add(jar(house, ada), key)).status_code == 200
    fresh = jar(house)
    options = (await fresh.json("/sign-in/passkey/options")).json()
    key.flags = PRESENT
    assert (await fresh.json("/sign-in/passkey", {"credential": key.use(options)})).status_code == 401
    key.flags = PRESENT | 4
    assert (await fresh.json("/sign-in/passkey", {"credential": key.use(options)})).status_code == 401


async def test_a_copied_passkey_is_refused_said_and_written_down(house: House, ada: Browser) -> None:
    key = Authenticator(ISSUER, count=40)
    assert (await add(jar(house, ada), key)).status_code == 200
    key.count = 10  # the copy
    answer = await sign_in(jar(house), key)
    assert answer.status_code == 401
    assert "counter went backwards" in answer.json()["error"]["message"]
    [row] = await house.rows(SERVICE_TENANT, select(person_credential).where(person_credential.c.handle == key.id))
    assert row.counter == 40
    assert await house.entries(SERVICE_TENANT, str(row.id)) == ["credential.added", "credential.counter_back"]


async def test_another_site_can_neither_ask_nor_answer(house: House) -> None:
    for origin in ("https://evil.example", "null", ""):
        for path in ("/sign-in/passkey/options", "/sign-in/passkey"):
            answer = await jar(house, origin=origin).json(path, {"credential": {}})
            assert answer.status_code == 403


async def test_a_passkey_is_renamed_and_removed_by_its_person_alone(
    house: House, home: Tenant, ada: Browser, bob: Browser
) -> None:
    mine, key = jar(house, ada), Authenticator(ISSUER)
    way = (await add(mine, key)).json()["id"]
    theirs = jar(house, bob)
    for action in ("rename", "remove"):
        assert (await theirs.form(f"{SETTINGS}/ways/{way}", action=action, name="Mine")).status_code == 404
    assert (await mine.form(f"{SETTINGS}/ways/{way}", action="rename", name="<b>Desk</b>")).status_code == 303
    assert "&lt;b&gt;Desk&lt;/b&gt;" in (await mine.get(SETTINGS)).text
    assert (await mine.form(f"{SETTINGS}/ways/{way}", action="remove")).status_code == 303
    assert (await sign_in(jar(house), key)).status_code == 401
    kinds = ["credential.added", "credential.renamed", "credential.removed"]
    assert await house.entries(SERVICE_TENANT, way) == kinds


async def test_ways_in_change_only_in_a_session_that_proved_itself_just_now(house: House, ada: Browser) -> None:
    mine, key = jar(house, ada), Authenticator(ISSUER)
    way = (await add(mine, key)).json()["id"]
    await keep_old(house, mine)
    refused = await mine.json(f"{SETTINGS}/passkey/options")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "proof_needed")
    sent = await mine.form(f"{SETTINGS}/ways/{way}", action="remove")
    assert (sent.status_code, sent.headers["location"]) == (303, "/prove?next=%2Fsettings%2Fsign-in")
    assert (await mine.get(sent.headers["location"])).status_code == 200
    before = mine.session_secret
    options = (await mine.json("/prove/passkey/options")).json()
    proved = await mine.json("/prove/passkey?next=/settings/sign-in", {"credential": key.use(options)})
    assert proved.json() == {"next": SETTINGS}
    assert mine.session_secret != before  # a new secret, the old one is worth nothing
    old = jar(house)
    old.cookies = {next(iter(mine.cookies)): before}
    assert await old.session() is None
    assert (await mine.form(f"{SETTINGS}/ways/{way}", action="remove")).status_code == 303


async def test_nobody_proves_with_another_persons_passkey(house: House, ada: Browser, bob: Browser) -> None:
    mine, theirs, key = jar(house, ada), jar(house, bob), Authenticator(ISSUER)
    assert (await add(mine, key)).status_code == 200
    assert (await add(theirs, other := Authenticator(ISSUER))).status_code == 200
    options = (await theirs.json("/prove/passkey/options")).json()
    assert [one["id"] for one in options["allowCredentials"]] == [text(other.id)]
    assert (await theirs.json("/prove/passkey", {"credential": key.use(options)})).status_code == 401


async def test_a_passkey_is_known_once_and_there_is_an_end_to_them(house: House, ada: Browser, bob: Browser) -> None:
    mine, key = jar(house, ada), Authenticator(ISSUER)
    assert (await add(mine, key)).status_code == 200
    assert (await add(jar(house, bob), key)).json()["error"]["code"] == "name_taken"
    who = (await mine.session()).person
    rows = [{"id": uuid4(), "person": who, "kind": "passkey", "name": "x", "handle": bytes([n])} for n in range(19)]
    async with house.owner_db.directory() as tx:
        await tx.execute(person_credential.insert().values(rows))
    assert len(rows) + 1 == PASSKEYS_MOST
    assert (await add(mine, Authenticator(ISSUER))).status_code == 422
    async with house.owner_db.directory() as tx:
        await tx.execute(person_credential.delete().where(person_credential.c.person == who))

"""Password and code: set up, used, guessed at, and taken away (A22, T08)."""

import re
import time
from typing import Any

import anyio
import pyotp
import pytest
from argon2 import PasswordHasher
from sqlalchemy import delete, select, text, update

from service.grants.tables import person_credential
from service.identity import passwords
from service.identity.passwords import check_password
from service.identity.tables import login_counter
from service.identity.tries import FREE
from service.kit.actor import SERVICE_TENANT
from service.kit.errors import Refusal
from service.ledger.tables import ledger_entry
from tests.identity.house import ISSUER, Browser, House
from tests.identity.jar import Jar, jar

pytestmark = pytest.mark.anyio
SETTINGS = "/settings/sign-in"
PASSWORD = "seven green bottles, hanging"


@pytest.fixture(autouse=True)
async def _nothing_counted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=64))  # the same, less often
    async with house.owner_db.directory() as tx:
        await tx.execute(delete(login_counter))


class Person:
    """Somebody with password, app and recovery codes."""

    def __init__(self, mine: Jar, email: str, secret: str, codes: list[str]) -> None:
        self.mine, self.email, self.app, self.codes = mine, email, pyotp.TOTP(secret), codes
        self.step = 0

    def code(self) -> str:
        """A code that was not used yet: of this half minute, or of the next, which is taken as well."""
        self.step = max(self.step + 1, int(time.time()) // 30)
        return self.app.at(self.step * 30)

    def shown(self, **changes: Any) -> dict[str, str]:
        return {"email": self.email, "password": PASSWORD, "code": self.codes[0], **changes}


async def person(house: House, ada: Browser) -> Person:
    mine = jar(house, ada)
    assert (await mine.form(f"{SETTINGS}/password", password=PASSWORD)).status_code == 303
    page = await mine.form(f"{SETTINGS}/app", action="begin")
    assert "<svg" in page.text
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", page.text)
    assert secret
    done = await mine.form(f"{SETTINGS}/app/code", code=pyotp.TOTP(secret[1]).at(time.time() - 30))
    codes = re.findall(r"<code>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</code>", done.text)
    assert len(set(codes)) == 10
    return Person(mine, (await mine.session()).email, secret[1], codes)


async def test_password_and_app_sign_in_and_each_code_does_it_once(house: House, ada: Browser) -> None:
    one = await person(house, ada)
    code = one.app.now()
    fresh = jar(house)
    answer = await fresh.form("/sign-in/password", **one.shown(code=f" {code[:3]} {code[3:]} "))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (await fresh.session()).email == one.email
    assert (await jar(house).form("/sign-in/password", **one.shown(code=code))).status_code == 401
    for stranger in ("000000", "", "12345", "\uff11\uff12\uff13\uff14\uff15\uff16", one.app.at(time.time() - 3600)):
        assert (await jar(house).form("/sign-in/password", **one.shown(code=stranger))).status_code == 401, stranger
        async with house.owner_db.directory() as tx:
            await tx.execute(delete(login_counter))


async def test_a_recovery_code_works_once_in_place_of_the_app(house: House, ada: Browser) -> None:
    one = await person(house, ada)
    spelt = one.codes[0].upper().replace("-", " ")
    assert (await jar(house).form("/sign-in/password", **one.shown(code=spelt))).status_code == 303
    assert (await jar(house).form("/sign-in/password", **one.shown(code=spelt))).status_code == 401
    assert "9 recovery codes are left" in (await one.mine.get(SETTINGS)).text
    page = await one.mine.form(f"{SETTINGS}/recovery", action="renew")
    assert "shown now and never again" in page.text
    assert (await jar(house).form("/sign-in/password", **one.shown(code=one.codes[1]))).status_code == 401
    again = (await one.mine.get(SETTINGS)).text
    assert not any(code in again for code in one.codes)


async def test_a_password_alone_opens_nothing(house: House, ada: Browser) -> None:
    mine = jar(house, ada)
    assert (await mine.form(f"{SETTINGS}/password", password=PASSWORD)).status_code == 303
    shown = {"email": (await mine.session()).email, "password": PASSWORD}
    for code in ("", "000000"):
        assert (await jar(house).form("/sign-in/password", **shown, code=code)).status_code == 401
    await mine.form(f"{SETTINGS}/app", action="begin")  # begun, and never shown to work
    rows = select(person_credential.c.live).where(person_credential.c.kind == "totp")
    assert [
        row.live
        for row in await house.rows(SERVICE_TENANT, rows.order_by(person_credential.c.created_at.desc()).limit(1))
    ] == [False]
    assert (await jar(house).form("/sign-in/password", **shown, code="000000")).status_code == 401


async def test_one_answer_whatever_was_wrong_and_whether_there_is_such_a_person(house: House, ada: Browser) -> None:
    one = await person(house, ada)
    tries = [
        one.shown(password="wrong wrong wrong"),
        one.shown(code="000000"),
        one.shown(email="nobody@example.org"),
        one.shown(email="no address at all"),
        one.shown(email="\u202e" * 300, password="x" * 100_000),
    ]
    pages = [
        await jar(house, address=f"10.9.0.{n}").form("/sign-in/password", **shown) for n, shown in enumerate(tries)
    ]
    assert {page.status_code for page in pages} == {401}
    assert len({page.text for page in pages}) == 1


async def test_tries_lock_the_account_from_everywhere_for_longer_and_longer(house: House, ada: Browser) -> None:
    one = await person(house, ada)
    for number in range(FREE["account"]):
        other = jar(house, address=f"10.0.0.{number}")
        assert (await other.form("/sign-in/password", **one.shown(code="000000"))).status_code == 401
    right = await jar(house, address="10.1.0.1").form("/sign-in/password", **one.shown())
    wrong = await jar(house, address="10.1.0.2").form("/sign-in/password", **one.shown(code="000000"))
    assert (right.status_code, right.text) == (401, wrong.text)  # locked: not even looked at
    seconds = [await lock_of(house)]
    for _ in range(2):
        await let_go(house)
        again = jar(house, address="10.1.0.3")
        assert (await again.form("/sign-in/password", **one.shown(code="000000"))).status_code == 401
        seconds.append(await lock_of(house))
    assert seconds == [30, 60, 120]
    await let_go(house)
    assert (await jar(house, address="10.1.0.4").form("/sign-in/password", **one.shown())).status_code == 303
    accounts = select(login_counter).where(login_counter.c.kind == "account")
    assert await house.rows(SERVICE_TENANT, accounts) == []
    locked = select(ledger_entry.c.body).where(ledger_entry.c.kind == "sign_in.locked")
    assert len(await house.rows(SERVICE_TENANT, locked)) >= 3


async def lock_of(house: House) -> int:
    where = login_counter.c.kind == "account"
    [row] = await house.rows(
        SERVICE_TENANT, select(login_counter.c.locked_until - login_counter.c.last_at).where(where)
    )
    return round(row[0].total_seconds())


async def let_go(house: House) -> None:
    over = update(login_counter).values(locked_until=text("clock_timestamp() - interval '1 second'"))
    await house.change(SERVICE_TENANT, over.where(login_counter.c.locked_until.is_not(None)))


async def test_a_thousandth_try_at_once_is_not_free(house: House, ada: Browser) -> None:
    """Counted before it is tried: of many at once no more are looked at than of many in a row."""
    one = await person(house, ada)
    answers: list[int] = []

    async def guess(number: int) -> None:
        other = jar(house, address=f"10.2.0.{number}")
        answers.append((await other.form("/sign-in/password", **one.shown(code="000000"))).status_code)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(guess, number)
    assert set(answers) == {401}
    where = login_counter.c.kind == "account"
    assert [row.failures for row in await house.rows(SERVICE_TENANT, select(login_counter).where(where))] == [5]


async def test_an_address_that_guesses_over_many_accounts_is_locked_and_others_are_not(
    house: House, ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await person(house, ada)
    monkeypatch.setitem(FREE, "address", 6)
    for number in range(FREE["address"]):
        other = jar(house, address=f"2001:db8:1:2::{number:x}")
        shown = {"email": f"a{number}@example.org", "password": "x", "code": "000000"}
        assert (await other.form("/sign-in/password", **shown)).status_code == 401
    same = jar(house, address="2001:db8:1:2:ffff::1")
    assert (await same.form("/sign-in/password", **one.shown())).status_code == 401
    elsewhere = jar(house, address="2001:db8:1:3::1")
    assert (await elsewhere.form("/sign-in/password", **one.shown())).status_code == 303


@pytest.mark.parametrize(
    "password",
    ["", "short", "Password1234", "qwertyuiop123", "123456789012", "aaaaaaaaaaaa", "Ada@Example.org!", "x" * 201,
     "\uff30\uff21\uff33\uff33\uff37\uff2f\uff32\uff249999", "abababababab"],
)  # fmt: skip
async def test_what_is_guessed_first_is_no_password(password: str) -> None:
    with pytest.raises(Refusal):
        check_password(password, "ada@example.org")


async def test_a_long_phrase_is_a_password() -> None:
    for password in (PASSWORD, "tepid spoon, angry lamp", "żółta łódka płynie"):
        check_password(password, "ada@example.org")


async def test_a_weak_password_is_said_on_the_page_and_nothing_is_stored(house: House, ada: Browser) -> None:
    mine = jar(house, ada)
    page = await mine.form(f"{SETTINGS}/password", password="Password1234")
    assert page.status_code == 422
    assert "first that are guessed" in page.text
    who = (await mine.session()).person
    assert await house.rows(SERVICE_TENANT, select(person_credential).where(person_credential.c.person == who)) == []


async def test_a_changed_password_ends_the_other_sessions_and_the_old_one_opens_nothing(
    house: House, ada: Browser
) -> None:
    one = await person(house, ada)
    fresh = jar(house)
    assert (await fresh.form("/sign-in/password", **one.shown())).status_code == 303
    assert (await fresh.form(f"{SETTINGS}/password", password="eight blue bottles, standing")).status_code == 303
    assert await one.mine.session() is None
    assert await fresh.session()
    assert (await jar(house).form("/sign-in/password", **one.shown(code=one.codes[1]))).status_code == 401


async def test_removing_it_removes_password_app_and_codes(house: House, ada: Browser) -> None:
    one = await person(house, ada)
    assert (await one.mine.form(f"{SETTINGS}/password/remove", action="remove")).status_code == 303
    assert (await jar(house).form("/sign-in/password", **one.shown())).status_code == 401
    who = (await one.mine.session()).person
    assert await house.rows(SERVICE_TENANT, select(person_credential).where(person_credential.c.person == who)) == []


async def test_nothing_that_is_stored_tells_the_secrets(house: House, ada: Browser) -> None:
    one = await person(house, ada)
    who = (await one.mine.session()).person
    rows = await house.rows(SERVICE_TENANT, select(person_credential).where(person_credential.c.person == who))
    stored = b"".join(bytes(row.secret or b"") + bytes(row.handle or b"") for row in rows)
    assert b"$argon2id$" in stored
    for secret in (PASSWORD, one.app.secret, *one.codes):
        assert secret.encode() not in stored


async def test_password_and_code_prove_who_is_signed_in_and_nobody_else(
    house: House, ada: Browser, bob: Browser
) -> None:
    one = await person(house, ada)
    before = one.mine.session_secret
    wrong = await one.mine.form("/prove?next=/ledger", password=PASSWORD, code="000000")
    assert (wrong.status_code, one.mine.session_secret) == (401, before)
    proved = await one.mine.form("/prove?next=/ledger", password=PASSWORD, code=one.codes[0])
    assert (proved.status_code, proved.headers["location"]) == (303, "/ledger")
    assert one.mine.session_secret != before
    theirs = jar(house, bob)
    assert (await theirs.form("/prove", **one.shown(code=one.codes[1]))).status_code == 401
    for away in ("https://evil.example", "//evil.example", "/\\evil.example"):
        answer = await one.mine.form(f"/prove?next={away}", password=PASSWORD, code=one.codes[2 + len(away) % 5])
        assert answer.headers.get("location", "/") == "/"


async def test_another_site_cannot_send_the_form(house: House, ada: Browser) -> None:
    one = await person(house, ada)
    for origin in ("https://evil.example", "null", ISSUER + "0"):
        assert (await jar(house, origin=origin).form("/sign-in/password", **one.shown())).status_code == 403

"""A password (argon2id) together with a code: the other way to sign in.

A password alone opens nothing. The code comes from an app (TOTP, RFC 6238), each once, or is one of ten recovery codes,
each once. Whether the account, the password or the code was wrong, or there were too many tries: it is one answer,
after the same work.
"""

import base64
import re
import secrets
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from uuid import UUID, uuid4

import anyio
import anyio.to_thread
import pyotp
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from sqlalchemy import Row, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from service.grants.tables import person, person_credential
from service.identity.sessions import Session, acting, begin, end_others, prove
from service.identity.tries import Try
from service.kit.actor import SERVICE_TENANT
from service.kit.canonical import sha256
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.kit.sealed import Sealer, Unsealable
from service.ledger.append import append

PASSWORD_LEAST: Final = 12
PASSWORD_MOST: Final = 200
RECOVERY_CODES: Final = 10
RECOVERY_BYTES: Final = 10
STEP_SECONDS: Final = 30
CODE_DIGITS: Final = 6
HASHES_AT_ONCE: Final = 2  # 64 MiB each
KINDS: Final = ("password", "totp", "recovery")
_NOBODY: Final = UUID(int=0)
_FIRST_GUESSED: Final = (
    "password passwort passw0rd p@ssword motdepasse qwerty qwertz azerty qwertyuiop asdfghjkl zxcvbnm letmein "
    "welcome iloveyou monkey dragon sunshine princess football baseball superman batman trustno one master admin "
    "administrator login secret changeme starwars whatever freedom shadow michael jennifer computer internet "
    "samsung google abcdefgh abcdefghijkl abc abcd correcthorsebatterystaple placet test testing default guest root "
    "user "
)
_COMMON: Final = frozenset(_FIRST_GUESSED.split())
_WEAK_LETTERS: Final = 4
_NOW = func.clock_timestamp()
_limit = anyio.CapacityLimiter(HASHES_AT_ONCE)
_hasher = PasswordHasher()


def _wrong() -> Refusal:
    text = (
        "The address, the password or the code is wrong, or there were too many tries. Wait a little, then try again."
    )
    return Refusal(Code.SIGN_IN_REFUSED, text)


@dataclass(frozen=True)
class Shown:
    """What was typed to sign in or to prove: `code` is of the app, or a recovery code."""

    email: str
    password: str
    code: str
    address: str

    @property
    def attempt(self) -> Try:
        return Try(self.email, self.address)


@dataclass(frozen=True)
class Setup:
    """A secret for an app, before its first code proves that the app has it; `uri` is what the QR code says."""

    secret: str
    uri: str


@dataclass(frozen=True)
class Passwords:
    """Passwords and codes of people; the sealer opens the secrets of their apps, and nothing else."""

    database: Database
    sealer: Sealer

    async def sign_in(self, shown: Shown, agent: str, replaces: Session | None) -> str:
        """Open a session; gives its secret. Raises SIGN_IN_REFUSED, one answer for everything that was wrong."""
        who = await self._known(shown)
        async with self.database.bound(SERVICE_TENANT) as tx:
            right = await self._second(tx, who, shown)
            if right and who:
                await shown.attempt.forgive(tx)
                return await begin(tx, who, "password", agent, replaces)
        raise _wrong()

    async def prove(self, current: Session, shown: Shown) -> str:
        """Note that who is signed in knows both; gives the session's new secret. Raises as `sign_in`."""
        who = await self._known(shown)
        async with self.database.bound(SERVICE_TENANT) as tx:
            right = await self._second(tx, who, shown)
            if right and who == current.person:
                await shown.attempt.forgive(tx)
                return await prove(tx, current, "password")
        raise _wrong()

    async def set_password(self, current: Session, password: str) -> None:
        """Set or change the password; a change ends the person's other sessions.

        Raises:
            Refusal: INVALID_ARGUMENT for one that is too short, too long, or among the first that are guessed.
        """
        check_password(password, current.email)
        hashed = (await _in_thread(lambda: _hasher.hash(password))).encode()
        row = {"id": uuid4(), "person": current.person, "kind": "password", "name": "Password", "secret": hashed}
        async with self.database.bound(SERVICE_TENANT) as tx:
            had = await _one(tx, current.person, "password")
            stored = insert(person_credential).values(row)
            await tx.execute(
                stored.on_conflict_do_update(
                    index_elements=["person", "kind"],
                    index_where=text("kind IN ('password', 'totp')"),
                    set_={"secret": hashed, "created_at": _NOW},
                )
            )
            verb = "changed" if had else "added"
            append(tx, acting(current.person), f"credential.{verb}", str(had.id if had else row["id"]), way="password")
            if had:
                await end_others(tx, current)

    async def begin_app(self, current: Session) -> Setup:
        """A secret for an app; the same again until a code of it was shown.

        Raises:
            Refusal: NAME_TAKEN where an app is set up already.
        """
        async with self.database.bound(SERVICE_TENANT) as tx:
            row = await _one(tx, current.person, "totp")
            if row and row.live:
                raise Refusal(Code.NAME_TAKEN, "An app is set up already. Remove it first.")
            secret = (row and self._opened(row)) or pyotp.random_base32()
            if row is None:
                await tx.execute(
                    person_credential.insert().values(
                        id=uuid4(),
                        person=current.person,
                        kind="totp",
                        name="App",
                        live=False,
                        secret=self.sealer.seal(secret.encode(), SERVICE_TENANT, current.person),
                    )
                )
        return Setup(secret, pyotp.TOTP(secret).provisioning_uri(name=current.email, issuer_name="Placet"))

    async def finish_app(self, current: Session, code: str) -> list[str]:
        """The app works: from now on its codes count; gives the recovery codes, this once.

        Raises:
            Refusal: SIGN_IN_REFUSED where the code is not the app's.
        """
        async with self.database.bound(SERVICE_TENANT) as tx:
            row = await _one(tx, current.person, "totp")
            if row is not None and not row.live and await self._take_code(tx, row, code):
                await tx.execute(update(person_credential).where(person_credential.c.id == row.id).values(live=True))
                append(tx, acting(current.person), "credential.added", str(row.id), way="app")
                return await _recovery_codes(tx, current)
        raise Refusal(Code.SIGN_IN_REFUSED, "This is not the code that the app shows now.")

    async def new_recovery_codes(self, current: Session) -> list[str]:
        """Ten new ones in place of the old. Raises NOT_FOUND where there is no app to recover."""
        async with self.database.bound(SERVICE_TENANT) as tx:
            row = await _one(tx, current.person, "totp")
            if row is None or not row.live:
                raise Refusal(Code.NOT_FOUND, "Set up an app first.")
            return await _recovery_codes(tx, current)

    async def remove(self, current: Session) -> None:
        """Remove password, app and recovery codes: they are one way in. Raises NOT_FOUND where there is none."""
        mine = (person_credential.c.person == current.person) & person_credential.c.kind.in_(KINDS)
        async with self.database.bound(SERVICE_TENANT) as tx:
            if not (await tx.execute(delete(person_credential).where(mine))).rowcount:
                raise Refusal(Code.NOT_FOUND, "There is no password.")
            append(tx, acting(current.person), "credential.removed", str(current.person), way="password")

    async def _known(self, shown: Shown) -> UUID | None:
        """Whose password this is. Raises SIGN_IN_REFUSED, without trying, after too many tries."""
        async with self.database.bound(SERVICE_TENANT) as tx:
            may = await shown.attempt.count(tx)
            named = (person.c.email == shown.email.strip().lower()) & (person_credential.c.kind == "password")
            chosen = select(person_credential.c.person, person_credential.c.secret)
            joined = chosen.join(person, person.c.id == person_credential.c.person).where(named)
            row = (await tx.execute(joined)).one_or_none()
        if not may:
            raise _wrong()
        right = await _in_thread(lambda: _verify(row.secret.decode() if row else _nobodys(), shown.password))
        return row.person if row and right else None

    async def _second(self, tx: Bound, who: UUID | None, shown: Shown) -> bool:
        """Whether the code is this person's; asked of nobody as well, so that it takes as long."""
        row = await _one(tx, who or _NOBODY, "totp")
        app = bool(row and row.live) and await self._take_code(tx, row, shown.code)
        recovery = await _take_recovery(tx, who or _NOBODY, shown.code, live=bool(row and row.live))
        return app or recovery

    async def _take_code(self, tx: Bound, row: Row[Any] | None, code: str) -> bool:
        """Use a code of the app up: of this half minute or one beside it, and later than the last one."""
        secret = row and self._opened(row)
        given = re.sub(r"\s", "", code)
        if row is None or not secret or not (given.isascii() and given.isdecimal() and len(given) == CODE_DIGITS):
            return False
        now = int(await tx.scalar(select(func.extract("epoch", _NOW)))) // STEP_SECONDS
        app = pyotp.TOTP(secret)
        right = [
            step
            for step in (now - 1, now, now + 1)
            if secrets.compare_digest(app.at(step * STEP_SECONDS), given) and step > row.counter
        ]
        if not right:
            return False
        mine = update(person_credential).where(person_credential.c.id == row.id)
        await tx.execute(mine.values(counter=max(right), used_at=_NOW))
        return True

    def _opened(self, row: Row[Any]) -> str | None:
        try:
            return self.sealer.open(row.secret, SERVICE_TENANT, row.person).decode()
        except Unsealable:  # the service's secret was changed: the app must be set up anew
            return None


def check_password(password: str, email: str) -> None:
    """Refuse what is too short or guessed first: a common word with digits and signs around it, or the own address.

    Raises:
        Refusal: INVALID_ARGUMENT naming the limit.
    """
    if not PASSWORD_LEAST <= len(password) <= PASSWORD_MOST:
        said = f"A password has {PASSWORD_LEAST} to {PASSWORD_MOST} characters."
        raise Refusal(Code.INVALID_ARGUMENT, said, field="password", limit=PASSWORD_LEAST)
    lowered = unicodedata.normalize("NFKC", password).lower()
    letters = _letters(lowered)
    words = _COMMON | {_letters(email), _letters(email.partition("@")[0])}
    if letters in words or len(letters) < _WEAK_LETTERS or len(set(lowered)) <= _WEAK_LETTERS:
        raise Refusal(Code.INVALID_ARGUMENT, "This password is among the first that are guessed.", field="password")


def _letters(given: str) -> str:
    return re.sub(r"[\W\d_]+", "", given)


async def _in_thread(work: Any) -> Any:
    return await anyio.to_thread.run_sync(work, limiter=_limit)


def _verify(hashed: str, password: str) -> bool:
    try:
        return _hasher.verify(hashed, password[: PASSWORD_MOST + 1])
    except (Argon2Error, InvalidHashError):
        return False


@cache
def _nobodys() -> str:
    """What is compared where there is no account: as much work, and never right."""
    return _hasher.hash(secrets.token_urlsafe(32))


async def _one(tx: Bound, who: UUID, kind: str) -> Row[Any] | None:
    """The person's one credential of a kind, held."""
    mine = (person_credential.c.person == who) & (person_credential.c.kind == kind)
    found: Row[Any] | None = (await tx.execute(select(person_credential).where(mine).with_for_update())).one_or_none()
    return found


async def _recovery_codes(tx: Bound, current: Session) -> list[str]:
    mine = (person_credential.c.person == current.person) & (person_credential.c.kind == "recovery")
    await tx.execute(delete(person_credential).where(mine))
    codes = [_spelt(secrets.token_bytes(RECOVERY_BYTES)) for _ in range(RECOVERY_CODES)]
    rows = [
        {
            "id": uuid4(),
            "person": current.person,
            "kind": "recovery",
            "name": "Code",
            "handle": _hashed(current.person, code),
        }
        for code in codes
    ]
    await tx.execute(insert(person_credential).values(rows))
    append(tx, acting(current.person), "credential.recovery_codes", str(current.person), count=len(codes))
    return codes


async def _take_recovery(tx: Bound, who: UUID, code: str, *, live: bool) -> bool:
    mine = (person_credential.c.kind == "recovery") & (person_credential.c.person == who)
    named = person_credential.c.handle == _hashed(who, code)
    used = await tx.execute(delete(person_credential).where(mine, named).returning(person_credential.c.id))
    found = used.scalar_one_or_none()
    if found is not None:
        append(tx, acting(who), "credential.recovery_used", str(found))
    return live and found is not None


def _spelt(code: bytes) -> str:
    """80 bits as a person reads them off: four groups of four, without letters that look like digits."""
    return "-".join(re.findall("....", base64.b32encode(code).decode().lower()))


def _hashed(who: UUID, code: str) -> bytes:
    """A code has 80 random bits: no slow hash is needed."""
    plain = re.sub(r"[\s-]", "", code).lower()
    return bytes.fromhex(sha256(who.bytes + plain.encode("utf-8", "replace")))

"""What a ceremony must answer: 32 random bytes, for one purpose, one browser, a few minutes, and one use.

Using one up is a transaction of its own: an answer that turns out wrong has used it up all the same.
"""

import secrets
from typing import Final, Literal
from uuid import UUID

from sqlalchemy import delete, func, select, text, update

from service.identity.tables import login_challenge
from service.kit.actor import SERVICE_TENANT
from service.kit.canonical import sha256
from service.kit.database import Database
from service.kit.errors import Code, Refusal
from service.kit.secrets import secret_hash

Purpose = Literal["register", "sign_in", "prove", "oidc"]
CHALLENGE_BYTES: Final = 32
CHALLENGE_SECONDS: Final = 600
PRUNED_MOST: Final = 100
_NOW = func.clock_timestamp()
_EARLIER = text("interval '1 hour'")


async def new_challenge(
    database: Database, purpose: Purpose, browser: str, *, person: UUID | None = None, data: str = ""
) -> bytes:
    """A challenge for this browser, which keeps `data` until it comes back.

    Args:
        database: where it is stored, as a hash.
        purpose: the only one that it is accepted for.
        browser: what this browser alone holds.
        person: who is signed in there; None where nobody is.
        data: what shall be found with it again.
    """
    challenge = secrets.token_bytes(CHALLENGE_BYTES)
    row = {
        "hash": bytes.fromhex(sha256(challenge)),
        "kind": purpose,
        "person": person,
        "browser": secret_hash(browser),
        "data": data,
        "expires_at": _NOW + text(f"interval '{CHALLENGE_SECONDS} seconds'"),
    }
    old = select(login_challenge.c.hash).where(login_challenge.c.expires_at < _NOW - _EARLIER).limit(PRUNED_MOST)
    async with database.bound(SERVICE_TENANT) as tx:
        await tx.execute(
            delete(login_challenge).where(login_challenge.c.hash.in_(old.with_for_update(skip_locked=True)))
        )
        await tx.execute(login_challenge.insert().values(row))
    return challenge


async def use_challenge(
    database: Database, purpose: Purpose, browser: str, challenge: bytes, *, person: UUID | None = None
) -> str:
    """Use a challenge up; what was kept with it.

    Raises:
        Refusal: SIGN_IN_REFUSED, one answer for a challenge that is unknown, used, too old, or another's.
    """
    mine = (login_challenge.c.hash == bytes.fromhex(sha256(challenge))) & (login_challenge.c.kind == purpose)
    here = (login_challenge.c.browser == secret_hash(browser)) & login_challenge.c.person.is_not_distinct_from(person)
    fresh = login_challenge.c.used_at.is_(None) & (login_challenge.c.expires_at > _NOW)
    use = update(login_challenge).where(mine, here, fresh).values(used_at=_NOW).returning(login_challenge.c.data)
    async with database.bound(SERVICE_TENANT) as tx:
        found: str | None = await tx.scalar(use)
    if found is None:
        raise Refusal(Code.SIGN_IN_REFUSED, "This took too long, or was begun in another browser.")
    return found

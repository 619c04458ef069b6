"""Passkeys (WebAuthn Level 3): added, used to sign in without a name typed, and used to prove that it is still you.

The relying party is the host of the issuer, the origin is compared whole, the person is always verified. Of a passkey
whose counter goes backwards there may be two: it is refused, said, and written down.
"""

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from sqlalchemy import Row, func, select, update
from sqlalchemy.dialects.postgresql import insert
from webauthn import (
    base64url_to_bytes,
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import decode_credential_public_key, parse_client_data_json
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from service.contract.data import Json
from service.contract.names import check_text
from service.grants.tables import person_credential
from service.identity.challenges import Purpose, new_challenge, use_challenge
from service.identity.sessions import Session, acting, begin, prove
from service.kit.actor import SERVICE_TENANT
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append

PASSKEYS_MOST: Final = 20
NAME_MOST: Final = 60
HANDLE_MOST: Final = 1023  # WebAuthn, 4: a credential id has at most so many bytes
ALGORITHMS: Final = [
    COSEAlgorithmIdentifier.ECDSA_SHA_256,  # first: only these can sign a commit
    COSEAlgorithmIdentifier.EDDSA,
    COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256,
]
_NOW = func.clock_timestamp()
_TRANSPORTS: Final = frozenset(one.value for one in AuthenticatorTransport)
_REFUSED: Final = "This passkey was not accepted."


@dataclass(frozen=True)
class RelyingParty:
    """Who passkeys are for: the service, by its origin."""

    database: Database
    origin: str

    @property
    def id(self) -> str:
        """The host of the origin (WebAuthn, 5.1.2)."""
        return urlsplit(self.origin).hostname or ""

    async def ask_to_add(self, current: Session) -> Json:
        """The options of `navigator.credentials.create()`."""
        challenge = await new_challenge(self.database, "register", str(current.id), person=current.person)
        options = generate_registration_options(
            rp_id=self.id,
            rp_name="Placet",
            user_id=current.person.bytes,
            user_name=current.email,
            user_display_name=current.name,
            challenge=challenge,
            supported_pub_key_algs=ALGORITHMS,
            exclude_credentials=await self._known(current.person),
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
            ),
        )
        return _json(options)

    async def add(self, current: Session, answer: Json, name: str) -> UUID:
        """Store a new passkey of this person.

        Raises:
            Refusal: SIGN_IN_REFUSED for an answer that proves nothing, TEXT_REJECTED for a name, NAME_TAKEN for one
                that is known already, INVALID_ARGUMENT where there are too many.
        """
        check_text(name, "name", most=NAME_MOST)
        challenge = _challenge(answer)
        await use_challenge(self.database, "register", str(current.id), challenge, person=current.person)
        row = {
            **self._verified(answer, challenge),
            "id": uuid4(),
            "person": current.person,
            "kind": "passkey",
            "name": name,
        }
        async with self.database.bound(SERVICE_TENANT) as tx:
            await _check_room(tx, current.person)
            stored = insert(person_credential).values(row)
            made = await tx.execute(stored.on_conflict_do_nothing().returning(person_credential.c.id))
            if made.scalar_one_or_none() is None:
                raise Refusal(Code.NAME_TAKEN, "This passkey is known already.")
            append(tx, acting(current.person), "credential.added", str(row["id"]), way="passkey", es256=row["es256"])
        return UUID(str(row["id"]))

    async def ask_to_sign_in(self, browser: str) -> Json:
        """The options of `navigator.credentials.get()`, for whatever passkey the browser finds."""
        return await self._ask("sign_in", browser, None, [])

    async def sign_in(self, browser: str, answer: Json, agent: str, replaces: Session | None) -> str:
        """Open a session for the person of this passkey; gives its secret. Raises SIGN_IN_REFUSED."""
        challenge = _challenge(answer)
        await use_challenge(self.database, "sign_in", browser, challenge)
        async with self.database.bound(SERVICE_TENANT) as tx:
            found = await self._used(tx, answer, challenge, None)
            if not isinstance(found, Refusal):
                return await begin(tx, found, "passkey", agent, replaces)
        raise found

    async def ask_to_prove(self, current: Session) -> Json:
        """The same, for the passkeys of who is signed in."""
        return await self._ask("prove", str(current.id), current.person, await self._known(current.person))

    async def prove(self, current: Session, answer: Json) -> str:
        """Note that who is signed in showed a passkey; gives the session's new secret. Raises SIGN_IN_REFUSED."""
        challenge = _challenge(answer)
        await use_challenge(self.database, "prove", str(current.id), challenge, person=current.person)
        async with self.database.bound(SERVICE_TENANT) as tx:
            found = await self._used(tx, answer, challenge, current.person)
            if not isinstance(found, Refusal):
                return await prove(tx, current, "passkey")
        raise found

    async def _ask(
        self, purpose: Purpose, browser: str, who: UUID | None, allowed: list[PublicKeyCredentialDescriptor]
    ) -> Json:
        challenge = await new_challenge(self.database, purpose, browser, person=who)
        options = generate_authentication_options(
            rp_id=self.id,
            challenge=challenge,
            allow_credentials=allowed,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return _json(options)

    async def _known(self, who: UUID) -> list[PublicKeyCredentialDescriptor]:
        columns = (person_credential.c.handle, person_credential.c.transports)
        mine = (person_credential.c.person == who) & (person_credential.c.kind == "passkey")
        async with self.database.directory() as tx:
            rows = (await tx.execute(select(*columns).where(mine))).all()
        return [
            PublicKeyCredentialDescriptor(id=row.handle, transports=[*map(AuthenticatorTransport, row.transports)])
            for row in rows
        ]

    def _verified(self, answer: Json, challenge: bytes) -> Json:
        """What is stored of a passkey that was made just now."""
        try:
            made = verify_registration_response(
                credential=answer,
                expected_challenge=challenge,
                expected_rp_id=self.id,
                expected_origin=self.origin,
                require_user_verification=True,
                supported_pub_key_algs=ALGORITHMS,
            )
            key = decode_credential_public_key(made.credential_public_key)
        except Exception as error:
            raise Refusal(Code.SIGN_IN_REFUSED, _REFUSED) from error
        if len(made.credential_id) > HANDLE_MOST:
            raise Refusal(Code.SIGN_IN_REFUSED, _REFUSED)
        return {
            "handle": made.credential_id,
            "secret": made.credential_public_key,
            "counter": made.sign_count,
            "transports": _transports(answer),
            "aaguid": made.aaguid,
            "es256": key.alg == COSEAlgorithmIdentifier.ECDSA_SHA_256,
        }

    async def _used(self, tx: Bound, answer: Json, challenge: bytes, who: UUID | None) -> UUID | Refusal:
        """Whose passkey answered. A refusal is given back, not raised, so that what the ledger says of it is kept."""
        row = await _find(tx, answer, who)
        count = row and self._count(answer, challenge, row)
        if row is None or count is None:
            return Refusal(Code.SIGN_IN_REFUSED, _REFUSED)
        if (count or row.counter) and count <= row.counter:  # WebAuthn, 7.2, step 22
            append(tx, acting(row.person), "credential.counter_back", str(row.id), had=row.counter, sent=count)
            text = "This passkey's counter went backwards, so there may be a copy of it. Remove it and add a new one."
            return Refusal(Code.SIGN_IN_REFUSED, text)
        mine = update(person_credential).where(person_credential.c.id == row.id)
        await tx.execute(mine.values(counter=count, used_at=_NOW))
        return UUID(str(row.person))

    def _count(self, answer: Json, challenge: bytes, row: Row[Any]) -> int | None:
        """The counter of an answer that this passkey signed; None where it did not."""
        try:
            handle = answer["response"].get("userHandle")
            if handle and base64url_to_bytes(handle) != row.person.bytes:
                return None
            return verify_authentication_response(
                credential=answer,
                expected_challenge=challenge,
                expected_rp_id=self.id,
                expected_origin=self.origin,
                credential_public_key=row.secret,
                credential_current_sign_count=0,  # compared by us, after the signature
                require_user_verification=True,
            ).new_sign_count
        except Exception:  # noqa: BLE001  as above
            return None


async def _find(tx: Bound, answer: Json, who: UUID | None) -> Row[Any] | None:
    """The passkey that an answer names, held; of this person, where somebody is signed in."""
    try:
        handle = base64url_to_bytes(answer["rawId"])
    except (KeyError, TypeError, ValueError):
        return None
    named = (person_credential.c.kind == "passkey") & (person_credential.c.handle == handle)
    mine = person_credential.c.person == who if who else person_credential.c.live
    found: Row[Any] | None = (
        await tx.execute(select(person_credential).where(named, mine).with_for_update())
    ).one_or_none()
    return found


async def _check_room(tx: Bound, who: UUID) -> None:
    mine = (person_credential.c.person == who) & (person_credential.c.kind == "passkey")
    if (await tx.scalar(select(func.count()).select_from(person_credential).where(mine)) or 0) >= PASSKEYS_MOST:
        raise Refusal(Code.INVALID_ARGUMENT, "You have as many passkeys as there can be.", limit=PASSKEYS_MOST)


def _challenge(answer: Json) -> bytes:
    """Which challenge an answer says it is for, of a page of ours that is in no frame of another's."""
    try:
        data = parse_client_data_json(base64url_to_bytes(answer["response"]["clientDataJSON"]))
    except Exception as error:
        raise Refusal(Code.SIGN_IN_REFUSED, _REFUSED) from error
    if data.cross_origin:
        raise Refusal(Code.SIGN_IN_REFUSED, _REFUSED)
    return data.challenge


def _transports(answer: Json) -> list[str]:
    """How the browser says that the passkey is reached, of the words that are known."""
    given = answer["response"].get("transports") or []
    return sorted({one for one in given if isinstance(one, str)} & _TRANSPORTS) if isinstance(given, list) else []


def _json(options: Any) -> Json:
    found: Json = json.loads(options_to_json(options))
    return found

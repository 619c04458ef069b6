"""Signing in through another service: OpenID Connect Core 1.0, authorization code with PKCE.

State, nonce and verifier are made for one browser, kept in the database, and used once. Of the ID token everything is
checked: the algorithm against a list, signature, issuer, audience, times, nonce and, where it is there, `at_hash`. A
person is found by a verified e-mail address the first time, from then on by issuer and subject; nobody is made.
"""

import json
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import UUID, uuid4

from authlib.common.security import generate_token
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.jwk import KeySet
from sqlalchemy import Row, func, select, update
from sqlalchemy.dialects.postgresql import insert

from service.contract.data import Json
from service.grants.tables import person, person_credential
from service.identity.challenges import new_challenge, use_challenge
from service.identity.provider import Provider
from service.identity.sessions import Session, acting, begin, prove
from service.kit.actor import SERVICE_TENANT
from service.kit.canonical import sha256
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.kit.outgoing import Outgoing
from service.ledger.append import append

ALGORITHMS: Final = ("RS256", "ES256", "PS256", "EdDSA", "Ed25519")
LEEWAY_SECONDS: Final = 60
PROVED_SECONDS: Final = 300
SUBJECT_MOST: Final = 255  # OpenID Connect Core 1.0, 2
OK: Final = 200
PROVES, OPENS = "p", "s"
"""How a state begins: whether it was made to prove who is signed in, or to sign in."""
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_NOW = func.clock_timestamp()


@dataclass(frozen=True)
class Claims:
    """What an ID token says that was found right."""

    subject: str
    email: str
    verified: bool


@dataclass(frozen=True)
class Elsewhere:
    """Signing in at a provider; `origin` is ours."""

    database: Database
    provider: Provider
    outgoing: Outgoing
    origin: str

    @property
    def callback(self) -> str:
        """Where the provider sends the browser back to."""
        return f"{self.origin}/sign-in/oidc/callback"

    async def start(self, browser: str, wanted: str, current: Session | None = None) -> str:
        """The address to send the browser to; `current`: to prove that it is still the same person.

        Raises:
            Refusal: UNREACHABLE or ADDRESS_REFUSED for a provider that is not as it should be.
        """
        found = await self._discover()
        kept = {"nonce": generate_token(43), "verifier": generate_token(64), "wanted": wanted}
        who = current.person if current else None
        state = await new_challenge(self.database, "oidc", browser, person=who, data=json.dumps(kept))
        again = {"prompt": "login", "max_age": "0"} if current else {}
        url, _ = self._client().create_authorization_url(
            found["authorization_endpoint"],
            (PROVES if current else OPENS) + state.hex(),
            kept["verifier"],
            nonce=kept["nonce"],
            **again,
        )
        return str(url)

    async def finish(self, browser: str, sent: dict[str, str], agent: str, session: Session | None) -> tuple[str, str]:
        """What the browser came back with: the session's secret, and where the person wanted to go.

        Where it was begun to prove who is signed in, `session` is proved, by an account of the same person; else a
        session is opened, in its place.

        Raises:
            Refusal: ORIGIN_REJECTED for a state that this browser did not begin with, SIGN_IN_REFUSED, UNREACHABLE
                where the provider does not answer.
        """
        proving = session if sent.get("state", "").startswith(PROVES) else None
        kept = json.loads(await self._kept(browser, sent.get("state", ""), proving))
        if "code" not in sent or sent.get("iss", self.provider.issuer) != self.provider.issuer:  # RFC 9207
            raise _refused("Nothing was signed in there.")
        claims = await self._redeem(sent["code"], kept, again=proving is not None)
        async with self.database.bound(SERVICE_TENANT) as tx:
            who = await self._person(tx, claims)
            if proving and who != proving.person:
                raise _refused("That is another person's account.")
            if who is None:
                raise _refused("Nobody here has this account's verified address. Ask for an invitation first.")
            opened = await (prove(tx, proving, "oidc") if proving else begin(tx, who, "oidc", agent, session))
        return opened, kept["wanted"]

    async def _kept(self, browser: str, state: str, proving: Session | None) -> str:
        try:
            challenge, who = bytes.fromhex(state[1:]), proving.person if proving else None
            return await use_challenge(self.database, "oidc", browser, challenge, person=who)
        except (ValueError, Refusal):
            text = "Signing in was not begun in this browser, took longer than ten minutes, or came back twice."
            raise Refusal(Code.ORIGIN_REJECTED, text) from None

    async def _redeem(self, code: str, kept: Json, *, again: bool) -> Claims:
        found = await self._discover()
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.callback,
            "code_verifier": kept["verifier"],
        }
        tokens = await self._token(found["token_endpoint"], body)
        keys = await self._get(found["jwks_uri"])
        try:
            claims = self._checked(tokens, keys, kept["nonce"], again=again)
        except Refusal:
            raise
        except Exception as error:
            raise _refused("The other service's answer does not hold.") from error
        return claims

    def _checked(self, tokens: Json, keys: Json, nonce: str, *, again: bool) -> Claims:
        """OpenID Connect Core 1.0, 3.1.3.7."""
        token = jwt.decode(
            tokens["id_token"], KeySet.import_key_set({"keys": keys["keys"]}), algorithms=list(ALGORITHMS)
        )
        claims = CodeIDToken(
            token.claims,
            token.header,
            {
                "iss": {"essential": True, "value": self.provider.issuer},
                "aud": {"essential": True, "value": self.provider.client_id},
                "nonce": {"essential": True, "value": nonce},
            },
            {"nonce": nonce, "client_id": self.provider.client_id, "access_token": tokens.get("access_token")},
        )
        claims.validate(leeway=LEEWAY_SECONDS)
        if again and int(claims["auth_time"]) < time.time() - PROVED_SECONDS:
            raise _refused("The other service did not ask you again.")
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_MOST:
            raise _refused("The other service's answer does not hold.")
        return Claims(subject, str(claims.get("email", "")).strip().lower(), claims.get("email_verified") is True)

    async def _person(self, tx: Bound, claims: Claims) -> UUID | None:
        """Whose account this is; the first time, whose verified address it has."""
        handle = bytes.fromhex(sha256(f"{self.provider.issuer}\n{claims.subject}".encode()))
        mine = (person_credential.c.kind == "oidc") & (person_credential.c.handle == handle)
        used = update(person_credential).where(mine).values(used_at=_NOW).returning(person_credential.c.person)
        known: UUID | None = await tx.scalar(used)
        if known is not None or not claims.verified or not claims.email:
            return known
        row: Row[Any] | None = (
            await tx.execute(select(person.c.id).where(person.c.email == claims.email))
        ).one_or_none()
        if row is None:
            return None
        stored = {"id": uuid4(), "person": row.id, "kind": "oidc", "name": self.provider.name, "handle": handle}
        await tx.execute(insert(person_credential).values({**stored, "used_at": _NOW}).on_conflict_do_nothing())
        append(tx, acting(row.id), "credential.added", str(stored["id"]), way="oidc", issuer=self.provider.issuer)
        return UUID(str(row.id))

    async def _discover(self) -> dict[str, str]:
        """The provider's endpoints (OpenID Connect Discovery 1.0, 4), all of them where they may be."""
        found = await self._get(f"{self.provider.issuer}/.well-known/openid-configuration")
        if found.get("issuer") != self.provider.issuer:
            raise _unfit("The other service calls itself something else.")
        origins = {_origin(self.provider.issuer), *self.provider.origins}
        ends = {name: found.get(name) for name in _ENDPOINTS}
        for url in ends.values():
            if not isinstance(url, str) or _origin(url) not in origins:
                raise _unfit("The other service names an address that is not its own.")
            self.outgoing.check(url)
        return {name: str(url) for name, url in ends.items()}

    async def _get(self, url: str) -> Json:
        reply = await self.outgoing.send("GET", url, headers={"accept": "application/json"})
        return _object(reply.status, reply.body)

    async def _token(self, url: str, body: dict[str, str]) -> Json:
        method = "client_secret_basic" if self.provider.client_secret else "none"
        auth = ClientAuth(self.provider.client_id, self.provider.client_secret, method)
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        _, given, content = auth.prepare("POST", url, headers, urlencode(body))
        reply = await self.outgoing.send("POST", url, headers=given, content=str(content).encode())
        if reply.status != OK:
            raise _refused("The other service did not take the code.")
        return _object(reply.status, reply.body)

    def _client(self) -> Any:
        return OAuth2Client(
            None,
            self.provider.client_id,
            scope="openid email",
            redirect_uri=self.callback,
            code_challenge_method="S256",
        )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _object(status: int, body: bytes) -> Json:
    try:
        found = json.loads(body) if status == OK else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _unfit("The other service did not answer as it should.")
    return found


def _refused(text: str) -> Refusal:
    return Refusal(Code.SIGN_IN_REFUSED, text)


def _unfit(text: str) -> Refusal:
    return Refusal(Code.UNREACHABLE, text)

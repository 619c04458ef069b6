"""Signing in at another service: a real one on loopback, honest and hostile (A15, A19, A20)."""

import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import RSAKey
from sqlalchemy import select

from service.edge.entering import TRY_COOKIE
from service.grants.tables import person, person_credential
from service.identity.doors import build_doors
from service.identity.provider import Provider as Named
from service.kit.actor import SERVICE_TENANT
from service.kit.errors import Code, Refusal
from service.kit.outgoing import ANSWER_BYTES_MOST, Outgoing, is_public
from tests.identity.house import ISSUER, Browser, House, Tenant, build
from tests.identity.jar import Jar, jar
from tests.identity.provider import CLIENT, SECRET, Provider, provider
from tests.stage import SEALER

pytestmark = pytest.mark.anyio


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as running:
        yield running


@pytest.fixture
def sited(house: House, there: Provider) -> House:
    """The service with that provider named, and its host allowed."""
    return with_provider(house, Named(there.issuer, CLIENT, SECRET), frozenset({"localhost"}))


def with_provider(house: House, named: Named, allowed: frozenset[str]) -> House:
    doors = build_doors(house.parts.database, ISSUER, SEALER, named, Outgoing(allowed))
    parts = replace(house.parts, doors=doors)
    transport = httpx.ASGITransport(build(parts))
    return House(parts, house.owner_db, house.http, transport)


async def email_of(house: House, who: Any) -> str:
    async with house.owner_db.directory() as tx:
        return str(await tx.scalar(select(person.c.email).where(person.c.id == who)))


async def come(browser: Jar, there: Provider, path: str = "/sign-in/oidc") -> httpx.Response:
    """Go there, agree, and come back."""
    sent = await browser.get(path)
    assert sent.status_code == 303, sent.text
    return await browser.get(there.agree(sent.headers["location"]))


async def test_a_person_is_found_by_verified_address_once_and_then_by_the_account(
    sited: House, home: Tenant, there: Provider
) -> None:
    who = await sited.person(home)
    there.claims = {"sub": "42", "email": (await email_of(sited, who)).upper()}
    first = jar(sited)
    await first.get("/sign-in?next=/ledger")
    assert (await come(first, there)).headers["location"] == "/ledger"
    assert (await first.session()).person == who
    there.claims = {"sub": "42", "email": "moved@example.com", "email_verified": None}
    again = jar(sited)
    assert (await come(again, there)).status_code == 303
    assert (await again.session()).person == who
    rows = await sited.rows(SERVICE_TENANT, select(person_credential).where(person_credential.c.person == who))
    assert [(row.kind, row.name) for row in rows] == [("oidc", urlsplit(there.issuer).netloc)]
    assert await sited.entries(SERVICE_TENANT, str(rows[0].id)) == ["credential.added"]


async def test_the_request_carries_state_nonce_and_proof_key(sited: House, there: Provider) -> None:
    sent = await jar(sited).get("/sign-in/oidc")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{ISSUER}/sign-in/oidc/callback"
    assert asked["scope"] == "openid email"
    assert len(asked["state"]) == 65
    assert len(asked["nonce"]) >= 43
    assert "prompt" not in asked


@pytest.mark.parametrize(
    "claims",
    [{"email": "unknown@example.org"}, {"email_verified": False}, {"email_verified": None}, {"email_verified": "true"},
     {"email": None}, {"sub": None}, {"sub": 7}, {"sub": ""}, {"sub": "x" * 256}],
    ids=str,
)  # fmt: skip
async def test_who_is_unknown_or_unverified_is_not_let_in_and_nobody_is_made(
    sited: House, home: Tenant, there: Provider, claims: dict[str, Any]
) -> None:
    there.claims = {"sub": "43", "email": await email_of(sited, await sited.person(home)), **claims}
    fresh = jar(sited)
    assert (await come(fresh, there)).status_code == 401
    assert fresh.session_secret == ""
    unknown = select(person.c.id).where(person.c.email == "unknown@example.org")
    assert await sited.rows(SERVICE_TENANT, unknown) == []


LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"claims": {"nonce": "x"}},
    "no nonce": {"claims": {"nonce": None}},
    "another issuer": {"claims": {"iss": "https://evil.example"}},
    "another audience": {"claims": {"aud": "other"}},
    "an audience beside ours, for another party": {"claims": {"aud": [CLIENT, "other"], "azp": "other"}},
    "expired": {"claims": {"exp": 1_000_000_000}},
    "never expires": {"claims": {"exp": None}},
    "of the future": {"claims": {"iat": 99_999_999_999}},
    "another access token": {"claims": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}},
    "not signed": {"header": {"alg": "none"}},
    "signed with the public key": {"header": {"alg": "HS256"}},
    "signed by somebody else": {"signs_with": RSAKey.generate_key(2048, {"kid": "1"}, private=True)},
    "no token": {"tokens": {"id_token": None}},
    "nonsense": {"tokens": {"id_token": "a.b.c"}},
    "the answer of another provider": {"callback_iss": "https://evil.example"},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_token_with_one_thing_wrong_signs_nobody_in(
    sited: House, home: Tenant, there: Provider, lie: str
) -> None:
    honest = {"sub": "44", "email": await email_of(sited, await sited.person(home))}
    for name, value in LIES[lie].items():
        setattr(there, name, value)
    there.claims = {**honest, **there.claims}
    fresh = jar(sited)
    assert (await come(fresh, there)).status_code == 401
    assert fresh.session_secret == ""


@pytest.mark.parametrize(
    "document",
    [{"issuer": "https://evil.example"}, {"token_endpoint": "https://evil.example/token"}, {"jwks_uri": None},
     {"authorization_endpoint": "javascript:alert(1)"}, {"token_endpoint": "http://localhost:1/token"}, {"jwks_uri": 7},
     {"jwks_uri": "http://localhost@evil.example/jwks"}],
    ids=str,
)  # fmt: skip
async def test_endpoints_that_are_not_the_issuers_own_are_not_asked(
    sited: House, there: Provider, document: dict[str, Any]
) -> None:
    there.document = document
    page = await jar(sited).get("/sign-in/oidc")
    assert page.status_code == 502
    assert "location" not in page.headers


async def test_an_answer_that_redirects_or_is_too_large_is_none(sited: House, there: Provider) -> None:
    there.redirects = True
    assert (await jar(sited).get("/sign-in/oidc")).status_code == 502
    there.redirects, there.pages = False, ANSWER_BYTES_MOST + 1
    assert (await jar(sited).get("/sign-in/oidc")).status_code == 502
    assert there.asked == ["/.well-known/openid-configuration"] * 2


async def test_a_state_is_for_the_browser_that_began_and_for_one_use(
    sited: House, home: Tenant, there: Provider
) -> None:
    there.claims = {"sub": "45", "email": await email_of(sited, await sited.person(home))}
    mine, victim = jar(sited), jar(sited)
    back = there.agree((await mine.get("/sign-in/oidc")).headers["location"])
    await victim.get("/sign-in/oidc")
    assert (await victim.get(back)).status_code == 403
    assert (await jar(sited).get(back)).status_code == 403
    for state in ("", "s", "s00", "zz", "\u202e"):
        assert (await mine.get(f"/sign-in/oidc/callback?code=x&state={state}")).status_code == 403
    held = mine.cookies[TRY_COOKIE]
    assert (await mine.get(back)).status_code == 303
    replay = jar(sited)
    replay.cookies = {TRY_COOKIE: held}
    assert (await replay.get(back)).status_code == 403


async def test_who_is_signed_in_proves_it_there_again_and_only_as_the_same_person(
    sited: House, home: Tenant, there: Provider, ada: Browser
) -> None:
    mine = jar(sited, ada)
    there.claims = {"sub": "46", "email": (await mine.session()).email}
    sent = await mine.get("/prove/oidc?next=/ledger")
    asked = parse_qs(urlsplit(sent.headers["location"]).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    before = mine.session_secret
    back = await mine.get(there.agree(sent.headers["location"]))
    assert (back.status_code, back.headers["location"]) == (303, "/ledger")
    assert mine.session_secret != before
    for changed in ({"auth_time": 1_000_000_000}, {"auth_time": None}, {"sub": "47"}):
        there.claims = {**there.claims, "sub": "46", **changed}
        if "sub" in changed:
            there.claims.update(auth_time=99_999_999_999, email=await email_of(sited, await sited.person(home)))
        assert (await come(mine, there, "/prove/oidc")).status_code == 401


async def test_without_a_provider_there_is_nothing_at_these_addresses(house: House) -> None:
    for path in ("/sign-in/oidc", "/sign-in/oidc/callback?state=s00"):
        assert (await house.http.get(path)).status_code == 404
    assert "/sign-in/oidc" not in (await house.http.get("/sign-in")).text


# The one client -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["http://example.org/", "https://127.0.0.1/", "https://127.1/", "https://0x7f000001/", "https://2130706433/",
     "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://169.254.169.254/latest/", "https://localhost/",
     "https://user@example.org/", "https://example.org:6379/", "ftp://example.org/", "file:///etc/passwd", "https:///",
     "https://example.org/#a", "https://exam ple.org/", "https://example.org\\@evil.example/", "https://0177.0.0.1/",
     "https://example.org:99999/", "https://éxample.org/"],
)  # fmt: skip
async def test_an_address_that_must_not_be_asked_is_not(url: str) -> None:
    with pytest.raises(Refusal) as refused:
        await Outgoing().send("GET", url)
    assert refused.value.code is Code.ADDRESS_REFUSED


@pytest.mark.parametrize(
    ("address", "public"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("10.0.0.1", False), ("192.168.1.1", False), ("100.64.0.1", False),
     ("169.254.169.254", False), ("0.1.2.3", False), ("224.0.0.1", False), ("::1", False), ("fe80::1%eth0", False),
     ("fd00::1", False), ("::ffff:8.8.8.8", False), ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False),
     ("255.255.255.255", False), ("ff02::1", False), ("nonsense", False)],
)  # fmt: skip
async def test_only_addresses_of_the_open_internet_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


async def test_a_name_that_has_one_private_address_is_not_asked_and_the_checked_one_is_connected_to(
    there: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are answered as a hostile name server would: public and private at once, or another at the second look."""
    answers: list[list[str]] = []

    async def resolve(_loop: object, _host: str, _port: int, **_more: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in answers.pop(0)]

    import asyncio

    monkeypatch.setattr(asyncio.get_running_loop().__class__, "getaddrinfo", resolve)
    answers.append(["8.8.8.8", "127.0.0.1"])
    with pytest.raises(Refusal) as refused:
        await Outgoing().send("GET", "https://rebind.example.org/")
    assert refused.value.code is Code.ADDRESS_REFUSED
    port = urlsplit(there.issuer).port
    answers.extend([["127.0.0.1"], ["10.255.255.1"]])
    allowed = Outgoing(frozenset({"rebind.example.org"}))
    reply = await allowed.send("GET", f"http://rebind.example.org:{port}/.well-known/openid-configuration")
    assert reply.status == 200
    assert answers[1:] == []  # looked at once

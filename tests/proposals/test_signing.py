"""Signed execution: the key of the intent's moment, the same bytes after a crash, never unsigned when asked for."""

import base64
import json
import logging
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import func, select, text, update

from service.contract.data import Json
from service.grants.manage import change_state, sign_commits
from service.grants.tables import membership, tenant
from service.kit.actor import system
from service.kit.database import Conflict
from service.kit.errors import Code, Refusal
from service.kit.sealed import Sealer
from service.ledger.tables import ledger_entry
from service.proposals.tables import intent
from service.writer.keys import live_key, open_key, public_keys, rotate_key, seal_anew, stop_signing
from service.writer.signature import ed25519_blob, public_line
from service.writer.tables import signing_key
from tests.stage import SEALER, House, Web, git
from tests.verifying import git_verifies, holds, only_with_ssh_keygen

pytestmark = pytest.mark.anyio


async def rotate(house: House, patience: str = "3s") -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(text(f"SET LOCAL lock_timeout = '{patience}'"))
        await rotate_key(tx, system(house.tenant), SEALER)


async def approve(house: House, path: str = "new.txt") -> Json:
    shown = await house.propose(house.arguments({"path": path, "content": f"{path}\n"}))
    await house.decide(shown)
    return shown


async def executed(house: House, path: str = "new.txt") -> str:
    """The commit of a proposal that went through."""
    shown = await approve(house, path)
    assert await house.execute(shown)
    found = await house.read(shown)
    assert (found["status"], found["outcome"]["commit"]) == ("executed", house.head())
    return house.head()


async def entries(house: House, kind: str) -> list[Json]:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        rows = await tx.execute(select(ledger_entry.c.body).where(ledger_entry.c.kind == kind))
        return [json.loads(row.body)["details"] for row in rows]


async def test_the_commit_is_signed_and_intent_and_ledger_say_with_which_key(house: House) -> None:
    key = await house.sign()
    commit = await executed(house)
    assert holds(house.path, commit, await house.signers())
    [told] = await entries(house, "proposal.signed")
    async with house.stage.owner_db.bound(house.tenant) as tx:
        row = (await tx.execute(select(signing_key))).one()
        assert await tx.scalar(select(intent.c.signing_key)) == row.id
    assert told == {"signing_key": str(row.id), "fingerprint": key.fingerprint}
    assert row.public_key == key.line


@only_with_ssh_keygen
async def test_stock_git_verifies_the_commit_with_the_published_file(web: Web, house: House) -> None:
    await house.sign()
    commit = await executed(house)
    answer = await web.http.get("/api/v1/allowed-signers", headers=await web.browser(house.owner))
    published = answer.json()
    assert published["sign_commits"] is True
    assert git_verifies(house.path, commit, published["allowed_signers"])


async def test_a_tenant_that_did_not_ask_gets_no_signature_and_neither_does_one_that_asked_to_stop(
    house: House,
) -> None:
    first = await executed(house, "first.txt")
    await house.sign()
    second = await executed(house, "second.txt")
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await stop_signing(tx, system(house.tenant))
    third = await executed(house, "third.txt")
    signed = [b"\ngpgsig " in git(house.path, "cat-file", "commit", one) for one in (first, second, third)]
    assert signed == [False, True, False]
    assert holds(house.path, second, await house.signers())
    assert len(await entries(house, "proposal.signed")) == 1
    assert await entries(house, "tenant.sign_commits") == [{"on": True}, {"on": False}]


async def test_what_counts_is_whether_a_signature_is_asked_for_at_the_intent(house: House) -> None:
    first = await approve(house, "first.txt")
    await house.sign()
    assert await house.execute(first)
    assert holds(house.path, house.head(), await house.signers())
    second = await approve(house, "second.txt")
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await stop_signing(tx, system(house.tenant))
    assert await house.execute(second, sealer=None)
    assert b"gpgsig" not in git(house.path, "cat-file", "commit", "main")


async def no_secret(_house: House) -> Sealer | None:
    return None


async def another_secret(_house: House) -> Sealer | None:
    return Sealer(b"x" * 32)


async def no_key(house: House) -> Sealer | None:
    """As a database could be that somebody edited by hand: asked for, and nothing there."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await stop_signing(tx, system(house.tenant))
        await sign_commits(tx, system(house.tenant), on=True)
    return SEALER


async def replaced(house: House, sealed: bytes) -> Sealer | None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(signing_key).where(signing_key.c.state == "live").values(sealed=sealed))
    return SEALER


async def sealed_of(house: House) -> bytes:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        found: bytes = await tx.scalar(select(signing_key.c.sealed).where(signing_key.c.state == "live"))
        return found


async def of_another_row(house: House) -> Sealer | None:
    before = await sealed_of(house)
    await rotate(house)
    return await replaced(house, before)


async def of_another_tenant(house: House) -> Sealer | None:
    other = await house.stage.house()
    await other.sign()
    return await replaced(house, await sealed_of(other))


async def of_another_key(house: House) -> Sealer | None:
    """Sealed for this very row by somebody who has the secret: it opens, and is not what is published."""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        row = await tx.scalar(select(signing_key.c.id))
    return await replaced(house, SEALER.seal(bytes(32), house.tenant, row))


@pytest.mark.parametrize(
    "spoil", [no_secret, another_secret, no_key, of_another_row, of_another_tenant, of_another_key]
)
async def test_a_key_that_cannot_be_used_ends_in_failed_and_nothing_is_written(
    house: House, spoil: Callable[[House], Awaitable[Sealer | None]]
) -> None:
    await house.sign()
    shown = await approve(house)
    before = git(house.path, "rev-parse", "main"), git(house.path, "count-objects", "-v"), house.path.stat().st_mtime_ns
    sealer = await spoil(house)
    assert await house.execute(shown, sealer=sealer)
    found = await house.read(shown)
    assert (found["status"], found["outcome"]["code"]) == ("failed", "signing_key_unusable")
    after = git(house.path, "rev-parse", "main"), git(house.path, "count-objects", "-v"), house.path.stat().st_mtime_ns
    assert after == before
    assert git(house.path, "for-each-ref", "refs/proposals") == b""
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await tx.scalar(select(func.count()).select_from(intent)) == 0
    [failed] = await entries(house, "proposal.failed")
    assert failed["outcome"]["code"] == "signing_key_unusable"


async def test_rotation_mends_a_key_that_does_not_open(house: House) -> None:
    await house.sign()
    await replaced(house, b"damaged")
    await rotate(house)
    assert holds(house.path, await executed(house), await house.signers())


async def test_the_key_that_is_live_at_the_intent_signs_and_what_the_old_one_signed_still_verifies(
    house: House,
) -> None:
    old = await house.sign()
    first = await executed(house, "first.txt")
    shown = await approve(house, "second.txt")
    await rotate(house)
    assert await house.execute(shown)
    second, signers = house.head(), await house.signers()
    assert holds(house.path, first, signers)
    assert holds(house.path, second, signers)
    only_old, only_new = signers.splitlines(keepends=True)
    assert old.line in only_old
    assert (holds(house.path, second, only_old), holds(house.path, second, only_new)) == (False, True)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        sealed = select(signing_key.c.sealed).where(signing_key.c.state == "retired")
        assert await tx.scalar(sealed) is None


@only_with_ssh_keygen
async def test_stock_git_verifies_old_and_new_commits_after_a_rotation(house: House) -> None:
    await house.sign()
    first = await executed(house, "first.txt")
    shown = await approve(house, "second.txt")
    await rotate(house)
    assert await house.execute(shown)
    signers = await house.signers()
    assert git_verifies(house.path, first, signers)
    assert git_verifies(house.path, house.head(), signers)


async def test_no_key_changes_while_an_intent_is_made(house: House) -> None:
    await house.sign()
    async with house.stage.writer_db.bound(house.tenant) as intending:
        await intending.execute(select(tenant).where(tenant.c.id == house.tenant).with_for_update(read=True))
        assert await live_key(intending)
        with pytest.raises(Conflict):
            await rotate(house, patience="50ms")
    await rotate(house)


async def test_there_is_one_live_key_and_it_is_made_once(house: House) -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        with pytest.raises(Refusal) as none:
            await rotate_key(tx, system(house.tenant), SEALER)
        assert none.value.code is Code.NOT_FOUND
        assert not await stop_signing(tx, system(house.tenant))
    await house.sign()
    with pytest.raises(Refusal) as twice:
        await house.sign()
    assert twice.value.code is Code.NAME_TAKEN


async def test_a_secret_takes_the_place_of_another_without_a_signature_missing(house: House) -> None:
    await house.sign()
    new, both = Sealer(b"n" * 32), Sealer(b"n" * 32, b"k" * 32)
    first = await approve(house, "first.txt")
    assert await house.execute(first, sealer=both)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        assert await seal_anew(tx, system(house.tenant), both)
        assert not await seal_anew(tx, system(house.tenant), both)
    second = await approve(house, "second.txt")
    assert await house.execute(second, sealer=new)
    assert holds(house.path, "main", await house.signers())
    assert len(await entries(house, "signing_key.sealed_anew")) == 1


async def test_two_tenants_share_no_key(web: Web, house: House, neighbour: House) -> None:
    await house.sign()
    commit = await executed(house)
    theirs = (await web.http.get("/api/v1/allowed-signers", headers=await web.browser(neighbour.owner))).json()
    assert theirs == {"sign_commits": False, "allowed_signers": ""}
    await neighbour.sign()
    assert not holds(house.path, commit, await neighbour.signers())
    assert set((await house.signers()).split()) & set((await neighbour.signers()).split()) == {
        "placet@localhost",
        'namespaces="git"',
        "ssh-ed25519",
    }


async def test_the_file_is_for_who_is_in_the_tenant_and_for_nobody_else(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        mine = await tx.scalar(select(membership.c.id))
        await change_state(tx, system(house.tenant), membership, mine, "revoked")
    assert (await web.http.get("/api/v1/allowed-signers", headers=browser)).status_code == 404
    assert (await web.http.get("/api/v1/allowed-signers")).status_code == 401


async def test_no_private_half_is_in_ledger_log_or_repr(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await house.sign()
    async with house.stage.writer_db.bound(house.tenant) as tx:
        signer = open_key(house.tenant, await live_key(tx), SEALER)
    raw = signer.private.private_bytes_raw()
    await executed(house)
    shown = await approve(house, "second.txt")
    await house.execute(shown, sealer=Sealer(b"x" * 32))
    await rotate(house)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        ledger = " ".join((await tx.execute(select(ledger_entry.c.body))).scalars())
        keys = repr(await public_keys(tx))
    forms = (raw.hex(), base64.b64encode(raw).decode(), repr(raw)[2:-1], str(list(raw)))
    seen = ledger + keys + caplog.text + repr(signer) + repr(SEALER) + repr(vars(SEALER))
    assert signer.fingerprint in seen
    assert public_line(ed25519_blob(signer.private)) in keys
    assert not any(form in seen for form in (*forms, "k" * 32))

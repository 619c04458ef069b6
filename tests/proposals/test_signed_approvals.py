"""Approvals that a passkey signs: the commit proves who said yes, and where it is asked nothing less counts."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select, text, update

from service.contract.data import Json
from service.grants.manage import require_signatures
from service.grants.tables import person_credential
from service.kit.actor import system
from service.kit.canonical import canonical
from service.ledger.tables import ledger_entry
from service.proposals import decide
from service.proposals.tables import decision, draft
from service.repositories.reading import Objects
from service.writer.approval import OwnerSignature, Signable, canonical_decision
from service.writer.signature import DECISION, GIT
from service.writer.verify import judge, read_commit, read_signers
from tests.identity.authenticator import Authenticator
from tests.stage import ISSUER, SEALER, House, Web, git
from tests.verifying import only_with_ssh_keygen

pytestmark = pytest.mark.anyio
SETTINGS = "/settings/sign-in"


@pytest.fixture(autouse=True)
def no_writer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """None runs here but the test's own."""
    monkeypatch.setattr(decide, "WAIT_SECONDS", 0.01)


@dataclass
class Signer:
    """An owner at his browser, with a passkey that signs approvals."""

    web: Web
    house: House
    browser: dict[str, str]
    key: Authenticator

    async def post(self, url: str, body: Any) -> httpx.Response:
        return await self.web.http.post(url, json=body, headers=self.browser)

    async def read(self, shown: Json) -> Json:
        """Open the card and its files."""
        where = f"/api/v1/proposals/{shown['proposal_id']}"
        card: Json = (await self.web.http.get(where, headers=self.browser)).json()
        for file in card["files"]:
            await self.web.http.get(f"{where}/files/{file['place']}", headers=self.browser)
        return card

    async def prepare(self, shown: Json) -> httpx.Response:
        card = await self.read(shown)
        body = {
            "verdict": "approve",
            "card_digest": card["card_digest"],
            "acknowledged": [one["name"] for one in card["warnings"]],
            "confirmed": [one["params"]["confirm"] for one in card["warnings"] if "confirm" in one["params"]],
            "note": "",
        }
        return await self.post(f"/api/v1/proposals/{shown['proposal_id']}/signature", body)

    async def finish(self, shown: Json, asked: Json, key: Authenticator | None = None, **more: str) -> httpx.Response:
        made = (key or self.key).use({"challenge": asked["challenge"]})
        body = {
            "draft": asked["draft"],
            "credential": made["rawId"],
            "authenticator_data": made["response"]["authenticatorData"],
            "client_data": made["response"]["clientDataJSON"],
            "signature": made["response"]["signature"],
            **more,
        }
        return await self.post(f"/api/v1/proposals/{shown['proposal_id']}/signed-approval", body)

    async def approve(self, shown: Json) -> httpx.Response:
        return await self.finish(shown, (await self.prepare(shown)).json())


@pytest.fixture
async def signer(web: Web, house: House) -> Signer:
    """The owner registers a passkey on the page and lets it sign."""
    browser, key = await web.browser(house.owner), Authenticator(ISSUER)
    options = (await web.http.post(f"{SETTINGS}/passkey/options", json={}, headers=browser)).json()
    body = {"credential": key.make(options), "name": "Laptop"}
    made = (await web.http.post(f"{SETTINGS}/passkey", json=body, headers=browser)).json()
    form = {"csrf": browser["x-csrf-token"], "action": "sign"}
    answer = await web.http.post(f"{SETTINGS}/ways/{made['id']}", data=form, headers=browser)
    assert answer.status_code == 303
    return Signer(web, house, browser, key)


async def test_the_commit_bears_the_owners_own_signature_and_git_verifies_it_with_the_published_file(
    signer: Signer, house: House
) -> None:
    shown = await house.propose()
    asked = await signer.prepare(shown)
    assert asked.status_code == 200
    assert asked.json()["rp_id"] == "localhost"
    assert (await signer.finish(shown, asked.json())).status_code in {200, 202}
    assert await house.execute(shown)
    assert (await house.read(shown))["outcome"]["commit"] == house.head()
    published = (await signer.web.http.get("/api/v1/allowed-signers", headers=signer.browser)).json()["allowed_signers"]
    found = judge(read_commit(git(house.path, "cat-file", "commit", "main")), read_signers(published))
    assert (found.standing, found.by) == ("owner", house.owner.email)


@only_with_ssh_keygen
async def test_stock_git_says_whose_signature_it_is(signer: Signer, house: House) -> None:
    shown = await house.propose()
    await signer.approve(shown)
    assert await house.execute(shown)
    file = house.path.parent / "signers"
    file.write_text(await house.signers())
    told = git(house.path, "-c", f"gpg.ssh.allowedSignersFile={file}", "log", "-1", "--format=%G? %GS", "main")
    assert told.decode().strip() == f"G {house.owner.email}"


async def test_the_passkeys_signature_wins_over_the_tenants_key_and_a_commit_has_one(
    signer: Signer, house: House
) -> None:
    await house.sign()
    shown = await house.propose()
    await signer.approve(shown)
    assert await house.execute(shown, sealer=SEALER)
    content = git(house.path, "cat-file", "commit", "main")
    assert content.count(b"gpgsig") == 1
    assert judge(read_commit(content), read_signers(await house.signers())).standing == "owner"


async def test_of_a_chain_the_last_commit_is_signed_and_the_others_are_not(signer: Signer, house: House) -> None:
    steps = [
        {
            "kind": "propose_file_import",
            "arguments": {
                "branch": "main",
                "message": f"Add {name}",
                "files": [{"path": name, "content": f"{name}\n"}],
            },
        }
        for name in ("one.txt", "two.txt")
    ]
    where = {"repository_id": str(house.repository), "reason": "Both."}
    shown = await house.propose({**where, "steps": steps}, tool="propose_plan")
    await signer.approve(shown)
    assert await house.execute(shown)
    signed = [b"gpgsig" in git(house.path, "cat-file", "commit", one) for one in ("main", "main~1")]
    assert signed == [True, False]


async def test_without_a_commit_the_decision_is_signed_and_the_ledger_keeps_it(signer: Signer, house: House) -> None:
    git(house.path, "branch", "spare", "main")
    shown = await house.propose(
        {"repository_id": str(house.repository), "branches": ["spare"], "into": "main", "reason": "Merged."},
        tool="propose_branch_delete",
    )
    assert (await signer.approve(shown)).status_code in {200, 202}
    assert await house.execute(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        body = await tx.scalar(select(ledger_entry.c.body).where(ledger_entry.c.kind == "decision.approve"))
        row = (await tx.execute(select(decision.c.committer, decision.c.signature, decision.c.proof))).one()
    assert row.proof == "passkey"
    armour = json.loads(body)["details"]["signature"].encode()
    assert armour == row.signature
    said = canonical_decision(shown["proposal_id"], shown["card_digest"], row.committer)
    assert OwnerSignature(armour).holds(Signable(canonical(said), DECISION))
    assert not OwnerSignature(armour).holds(Signable(canonical(said), GIT))


async def test_who_signs_approves_with_nothing_less(signer: Signer, house: House) -> None:
    shown = await house.propose()
    card = await signer.read(shown)
    body = {"verdict": "approve", "card_digest": card["card_digest"]}
    answer = await signer.post(f"/api/v1/proposals/{shown['proposal_id']}/decision", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "signature_needed")
    page = await signer.web.http.get(f"/proposals/{shown['proposal_id']}", headers=signer.browser)
    assert "Approve and sign" in page.text
    assert "/assets/approve.js" in page.text
    assert (await house.read(shown))["status"] == "pending"
    no = {**body, "verdict": "decline"}
    assert (await signer.post(f"/api/v1/proposals/{shown['proposal_id']}/decision", no)).status_code == 200


async def test_a_repository_can_require_it_of_everybody(web: Web, house: House) -> None:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await require_signatures(tx, system(house.tenant), house.repository, on=True)
    shown = await house.propose()
    browser = await web.browser(house.owner)
    page = await web.http.get(f"/proposals/{shown['proposal_id']}", headers=browser)
    assert "takes only approvals signed with a passkey" in page.text
    body = {"verdict": "approve", "card_digest": shown["card_digest"]}
    for step in ("decision", "signature"):
        answer = await web.http.post(f"/api/v1/proposals/{shown['proposal_id']}/{step}", json=body, headers=browser)
        assert answer.json()["error"]["code"] == "signature_needed"


async def test_an_owner_requires_it_on_the_page_once_he_can_sign_himself(signer: Signer, house: House) -> None:
    where = f"/repositories/{house.repository}"
    form = {"csrf": signer.browser["x-csrf-token"], "action": "require_signatures"}
    other = await house.stage.house()
    browser = await signer.web.browser(other.owner)
    asked = {"csrf": browser["x-csrf-token"], "action": "require_signatures"}
    refused = await signer.web.http.post(f"/repositories/{other.repository}", data=asked, headers=browser)
    assert (refused.status_code, "First let a passkey of yours" in refused.text) == (409, True)
    assert (await signer.web.http.post(where, data=form, headers=signer.browser)).status_code == 303
    page = (await signer.web.http.get("/repositories", headers=signer.browser)).text
    assert "Only approvals signed with a passkey count." in page
    assert 'value="require_signatures"' not in page
    shown = await house.propose()
    assert (await signer.approve(shown)).status_code in {200, 202}


async def test_a_requirement_that_comes_before_the_point_of_no_return_stops_an_unsigned_approval(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await require_signatures(tx, system(house.tenant), house.repository, on=True)
    assert await house.execute(shown)
    told = await house.read(shown)
    assert (told["status"], told["outcome"]["code"]) == ("failed", "signature_needed")


Change = Callable[[Signer], dict[str, Any]]
ANSWERS: dict[str, Change] = {
    "of another passkey": lambda _signer: {"key": Authenticator(ISSUER)},
    "of another site": lambda signer: {"key": _as(signer.key, origin="http://localhost:1")},
    "without its owner": lambda signer: {"key": _as(signer.key, flags=0x01)},
    "with a broken signature": lambda _signer: {"signature": "MAA"},
    "with no data": lambda _signer: {"authenticator_data": ""},
    "in another page": lambda signer: {"key": _as(signer.key, changes={"crossOrigin": True})},
}


def _as(key: Authenticator, **more: Any) -> Authenticator:
    """The same passkey, doing something else."""
    other = Authenticator(more.pop("origin", key.origin), **more)
    other.id, other.key, other.count = key.id, key.key, key.count
    return other


@pytest.mark.parametrize("how", ANSWERS)
async def test_an_answer_that_is_no_signature_approves_nothing_and_uses_the_draft_up(
    signer: Signer, house: House, how: str
) -> None:
    shown = await house.propose()
    asked = (await signer.prepare(shown)).json()
    refused = await signer.finish(shown, asked, **ANSWERS[how](signer))
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "signature_refused")
    again = await signer.finish(shown, asked)
    assert again.json()["error"]["code"] == "signature_refused"
    assert (await house.read(shown))["status"] == "pending"
    assert (await signer.approve(shown)).status_code in {200, 202}


async def test_a_draft_is_one_sessions_one_proposals_and_five_minutes_old_at_most(
    signer: Signer, web: Web, house: House
) -> None:
    shown, other = await house.propose(), await house.propose(house.arguments({"path": "o.txt", "content": "o\n"}))
    asked = (await signer.prepare(shown)).json()
    elsewhere = Signer(web, house, await web.browser(house.owner), signer.key)
    await signer.read(other)
    assert (await elsewhere.finish(shown, asked)).json()["error"]["code"] == "signature_refused"
    assert (await signer.finish(other, asked)).json()["error"]["code"] == "signature_refused"
    assert (await signer.finish(shown, {**asked, "draft": str(uuid4())})).json()["error"]["code"] == "signature_refused"
    async with house.stage.owner_db.bound(house.tenant) as tx:
        await tx.execute(update(draft).values(expires_at=text("now() - interval '1 second'")))
    assert (await signer.finish(shown, asked)).json()["error"]["code"] == "signature_refused"
    assert (await house.read(shown))["status"] == "pending"


async def test_a_second_finish_answers_as_it_ended(signer: Signer, house: House) -> None:
    shown = await house.propose()
    asked = (await signer.prepare(shown)).json()
    await signer.finish(shown, asked)
    assert await house.execute(shown)
    again = await signer.finish(shown, asked)
    assert (again.status_code, again.json()["status"], again.json()["replayed"]) == (200, "executed", True)


async def test_a_passkey_that_counts_backwards_signs_nothing(signer: Signer, house: House) -> None:
    async with house.stage.owner_db.directory() as tx:
        mine = update(person_credential).where(person_credential.c.handle == signer.key.id)
        await tx.execute(mine.values(counter=1_000))
    shown = await house.propose()
    refused = await signer.approve(shown)
    assert refused.json()["error"]["code"] == "signature_refused"
    assert "backwards" in refused.json()["error"]["message"]


async def test_a_decision_that_was_changed_in_the_database_fails_and_writes_nothing(
    signer: Signer, house: House
) -> None:
    head, shown = house.head(), await house.propose()
    await signer.approve(shown)
    async with house.stage.owner_db.bound(house.tenant) as tx:
        changed = b"Mallory <mallory@example.org> 1700000000 +0000"
        await tx.execute(update(decision).values(committer=changed))
    assert await house.execute(shown)
    told = await house.read(shown)
    assert (told["status"], told["outcome"]["code"], house.head()) == ("failed", "signature_differs", head)


async def test_what_a_removed_passkey_signed_still_verifies_and_its_key_has_an_end(
    signer: Signer, house: House
) -> None:
    shown = await house.propose()
    await signer.approve(shown)
    assert await house.execute(shown)
    page = (await signer.web.http.get(SETTINGS, headers=signer.browser)).text
    way = page.split("/settings/sign-in/ways/")[1].split('"')[0]
    form = {"csrf": signer.browser["x-csrf-token"], "action": "remove"}
    await signer.web.http.post(f"{SETTINGS}/ways/{way}", data=form, headers=signer.browser)
    published = await house.signers()
    assert "valid-before=" in published
    content = git(house.path, "cat-file", "commit", "main")
    assert judge(read_commit(content), read_signers(published)).standing == "owner"


async def test_the_same_bytes_come_again_after_a_crash(signer: Signer, house: House) -> None:
    shown = await house.propose()
    await signer.approve(shown)

    def die(step: str) -> None:
        if step == "intended":
            raise RuntimeError(step)

    with pytest.raises(RuntimeError):
        await house.execute(shown, die)
    while not await house.execute(shown):  # once back to approved
        pass
    content = git(house.path, "cat-file", "commit", "main")
    assert judge(read_commit(content), read_signers(await house.signers())).standing == "owner"
    assert Objects(house.path).read(house.head(), "commit") == content


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"draft": "x"},
        {"draft": str(UUID(int=0)), "credential": "*", "authenticator_data": "", "client_data": "", "signature": ""},
        {"draft": 1, "credential": "", "authenticator_data": "", "client_data": "", "signature": ""},
        {"draft": str(UUID(int=0)), **dict.fromkeys(("credential", "authenticator_data", "client_data"), "A" * 5_000)},
    ],
)
async def test_what_is_no_answer_is_refused_by_its_field(signer: Signer, house: House, body: Json) -> None:
    shown = await house.propose()
    answer = await signer.post(f"/api/v1/proposals/{shown['proposal_id']}/signed-approval", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_argument")
    assert answer.json()["error"]["field"]


async def test_only_an_approval_is_prepared(signer: Signer, house: House) -> None:
    shown = await house.propose()
    for verdict in ("decline", "changes"):
        body = {"verdict": verdict, "card_digest": shown["card_digest"], "note": "No."}
        answer = await signer.post(f"/api/v1/proposals/{shown['proposal_id']}/signature", body)
        assert answer.status_code == 422

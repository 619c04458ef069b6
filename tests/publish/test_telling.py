"""People are told, by a real mail server and real HTTP receivers. The order in which things arrive is no part of it."""

import asyncio
import base64
import hashlib
import hmac
import json
from typing import Any
from uuid import UUID, uuid4

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02
from sqlalchemy import text, update

from service.kit.errors import Refusal
from service.publish import telling
from service.publish.push import encode
from service.publish.tables import push_browser, webhook
from tests.publish.conftest import Post
from tests.publish.receivers import until
from tests.stage import ISSUER

pytestmark = pytest.mark.anyio


class Subscribed:
    """A browser's side of a push subscription."""

    def __init__(self, url: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.auth = b"sixteen bytes it"
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.given = {"endpoint": url, "p256dh": encode(point), "auth": encode(self.auth)}

    def read(self, body: bytes) -> Any:
        return json.loads(http_ece.decrypt(body, private_key=self.key, auth_secret=self.auth, version="aes128gcm"))


async def webhook_of(post: Post, path: str = "/hook") -> tuple[UUID, str]:
    return await post.notices().add_webhook(post.house.owner.actor, f"http://127.0.0.1:{post.receiver.port}{path}")


async def browser_of(post: Post, path: str = "/push") -> Subscribed:
    one = Subscribed(f"http://127.0.0.1:{post.receiver.port}{path}")
    await post.notices().add_browser(post.house.owner.actor, **one.given)
    return one


async def test_a_new_proposal_is_mailed_to_who_may_decide_and_its_link_decides_nothing(post: Post) -> None:
    shown = await post.propose()
    await post.deliver()
    [mail] = post.mails(shown)
    link = f"{ISSUER}/proposals/{shown['proposal_id']}?tenant={post.house.tenant}"
    for kind in ("plain", "html"):
        assert link in mail.get_body((kind,)).get_content()
    assert mail["list-unsubscribe"] == f"<{ISSUER}/settings/notifications?tenant={post.house.tenant}>"
    assert mail["references"] == f"<{shown['proposal_id']}@localhost>"
    assert (await post.house.read(shown))["status"] == "pending"


async def test_only_what_is_usual_is_sent_until_somebody_chooses_more(post: Post) -> None:
    shown = await post.propose()
    await post.deliver()
    await post.house.land(shown)
    await post.deliver()
    assert len(post.mails(shown)) == 1
    await post.choose(mail=["waiting", "executed"])
    again = await post.propose()
    await post.deliver()
    await post.house.land(again)
    await post.deliver()
    assert {mail["subject"].split("]")[1].split()[0] for mail in post.mails(again)} == {"Claude", "Executed:"}
    assert len({mail["references"] for mail in post.mails(again)}) == 1
    assert len({mail["message-id"] for mail in post.mails(again)}) == 2


async def test_a_mail_speaks_the_language_that_its_reader_chose(post: Post) -> None:
    await post.choose(mail=["waiting"], language="es")
    shown = await post.propose()
    await post.deliver()
    [mail] = post.mails(shown)
    assert "propone" in mail["subject"]
    html = mail.get_body(("html",)).get_content()
    assert '<html lang="es">' in html
    assert "Abrir la página no decide nada." in html
    assert "Una propuesta espera tu decisión." in mail.get_body(("plain",)).get_content()


async def test_who_is_no_longer_a_member_hears_nothing(post: Post) -> None:
    shown = await post.propose()
    async with post.house.stage.owner_db.bound(post.house.tenant) as tx:
        await tx.execute(text("UPDATE membership SET state = 'revoked'"))
    await post.deliver()
    assert post.mails(shown) == []


async def test_a_decided_proposal_is_not_announced_as_waiting(post: Post) -> None:
    shown = await post.propose()
    await post.house.decide(shown, "decline", note="No.")
    await post.deliver()
    assert post.mails(shown) == []


async def test_what_expires_soon_is_told_in_time_and_only_while_it_waits(post: Post) -> None:
    await post.choose(mail=["expiring"])
    shown, decided = await post.propose(), await post.propose()
    async with post.house.stage.owner_db.bound(post.house.tenant) as tx:
        left = await tx.execute(text(
            "SELECT extract(epoch FROM p.expires_at - q.due) FROM notice_queue q JOIN proposal p ON p.id = q.subject "
            "WHERE q.kind = 'expiring' AND q.tenant = :t"), {"t": post.house.tenant})  # fmt: skip
        assert [round(one) for one in left.scalars()] == [3600, 3600]
        await tx.execute(text("UPDATE notice_queue SET due = now() WHERE kind = 'expiring'"))
    await post.house.decide(decided, "decline", note="No.")
    await post.deliver()
    assert [mail["subject"].split("]")[1].strip()[:12] for mail in post.mails(shown)] == ["Expires soon"]
    assert post.mails(decided) == []


async def test_a_webhook_gets_ids_and_a_link_signed_and_nothing_that_was_proposed(post: Post) -> None:
    _, secret = await webhook_of(post)
    shown = await post.propose()
    await post.deliver()
    [request] = [one for one in post.receiver.requests if one.path == "/hook"]
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    mac = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert request.headers["webhook-signature"] == f"v1,{mac}"
    assert request.json["type"] == "proposal.waiting"
    assert request.json["data"] == {
        "tenant_id": str(post.house.tenant),
        "project_id": str(post.house.project),
        "repository_id": str(post.house.repository),
        "proposal_id": shown["proposal_id"],
        "state": "pending",
        "link": f"{ISSUER}/proposals/{shown['proposal_id']}?tenant={post.house.tenant}",
    }


async def test_a_webhook_of_who_owns_the_project_no_longer_hears_nothing(post: Post) -> None:
    await webhook_of(post)
    async with post.house.stage.owner_db.bound(post.house.tenant) as tx:
        await tx.execute(text("UPDATE membership SET role = 'maintainer'"))
    await post.propose()
    await post.deliver()
    assert post.receiver.requests == []


async def test_a_delivery_that_was_made_but_not_noted_comes_again_with_the_same_id(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notifier dies between the receiver's answer and its own COMMIT."""
    await webhook_of(post)
    shown = await post.propose()
    with monkeypatch.context() as dying:

        async def die(*_: Any) -> None:
            raise RuntimeError

        dying.setattr(telling, "_sent", die)
        await post.deliver()
    assert {one.state for one in await post.deliveries()} == {"waiting"}
    await post.hurry()
    await post.deliver()
    assert {one.state for one in await post.deliveries()} == {"sent"}
    hooks = [one.headers["webhook-id"] for one in post.receiver.requests]
    assert len(hooks) == 2
    assert len(set(hooks)) == 1
    mails = post.mails(shown)
    assert len(mails) == 2
    assert len({mail["message-id"] for mail in mails}) == 1


async def test_what_is_refused_comes_later_and_the_page_says_why(post: Post) -> None:
    post.mailbox.refuses = ["451 Try later"]
    shown = await post.propose()
    await post.deliver()
    [row] = await post.deliveries()
    assert (row.state, row.error) == ("waiting", "The mail server refused the mail with 451.")
    await post.hurry()
    await post.deliver()
    assert len(post.mails(shown)) == 1


async def test_a_webhook_that_failed_for_a_day_is_switched_off_and_says_so(post: Post) -> None:
    which, _ = await webhook_of(post)
    post.receiver.answer = lambda _request: "500 No"
    await post.propose()
    await post.deliver()
    async with post.house.stage.owner_db.bound(post.house.tenant) as tx:
        await tx.execute(update(webhook).values(failing_since=text("now() - interval '25 hours'")))
        await tx.execute(text("UPDATE delivery SET made_at = now() - interval '25 hours' WHERE channel = 'webhook'"))
    await post.hurry()
    await post.deliver()
    view = await post.notices().read(post.house.owner.actor)
    assert [(one.id, one.state, one.error) for one in view.webhooks] == [(which, "off", "The receiver answered 500.")]
    assert [one.state for one in await post.deliveries() if one.channel == "webhook"] == ["failed"]


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
async def test_a_push_is_for_the_browser_alone_and_one_that_is_gone_is_forgotten(post: Post, status: str) -> None:
    browser = await browser_of(post)
    shown = await post.propose()
    await post.deliver()
    [request] = post.receiver.requests
    assert shown["proposal_id"].encode() not in request.body
    said = browser.read(request.body)
    assert said["link"].endswith(f"/proposals/{shown['proposal_id']}?tenant={post.house.tenant}")
    assert Vapid02.verify(request.headers["authorization"])
    assert f"k={post.notices().push_key}" in request.headers["authorization"]
    post.receiver.answer = lambda _request: status
    await post.propose()
    await post.deliver()
    async with post.house.stage.owner_db.bound(post.house.tenant) as tx:
        assert (await tx.execute(push_browser.select())).all() == []


async def test_a_test_message_goes_everywhere_at_once(post: Post) -> None:
    browser = await browser_of(post)
    await post.choose(mail=[], push=[], zone="Europe/Berlin", quiet="00:00-23:59")
    await post.notices().test(post.house.owner.actor)
    await post.deliver()
    tests = [mail["subject"] for mail in post.mailbox.mails if mail["to"] == post.address]
    assert tests == ["A test message from Placet"]
    assert [browser.read(one.body)["title"] for one in post.receiver.requests] == ["A test message from Placet"]


async def test_a_slow_receiver_holds_up_no_other_tenant(post: Post) -> None:
    other = await post.house.stage.house()
    for number in range(3):
        await webhook_of(post, f"/slow{number}")
    post.receiver.hold = asyncio.Event()
    for _ in range(4):
        await post.propose()
    mine = await other.propose()
    telling_all = asyncio.create_task(post.deliver())
    await until(lambda: post.mailbox.of(mine["proposal_id"]))
    post.receiver.hold.set()
    await telling_all
    assert len({one.headers["webhook-id"] for one in post.receiver.requests}) == 12


async def test_what_fails_in_a_way_that_nobody_thought_of_is_given_up_at_last(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(*_: Any) -> None:
        raise RuntimeError

    await post.propose()
    monkeypatch.setattr(telling.Tell, "_send", break_down)
    await post.deliver()
    async with post.house.stage.owner_db.directory() as tx:
        await tx.execute(text("UPDATE notice_queue SET due = now(), attempts = 30 WHERE kind = 'deliver'"))
    await post.deliver()
    [row] = await post.deliveries()
    assert (row.state, row.error) == ("failed", "It could not be sent; the operator's log says why.")


HOSTILE = "x\r\nBcc: thief@example.org\r\n\r\n<script>alert(1)</script>\u202e\u200b" + "A" * 3_000


async def test_hostile_names_and_words_stay_words(post: Post) -> None:
    shown = await post.propose()
    async with post.house.stage.owner_db.bound(post.house.tenant) as tx:
        await tx.execute(text("UPDATE connection SET name = :name"), {"name": HOSTILE})
        await tx.execute(text("UPDATE repository SET name = :name"), {"name": HOSTILE[::-1]})
    await post.deliver()
    [mail] = post.mails(shown)
    assert mail["bcc"] is None
    assert "\n" not in mail["subject"]
    assert len(mail["subject"]) < 260
    assert not set(mail["subject"]) & {"\u202e", "\u200b"}
    assert "<script>" not in mail.get_body(("html",)).get_content()


async def test_a_digest_collects_and_is_sent_once_with_everything_in_it(post: Post) -> None:
    await post.choose(mail=["waiting"], digest=7)
    shown = [await post.propose() for _ in range(3)]
    await post.deliver()
    assert post.mailbox.mails == []
    post.mailbox.refuses = ["451 Try later"]
    await post.hurry()
    await post.deliver()
    late = await post.propose()
    await post.deliver()
    await post.hurry()
    await post.deliver()
    of_all = [mail for one in shown for mail in post.mails(one)]
    assert len({mail["message-id"] for mail in of_all}) == 1
    assert len(of_all) == 3
    assert of_all[0]["subject"] == "Placet: 3 notices"
    await post.hurry()
    await post.deliver()
    assert [mail["subject"] for mail in post.mails(late)] == ["Placet: 1 notice"]
    assert {one.state for one in await post.deliveries()} == {"sent"}


@pytest.mark.parametrize("url", [
    "http://hooks.example.org/", "https://127.0.0.1.example/", "https://127.1/", "https://0x7f000001/",
    "https://2130706433/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://169.254.169.254/latest",
    "https://user:word@hooks.example.org/", "https://hooks.example.org:6379/", "https://localhost/", "file:///etc/passwd",
    "https://hooks.example.org/#x", "https://017700000001/", "https://[fe80::1]/", "",
])  # fmt: skip
async def test_an_address_inside_is_no_webhook(post: Post, url: str) -> None:
    if url == "https://127.0.0.1.example/":  # a name like any other: judged by what it resolves to
        return
    with pytest.raises(Refusal) as refused:
        await post.notices().add_webhook(post.house.owner.actor, url)
    assert refused.value.code.value.name in {"address_refused", "invalid_argument"}
    assert not post.receiver.requests


async def test_only_an_owner_names_webhooks_and_only_of_his_tenant(post: Post) -> None:
    which, _ = await webhook_of(post)
    other = await post.house.stage.house()
    with pytest.raises(Refusal) as refused:
        await post.notices().change_webhook(other.owner.actor, which, "revoke")
    assert refused.value.code.value.name == "not_found"
    async with post.house.stage.owner_db.bound(post.house.tenant) as tx:
        await tx.execute(text("UPDATE membership SET role = 'maintainer'"))
    with pytest.raises(Refusal) as refused:
        await webhook_of(post)
    assert refused.value.code.value.name == "forbidden"
    with pytest.raises(Refusal):
        await post.notices().change_webhook(post.house.owner.actor, uuid4(), "revoke")

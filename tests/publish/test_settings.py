"""What an operator says of mail and chats, and the schema with rows in it."""

import json
import os
import secrets
from pathlib import Path

import anyio.to_thread
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text
from sqlalchemy.engine import make_url

from service.kit.database import Database
from service.publish.channel import Undelivered
from service.publish.chat import Chats
from service.publish.mail import SmtpServer, read_server
from service.publish.words import Message
from service.settings import BadSetting, read_settings
from tests.conftest import ROOT, TEMPLATE, administer
from tests.publish.receivers import http_server

pytestmark = pytest.mark.anyio
MESSAGE = Message("Subject", ("First.", "Second.", "Third."), "http://localhost/proposals/x")


def test_a_mail_server_is_read_from_its_url() -> None:
    assert read_server("smtp+starttls://ann%40x.org@mail.example.org", "p") == SmtpServer(
        "smtp+starttls", "mail.example.org", 587, "ann@x.org", "p"
    )
    assert read_server("smtps://mail.example.org:4650", "").port == 4650


@pytest.mark.parametrize(
    ("url", "password"),
    [("mail.example.org", ""), ("http://mail.example.org", ""), ("smtp://", ""), ("smtp://h:x", ""),
     ("smtps://user:word@mail.example.org", ""), ("smtp://user@mail.example.org", "in the clear")],
)  # fmt: skip
def test_a_wrong_mail_server_is_one_sentence_without_the_password(tmp_path: Path, url: str, password: str) -> None:
    for name, content in (("secret", "s" * 32), ("password", password)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    with pytest.raises(BadSetting) as bad:
        read_settings({
            "DATABASE_URL": "postgresql://x", "PLACET_ISSUER": "http://localhost:1", "PLACET_REPOSITORIES": "/x",
            "PLACET_SECRET_FILE": str(tmp_path / "secret"), "PLACET_SMTP_URL": url,
            "PLACET_SMTP_PASSWORD_FILE": str(tmp_path / "password"),
        })  # fmt: skip
    assert "PLACET_SMTP_URL" in str(bad.value)
    assert "word@" not in str(bad.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise, as it loads its services
async def test_a_chat_gets_two_lines_and_the_link_and_only_its_own_tenants() -> None:
    async with http_server() as receiver:
        chats = Chats({"acme": {"team": f"json://127.0.0.1:{receiver.port}/chat"}})
        await chats.send("acme", "team", MESSAGE)
        [request] = receiver.requests
        assert request.json["title"] == "Subject"
        assert request.json["message"] == "First.\nSecond.\nhttp://localhost/proposals/x"
        receiver.answer = lambda _request: "500 No"
        with pytest.raises(Undelivered):
            await chats.send("acme", "team", MESSAGE)
        with pytest.raises(Undelivered) as refused:
            await chats.send("other", "team", MESSAGE)
    assert refused.value.final
    assert str(receiver.port) not in repr(chats)
    assert json.dumps(chats.names("other")) == "[]"


async def test_the_schema_of_notices_goes_down_and_up_again_with_rows_in_it(cluster_url: str) -> None:
    name = f"placet_notices_{secrets.token_hex(6)}"
    url = make_url(cluster_url).set(database=name).render_as_string(hide_password=False)
    config = Config(ROOT / "migrations" / "alembic.ini")
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    await administer(f"CREATE DATABASE {name} TEMPLATE {os.environ[TEMPLATE]}")
    try:
        database = Database(url, "placet_owner", size=1)
        async with database.directory() as tx:
            await tx.execute(
                text("INSERT INTO notice_queue (kind, tenant, subject) SELECT 'waiting', id, id FROM tenant")
            )
        await database.close()
        await anyio.to_thread.run_sync(command.downgrade, config, "0010-1")
        await anyio.to_thread.run_sync(command.upgrade, config, "head")
    finally:
        await administer(f"DROP DATABASE {name} WITH (FORCE)")

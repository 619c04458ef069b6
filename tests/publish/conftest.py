"""A notifier beside a house, with receivers on this machine."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text

from service.app import build_notices
from service.kit.database import Database
from service.notifier import build_tell, tell_all
from service.publish.choosing import NewChoices, Notices
from service.publish.mail import SmtpServer
from service.publish.tables import delivery
from service.publish.telling import Tell
from service.settings import Settings
from tests.publish.receivers import Mailbox, Receiver, http_server, mail_server
from tests.stage import ISSUER, House

SECRET = b"n" * 32


@dataclass
class Post:
    """A house, its notifier, and who receives."""

    house: House
    tell: Tell
    mailbox: Mailbox
    receiver: Receiver
    settings: Settings

    @property
    def address(self) -> str:
        return self.house.owner.email

    async def propose(self) -> dict[str, Any]:
        """A proposal like no other."""
        name = f"{uuid4()}.txt"
        return await self.house.propose(self.house.arguments({"path": name, "content": "new\n"}))

    async def deliver(self) -> None:
        """Tell everything that is due now, of whomever; ends when nothing is due or in work."""
        stop = asyncio.Event()
        async with asyncio.timeout(60):
            await tell_all(self.tell, stop, idle=stop.set)

    def notices(self) -> Notices:
        return build_notices(self.settings, self.house.stage.app_db)

    async def choose(self, **choices: Any) -> None:
        await self.notices().choose(self.house.owner.actor, NewChoices(**choices))

    async def deliveries(self) -> list[Any]:
        async with self.house.stage.owner_db.bound(self.house.tenant) as tx:
            return list((await tx.execute(select(delivery))).all())

    async def hurry(self) -> None:
        """Let every try that waits be due now."""
        async with self.house.stage.owner_db.directory() as tx:
            await tx.execute(
                text("UPDATE notice_queue SET due = now() WHERE kind IN ('deliver', 'digest') AND tenant = :t"),
                {"t": self.house.tenant},
            )

    def mails(self, shown: dict[str, Any]) -> list[Any]:
        return [one for one in self.mailbox.of(shown["proposal_id"]) if one["to"] == self.address]


@pytest.fixture(scope="session")
async def notifier_db(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, "placet_notifier", size=4)
    yield database
    await database.close()


@pytest.fixture
async def post(house: House, notifier_db: Database) -> AsyncIterator[Post]:
    async with house.stage.owner_db.directory() as tx:
        await tx.execute(text("DELETE FROM notice_queue"))  # what other tests left untold
    async with mail_server() as mailbox, http_server() as receiver:
        settings = Settings(
            "", ISSUER, Path(), SECRET, None,
            outgoing_hosts=frozenset({"127.0.0.1"}),
            mail=SmtpServer("smtp", "127.0.0.1", mailbox.port),
            mail_from="placet@localhost.example",
            chats={},
        )  # fmt: skip
        yield Post(house, build_tell(settings, notifier_db), mailbox, receiver, settings)


@pytest.fixture
def tenant(house: House) -> UUID:
    return house.tenant

"""The notifier process: tells people what happened. It can read what it tells, and change nothing else.

A few deliveries are made at once, and of each tenant fewer, so that one slow receiver holds up nobody else's.
"""

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

from service.kit.database import Database
from service.kit.errors import Refusal
from service.kit.outgoing import Outgoing
from service.proposals.news import read_news
from service.publish.chat import Chats
from service.publish.mail import Mail
from service.publish.push import Push
from service.publish.queue import Claimed, claim
from service.publish.telling import Channels, Tell
from service.publish.webhooks import Webhooks
from service.settings import Settings

log = logging.getLogger("placet.notifier")
AT_ONCE: Final = 16
AT_ONCE_PER_TENANT: Final = 4
POLL_SECONDS: Final = 1.0
END_SECONDS: Final = 10.0


def build_tell(settings: Settings, database: Database) -> Tell:
    """What tells, with the channels that the settings name."""
    outgoing = Outgoing(settings.outgoing_hosts)
    mail = Mail(settings.mail, settings.mail_from, settings.host) if settings.mail else None
    channels = Channels(
        mail,
        Push(settings.secret, settings.issuer, outgoing),
        Webhooks(settings.secret, settings.issuer, outgoing),
        Chats(settings.chats),
    )
    return Tell(database, channels, read_news, settings.issuer)


def run_notifier(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. Gives the exit status."""
    asyncio.run(_run(settings))
    return 0


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    database = Database(settings.database_url, "placet_notifier", size=4)
    try:
        await tell_all(build_tell(settings, database), stop)
    finally:
        await database.close()


async def tell_all(tell: Tell, stop: asyncio.Event, idle: Callable[[], None] = lambda: None) -> None:
    """Work off what is due until `stop`; `idle` is told each time that nothing is due or in work."""
    running: dict[asyncio.Task[None], UUID] = {}
    while not stop.is_set():
        claimed = await _claim(tell, running) if len(running) < AT_ONCE else None
        if claimed:
            task = asyncio.create_task(_one(tell, claimed))
            running[task] = claimed.tenant
            task.add_done_callback(running.pop)
            continue
        if not running:
            idle()
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({stopping, *running}, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
    if running:
        _, late = await asyncio.wait(running, timeout=END_SECONDS)
        for task in late:  # it is claimed again when its time is over
            task.cancel()


async def _claim(tell: Tell, running: dict[asyncio.Task[None], UUID]) -> Claimed | None:
    busy = [tenant for tenant, count in Counter(running.values()).items() if count >= AT_ONCE_PER_TENANT]
    with suppress(Refusal, OSError):
        return await claim(tell.database, busy)
    return None


async def _one(tell: Tell, claimed: Claimed) -> None:
    try:
        await tell(claimed)
    except Exception:
        log.exception("%s of %s failed; it will be tried again", claimed.kind, claimed.subject)

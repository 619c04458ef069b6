"""Start everything, say how to use it, keep it running, end it in order: web and writer first, PostgreSQL last."""

import asyncio
import http.client
import os
import signal
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from service.kit.postgres import ADMIN, EmbeddedPostgres, age_notice
from service.up.database import give_logins, migrate_if_needed
from service.up.listen import Listening, listen
from service.up.place import Place, Running, UpRefused
from service.up.progress import Progress, Ready
from service.up.supervise import Kept, KeptPostgres

if TYPE_CHECKING:
    from service.kit.database import Role

READY_SECONDS = 60.0
ASK_SECONDS = 5.0
ASK_AGAIN_SECONDS = 0.05
WEB_STOP_SECONDS = 15.0
WRITER_STOP_SECONDS = 40.0
# What a child sees of our environment; all else it is told here.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "REDIS_URL", "SSL_CERT_FILE", "PLACET_OUTGOING_HOSTS")
CHANNELS = ("PLACET_SMTP_URL", "PLACET_SMTP_PASSWORD_FILE", "PLACET_MAIL_FROM", "PLACET_APPRISE_FILE")
"""What the notifier sees too; of it the web process only whether there is a mail server."""


@dataclass(frozen=True)
class Wanted:
    """What the person asked for. `writer` is False where somebody else runs it."""

    data_dir: Path
    port: int
    writer: bool = True


@dataclass
class Up:
    """One run, until `stopping` is set. `hurry` ends an orderly end. `postgres` is there where the database is ours."""

    wanted: Wanted
    progress: Progress
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    postgres: KeptPostgres | None = None

    async def run(self) -> None:
        """Run. Call it in the main thread: what it starts ends with the thread that started it.

        Raises:
            UpRefused, PostgresUnavailable: it cannot start; nothing is left running.
        """
        place = Place(self.wanted.data_dir.resolve())
        place.prepare()
        with ExitStack() as undo:
            undo.enter_context(place.hold())
            listening = listen(self.wanted.port)
            undo.callback(listening.close)
            urls = await self._database(place, undo)
            await self._serve(place, listening, urls)
            self.progress.say("Stopped.")

    def stop(self) -> None:
        """The first call asks for an orderly end, the second for one at once."""
        (self.hurry if self.stopping.is_set() else self.stopping).set()

    async def _database(self, place: Place, undo: ExitStack) -> "dict[Role, str]":
        """Start the database where it is ours, and bring its schema up to date. Gives the URL for each role."""
        if given := os.environ.get("DATABASE_URL"):
            self.progress.say("Bringing the database's schema up to date")
            await migrate_if_needed(given)
            return {"placet_owner": given, "placet_app": given, "placet_writer": given, "placet_notifier": given}
        self.progress.say(f"Starting {age_notice(datetime.now(UTC).date())}")
        server, thread = EmbeddedPostgres(place.data_dir), undo.enter_context(ThreadPoolExecutor(1, "postgres"))
        undo.callback(server.stop)
        await asyncio.get_running_loop().run_in_executor(thread, server.start)
        self.postgres = KeptPostgres(server, thread)
        admin = server.url(ADMIN)
        self.progress.say("Bringing its schema up to date")
        await migrate_if_needed(admin)
        return {"placet_owner": admin, **await give_logins(server, admin)}

    async def _serve(self, place: Place, listening: Listening, urls: "dict[Role, str]") -> None:
        issuer = f"http://localhost:{listening.port}"
        kept = self._children(place, listening, urls, issuer)
        *names, last = (one.name for one in kept)
        self.progress.say(f"Starting {', '.join(names)} and {last}")
        everything: list[Kept | KeptPostgres] = [*kept, self.postgres] if self.postgres else [*kept]
        keeping = [asyncio.create_task(one.run(self.stopping, self.progress.say)) for one in everything]
        try:
            begin = await asyncio.to_thread(_load_begin)
            ready = await begin(place, urls["placet_owner"], issuer)
            if await self._answers(kept[0], listening.port):
                place.announce(Running(os.getpid(), issuer, ready.database_url, str(place.repositories)))
                self.progress.ready(ready)
            await self.stopping.wait()
        finally:
            self.stopping.set()
            await self._all_ended(keeping, kept)

    def _children(self, place: Place, listening: Listening, urls: "dict[Role, str]", issuer: str) -> list[Kept]:
        sockets = [one.fileno() for one in listening.sockets]
        options = [word for number in sockets for word in ("--fd", str(number))]
        shared = {name: os.environ[name] for name in INHERITED if name in os.environ} | {
            "PLACET_ISSUER": issuer,
            "PLACET_REPOSITORIES": str(place.repositories),
            "PLACET_SECRET_FILE": str(place.secret),
        }
        roles: tuple[Role, ...] = ("placet_app", "placet_writer", "placet_notifier")
        web, writer, notifier = (shared | {"DATABASE_URL": urls[role]} for role in roles)
        writer |= place.keys_settings()
        notifier |= {name: os.environ[name] for name in CHANNELS if name in os.environ}
        web |= {name: os.environ[name] for name in ("PLACET_SMTP_URL",) if name in os.environ}
        found = [Kept("web", ("web", *options), web, place.log("web"), WEB_STOP_SECONDS, sockets)]
        if self.wanted.writer:
            found.append(Kept("writer", ("writer",), writer, place.log("writer"), WRITER_STOP_SECONDS))
            found.append(Kept("notifier", ("notifier",), notifier, place.log("notifier"), WEB_STOP_SECONDS))
        return found

    async def _answers(self, web: Kept, port: int) -> bool:
        """Wait until the web process is ready. False where a stop was asked for meanwhile.

        Our sockets listen already, so the first question waits in line until the web process takes it.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not self.stopping.is_set():
            if await asyncio.to_thread(_is_ready, port):
                return True
            if web.deaths.loops or time.monotonic() > deadline:
                message = f"The web process does not start. {web.log} ends: {web.deaths.last_words()}"
                raise UpRefused("web_does_not_start", message)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), ASK_AGAIN_SECONDS)
        return False

    async def _all_ended(self, keeping: list["asyncio.Task[None]"], kept: list[Kept]) -> None:
        hurried = asyncio.create_task(self.hurry.wait())
        ended = asyncio.create_task(_wait_for_all(keeping))
        await asyncio.wait({ended, hurried}, return_when=asyncio.FIRST_COMPLETED)
        if hurried.done():
            for one in kept:
                one.kill()
        hurried.cancel()
        await ended


def up(wanted: Wanted, progress: Progress) -> None:
    """Run until SIGINT, SIGTERM or SIGHUP. Raises as `Up.run`."""

    async def run() -> None:
        one = Up(wanted, progress)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, one.stop)
        await one.run()

    asyncio.run(run())


async def _wait_for_all(keeping: list["asyncio.Task[None]"]) -> None:
    for result in await asyncio.gather(*keeping, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


def _load_begin() -> Callable[[Place, str, str], Awaitable[Ready]]:
    """Load what the database and Git need here. It takes long, so web and writer are started before."""
    from service.up.begin import begin  # noqa: PLC0415  as said above

    return begin


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/readyz", headers={"Host": f"localhost:{port}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

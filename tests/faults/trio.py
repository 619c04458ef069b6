"""The whole service as processes: PostgreSQL, `placet web` and `placet writer`, each of which may be killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random

import httpx
import psutil

from service.commands.web import web
from service.commands.writer import writer
from service.kit.postgres import ADMIN, EmbeddedPostgres
from service.up.database import give_logins, migrate
from service.up.listen import Listening, listen
from service.up.place import Place
from tests.faults.forks import Forker
from tests.faults.server import own_stage
from tests.stage import Stage

for _name in ("uvicorn", "uvloop", "service.app", "service.worker", "service.commands.bounded"):
    import_module(_name)  # what the commands load when they run is loaded once, before the first fork
LAST_LINES = 40
VICTIMS = ("web", "writer", "executor", "postmaster", "backend")


@dataclass
class Trio:
    """A running service in a data directory.

    Attributes:
        keeper: the thread in which the server is started; it ends with it.
        pids: of web and writer.
    """

    place: Place
    server: EmbeddedPostgres
    listening: Listening
    forker: Forker
    keeper: ThreadPoolExecutor
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.listening.port}"

    def start(self, name: str) -> None:
        """Start web or writer."""
        self.pids[name] = self.forker.fork(name, self.place.log(name))

    async def kill(self, victim: str, chance: Random) -> None:
        """End one of `VICTIMS` by kill -9, and start again what does not come back by itself."""
        if victim == "postmaster":
            _kill(self.server.pid)
            await asyncio.get_running_loop().run_in_executor(self.keeper, self.server.start_again)
        elif victim in self.pids:
            _kill(self.pids[victim])
            self.start(victim)
        else:
            parent = self.server.pid if victim == "backend" else self.pids["writer"]
            if children := _children(parent):  # between two of its lives it has none
                _kill(chance.choice(children))

    def last_words(self) -> str:
        """The ends of what its processes said; of tracebacks, how they begin and how they end."""
        found = []
        for name in ("web", "writer", "postgres"):
            lines = self.place.log(name).read_text("utf-8", "replace").splitlines()
            found += [f"{name}:", *[line for line in lines if line[:1].strip()][-LAST_LINES:]]
        return "\n".join(found)

    @asynccontextmanager
    async def stage(self) -> AsyncIterator[Stage]:
        """Its database and repositories, for the tests' own hand."""
        async with own_stage(self.server.url(ADMIN), self.place.repositories) as made:
            yield made

    @asynccontextmanager
    async def http(self, seconds: float) -> AsyncIterator[httpx.AsyncClient]:
        host = f"localhost:{self.listening.port}"
        base = f"http://127.0.0.1:{self.listening.port}"
        async with httpx.AsyncClient(base_url=base, headers={"host": host}, timeout=seconds) as client:
            yield client


@contextmanager
def trio(folder: Path) -> Iterator[Trio]:
    """Start it. Call it where no loop runs."""
    place, listening = Place(folder), listen(0)
    place.prepare()
    with ThreadPoolExecutor(1) as keeper:
        server = EmbeddedPostgres(folder)
        keeper.submit(server.start).result()
        forker = None
        try:
            admin = server.url(ADMIN)
            migrate(admin)
            urls = asyncio.run(give_logins(server, admin))
            options = [word for one in listening.sockets for word in ("--fd", str(one.fileno()))]
            settings = {
                "PLACET_ISSUER": f"http://localhost:{listening.port}",
                "PLACET_REPOSITORIES": str(place.repositories),
                "PLACET_SECRET_FILE": str(place.secret),
            }
            forker = Forker.start(
                web=partial(_run, web, options, {**settings, "DATABASE_URL": urls["placet_app"]}),
                writer=partial(_run, writer, [], {**settings, "DATABASE_URL": urls["placet_writer"]}),
            )
            made = Trio(place, server, listening, forker, keeper)
            made.start("web")
            made.start("writer")
            yield made
        finally:
            if forker:
                forker.close()
            server.stop()
            listening.close()


def _run(command: object, options: list[str], settings: dict[str, str]) -> None:
    os.environ.update(settings)
    command.main(options, standalone_mode=False)  # type: ignore[attr-defined]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    with suppress(psutil.NoSuchProcess):
        return [one.pid for one in psutil.Process(pid).children()]
    return []

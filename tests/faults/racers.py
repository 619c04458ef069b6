"""Racers: threads and processes of their own, each with its own connections, that start on one word."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import anyio.to_thread

from service.kit.database import Database
from service.kit.errors import Refusal
from service.repositories.placement import Storage
from tests.faults.forks import end, fork
from tests.stage import House, Stage

THREAD_SECONDS = 30
Run = Callable[..., Awaitable[Any]]
"""What a racer does: a function of a module, called with the house and picklable arguments."""


@dataclass(frozen=True)
class Told:
    """How it ended for one racer: what it was given, or the refusal's body with its code and HTTP status."""

    given: Any = None
    code: str = ""
    status: int = 200
    body: dict[str, Any] | None = None


@dataclass(frozen=True)
class Racers:
    """Two threads and two processes."""

    threads: tuple[Connection, Connection]
    processes: tuple[Connection, Connection]

    async def race(self, number: int, house: House, *runs: tuple[Any, ...]) -> list[Told]:
        """Run two, each `(function, arguments…)`, at once: in threads in the odd rounds, in processes in the even."""
        lines = self.threads if number % 2 else self.processes
        absent = replace(house, stage=None)  # type: ignore[arg-type]  it has one of its own
        for line, (run, *arguments) in zip(lines, runs, strict=True):
            line.send((run, absent, arguments))
        for line in lines:
            await anyio.to_thread.run_sync(line.recv)  # ready
        for line in lines:
            line.send("go")
        return [await anyio.to_thread.run_sync(line.recv) for line in lines]


@contextmanager
def racers(url: str, root: Any) -> Iterator[Racers]:
    """Call it where no loop runs."""
    with ExitStack() as undo:
        pairs = [Pipe() for _ in range(4)]
        ours = [pair[0] for pair in pairs]
        for _, theirs in pairs[2:]:
            undo.callback(end, fork(_race, theirs, url, root))
        for _, theirs in pairs[:2]:
            thread = threading.Thread(target=_race, args=(theirs, url, root))
            thread.start()
            undo.callback(thread.join, THREAD_SECONDS)
        for line in ours:
            undo.callback(line.send, None)
        yield Racers((ours[0], ours[1]), (ours[2], ours[3]))


def _race(line: Connection, url: str, root: Any) -> None:
    asyncio.run(_race_for_ever(line, url, Storage(root)))


async def _race_for_ever(line: Connection, url: str, storage: Storage) -> None:
    databases = [Database(url, role, size=2) for role in ("placet_owner", "placet_app", "placet_writer")]
    stage = Stage(*databases, storage)
    async with stage.waiter.running():
        while (order := await asyncio.to_thread(line.recv)) is not None:
            run, house, arguments = order
            line.send("ready")
            line.recv()
            line.send(await heard(run(replace(house, stage=stage), *arguments)))
    for one in databases:
        await one.close()


async def heard(work: Awaitable[Any]) -> Told:
    """How a call ended for whoever made it."""
    try:
        return Told(given=await work)
    except Refusal as refusal:
        wire = refusal.code.value
        return Told(code=wire.name, status=wire.status, body=refusal.body())
    except Exception as error:  # noqa: BLE001  it goes to whoever waits for this racer
        return Told(code=repr(error), status=500)

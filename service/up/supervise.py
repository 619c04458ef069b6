"""Keep processes running, and end all of them at the end.

Each is a session of its own, so that the terminal's Ctrl-C reaches the supervisor alone, which ends them in order.
Each is ended by the kernel when the supervisor dies, whatever it dies of.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.kit.postgres import EmbeddedPostgres, PostgresUnavailable

QUICK_SECONDS = 5.0
QUICK_DEATHS_MOST = 5
PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MOST = 30.0
LOOK_SECONDS = 0.2

# Runs between us and the program: arms the parent-death signal of prctl(2), which outlives exec, then asks whether the
# parent was faster.
CHILD = """
import ctypes, os, sys
parent, *command = sys.argv[1:]
if ctypes.CDLL(None).prctl(1, 9) == 0 and os.getppid() == int(parent):
    os.execv(command[0], command)
"""

Say = Callable[[str], None]


@dataclass
class Deaths:
    """How often something died right after its start, which decides how soon it is started again.

    Attributes:
        log: where it said why.
        quick: how often, without a long life in between.
    """

    log: Path
    quick: int = 0

    @property
    def loops(self) -> bool:
        """Whether it dies again and again."""
        return self.quick >= QUICK_DEATHS_MOST

    @property
    def pause(self) -> float:
        """Seconds until it shall be started again."""
        return min(PAUSE_SECONDS_MOST, 2.0 ** (self.quick - QUICK_DEATHS_MOST)) if self.loops else PAUSE_SECONDS

    def count(self, started: float) -> None:
        """It died, having been started at this time of the monotonic clock."""
        self.quick = self.quick + 1 if time.monotonic() - started < QUICK_SECONDS else 0

    def what_next(self) -> str:
        """What is done about it, for people."""
        if not self.loops:
            return "started again"
        again = f"it ended {self.quick} times at its start, next try in {self.pause:.0f} s"
        return f"{again}. {self.log} ends: {self.last_words()}"

    def last_words(self) -> str:
        """The last line of its log."""
        with suppress(OSError):
            lines = self.log.read_text("utf-8", "replace").splitlines()
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""


@dataclass
class KeptPostgres:
    """The embedded server, started again on the same socket when it ends by itself. Whoever started it ends it.

    Attributes:
        server: it, started.
        thread: where it is started: the server ends with that thread.
        deaths: counted by this.
    """

    server: EmbeddedPostgres
    thread: Executor
    deaths: Deaths = field(init=False)

    def __post_init__(self) -> None:
        self.deaths = Deaths(self.server.log)

    async def run(self, stopping: asyncio.Event, say: Say) -> None:
        """Watch it until `stopping`."""
        while not stopping.is_set():
            started = time.monotonic()
            while (code := self.server.ending) is None:
                if await _comes(stopping, LOOK_SECONDS):
                    return
            self.deaths.count(started)
            say(f"PostgreSQL {_ending(code)}; {self.deaths.what_next()}")
            if not await _comes(stopping, self.deaths.pause):
                with suppress(PostgresUnavailable):  # it did not start, which is one more death
                    await asyncio.get_running_loop().run_in_executor(self.thread, self.server.start_again)


@dataclass
class Kept:
    """A process that is started again when it ends.

    Attributes:
        name: for people.
        arguments: of the `placet` command.
        environment: what it sees.
        log: where its output goes.
        stop_seconds: how long it may take to end in order.
        sockets: descriptors it inherits.
    """

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    stop_seconds: float
    sockets: Sequence[int] = ()
    process: asyncio.subprocess.Process | None = None
    deaths: Deaths = field(init=False)

    def __post_init__(self) -> None:
        self.deaths = Deaths(self.log)

    async def run(self, stopping: asyncio.Event, say: Say) -> None:
        """Start it, and again whenever it ends, until `stopping`; then end it.

        Call it in the main thread: the kernel ends a child with the thread that started it.
        """
        while not stopping.is_set():
            started = time.monotonic()
            self.process = await self._start()
            await _either(self.process.wait(), stopping.wait())
            if stopping.is_set():
                break
            self.deaths.count(started)
            say(f"{self.name} {_ending(self.process.returncode or 0)}; {self.deaths.what_next()}")
            await _comes(stopping, self.deaths.pause)
        await self._end()

    def kill(self) -> None:
        """Kill it and what it started."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def _start(self) -> asyncio.subprocess.Process:
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *dying_with_us(sys.executable, "-I", "-m", "service.cli", *self.arguments),
                env=dict(self.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=self.sockets,
            )

    async def _end(self) -> None:
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), self.stop_seconds)
        except TimeoutError:
            self.kill()
            await self.process.wait()


def dying_with_us(*command: str) -> tuple[str, ...]:
    """The command that runs this one and is killed when the thread that started it ends."""
    return (sys.executable, "-I", "-S", "-c", CHILD, str(os.getpid()), *command)


async def _either(*waits: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.create_task(one) for one in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _comes(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set within this time."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

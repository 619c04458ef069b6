"""The writer process: executors that claim approved proposals, and a parent that kills one which hangs.

Each executor is a process of its own, forked before any event loop exists. It says over a pipe when it takes a lease
and when it gives it back; one that holds a lease for longer than 30 s (120 s for maintenance) is killed with all of its
git children, and the next takes over where the marker says. Executors die with the parent.
"""

import asyncio
import ctypes
import gc
import logging
import os
import resource
import select as polling
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

import uvloop
from sqlalchemy import text

from service.kit.actor import system
from service.kit.database import Database
from service.kit.errors import Refusal
from service.kit.sealed import Sealer
from service.proposals.execute import Execute
from service.proposals.expire import expire
from service.proposals.maintain import Maintain
from service.proposals.restore import Drop
from service.proposals.states import WORK
from service.proposals.store import ProposalStore
from service.repositories.bare import BareRepository
from service.repositories.placement import Storage
from service.settings import Settings
from service.writer.write import Step

log = logging.getLogger("placet.worker")
LEASE_LIMIT_SECONDS = 30
MAINTENANCE_LIMIT_SECONDS = 120
CLAIM_SECONDS = 3
EXECUTORS = 2
POLL_SECONDS = 1.0
BUSY_SECONDS = 0.5
"""For how long a repository that somebody else holds is left alone, so that the others go on."""
QUICK_SECONDS = 0.2
"""Who dies within this time of his birth is followed only after as long again."""
TAKEN, MAINTAINS, GIVEN = b"+", b"m", b"-"
PR_SET_PDEATHSIG = 1
Tell = Callable[[bytes], None]
"""Tells the parent that a lease was taken (for what), or given back."""

# One statement, and all it does is move `due` on: whoever dies with a claim loses nothing, and nor does who loses it,
# so that its COMMIT does not wait for the disk.
CLAIM = text(
    """
    UPDATE work_queue SET due = clock_timestamp() + make_interval(secs => :seconds), attempts = attempts + 1
    WHERE (kind, tenant, subject) = (
        SELECT kind, tenant, subject FROM work_queue
        WHERE due <= clock_timestamp() AND repository <> ALL (CAST(:busy AS uuid[]))
        ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING kind, tenant, subject, repository, set_config('synchronous_commit', 'off', true)
    """
)
QUEUED = text("SELECT DISTINCT tenant, repository FROM work_queue WHERE kind = 'execute'")


def no_step(_name: str) -> None:
    """Production does nothing at a step."""


def run_worker(
    settings: Settings,
    sealer: Sealer | None,
    executors: int = EXECUTORS,
    step: Step = no_step,
    lease_seconds: float = LEASE_LIMIT_SECONDS,
) -> int:
    """Run until SIGTERM or SIGINT. Gives the exit status.

    Args:
        settings: of this process.
        sealer: opens signing keys; see `Execute`.
        executors: how many processes execute at once.
        step: told the name of each step that an execution did.
        lease_seconds: who holds a lease for longer is killed.
    """
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda given, _frame: stopping.append(given))
    gc.freeze()  # what is loaded stays shared with the executors
    start = partial(_start, settings, sealer, step, lease_seconds)
    children = [start() for _ in range(executors)]
    log.info("writer runs with %d executors", executors)
    while not stopping:
        _watch(children)
        for index, child in enumerate(children):
            if child.ended():
                log.warning("an executor ended; starting another")
                child.close()
                children[index] = start()
    for child in children:
        child.stop()
    return 0


@dataclass
class _Child:
    """An executor as its parent sees it."""

    pid: int
    pipe: int
    lease_seconds: float
    until: float | None = None
    born: float = field(default_factory=time.monotonic)

    def ended(self) -> bool:
        with suppress(ChildProcessError):
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        return True

    def close(self) -> None:
        """Forget one that has ended; who ends as soon as he begins is not begun anew at once."""
        os.close(self.pipe)
        if time.monotonic() - self.born < QUICK_SECONDS:
            with suppress(InterruptedError):
                polling.select([], [], [], QUICK_SECONDS)

    def read(self) -> None:
        with suppress(BlockingIOError):
            for word in os.read(self.pipe, 4096):
                limits = {TAKEN[0]: self.lease_seconds, MAINTAINS[0]: MAINTENANCE_LIMIT_SECONDS}
                self.until = time.monotonic() + limits[word] if word in limits else None

    def kill_if_hanging(self) -> None:
        if self.until is not None and time.monotonic() > self.until:
            log.error("executor %d held a lease for longer than it may: killed", self.pid)
            self.until = None
            self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def stop(self) -> None:
        """Let it finish what it holds: an execution ends within its limit, and maintenance may be cut short."""
        self.signal(signal.SIGTERM)
        deadline = time.monotonic() + self.lease_seconds
        while not self.ended():
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
            polling.select([self.pipe], [], [], 0.05)
            self.read()


def _watch(children: list[_Child]) -> None:
    """Wait a moment for words from the executors; kill who hangs."""
    with suppress(InterruptedError):
        ready, _, _ = polling.select([child.pipe for child in children], [], [], 0.25)
        for child in children:
            if child.pipe in ready:
                child.read()
    for child in children:
        child.kill_if_hanging()


def _start(settings: Settings, sealer: Sealer | None, step: Step, lease_seconds: float) -> _Child:
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _execute_for_ever(lambda tell: _executor(settings, sealer, tell, step), writing, parent)
    os.close(writing)
    return _Child(pid, reading, lease_seconds)


def _execute_for_ever(executor: Callable[[Tell], Coroutine[Any, Any, None]], writing: int, parent: int) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold a key
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

            def tell(word: bytes) -> None:
                os.write(writing, word)

            uvloop.run(executor(tell))
            status = 0
    except BaseException:
        log.exception("executor failed")
    finally:
        sys.stderr.flush()
        os._exit(status)


@dataclass(frozen=True)
class _Work:
    """What an executor can do."""

    database: Database
    store: ProposalStore
    execute: Execute
    maintain: Maintain
    drop: Drop
    busy: dict[UUID, float] = field(default_factory=dict)  # until when a repository is left alone

    async def do(self, kind: str, tenant: UUID, subject: UUID, repository: UUID) -> bool:
        """Do one piece of work. False: not now."""
        if kind == "expire":
            await expire(self.store, system(tenant), subject)
            return True
        if kind == "drop":
            return await self.drop(tenant, subject, repository)
        return await (self.maintain if kind == "maintain" else self.execute)(tenant, subject)

    def left_alone(self) -> list[UUID]:
        now = time.monotonic()
        for repository in [one for one, until in self.busy.items() if until < now]:
            del self.busy[repository]
        return list(self.busy)


async def _executor(settings: Settings, sealer: Sealer | None, tell: Tell, step: Step) -> None:
    database = Database(settings.database_url, "placet_writer", size=2)
    storage = Storage(settings.repositories)
    store = ProposalStore(database, storage)

    def executing(taken_as: bytes) -> Execute:
        return Execute(store, BareRepository, lambda taken: tell(taken_as if taken else GIVEN), step, sealer)

    execute = executing(TAKEN)
    work = _Work(
        database,
        store,
        execute,
        Maintain(store, executing(MAINTAINS).lease, step),
        Drop(store, BareRepository, execute.lease, step),
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        recovered = False
        while not stop.is_set():
            with suppress(Refusal, OSError):
                recovered = recovered or await _recover(database, work.execute, storage)
                await _serve(work, stop)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), POLL_SECONDS)
    finally:
        await database.close()


async def _recover(database: Database, execute: Execute, storage: Storage) -> bool:
    """At the start: every repository whose last writer did not clear its mark, or, as a mark can be lost with the
    power, that has a proposal in work.
    """
    async with database.directory() as tx:
        queued = {(row.tenant, row.repository) for row in await tx.execute(QUEUED)}
    for tenant, repository in sorted(queued | set(storage.marked())):
        try:
            await execute.recover(tenant, repository)
        except Exception:
            log.exception("could not recover repository %s", repository)
    return True


async def _serve(work: _Work, stop: asyncio.Event) -> None:
    """Work off what is due; sleep until a notification or a second has passed."""
    async with work.database.listen(WORK) as notices:
        while not stop.is_set():
            if await _one(work):
                continue
            waiters = [asyncio.ensure_future(notices.get()), asyncio.ensure_future(stop.wait())]
            done, left = await asyncio.wait(waiters, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for waiter in left:
                waiter.cancel()
            if waiters[0] in done and waiters[0].result() == ("", ""):
                return  # the listener's connection is gone


async def _one(work: _Work) -> bool:
    """Claim one piece of work and do it. False where nothing is due."""
    async with work.database.directory() as tx:
        claimed = (await tx.execute(CLAIM, {"seconds": CLAIM_SECONDS, "busy": work.left_alone()})).one_or_none()
    if claimed is None:
        return False
    try:
        if not await work.do(claimed.kind, claimed.tenant, claimed.subject, claimed.repository):
            work.busy[claimed.repository] = time.monotonic() + BUSY_SECONDS
    except Exception:
        log.exception("work %s on %s failed; it will be tried again", claimed.kind, claimed.subject)
    return True

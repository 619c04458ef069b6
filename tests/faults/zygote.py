"""A process that has imported everything and forks one writer for each trial, so that a trial costs no start.

It reads the database's address, and does the first order itself. Then, order by order, one line of JSON each: the
writer is forked, connects to the database and stops itself; its pid is said, and whoever ordered it may attach to it;
after an empty line it goes on, and how it ended is said.
"""

import asyncio
import ctypes
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

from service.kit.database import Database
from service.proposals.execute import Execute
from service.proposals.store import ProposalStore
from service.repositories.bare import BareRepository
from service.repositories.placement import Storage
from service.settings import Settings
from service.worker import no_step
from tests.faults.step_faults import work
from tests.stage import SEALER

log = logging.getLogger("placet.faults")
PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616D61  # where Yama lets only parents attach
ROUNDS_MOST = 7  # more than the attempts that a proposal has


async def execute(run: Execute, _storage: Storage, tenant: UUID, proposals: Sequence[UUID]) -> None:
    """What the worker does with one claim: what goes wrong is for the next claim."""
    for proposal in proposals:
        await run(tenant, proposal)


async def persist(run: Execute, _storage: Storage, tenant: UUID, proposals: Sequence[UUID]) -> None:
    """What the worker does over several claims: what goes wrong is tried again."""
    for proposal in proposals:
        for _ in range(ROUNDS_MOST):
            with suppress(Exception):
                if await run(tenant, proposal):
                    break


async def recover(run: Execute, storage: Storage, tenant: UUID, proposals: Sequence[UUID]) -> None:
    """What the next worker does: every marked repository first, then what the queue has."""
    for marked, repository in storage.marked():
        if marked == tenant:
            await run.recover(marked, repository)
    await persist(run, storage, tenant, proposals)


TASKS = {task.__name__: task for task in (execute, persist, recover)}


async def _act(database: Database, order: dict[str, Any], ready: Callable[[], None]) -> None:
    tenant = UUID(order["tenant"])
    async with database.bound(tenant):
        pass
    _, told = os.pipe()
    store = ProposalStore(database, Storage(Path(order["root"])))
    run = Execute(store, BareRepository, lambda taken: os.write(told, b"+-"[not taken :]), no_step, SEALER)
    ready()
    await TASKS[order["task"]](run, store.storage, tenant, [UUID(one) for one in order["proposals"]])


async def _warm(database: Database, order: dict[str, Any]) -> None:
    """Do it here, once, and cut the connections: every later writer inherits the prepared statements' texts."""
    await _act(database, order, lambda: None)
    await database.close()


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _work(order: dict[str, Any], url: str) -> None:
    _stop()
    settings = Settings(url, "http://localhost:1", Path(order["root"]), b"s" * 32, None)
    work(settings, order["executors"], order["lease_seconds"])


def _child(database: Database, order: dict[str, Any], url: str) -> NoReturn:
    status = 1
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(PR_SET_PTRACER, -1)
        if order["task"] == "work":
            _work(order, url)
        else:
            asyncio.run(_act(database, order, _stop))
        status = 0
    except BaseException:
        log.exception("the writer failed")
    finally:
        os._exit(status)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_long(value))


def _serve() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    url = sys.stdin.readline().strip()
    database = Database(url, "placet_writer", size=2)
    asyncio.run(_warm(database, json.loads(sys.stdin.readline())))
    gc.freeze()
    for line in sys.stdin:
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _child(database, json.loads(line), url)
        os.waitpid(pid, os.WUNTRACED)
        _say(str(pid))
        sys.stdin.readline()
        os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, 0)
        _say(json.dumps([os.waitstatus_to_exitcode(status), time.monotonic() - began]))


if __name__ == "__main__":
    _serve()

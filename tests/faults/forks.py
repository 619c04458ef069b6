"""Processes that need no start: forks of one that has loaded everything. They die with it, and it with the tests."""

import ctypes
import gc
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1


def fork(target: Callable[..., Any], *arguments: Any, log: Path | None = None) -> int:
    """Call the target in a process of its own, in a session of its own; gives its id.

    The kernel kills it when the thread that called this ends. What it says goes into the log.
    """
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads' locks: the child takes none of them
        pid = os.fork()
    if pid == 0:
        _become(parent, target, arguments, log)
    return pid


def _become(parent: int, target: Callable[..., Any], arguments: tuple[Any, ...], log: Path | None) -> NoReturn:
    status = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        gc.freeze()  # nothing that belongs to the parent is finalized here
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        if log is not None:
            with log.open("ab") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            sys.stdout = sys.stderr = os.fdopen(2, "w", closefd=False)
            logging.basicConfig(force=True, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        if os.getppid() == parent:
            target(*arguments)
            status = 0
    except BaseException:  # noqa: BLE001  the process ends here, whatever it was
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)


def end(pid: int) -> None:
    """Kill a fork with all that it started, and forget it."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


@dataclass(frozen=True)
class Forker:
    """A process with one thread and no event loop that forks others for as long as it lives."""

    pid: int
    line: Connection

    @classmethod
    def start(cls, **targets: Callable[[], Any]) -> "Forker":
        """Fork it now; these are what it can be told to fork."""
        ours, theirs = Pipe()
        pid = fork(_fork_for_ever, theirs, targets)
        theirs.close()
        return cls(pid, ours)

    def fork(self, name: str, log: Path) -> int:
        """One more process of that name; gives its id. It dies with the forker, which waits for it."""
        self.line.send((name, log))
        pid: int = self.line.recv()
        return pid

    def close(self) -> None:
        self.line.close()
        end(self.pid)


def _fork_for_ever(line: Connection, targets: dict[str, Callable[[], Any]]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets its children for it
    with suppress(EOFError):
        while True:
            name, log = line.recv()
            line.send(fork(targets[name], log=log))

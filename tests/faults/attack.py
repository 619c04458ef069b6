"""Order writers from the zygote and let strace kill or refuse them at one system call (strace(1), "Tampering")."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from service.worker import LEASE_LIMIT_SECONDS
from tests.stage import House

ROOT = Path(__file__).parent.parent.parent
CALLS = (
    "open", "openat", "creat", "write", "pwrite64", "writev", "rename", "renameat", "renameat2", "unlink", "unlinkat",
    "mkdir", "mkdirat", "rmdir", "close", "fsync", "fdatasync", "link", "linkat", "symlink", "ftruncate", "sendto",
)  # fmt: skip
"""What may change something, and `sendto`, by which PostgreSQL hears of it."""

TRACEABLE = """
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_long(-1))  # PR_SET_PTRACER: where Yama lets only parents attach
print(flush=True)
sys.stdin.read()
"""
_PATH_END = re.compile(r"([\w.-]+/[\w.-]+)[\">]")
_LINE = re.compile(r"(?:\d+ +)?(\w+)\((.*)")


@dataclass(frozen=True)
class Call:
    """One system call of a writer: the `number`-th of this name."""

    name: str
    number: int
    arguments: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.name} {self.number} {'/'.join(_PATH_END.findall(self.arguments)[:2])}"


@dataclass(frozen=True)
class Ended:
    """How a writer ended: its exit status (negative for a signal), the seconds it took, what it wrote to the log."""

    status: int
    seconds: float


@dataclass(frozen=True)
class Zygote:
    """The process that forks writers."""

    process: subprocess.Popen[str]

    def run(self, task: str, house: House, proposals: Sequence[str], *tampering: str, log: Path | None = None) -> Ended:
        """Let a writer do a task to its end, with strace attached where there is something to tamper with or to log.

        Args:
            task: one of the zygote's.
            house: whose proposals.
            proposals: their ids.
            tampering: strace's `-e` expressions.
            log: where the calls are written.
        """
        pid = self._forked(task, house.stage.storage.root, tenant=str(house.tenant), proposals=list(proposals))
        with _attached(pid, tampering, log):
            self._say("")
            return self._ended()

    @contextmanager
    def working(self, root: Path, executors: int = 1, lease_seconds: float = LEASE_LIMIT_SECONDS) -> Iterator[None]:
        """The whole worker, with its queue, for the block; after it, it stops as on SIGTERM."""
        pid = self._worker(root, executors, lease_seconds)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGTERM)
            assert self._ended().status == 0

    def work_to_death(self, root: Path) -> Ended:
        """The whole worker, until a fault kills it."""
        self._worker(root, 1, LEASE_LIMIT_SECONDS)
        return self._ended()

    def _worker(self, root: Path, executors: int, lease_seconds: float) -> int:
        pid = self._forked("work", root, executors=executors, lease_seconds=lease_seconds)
        self._say("")
        return pid

    def _ended(self) -> Ended:
        return Ended(*json.loads(self._heard()))

    def warm(self, house: House, proposals: Sequence[str]) -> None:
        """Its first order: it executes these itself, so that what it forks need not prepare everything anew."""
        self._order("execute", house.stage.storage.root, tenant=str(house.tenant), proposals=list(proposals))

    def _forked(self, task: str, root: Path, **more: Any) -> int:
        self._order(task, root, **more)
        return int(self._heard())

    def _order(self, task: str, root: Path, **more: Any) -> None:
        self._say(json.dumps({"task": task, "root": str(root), **more}))

    def _say(self, line: str) -> None:
        pipe = _there(self.process.stdin)
        pipe.write(line + "\n")
        pipe.flush()

    def _heard(self) -> str:
        return _there(self.process.stdout).readline()


@functools.cache
def why_not() -> str:
    """Why strace cannot be used here; empty where it can."""
    if shutil.which("strace") is None:
        return "there is no strace here"
    command = [sys.executable, "-S", "-c", TRACEABLE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tracing = ["strace", "-o", os.devnull, "-p", str(process.pid)]
        with subprocess.Popen(tracing, stderr=subprocess.PIPE, text=True) as tracer:
            said = _there(tracer.stderr).readline()
            tracer.terminate()
            return "" if "attached" in said else f"strace may not attach: {said.strip()}"


def _there(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextmanager
def zygote(url: str) -> Iterator[Zygote]:
    command = [sys.executable, "-m", "tests.faults.zygote"]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        started = Zygote(process)
        started._say(url)
        yield started
        _there(process.stdin).close()


@contextmanager
def _attached(pid: int, tampering: Sequence[str], log: Path | None) -> Iterator[None]:
    if not tampering and log is None:
        yield
        return
    expressions = [part for one in tampering for part in ("-e", one)]
    command = ["strace", "-f", "-y", "-o", str(log or "/dev/null"), "-p", str(pid), "-e", f"trace={','.join(CALLS)}"]
    with subprocess.Popen([*command, *expressions], stderr=subprocess.PIPE, text=True) as process:
        assert "attached" in _there(process.stderr).readline()
        yield


def kill_at(call: Call) -> str:
    """The expression that kills at the entry of this call: it does not happen any more."""
    return f"inject={call.name}:signal=KILL:when={call.number}"


def refuse_at(call: Call, error: str, *, for_ever: bool = False) -> str:
    """The expression that lets this call fail, or it and all later ones of its name."""
    return f"inject={call.name}:error={error}:when={call.number}{'+' if for_ever else ''}"


def calls_in(log: Path) -> list[Call]:
    """The calls of a writer, in their order."""
    seen: Counter[str] = Counter()
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if match := _LINE.match(line):
            seen[match[1]] += 1
            found.append(Call(match[1], seen[match[1]], match[2]))
    return found

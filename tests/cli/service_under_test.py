"""A `placet up` as a person starts it, and what is left of it."""

import asyncio
import io
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import asyncpg
import httpx
import psutil
from sqlalchemy.engine import make_url

from service.cli import main

PLACET = (sys.executable, "-m", "service.cli")
START_SECONDS = 60
END_SECONDS = 30
LIST_TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


def environment(**more: str) -> dict[str, str]:
    """Ours without what would choose a database or a place."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_URL", "PLACET_"))}
    return {**kept, **more}


def placet(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a process of its own."""
    return subprocess.run(
        (*PLACET, *words), env=environment(**more), capture_output=True, text=True, timeout=START_SECONDS, check=False
    )


def quick(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, which has loaded already what it needs."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(**more), clear=True),
        mock.patch.object(sys, "argv", ["placet", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            return subprocess.CompletedProcess(words, int(end.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("a command ends with a status")


@dataclass
class Service:
    """A running `placet up`."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """An administration command on it."""
        return quick(*words, "--data-dir", self.ready["data_dir"])

    def tools(self, seconds: float = 5) -> list[str]:
        """The catalogue; the connection waits until it is answered."""
        with self.http(seconds) as http:
            answer = http.post("/mcp", json=LIST_TOOLS)
        return [tool["name"] for tool in answer.json()["result"]["tools"]]

    def http(self, seconds: float = 5) -> httpx.Client:
        """A client of it that needs nobody to say what `localhost` is."""
        name = httpx.URL(self.ready["issuer"])
        host = name.netloc.decode()
        return httpx.Client(base_url=name.copy_with(host="127.0.0.1"), headers={"host": host}, timeout=seconds)

    def children(self) -> dict[str, psutil.Process]:
        """Its processes by what they are, without the deeper ones."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess, IndexError, ValueError):  # ended, or not yet what it becomes
                words = child.cmdline()
                found["postgres" if "postgres" in words[0] else words[words.index("service.cli") + 1]] = child
        return found

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(END_SECONDS)


@contextmanager
def service(data_dir: Path, **more: str) -> Iterator[Service]:
    """Start it on a free port and wait until it says that it is ready."""
    process = subprocess.Popen(
        (*PLACET, "up", "--json", "--port", "0", "--data-dir", str(data_dir)),
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        assert process.stderr
        line = process.stdout.readline()  # ends when it is ready, or dead
        assert line, process.stderr.read()
        yield Service(process, json.loads(line))
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_SECONDS)


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for what must come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """A process and everything below it."""
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them runs; a zombie whose parent has not looked yet does not run."""
    return not [one for one in processes if one.is_running() and _status(one) != psutil.STATUS_ZOMBIE]


def _status(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return str(process.status())
    return psutil.STATUS_ZOMBIE


@contextmanager
def empty_database(cluster_url: str) -> Iterator[str]:
    """A database without a schema, for as long as the test needs it."""
    name = f"placet_empty_{secrets.token_hex(6)}"
    asyncio.run(_execute(cluster_url, f"CREATE DATABASE {name}"))
    try:
        yield make_url(cluster_url).set(database=name).render_as_string(hide_password=False)
    finally:
        asyncio.run(_execute(cluster_url, f"DROP DATABASE {name} WITH (FORCE)"))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url.replace("postgresql+asyncpg", "postgresql", 1))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()

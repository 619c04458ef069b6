"""Small disks of a test's own (tmpfs), which can be filled up and made read-only; slow flushes through strace."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

PAGE_BYTES = 4_096
STOP_SECONDS = 60
_ATTACHED = "strace: Process"


@dataclass(frozen=True)
class Disk:
    """A file system of its own."""

    path: Path

    @contextmanager
    def full(self, pages: int = 0) -> Iterator[None]:
        """No space for the block, but for so many pages."""
        ballast = self.path / "ballast"
        with ballast.open("wb", buffering=0) as file:
            with suppress(OSError):
                while True:
                    file.write(b"\0" * PAGE_BYTES)
            file.truncate(max(0, file.tell() - pages * PAGE_BYTES))
        try:
            yield
        finally:
            ballast.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing can be written for the block."""
        _mount("remount,ro", self.path)
        try:
            yield
        finally:
            _mount("remount,rw", self.path)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Disk]:
    """Mount one; where that is not allowed, the test is skipped and says so."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0 or _mount(f"size={size}", path) != 0:
        pytest.skip("a small disk (tmpfs) can be mounted by root only")
    path.chmod(0o755)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def _mount(options: str, path: Path) -> int:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode


@contextmanager
def slow_flushes(seconds: float, *pids: int) -> Iterator[None]:
    """Every fsync and fdatasync of these processes and of their children takes so much longer."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    every = {child.pid for pid in pids for child in psutil.Process(pid).children(recursive=True)} | set(pids)
    inject = f"inject=fsync,fdatasync:delay_exit={int(seconds * 1_000_000)}"
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-e", inject, "-o", os.devnull]
    attach = [word for pid in sorted(every) for word in ("-p", str(pid))]
    tracer = subprocess.Popen([*command, *attach], stderr=subprocess.PIPE, text=True)
    try:
        assert tracer.stderr
        line = tracer.stderr.readline()
        assert line.startswith(_ATTACHED), line
        yield
    finally:
        tracer.terminate()
        tracer.communicate(timeout=STOP_SECONDS)

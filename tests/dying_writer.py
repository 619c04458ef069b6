"""A writer process for tests: `dying_writer.py DATABASE_URL REPOSITORIES STEP`; it is killed when it has done STEP."""

import os
import signal
import sys
from pathlib import Path

from service.settings import Settings
from service.worker import run_worker

url, repositories, last = sys.argv[1:]
parent = os.getpid()


def step(name: str) -> None:
    """Die as by kill -9, executor and parent alike."""
    if name == last:
        os.kill(parent, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


sys.exit(run_worker(Settings(url, "http://localhost:1", Path(repositories), b"s" * 32, None), 1, step))

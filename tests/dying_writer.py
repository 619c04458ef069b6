"""A writer process for tests: `dying_writer.py DATABASE_URL REPOSITORIES STEP WHO`.

The first time STEP is done, kill -9 ends the executor that did it (WHO is `executor`: its parent starts another), or
the whole writer (`writer`).
"""

import os
import signal
import sys
from pathlib import Path

from service.kit.sealed import Sealer
from service.settings import Settings
from service.worker import run_worker

url, repositories, last, who = sys.argv[1:]
parent = os.getpid()
died = Path(repositories) / "died"


def step(name: str) -> None:
    """Die once, as by kill -9."""
    if name != last or died.exists():
        return
    died.touch()
    if who == "writer":
        os.kill(parent, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


settings = Settings(url, "http://localhost:1", Path(repositories), b"s" * 32, None)
sys.exit(run_worker(settings, Sealer(b"k" * 32), 1, step))

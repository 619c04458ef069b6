"""A git child that outlives its writer keeps the lease, and the recovery waits for it.

The signal that follows a writer's death reaches the git process, not what that has started: here a `cat` by an alias.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.attack import ROOT
from tests.faults.oracle import judge
from tests.stage import House

pytestmark = pytest.mark.anyio
WRITER = """
import pathlib, sys
from service.repositories.git import Call, started
from service.repositories.lease import Lease
path = pathlib.Path(sys.argv[1])
with Lease.acquire(path, 0) as lease:
    lease.mark(b"held")
    call = Call(path, ("orphan",), seconds=60, settings=("alias.orphan=!echo here >&2; exec cat",), lease=lease.fd)
    with started(call, stdin=sys.stdin.fileno(), stderr=sys.stdout.fileno()) as child:
        child.wait()
"""


@contextmanager
def orphan(house: House) -> Iterator[None]:
    """A writer was killed, and what its git child had started lives on for the block."""
    command = [sys.executable, "-c", WRITER, str(house.path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"here\n"
        writer.send_signal(signal.SIGKILL)
        assert writer.wait(30) == -9
        yield
        writer.stdin.close()
        assert writer.stdout.read() == b""  # nobody has it open any more


async def test_an_orphaned_child_of_git_keeps_the_lease_and_recovery_waits_for_its_death(house: House) -> None:
    shown = await house.propose()
    await house.decide(shown)
    before = house.head()
    with orphan(house):
        assert not await house.execute(shown)
        assert (house.head(), (await house.read(shown))["status"]) == (before, "approved")
    assert await house.execute(shown)
    assert (await house.read(shown))["status"] == "executed"
    assert await judge(house.stage.owner_db, house.stage.storage, house.tenant) == []

"""The lease ends only with the last process that holds it."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.repositories import lease
from service.repositories.git import Call, run, started
from service.repositories.lease import Lease, LeaseBusy, lease_file


def test_the_lease_is_held_by_one_and_the_file_stays(repository: Path) -> None:
    with Lease.acquire(repository, 0), pytest.raises(LeaseBusy), Lease.acquire(repository, 0.02):
        pass
    assert lease_file(repository).exists()
    with Lease.acquire(repository, 0):
        pass


def test_another_process_finds_it_held(repository: Path) -> None:
    ask = (
        "import sys, pathlib\nfrom service.repositories.lease import Lease, LeaseBusy\n"
        "try:\n    with Lease.acquire(pathlib.Path(sys.argv[1]), 0): print('got')\nexcept LeaseBusy: print('busy')\n"
    )
    command = [sys.executable, "-c", ask, str(repository)]
    with Lease.acquire(repository, 0):
        assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "busy\n"
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "got\n"


def test_a_child_of_git_keeps_it_after_we_closed_it(repository: Path) -> None:
    with Lease.acquire(repository, 0) as lease:
        call = Call(repository, ("cat-file", "--batch"), seconds=10, lease=lease.fd)
        running = started(call, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        running.__enter__()
    with pytest.raises(LeaseBusy), Lease.acquire(repository, 0):
        pass
    running.__exit__(None, None, None)
    with Lease.acquire(repository, 0):
        pass


def test_a_child_without_the_descriptor_does_not_keep_it(repository: Path) -> None:
    with Lease.acquire(repository, 0):
        running = started(
            Call(repository, ("cat-file", "--batch"), seconds=10), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        running.__enter__()
    with Lease.acquire(repository, 0):
        running.__exit__(None, None, None)


def test_the_mark_outlives_its_holder_and_a_shorter_one_replaces_it(repository: Path) -> None:
    with Lease.acquire(repository, 0) as lease:
        assert lease.read() == b""
        lease.mark(b'{"proposal": "a long one"}')
        lease.mark(b'{"proposal": "1"}')
    with Lease.acquire(repository, 0) as lease:
        assert lease.read() == b'{"proposal": "1"}'
        lease.clear()
    with Lease.acquire(repository, 0) as lease:
        assert lease.read() == b""
    run(Call(repository, ("rev-parse", "--is-bare-repository"), seconds=10))


def test_the_first_holder_flushes_the_folder_that_the_lease_is_in(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease_file(repository).unlink(missing_ok=True)
    flushed: list[Path] = []
    monkeypatch.setattr(lease, "flush", flushed.append)
    for _ in range(2):
        with Lease.acquire(repository, 0):
            pass
    assert flushed == [repository.parent]


def test_a_mark_that_finds_no_room_for_all_of_it_is_refused(repository: Path) -> None:
    with Lease.acquire(repository, 0) as held:
        if (child := os.fork()) == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # what is beyond is not written, as on a full disk
            try:
                held.mark(b"longer than ten bytes", lasting=True)
            except OSError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""The git program runs with nothing inherited and ends when its time is over."""

import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.repositories.git import Call, GitFailed, GitTimeout, init_bare, masked, run, started


def test_a_hostile_environment_and_home_change_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text(
        "[alias]\n\tx = !touch never\n[core]\n\tpager = false\n[placet]\n\tseen = yes\n"
    )
    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "GIT_DIR": "/nonexistent",
        "GIT_OBJECT_DIRECTORY": "/nonexistent",
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "placet.seen",
        "GIT_CONFIG_VALUE_0": "yes",
        "GIT_CONFIG_PARAMETERS": "'placet.seen'='yes'",
    }.items():
        monkeypatch.setenv(name, value)
    listed = run(Call(repository, ("config", "--list"), seconds=10)).decode().splitlines()
    assert not [line for line in listed if line.startswith(("placet", "alias", "core.pager"))]
    assert {"safe.barerepository=explicit", "core.hookspath=/dev/null", "protocol.allow=never"} <= set(listed)


def test_no_transport_is_open_unless_it_is_named(repository: Path, tmp_path: Path) -> None:
    init_bare(tmp_path / "other.git", "refs/heads/main")
    arguments = ("ls-remote", "--end-of-options", str(tmp_path / "other.git"))
    with pytest.raises(GitFailed, match="transport 'file' not allowed"):
        run(Call(repository, arguments, seconds=10))
    assert run(Call(repository, arguments, seconds=10, protocols=("file",))) == b""


def test_a_failure_names_the_command_and_hides_credentials(repository: Path) -> None:
    with pytest.raises(GitFailed) as caught:
        run(Call(repository, ("rev-parse", "--verify", "https://user:s3cret@example.org/"), seconds=10))
    assert (caught.value.command, caught.value.status) == ("rev-parse", 128)
    assert masked(b"fatal: 'https://user:s3cret@example.org/x' and ssh://me@h/") == (
        "fatal: 'https://***@example.org/x' and ssh://***@h/"
    )
    assert len(masked(b"x" * 10_000)) == 2_000


def test_input_and_output_go_through(repository: Path) -> None:
    oid = run(Call(repository, ("hash-object", "--stdin"), seconds=10), stdin=b"x" * 1_000_000)
    assert len(oid) == 41


def test_a_child_that_takes_too_long_ends_with_its_whole_group(repository: Path, tmp_path: Path) -> None:
    """An alias gives git a child and a grandchild that would run for a minute."""
    sleeper = f"alias.wait=!sleep 60 & echo $! > {tmp_path}/pid; wait"
    begun = time.monotonic()
    with pytest.raises(GitTimeout):
        run(Call(repository, ("wait",), seconds=5.0, settings=(sleeper,)))
    assert time.monotonic() - begun < 40
    grandchild = int((tmp_path / "pid").read_text())
    assert _has_ended(grandchild)


def _has_ended(number: int) -> bool:
    try:
        process = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


def test_a_child_dies_with_its_parent(repository: Path, git: Callable) -> None:
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        call = Call(repository, ("cat-file", "--batch"), seconds=60)
        with started(call, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            os.write(write, str(process.pid).encode())
            os.dup2(process.stdin.fileno(), 200, inheritable=True)  # its input stays open in nobody but us
            os._exit(0)
    os.close(write)
    child = int(os.read(read, 20))
    os.close(read)
    os.waitpid(parent, 0)
    assert _has_ended(child)


def test_a_new_repository_is_one_for_git_and_is_not_made_over_another(repository: Path, git: Callable) -> None:
    assert git(repository, "rev-parse", "--is-bare-repository", "--show-object-format") == b"true\nsha1"
    assert git(repository, "symbolic-ref", "HEAD") == b"refs/heads/main"
    assert git(repository, "config", "--get-all", "transfer.hideRefs") == b"refs/proposals\nrefs/restore"
    assert git(repository, "fsck", "--strict") == b""
    assert repository.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        init_bare(repository, "refs/heads/main")

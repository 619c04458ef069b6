"""Run the git program: nothing inherited, nothing interpreted, nothing left running.

A child sees a fixed environment and a fixed configuration, is called with an argument list, heads a session of its
own without a terminal, dies with the thread that started it, and ends with its whole process group at the deadline.
The lease's descriptor can be handed on, so that an orphan keeps the lease (DESIGN, "Exactly once" step 1).

Source: git(1), "Environment Variables"; git-config(1), `safe.bareRepository`, `core.hooksPath`, `protocol.allow`.
"""

import ctypes
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from service.kit.errors import Code, Refusal
from service.repositories.durable import flush, flush_tree, write_new

ENVIRONMENT: Mapping[str, str] = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
}
"""The whole environment of a child (THREATS G09)."""

SETTINGS = ("safe.bareRepository=explicit", f"core.hooksPath={os.devnull}", "core.fsmonitor=false")

CONFIG = """\
[core]
	repositoryFormatVersion = 0
	bare = true
	fileMode = true
	fsync = all
	fsyncMethod = fsync
	logAllRefUpdates = false
	hooksPath = /dev/null
	protectHFS = true
	protectNTFS = true
[gc]
	auto = 0
[maintenance]
	auto = false
[receive]
	fsckObjects = true
	autoGc = false
[transfer]
	hideRefs = refs/proposals
	hideRefs = refs/restore
	unpackLimit = 1
[uploadpack]
	allowAnySHA1InWant = false
"""
"""A repository's configuration. There is no reflog: the service's own table of ref moves is that."""

STDERR_MOST = 2_000
"""Bytes of a child's complaint that are kept."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else lambda *_: 0


class GitFailed(Refusal):
    """git ended with an error. A caller hears only that the repository could not be read.

    Args:
        command: the subcommand.
        status: its exit status; negative for a signal.
        stderr: the end of what it said, without credentials; for the log, never for a caller.
    """

    def __init__(self, command: str, status: int, stderr: str) -> None:
        super().__init__(Code.REPOSITORY_DAMAGED, "The git program could not do it.")
        self.command = command
        self.status = status
        self.stderr = stderr

    def __str__(self) -> str:
        return f"git {self.command} ended with {self.status}: {self.stderr}"


class GitTimeout(GitFailed):
    """git was killed with its process group because its time was over."""


@dataclass(frozen=True)
class Call:
    """One call of the git program on one repository.

    Attributes:
        repository: the bare repository's folder.
        arguments: subcommand, options, `--end-of-options` or `--`, and the rest.
        seconds: how long it may run.
        settings: further `key=value` for `-c`.
        environment: what to set besides ENVIRONMENT.
        protocols: the transports it may use; none unless said.
        lease: the descriptor of the repository's lease, for the child to keep.
    """

    repository: Path
    arguments: Sequence[str | bytes]
    seconds: float
    settings: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    protocols: Sequence[str] = ()
    lease: int | None = None

    @property
    def command(self) -> str:
        """The subcommand's name."""
        return os.fsdecode(self.arguments[0])

    def line(self) -> list[str | bytes]:
        """The argument list."""
        allowed = ("protocol.allow=never", *(f"protocol.{name}.allow=always" for name in self.protocols))
        options = [part for setting in (*SETTINGS, *allowed, *self.settings) for part in ("-c", setting)]
        return ["git", f"--git-dir={self.repository}", *options, *self.arguments]


def run(call: Call, *, stdin: bytes = b"", answers: Sequence[int] = (0,)) -> bytes:
    """Run to the end and return what it wrote.

    Args:
        call: what to run.
        stdin: what it reads.
        answers: the exit statuses that are no failure.

    Raises:
        GitTimeout: it ran longer than `call.seconds`.
        GitFailed: it ended with another status.
    """
    with started(call, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(stdin, timeout=call.seconds)
        except subprocess.TimeoutExpired:
            raise GitTimeout(call.command, -signal.SIGKILL, "out of time") from None
        check(call, process.returncode, err, answers)
        return bytes(out)


def watch(call: Call, heard: Callable[[bytes], None]) -> None:
    """Run to the end and hand on what it says on the way, for its progress; what it writes is dropped.

    Args:
        call: what to run.
        heard: called with each piece of its stderr.

    Raises:
        GitTimeout: it ran longer than `call.seconds`.
        GitFailed: it ended with another status than 0.
    """
    until = time.monotonic() + call.seconds
    tail = b""
    with started(call, stderr=subprocess.PIPE) as process:
        for stream, chunk in follow(process, until):
            if stream == "stderr":
                tail = (tail + chunk)[-STDERR_MOST:]
                heard(chunk)
        try:
            check(call, process.wait(max(0.0, until - time.monotonic())), tail)
        except subprocess.TimeoutExpired:
            raise GitTimeout(call.command, -signal.SIGKILL, "out of time") from None


def check(call: Call, status: int, stderr: bytes, answers: Sequence[int] = (0,)) -> None:
    """Raise GitFailed unless the exit status is one of `answers`."""
    if status not in answers:
        raise GitFailed(call.command, status, masked(stderr))


def masked(stderr: bytes) -> str:
    """The end of a complaint, without the credentials of any URL in it."""
    return _CREDENTIALS.sub("***@", stderr[-STDERR_MOST:].decode("utf-8", "replace")).strip()


@contextmanager
def started(call: Call, *, stdin: int = subprocess.DEVNULL, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
    """A running child with its output in a pipe; whatever of its process group is left is killed with the block."""
    process = subprocess.Popen(
        call.line(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**ENVIRONMENT, **call.environment},
        cwd="/",
        pass_fds=() if call.lease is None else (call.lease,),
        start_new_session=True,
        preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509  one C call, looked up before the fork
    )
    with process:
        try:
            yield process
        finally:
            _end(process)


def _die_with(parent: int) -> Callable[[], None]:
    def hook() -> None:
        _PRCTL(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it died between the fork and the line above
            os._exit(1)

    return hook


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:  # not reaped yet, so the number still names this group
        os.killpg(process.pid, signal.SIGKILL)


def follow(process: subprocess.Popen[bytes], until: float) -> Iterator[tuple[str, bytes]]:
    """What a child writes, as it comes: ("stdout" or "stderr", some bytes). Ends early, quietly, at the deadline.

    Args:
        process: a child whose pipes nobody else reads.
        until: the deadline, in `time.monotonic()` seconds.
    """
    with selectors.DefaultSelector() as selector:
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, name)
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if chunk := os.read(key.fd, 65_536):
                    yield key.data, chunk
                else:
                    selector.unregister(key.fileobj)


def init_bare(path: Path, default_branch: str) -> None:
    """Make an empty bare repository (SHA-1, files backend) that is on the disk when this returns.

    Args:
        path: where; the folder above it exists.
        default_branch: the full name of the branch that HEAD names, `refs/heads/main`.

    Raises:
        FileExistsError: something is there.
    """
    path.mkdir(mode=0o700)
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    write_new(path / "config", CONFIG.encode())
    write_new(path / "HEAD", f"ref: {default_branch}\n".encode())
    flush_tree(path)
    flush(path.parent)

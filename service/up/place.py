"""The data directory of `placet up`, and how a command reaches the database that belongs to it.

    up.lock          held (flock) while `placet up` runs
    run.json         how to reach what runs; mode 0600, for it names the database's password
    secret           signs cursors; made once, mode 0600
    keys-secret      opens the keys that sign commits; likewise, and never shown to the web process
    keys-secret.old  the one before it, put here by hand until `placet keys rewrap` has run
    repositories/    the Git repositories
    web.log, writer.log, notifier.log, postgres.log

All of it is for its owner alone.
"""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from service.kit.postgres import ADMIN, EmbeddedPostgres

DATA_DIR, DATA_DIR_VARIABLE = ".placet", "PLACET_DATA_DIR"
SECRET_BYTES = 32
LOCK_ATTEMPTS = 10
LOCK_PAUSE_SECONDS = 0.02


class UpRefused(Exception):
    """What was asked cannot be done here; a stable code and one sentence for the person at the terminal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Running:
    """What `run.json` says of a running service."""

    pid: int
    issuer: str
    database_url: str
    repositories: str


@dataclass(frozen=True)
class Reach:
    """How a command reaches the service's state. `issuer` is None where nothing says it."""

    database_url: str
    repositories: Path
    issuer: str | None


@dataclass(frozen=True)
class Place:
    """A data directory."""

    data_dir: Path

    @property
    def repositories(self) -> Path:
        return self.data_dir / "repositories"

    @property
    def secret(self) -> Path:
        return self.data_dir / "secret"

    @property
    def keys_secret(self) -> Path:
        return self.data_dir / "keys-secret"

    def keys_settings(self) -> dict[str, str]:
        """The settings by which keys are opened here; empty where there is no secret yet."""
        files = {"PLACET_KEYS_SECRET_FILE": self.keys_secret, "PLACET_KEYS_OLD_SECRET_FILE": self._old_keys_secret}
        return {name: str(path) for name, path in files.items() if path.exists()}

    @property
    def _old_keys_secret(self) -> Path:
        return self.data_dir / "keys-secret.old"

    def log(self, name: str) -> Path:
        return self.data_dir / f"{name}.log"

    def prepare(self) -> None:
        """Make the directory and its secrets where they are missing."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.repositories.mkdir(mode=0o700, exist_ok=True)
        for path in (self.secret, self.keys_secret):
            if not path.exists():
                _write(path, secrets.token_bytes(SECRET_BYTES))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Be the one `placet up` of this directory.

        Raises:
            UpRefused: another one is.
        """
        with self._lock_file() as lock:
            if not _locked(lock):
                raise UpRefused("already_running", self._who())
            self._run_json.unlink(missing_ok=True)
            try:
                yield
            finally:
                self._run_json.unlink(missing_ok=True)

    def announce(self, running: Running) -> None:
        """Let other commands find what runs."""
        _write(self._run_json, json.dumps(asdict(running)).encode())

    def running(self) -> Running | None:
        """What runs here now, or None. What a killed service left behind is not believed.

        Raises:
            UpRefused: it is just starting or stopping.
        """
        if not self.data_dir.is_dir():
            return None
        with self._lock_file() as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        try:
            return Running(**json.loads(self._run_json.read_bytes()))
        except FileNotFoundError:
            message = f"Placet is just starting or stopping in {self.data_dir}; try again in a moment."
            raise UpRefused("not_ready", message) from None

    @contextmanager
    def reach(self) -> Iterator[Reach]:
        """Reach the database: the one of `DATABASE_URL`, of what runs here, or an embedded one for this long.

        Raises:
            UpRefused: there is none of these.
            PostgresUnavailable: the embedded one cannot start, for one because another command uses it.
        """
        running = self.running()
        if url := os.environ.get("DATABASE_URL"):
            repositories = Path(os.environ.get("PLACET_REPOSITORIES") or self.repositories)
            yield Reach(url, repositories, os.environ.get("PLACET_ISSUER") or (running and running.issuer) or None)
        elif running:
            yield Reach(running.database_url, Path(running.repositories), running.issuer)
        elif (self.data_dir / "postgres").is_dir():
            with EmbeddedPostgres(self.data_dir) as server:
                yield Reach(server.url(ADMIN), self.repositories, None)
        else:
            message = f"There is no service in {self.data_dir}: start it with `placet up`, or set DATABASE_URL."
            raise UpRefused("no_service", message)

    @property
    def _run_json(self) -> Path:
        return self.data_dir / "run.json"

    @contextmanager
    def _lock_file(self) -> Iterator[int]:
        lock = os.open(self.data_dir / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield lock
        finally:
            os.close(lock)

    def _who(self) -> str:
        with suppress(OSError, ValueError, KeyError):
            pid = json.loads(self._run_json.read_bytes())["pid"]
            return f"Placet already runs in {self.data_dir} (process {pid})."
        return f"Placet already starts in {self.data_dir}."


def _locked(lock: int) -> bool:
    """Take the lock. Another command may hold it for the moment of a look, so once is not enough."""
    for _ in range(LOCK_ATTEMPTS):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(LOCK_PAUSE_SECONDS)
    return False


def _write(path: Path, content: bytes) -> None:
    """Write for this user alone, whole or not at all."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)

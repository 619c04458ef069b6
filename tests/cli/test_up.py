"""`placet up`: starts, stays up, and leaves nothing behind."""

import asyncio
import io
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from rich.console import Console

from service.scenario.agent import Agent
from service.scenario.owner import Loopback, Owner
from service.up.progress import ForPeople, Ready
from service.up.typed import typed
from tests.cli.service_under_test import Service, empty_database, environment, family, gone, quick, service, until

NAMES = {
    "mcp_url",
    "issuer",
    "owner_url",
    "owner_email",
    "repository_path",
    "tenant",
    "repository_id",
    "database_url",
    "data_dir",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for the tests that leave it as it was."""
    with service(tmp_path_factory.mktemp("up") / "data") as started:
        yield started


def test_it_says_in_one_line_of_json_how_to_use_it(running: Service) -> None:
    assert set(running.ready) == NAMES
    assert running.ready["issuer"].startswith("http://localhost:")
    assert running.ready["mcp_url"] == f"{running.ready['issuer']}/mcp"
    assert running.ready["owner_url"].startswith(f"{running.ready['issuer']}/sign-in?link=")
    assert "propose_file_import" in running.tools()


def test_the_demo_repository_is_made_of_real_files(running: Service) -> None:
    path = running.ready["repository_path"]
    listed = subprocess.run(
        ("git", f"--git-dir={path}", "ls-tree", "-r", "--name-only", "main"), capture_output=True, text=True, check=True
    )
    assert {"README.md", "shop/basket.py", ".github/workflows/test.yml"} <= set(listed.stdout.split())
    subprocess.run(("git", f"--git-dir={path}", "fsck", "--strict"), capture_output=True, check=True)


def test_only_its_owner_can_read_its_data(running: Service) -> None:
    data_dir = Path(running.ready["data_dir"])
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    for name in ("secret", "run.json"):
        assert stat.S_IMODE((data_dir / name).stat().st_mode) == 0o600


def test_both_names_of_the_loopback_answer(running: Service) -> None:
    port = httpx.URL(running.ready["issuer"]).port
    hosts = ["127.0.0.1", "[::1]"] if socket.has_ipv6 and _has_ipv6() else ["127.0.0.1"]
    for host in hosts:
        assert httpx.get(f"http://{host}:{port}/readyz").status_code == 200


def test_a_second_one_in_the_same_place_is_refused(running: Service) -> None:
    second = running.run("up", "--port", "0")
    assert second.returncode == 1
    assert "already_running" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_that_is_taken_is_named(running: Service, tmp_path: Path) -> None:
    port = str(httpx.URL(running.ready["issuer"]).port)
    second = quick("up", "--port", port, "--data-dir", str(tmp_path / "other"))
    assert second.returncode == 1
    assert f"Port {port} is taken" in second.stderr


def test_the_command_for_another_link_works_as_it_is_printed(
    running: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(Path(sys.executable).with_name("placet")), "up"])
    out = Console(file=io.StringIO())
    ForPeople(out, out.status("Starting")).ready(Ready(**running.ready))
    assert isinstance(out.file, io.StringIO)
    [command] = re.findall("another link: (.+)", out.file.getvalue())
    done = subprocess.run(("sh", "-c", command), env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{running.ready['issuer']}/sign-in?link=")


@pytest.mark.parametrize(
    ("called", "path", "data", "line"),
    [
        ("{here}/.venv/bin/placet", "", ".placet", ".venv/bin/placet owner list"),
        (".venv/bin/placet", "", "{here}/some where", ".venv/bin/placet owner list --data-dir 'some where'"),
        ("{here}/.venv/bin/placet", "{here}/.venv/bin", ".placet", "placet owner list"),
        ("{here}/placet", "", ".placet", "./placet owner list"),
        ("/x/bin/placet", "", "/x", "/x/bin/placet owner list --data-dir /x"),
    ],
)
def test_a_command_is_said_as_short_as_it_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, called: str, path: str, data: str, line: str
) -> None:
    for program in (tmp_path / ".venv/bin/placet", tmp_path / "placet"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLACET_DATA_DIR", raising=False)
    monkeypatch.setenv("PATH", path.format(here=tmp_path))
    monkeypatch.setattr(sys, "argv", [called.format(here=tmp_path), "up"])
    assert typed("owner", "list", data_dir=Path(data.format(here=tmp_path))) == line


def test_where_a_variable_says_the_data_directory_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACET_DATA_DIR", ".placet")
    assert typed("owner", "list", data_dir=Path(".placet")).endswith(" owner list --data-dir .placet")


@pytest.mark.parametrize("name", ["web", "writer", "notifier"])
def test_what_is_killed_runs_again_within_a_second(running: Service, name: str) -> None:
    before = child(running, name)
    killed = time.clock_gettime(time.CLOCK_BOOTTIME)
    before.kill()
    assert started_at(child(running, name, other_than=before)) - killed < 1
    assert running.tools(30)


def child(service: Service, name: str, other_than: psutil.Process | None = None) -> psutil.Process:
    """The service's process of this name, as soon as it is there and is not that one."""
    found: list[psutil.Process] = []

    def is_there() -> bool:
        now = service.children().get(name)
        found.extend([now] if now is not None and now != other_than else [])
        return bool(found)

    until(is_there, 30)
    return found[0]


def started_at(process: psutil.Process) -> float:
    """When the kernel started a process, in seconds of CLOCK_BOOTTIME. Source: proc(5), `starttime`."""
    after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[19]) / os.sysconf("SC_CLK_TCK")


def test_a_killed_database_runs_again_for_those_who_use_it(tmp_path: Path) -> None:
    with service(tmp_path / "data") as started:
        until(lambda: set(started.children()) == {"postgres", "web", "writer", "notifier"})
        before = started.children()
        asyncio.run(_reads_before_and_after_a_kill(started))
        after = started.children()
        assert after["postgres"].pid != before["postgres"].pid
        assert after["web"].pid == before["web"].pid
        assert "demo" in started.run("tenant", "list").stdout
        processes, sockets = family(started.process), Path(started.ready["data_dir"], "postgres.socket").readlink()
        assert started.stop() == 0
        assert started.process.stderr
        said = started.process.stderr.read()
    assert said.count("PostgreSQL was ended by SIGKILL; started again") == 1
    assert gone(processes)
    assert not sockets.exists()


async def _reads_before_and_after_a_kill(started: Service) -> None:
    """An agent reads a file, the database is killed, and when the service is ready again the agent reads it again."""
    issuer, repository = started.ready["issuer"], started.ready["repository_id"]
    async with httpx.AsyncClient(base_url=issuer, timeout=30, transport=Loopback()) as http:
        owner, agent = Owner(http), Agent(http, started.ready["mcp_url"])
        await owner.sign_in(started.ready["owner_url"])
        await agent.connect(owner, repository, "Robot")
        wanted = {"repository_id": repository, "view": "file", "path": "README.md"}
        read = await agent.call("read_repository", **wanted)
        assert "code" not in read
        killed = started.children()["postgres"]
        killed.kill()
        await asyncio.to_thread(until, lambda: started.children().get("postgres", killed).pid != killed.pid)
        await asyncio.to_thread(until, lambda: _status(started) == 200)
        assert await agent.call("read_repository", **wanted) == read


def _status(started: Service) -> int:
    with started.http() as http:
        return http.get("/readyz").status_code


def test_its_children_ignore_the_terminal(running: Service) -> None:
    until(lambda: set(running.children()) == {"postgres", "web", "writer", "notifier"})
    sessions = {os.getsid(child.pid) for child in running.children().values()}
    assert len(sessions) == 4
    assert os.getsid(running.process.pid) not in sessions


def test_ctrl_c_ends_everything_and_the_next_start_finds_its_data(tmp_path: Path) -> None:
    place = ("--data-dir", str(tmp_path / "data"))
    assert "no_service" in quick("tenant", "list", *place).stderr
    with service(tmp_path / "data") as first:
        processes = family(first.process)
        sockets = (tmp_path / "data" / "postgres.socket").readlink()
        assert first.stop(signal.SIGINT) == 0
    assert gone(processes)
    assert not sockets.exists()
    assert not (tmp_path / "data" / "run.json").exists()
    # Commands start the database for themselves, and stop it again.
    assert "demo" in quick("tenant", "list", *place).stdout
    assert "issuer_unknown" in quick("owner", "link", "a@x.org", *place).stderr
    assert not (tmp_path / "data" / "postgres.socket").is_symlink()
    with service(tmp_path / "data") as second:
        assert second.ready["repository_id"] == first.ready["repository_id"]
        assert second.ready["owner_url"].partition("link=")[2] != first.ready["owner_url"].partition("link=")[2]
        assert second.stop(signal.SIGTERM) == 0


def test_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with service(tmp_path / "data") as first:
        processes = family(first.process)
        first.process.kill()
        until(lambda: gone(processes))
    with service(tmp_path / "data") as second:
        assert second.tools()
        assert not Path(first.ready["database_url"].partition("host=")[2].partition("&")[0]).exists()
        assert second.stop(signal.SIGHUP) == 0


def test_a_database_of_ones_own_is_used_where_there_is_one(tmp_path: Path, cluster_url: str) -> None:
    with empty_database(cluster_url) as url:
        with service(tmp_path / "data", DATABASE_URL=url) as started:
            assert started.ready["database_url"] == url
            assert set(started.children()) == {"web", "writer", "notifier"}
            assert started.tools()
        other = quick("up", "--port", "0", "--data-dir", str(tmp_path / "other"), DATABASE_URL=url)
    assert other.returncode == 1
    assert "wrong_data_dir" in other.stderr


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("nonsense", "bad_setting"),
        ("postgresql://nobody:x@127.0.0.1:1/none", "database_unreachable"),
        ("postgresql://nobody:x@nowhere.invalid/none", "database_unreachable"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence(tmp_path: Path, url: str, code: str) -> None:
    failed = quick("up", "--port", "0", "--data-dir", str(tmp_path / "data"), DATABASE_URL=url)
    assert failed.returncode == 1
    assert code in failed.stderr
    assert "Traceback" not in failed.stderr


def _has_ipv6() -> bool:
    return any(address.address == "::1" for found in psutil.net_if_addrs().values() for address in found)

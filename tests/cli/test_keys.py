"""`placet keys` on a running service: the demo's commits are signed, and who sees what opens their key."""

import asyncio
import json
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil
import pytest

from service.kit.sealed import Sealer
from service.scenario.agent import Agent
from service.scenario.owner import Loopback, Owner
from tests.cli.service_under_test import Service, quick, service
from tests.stage import ENVIRONMENT, git
from tests.verifying import only_with_ssh_keygen

OLD, NEW = "keys-secret.old", "keys-secret"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("keys") / "data") as started:
        yield started


@pytest.fixture(scope="module")
def ask(running: Service) -> Callable[..., Any]:
    def run(*words: str) -> Any:
        done = running.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def refused(done: Any) -> str:
    """The code of a command that failed in one sentence."""
    assert done.returncode == 1
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    return str(done.stderr.strip().rpartition("[")[2].rstrip("]"))


def live_keys(running: Service) -> list[asyncpg.Record]:
    async def read() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(running.ready["database_url"].replace("+asyncpg", ""))
        try:
            return list(await connection.fetch("SELECT tenant, id, sealed FROM signing_key WHERE state = 'live'"))
        finally:
            await connection.close()

    return asyncio.run(read())


def test_the_demos_commits_are_signed_from_the_first_start(ask: Callable[..., Any]) -> None:
    [key] = ask("keys", "list", "--tenant", "demo")
    assert (key["state"], key["retired_at"]) == ("live", None)
    text = ask("keys", "allowed-signers", "--tenant", "demo")["allowed_signers"]
    assert text.startswith('placet@localhost namespaces="git" ssh-ed25519 ')


@only_with_ssh_keygen
def test_the_way_that_the_readme_shows_ends_in_a_good_signature(running: Service, tmp_path: Path) -> None:
    asyncio.run(_approve_one(running))
    (tmp_path / "allowed-signers").write_text(running.run("keys", "allowed-signers", "--tenant", "demo").stdout)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", running.ready["repository_path"], str(clone))
    command = ["git", "-c", f"gpg.ssh.allowedSignersFile={tmp_path / 'allowed-signers'}", "verify-commit", "main"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith('Good "git" signature for placet@localhost with ED25519 key SHA256:')


async def _approve_one(running: Service) -> None:
    async with httpx.AsyncClient(base_url=running.ready["issuer"], timeout=30, transport=Loopback()) as http:
        owner, agent = Owner(http), Agent(http, running.ready["mcp_url"])
        await owner.sign_in(running.ready["owner_url"])
        await agent.connect(owner, running.ready["repository_id"], "Robot")
        shown = await agent.call(
            "propose_file_import",
            repository_id=running.ready["repository_id"],
            branch="main",
            message="Say when we deliver",
            reason="Customers ask.",
            files=[{"path": "docs/DELIVERY.md", "content": "On Fridays.\n", "action": "create"}],
            idempotency_key="signed-one",
        )
        done = (await owner.decide(shown["proposal_id"], "approve")).json()
        assert done["status"] == "executed", done


def test_what_is_printed_for_people_is_the_file_itself(running: Service, ask: Callable[..., Any]) -> None:
    printed = running.run("keys", "allowed-signers", "--tenant", "demo").stdout
    assert printed == ask("keys", "allowed-signers", "--tenant", "demo")["allowed_signers"]


def test_a_key_is_made_changed_and_ended(running: Service, ask: Callable[..., Any]) -> None:
    ask("tenant", "add", "acme")
    acme = ("--tenant", "acme")
    assert ask("keys", "list", *acme) == []
    assert refused(running.run("keys", "rotate", *acme)) == "not_found"
    first = ask("keys", "create", *acme)
    assert first["fingerprint"].startswith("SHA256:")
    assert first["allowed_signers"] == ask("keys", "allowed-signers", *acme)["allowed_signers"].strip()
    assert refused(running.run("keys", "create", *acme)) == "name_taken"
    second = ask("keys", "rotate", *acme)
    states = {key["fingerprint"]: key["state"] for key in ask("keys", "list", *acme)}
    assert states == {first["fingerprint"]: "retired", second["fingerprint"]: "live"}
    old, new = ask("keys", "allowed-signers", *acme)["allowed_signers"].splitlines()
    assert "valid-before=" in old
    assert new == second["allowed_signers"]
    assert ask("keys", "off", *acme) == {"sign_commits": False, "retired": True}
    assert [key["state"] for key in ask("keys", "list", *acme)] == ["retired", "retired"]
    third = ask("keys", "create", *acme)
    assert third["fingerprint"] not in states


def test_only_the_writer_is_told_where_the_secret_is(running: Service) -> None:
    secret = Path(running.ready["data_dir"], NEW)
    assert secret.stat().st_mode & 0o777 == 0o600
    children = running.children()
    assert str(secret) in children["writer"].environ().values()
    assert not any("KEYS" in name for name in children["web"].environ())
    assert str(secret) not in children["web"].environ().values()
    content = secret.read_bytes()
    for process in psutil.Process(running.process.pid).children(recursive=True):
        words = " ".join((*process.cmdline(), *process.environ().values())).encode("utf-8", "surrogateescape")
        assert content not in words
        assert content.hex().encode() not in words


def test_an_executor_leaves_no_core(running: Service) -> None:
    executors = running.children()["writer"].children()
    assert executors
    for executor in executors:
        assert resource.prlimit(executor.pid, resource.RLIMIT_CORE) == (0, 0)


def test_every_key_is_sealed_anew_while_both_secrets_are_at_hand(running: Service, ask: Callable[..., Any]) -> None:
    folder = Path(running.ready["data_dir"])
    (folder / NEW).rename(folder / OLD)
    (folder / NEW).touch(0o600)
    (folder / NEW).write_bytes(b"n" * 32)
    tenants = ask("tenant", "list")
    assert set(ask("keys", "rewrap")["sealed_anew"]) == {row["name"] for row in tenants}
    (folder / OLD).unlink()
    assert ask("keys", "rewrap")["sealed_anew"] == []
    for row in live_keys(running):
        assert len(Sealer(b"n" * 32).open(row["sealed"], row["tenant"], row["id"])) == 32
    (folder / NEW).write_bytes(b"z" * 32)
    assert refused(running.run("keys", "rewrap")) == "signing_key_unusable"


def test_a_secret_that_is_missing_or_open_to_others_is_none(running: Service, tmp_path: Path) -> None:
    given = {"DATABASE_URL": running.ready["database_url"]}
    here = ("keys", "rotate", "--tenant", "demo", "--data-dir", str(tmp_path))
    assert refused(quick(*here, **given)) == "keys_secret_missing"
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 32)
    secret.chmod(0o644)
    assert refused(quick(*here, **given, PLACET_KEYS_SECRET_FILE=str(secret))) == "bad_setting"
    secret.chmod(0o600)
    assert refused(quick(*here, **given, PLACET_KEYS_OLD_SECRET_FILE=str(secret))) == "bad_setting"
    assert quick(*here, **given, PLACET_KEYS_SECRET_FILE=str(secret)).returncode == 0
    secret.write_bytes(b"short")
    assert refused(quick(*here, **given, PLACET_KEYS_SECRET_FILE=str(secret))) == "bad_setting"

"""The administration commands: on what runs, on what does not, and what they say when they cannot."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from service.scenario.agent import Agent
from service.scenario.owner import Loopback, Owner
from tests.cli.service_under_test import Service, empty_database, environment, placet, quick, service

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("administration") / "data") as started:
        yield started


@pytest.fixture(scope="module")
def ask(running: Service) -> Callable[..., Any]:
    """Run a command that must succeed, in JSON, in the demo's tenant."""

    def run(*words: str) -> Any:
        done = running.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def refuse(running: Service) -> Callable[..., str]:
    """Run a command that must fail: one sentence on standard error with a code, and nothing on standard output."""

    def run(*words: str) -> str:
        done = running.run(*words)
        assert done.returncode == 1
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1
        return done.stderr.strip().rpartition("[")[2].rstrip("]")

    return run


@pytest.fixture(scope="module")
def connect(running: Service, ask: Callable[..., Any]) -> Callable[[], str]:
    """Give an agent called Robot a connection through the consent page, and its id."""

    def run() -> str:
        _connect(running, ask)
        return str(ask("connection", "list", "--tenant", "demo")[-1]["id"])

    return run


def _connect(running: Service, ask: Callable[..., Any]) -> None:
    [person] = [one for one in ask("owner", "list", "--tenant", "demo") if one["role"] == "owner"]
    link = ask("owner", "link", person["email"])["owner_url"]

    async def connect() -> None:
        async with httpx.AsyncClient(base_url=running.ready["issuer"], timeout=30, transport=Loopback()) as http:
            owner, agent = Owner(http), Agent(http, running.ready["mcp_url"])
            await owner.sign_in(link)
            await agent.connect(owner, running.ready["repository_id"], "Robot")

    asyncio.run(connect())


def _source(path: Path, branches: int = 2) -> Path:
    for words in (
        ("init", "-q", "-b", "main", str(path)),
        *(
            ("-C", str(path), "-c", "user.name=A", "-c", "user.email=a@x.org", "commit", "-q", "--allow-empty", "-mx")
            for _ in range(2)
        ),
        *(("-C", str(path), "branch", f"b{number}") for number in range(branches)),
        ("-C", str(path), "tag", "v1"),
    ):
        subprocess.run(("git", *words), check=True, capture_output=True)
    return path


def test_a_tenants_limits_are_set_within_bounds(ask: Callable[..., Any], refuse: Callable[..., str]) -> None:
    ask("tenant", "add", "limited")
    ask("tenant", "set", "limited", "--restore-seconds", "86400", "--pending-most", "5")
    [row] = [one for one in ask("tenant", "list") if one["name"] == "limited"]
    assert (row["restore_seconds"], row["pending_most"], row["proposal_seconds"]) == (86_400, 5, 86_400)
    assert [entry["kind"] for entry in ask("ledger", "list", "--tenant", "limited")][-1:] == ["tenant.limits"]
    for wrong in (("--restore-seconds", "1"), ("--pending-most", "0"), ("--proposal-seconds", "999999999"), ()):
        assert refuse("tenant", "set", "limited", *wrong) == "invalid_argument"
    ask("tenant", "revoke", "limited")


def test_a_tenant_with_project_owner_and_repository_is_made_by_hand(ask: Callable[..., Any], tmp_path: Path) -> None:
    source = _source(tmp_path / "tool")
    acme = ("--tenant", "acme")
    ask("tenant", "add", "acme")
    ask("project", "add", "site", *acme)
    ask("owner", "add", "Ann@Example.org", "--name", "Ann Other", *acme)
    made = ask("repo", "import", str(source), *acme)
    assert made["name"] == "tool"
    assert (made["branches"], made["tags"], made["default_branch"]) == (3, 1, "main")
    refs = subprocess.run(
        ("git", f"--git-dir={made['path']}", "for-each-ref", "--format=%(refname)"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert refs.stdout.split() == ["refs/heads/b0", "refs/heads/b1", "refs/heads/main", "refs/tags/v1"]
    [listed] = ask("repo", "list", *acme)
    assert listed["agents_may_propose"] is False
    ask("repo", "agents-may-propose", "tool", "on", *acme)
    [listed] = ask("repo", "list", *acme)
    assert listed["agents_may_propose"] is True
    for switch in ("on", "off"):
        assert ask("repo", "signed-approvals", "tool", switch, *acme)["signed_approvals"] is (switch == "on")
    [owner] = ask("owner", "list", *acme)
    assert (owner["email"], owner["role"], owner["state"]) == ("ann@example.org", "owner", "live")
    loose = _store_loose(Path(made["path"]))
    assert ask("repo", "maintain", "tool", *acme) == {"id": made["id"]}
    until = time.monotonic() + PATIENCE_SECONDS
    while loose.exists() and time.monotonic() < until:
        os.sched_yield()
    assert not loose.exists()


def _store_loose(repository: Path) -> Path:
    """Store a loose object; its file, which goes when the writer has maintained the repository."""
    command = ("git", f"--git-dir={repository}", "hash-object", "-w", "--stdin")
    name = subprocess.run(command, input="loose\n", capture_output=True, text=True, check=True).stdout.strip()
    path = repository / "objects" / name[:2] / name[2:]
    assert path.exists()
    return path


def test_what_cannot_be_imported_is_named_and_leaves_nothing(
    running: Service, refuse: Callable[..., str], ask: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no repository")
    (tmp_path / "empty").mkdir()
    before = sorted(Path(running.ready["data_dir"], "repositories").rglob("*.git"))
    demo = ("--tenant", "demo")
    for source in ("/nowhere", str(tmp_path / "file"), str(tmp_path / "empty"), "http://127.0.0.1:1/x.git", "x://y"):
        assert refuse("repo", "import", source, *demo) == "not_a_repository"
    assert refuse("repo", "import", str(_source(tmp_path / "storefront")), *demo) == "name_taken"
    assert refuse("repo", "import", str(_source(tmp_path / "s")), "--name", "a\nb", *demo) == "text_rejected"
    assert sorted(Path(running.ready["data_dir"], "repositories").rglob("*.git")) == before
    assert [row["name"] for row in ask("repo", "list", *demo)] == ["storefront"]


def test_states_and_roles_change_and_revoked_is_for_ever(ask: Callable[..., Any], refuse: Callable[..., str]) -> None:
    demo = ("--tenant", "demo")
    ask("owner", "add", "bo@example.org", "--name", "Bo", "--role", "reader", *demo)
    ask("owner", "role", "bo@example.org", "maintainer", *demo)
    for word, state in (("pause", "paused"), ("resume", "live"), ("revoke", "revoked")):
        assert ask("owner", word, "bo@example.org", *demo)["state"] == state
    assert refuse("owner", "resume", "bo@example.org", *demo) == "forbidden"
    for group, name in (("repo", "storefront"), ("project", "orchard"), ("tenant", "demo")):
        more = () if group == "tenant" else demo
        assert ask(group, "pause", name, *more)["state"] == "paused"
        assert ask(group, "resume", name, *more)["state"] == "live"


def test_a_connection_is_narrowed_and_stopped(
    ask: Callable[..., Any], refuse: Callable[..., str], connect: Callable[[], str]
) -> None:
    demo, connected = ("--tenant", "demo"), connect()
    clause = (connected, "deny", "path", ".github/**")
    ask("connection", "policy", "add", *clause, *demo)
    assert ask("connection", "policy", "list", connected, *demo) == [
        {"effect": "deny", "subject": "path", "pattern": ".github/**"}
    ]
    assert refuse("connection", "policy", "add", *clause, *demo) == "name_taken"
    for subject, pattern in (("operation", "nope"), ("path", "["), ("path", "/a"), ("branch", "")):
        words = ("connection", "policy", "add", connected, "deny", subject, pattern)
        assert refuse(*words, *demo) == "invalid_argument"
    ask("connection", "policy", "remove", *clause, *demo)
    assert ask("connection", "policy", "list", connected, *demo) == []
    assert refuse("connection", "policy", "remove", *clause, *demo) == "not_found"
    assert ask("connection", "pause", "Robot", *demo)["state"] == "paused"
    assert ask("connection", "revoke", connected, *demo) == {"id": connected, "state": "revoked", "not_stopped": []}


def test_the_name_of_a_revoked_connection_is_free_for_the_next_one(
    ask: Callable[..., Any], refuse: Callable[..., str], connect: Callable[[], str]
) -> None:
    demo = ("--tenant", "demo")
    for row in ask("connection", "list", *demo):
        ask("connection", "revoke", row["id"], *demo)
    first, second = connect(), connect()
    assert refuse("connection", "pause", "Robot", *demo) == "invalid_argument"
    ask("connection", "revoke", first, *demo)
    assert ask("connection", "pause", "Robot", *demo)["id"] == second
    assert ask("connection", "revoke", "Robot", *demo)["id"] == second


def test_what_is_revoked_is_no_choice_but_is_found_by_its_name(running: Service, ask: Callable[..., Any]) -> None:
    for name in {row["name"] for row in ask("tenant", "list")} - {"demo"}:
        ask("tenant", "revoke", name)
    ask("tenant", "add", "two")
    assert "not exactly one tenant: name one with --tenant (demo, two)." in running.run("repo", "list").stderr
    ask("tenant", "revoke", "two")
    assert [row["name"] for row in ask("repo", "list")] == ["storefront"]
    assert ask("tenant", "revoke", "two")["state"] == "revoked"
    assert ask("project", "list", "--tenant", "two") == []


def test_a_project_is_chosen_among_those_that_are_not_revoked(
    running: Service, ask: Callable[..., Any], refuse: Callable[..., str], tmp_path: Path
) -> None:
    ask("tenant", "add", "gardens")
    words = ("repo", "import", str(_source(tmp_path / "tool")), "--tenant", "gardens")
    assert refuse(*words) == "not_found"
    ask("project", "add", "pond", "--tenant", "gardens")
    ask("project", "add", "lawn", "--tenant", "gardens")
    assert "There is not exactly one project: name one with --project (lawn, pond)." in running.run(*words).stderr
    ask("project", "revoke", "pond", "--tenant", "gardens")
    ask(*words)
    assert [row["project"] for row in ask("repo", "list", "--tenant", "gardens")] == ["lawn"]
    ask("tenant", "revoke", "gardens")


def test_a_link_signs_in_once(running: Service, ask: Callable[..., Any]) -> None:
    [owner, *_] = [one for one in ask("owner", "list", "--tenant", "demo") if one["role"] == "owner"]
    url = ask("owner", "link", owner["email"])["owner_url"]
    secret = url.partition("link=")[2]
    with running.http() as http:
        assert http.get(f"/sign-in?link={secret}").status_code == 200
        assert http.post("/sign-in", data={"link": secret}).status_code == 303
        assert http.post("/sign-in", data={"link": secret}).status_code == 401


def test_the_answer_to_owner_add_names_a_command_that_works(running: Service) -> None:
    program, place = str(Path(sys.executable).with_name("placet")), running.ready["data_dir"]
    words = (program, "owner", "add", "cy@example.org", "--name", "Cy", "--tenant", "demo", "--data-dir", place)
    added = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    command = added.stdout.partition("To sign in: ")[2]
    done = subprocess.run(("sh", "-c", command), env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{running.ready['issuer']}/sign-in?link=")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("owner", "link", "nobody@example.org"), "not_found"),
        (("owner", "link", "nonsense"), "invalid_argument"),
        (("owner", "add", "a b@x.org", "--name", "A", "--tenant", "demo"), "invalid_argument"),
        (("owner", "add", "a@x.org", "--name", "A\x1b[1m", "--tenant", "demo"), "text_rejected"),
        (("owner", "role", "nobody@example.org", "owner", "--tenant", "demo"), "not_found"),
        (("tenant", "add", "demo"), "name_taken"),
        (("tenant", "pause", "nobody"), "not_found"),
        (("project", "add", "orchard", "--tenant", "demo"), "name_taken"),
        (("repo", "pause", "nothing", "--tenant", "demo"), "not_found"),
        (("repo", "list", "--tenant", "nobody"), "not_found"),
        (("connection", "revoke", "nobody", "--tenant", "demo"), "not_found"),
    ],
)
def test_what_cannot_be_is_one_sentence_with_a_code(
    refuse: Callable[..., str], words: tuple[str, ...], code: str
) -> None:
    assert refuse(*words) == code


@pytest.mark.parametrize("words", [("frobnicate",), ("repo", "frobnicate"), ("owner", "role", "a@x.org", "king")])
def test_what_was_not_understood_ends_with_status_2(words: tuple[str, ...]) -> None:
    done = quick(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_people_get_tables(running: Service) -> None:
    shown = running.run("tenant", "list")
    head, *rows = shown.stdout.splitlines()
    assert head.split()[:3] == ["id", "name", "state"]
    assert head.endswith("waiting at most  restore points are kept (s)  told before it expires (s)")
    assert any("demo" in row for row in rows)


def test_the_details_of_a_ledger_entry_are_json_for_people_and_scripts(
    running: Service, ask: Callable[..., Any]
) -> None:
    first = ask("ledger", "list", "--tenant", "demo")[0]
    assert (first["kind"], first["details"]) == ("tenant.added", {"name": "demo"})
    assert '{"name":"demo"}' in running.run("ledger", "list", "--tenant", "demo").stdout


@pytest.mark.parametrize("name", ["", ".git", ".", "..", ".hidden", "a/b", "/a", "a\\b"])
def test_a_repository_is_not_called_what_an_address_reads_otherwise(
    running: Service, refuse: Callable[..., str], tmp_path: Path, name: str
) -> None:
    before = sorted(Path(running.ready["data_dir"], "repositories").rglob("*.git"))
    words = ("repo", "import", str(_source(tmp_path / "s")), "--tenant", "demo", "--name", name)
    assert refuse(*words) == "invalid_argument"
    assert sorted(Path(running.ready["data_dir"], "repositories").rglob("*.git")) == before


def test_an_import_says_what_came(running: Service, ask: Callable[..., Any], tmp_path: Path) -> None:
    ask("tenant", "add", "lake")
    ask("project", "add", "shore", "--tenant", "lake")
    done = running.run("repo", "import", str(_source(tmp_path / "what")), "--tenant", "lake")
    assert done.stdout.endswith("Branches: 3, tags: 1, default branch: main.\n")


def test_a_changed_entry_is_found(running: Service, ask: Callable[..., Any], refuse: Callable[..., str]) -> None:
    assert {row["chain"] for row in ask("ledger", "verify")} == {"intact"}
    entries = ask("ledger", "list", "--tenant", "demo")
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    tamper = "UPDATE ledger_entry SET body = replace(body, $2, $3) WHERE tenant = $1 AND seq = 2"
    tenant = running.ready["tenant"]
    asyncio.run(_as_superuser(running, tamper, tenant, "orchard", "vineyard"))
    assert refuse("ledger", "verify") == "ledger_broken"
    asyncio.run(_as_superuser(running, tamper, tenant, "vineyard", "orchard"))
    assert {row["chain"] for row in ask("ledger", "verify")} == {"intact"}


def test_migrate_makes_a_database_ready(tmp_path: Path, cluster_url: str) -> None:
    missing = quick("tenant", "list", "--data-dir", str(tmp_path), DATABASE_URL=cluster_url)
    assert (missing.returncode, "schema_missing" in missing.stderr) == (1, True)
    with empty_database(cluster_url) as url:
        assert placet("migrate", "--data-dir", str(tmp_path), DATABASE_URL=url).returncode == 0
        assert quick("tenant", "list", "--data-dir", str(tmp_path), DATABASE_URL=url).returncode == 0


async def _as_superuser(running: Service, statement: str, *values: Any) -> None:
    """Execute where no trigger stands in the way."""
    connection = await asyncpg.connect(running.ready["database_url"].replace("postgresql+asyncpg", "postgresql", 1))
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(statement, *values)
    finally:
        await connection.close()

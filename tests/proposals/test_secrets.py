"""Secrets in what is proposed: seen before the decision, told by kind and line only, let through with a reason only."""

import base64
import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Row, text

from service.contract.data import Json
from service.contract.plan import Note
from service.contract.world import OutOfTime
from service.kit import leaks
from service.kit.errors import Code, Refusal
from service.kit.leaks import Leak
from service.proposals import scanning
from service.proposals.news import read_news
from service.proposals.planning import Planned, load_card
from service.proposals.withheld import WITHHELD
from service.publish.words import message_of
from tests.kinds import KINDS, canary
from tests.planned import Bench
from tests.stage import ISSUER, REGISTRY, House, Web, git

pytestmark = pytest.mark.anyio
OPERATIONS = REGISTRY.operations()
OLD = canary()
BASE = {
    "app.py": ("100644", f'a = 1\ntoken = "{OLD}"\nb = 2\n'.encode()),
    "old.py": ("100644", f'gone = "{OLD}"\n'.encode()),
    f"keys/{OLD}/one.txt": ("100644", b"1\n"),
    "lib": ("160000", b"1" * 40),
}
REASON = "It is revoked, and the test needs its shape."


@pytest.fixture(scope="module", name="bench")
def bench_fixture(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.made(tmp_path_factory.mktemp("secrets"), OPERATIONS["propose_file_import"], BASE)


def imports(bench: Bench, *files: Json, **more: Any) -> Planned:
    sent = {"message": "Change files", "files": list(files) or [{"path": "n.txt", "content": "n\n"}], **more}
    return bench.plan(bench.ask(sent))


def secrets(planned: Planned) -> list[Note]:
    return [note for note in load_card(planned.card).warnings if note.code == "secret"]


def places(planned: Planned) -> dict[str, set[int]]:
    return {note.at: {line for _, line in note.params["found"]} for note in secrets(planned)}


# Where they are found


@pytest.mark.parametrize("secret", KINDS.values(), ids=KINDS.keys())
def test_each_kind_in_a_new_file_is_a_warning_that_wants_a_reason_and_does_not_say_it(
    bench: Bench, secret: str
) -> None:
    planned = imports(bench, {"path": "new.txt", "content": f"one\n{secret}\n"})
    [note] = secrets(planned)
    assert (note.name, note.params["where"], note.params["reason"]) == ("secret:new.txt", "content", True)
    assert {line for _, line in note.params["found"]} <= {2, 3}
    assert not any(word in planned.card for word in secret.split() if len(word) > 20)


def test_two_files_give_two_findings_and_each_line_is_named(bench: Bench) -> None:
    one, two = (f'\nx = "{canary()}"\n' * 2 for _ in range(2))
    found = places(imports(bench, {"path": "a.py", "content": one}, {"path": "b.py", "content": two}))
    assert found == {"a.py": {2, 4}, "b.py": {2, 4}}


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"message": "Add {}"}, "//message"),
        ({"reason": "Because\nof {}."}, "//reason"),
        ({"files": [{"path": "k/{}.txt", "content": "x\n"}]}, "//path"),
        ({"files": [{"path": "{}/x", "content": "x\n"}]}, "//path"),
        ({"files": [{"path": "{}", "from_path": "old.py", "action": "rename"}]}, "//path"),
        ({"files": [{"path": "c.b64", "content": "<base64>"}]}, "c.b64"),
        ({"files": [{"path": "u.txt", "content": "<utf-16>", "encoding": "base64"}]}, "u.txt"),
        ({"files": [{"path": "app.py", "content": 'a = 1\nb = "{}"\n', "action": "update"}]}, "app.py"),
    ],
)
def test_a_secret_is_found_wherever_a_proposal_can_have_one(bench: Bench, change: Json, at: str) -> None:
    secret = canary()
    coded = {
        "<base64>": base64.b64encode(f"token = {secret}\n".encode()).decode(),
        "<utf-16>": base64.b64encode(f"token = {secret}\n".encode("utf-16")).decode(),
    }
    filled = json.dumps(change).replace("{}", secret)
    for name, value in coded.items():
        filled = filled.replace(name, value)
    planned = imports(bench, **json.loads(filled))
    assert [note.at for note in secrets(planned)] == [at]
    assert at.startswith("//path") or secret not in json.dumps([note.model_dump() for note in secrets(planned)])


def test_a_secret_in_the_name_of_a_new_branch_is_refused(bench: Bench) -> None:
    branches = Bench(bench.path, OPERATIONS["propose_branch"])
    refusal = branches.refused({"branch": f"x/{canary()}", "source": "main"})
    assert (refusal.code, refusal.details["rule"]) == (Code.REF_REJECTED, "secret")


def test_a_patch_and_a_merge_bring_what_they_bring(bench: Bench) -> None:
    secret = canary()
    patch = f'--- a/app.py\n+++ b/app.py\n@@ -3,1 +3,2 @@\n b = 2\n+c = "{secret}"\n'
    patches = Bench(bench.path, OPERATIONS["propose_patch"])
    assert places(patches.plan(patches.ask({"message": "Patch", "patch": patch}))) == {"app.py": {4}}
    side = b"commit refs/heads/side\ncommitter C <c@example.org> 1 +0000\ndata 0\n\nfrom refs/heads/main\n"
    content = f'x\ny\nkey = "{secret}"\n'.encode()
    git(
        bench.path,
        "fast-import",
        "--quiet",
        stdin=side + b"M 100644 inline s.py\ndata %d\n%s\n" % (len(content), content),
    )
    merges = Bench(bench.path, OPERATIONS["propose_merge"])
    assert places(merges.plan(merges.ask({"source": "side"}))) == {"s.py": {3}}


def test_what_a_plan_brings_and_takes_away_again_is_found_in_between(bench: Bench) -> None:
    one = {"path": "gone.py", "content": f'x = "{canary()}"\n'}
    steps = [
        {"kind": "propose_file_import", "arguments": {"branch": "main", "message": "One", "files": [one]}},
        {
            "kind": "propose_file_import",
            "arguments": {"branch": "main", "message": "Two", "files": [{"path": "gone.py", "action": "delete"}]},
        },
        {
            "kind": "propose_file_import",
            "arguments": {"branch": "main", "message": "Three", "files": [{"path": "z", "content": "z\n"}]},
        },
    ]
    plans = Bench(bench.path, OPERATIONS["propose_plan"])
    request = plans.operation.request.model_validate(
        {"repository_id": str(UUID(int=1)), "reason": "Because.", "steps": steps}
    )
    assert places(plans.plan(request)) == {"gone.py": {1}}


# What is nothing new


@pytest.mark.parametrize(
    "file",
    [
        {"path": "app.py", "content": f'a = 1\ntoken = "{OLD}"\nb = 3\n', "action": "update"},
        {"path": "app.py", "content": f'token = "{OLD}"\nb = 2\n\n\na = 1\n', "action": "update"},
        {"path": "app.py", "content": "a = 1\nb = 2\n", "action": "update"},
        {"path": "app.py", "action": "delete"},
        {"path": "moved.py", "from_path": "app.py", "action": "rename"},
        {"path": f"keys/{OLD}/two.txt", "content": "2\n"},
    ],
)
def test_what_the_base_has_and_what_goes_is_no_finding(bench: Bench, file: Json) -> None:
    assert secrets(imports(bench, file)) == []


def test_known_secrets_do_not_hide_a_new_one_behind_them(bench: Bench) -> None:
    moved = "".join(f'x{number} = "{OLD}"\n' for number in range(30))
    content = moved + f'y = "{canary()}"\n'
    assert places(imports(bench, {"path": "app.py", "content": content, "action": "update"})) == {"app.py": {31}}


# Many, and the rest of the card


def test_many_files_are_one_warning_that_still_wants_a_reason(bench: Bench) -> None:
    files = [{"path": f"f{number}.py", "content": f'x = "{canary()}"\n'} for number in range(12)]
    [note] = [note for note in load_card(imports(bench, *files).card).warnings if note.at == "secret"]
    assert (note.code, note.params["count"], note.params["reason"]) == ("many_alike", 12, True)
    other = [{**files[0], "content": f'\nx = "{canary()}"\n'}, *files[1:]]
    [again] = [note for note in load_card(imports(bench, *other).card).warnings if note.at == "secret"]
    assert again.params["sha256"] != note.params["sha256"]


def test_the_gravest_warnings_stand_first(bench: Bench) -> None:
    files = [
        {"path": "old.py", "action": "delete"},
        {"path": "hidden.txt", "content": "a\u200bb\n"},
        {"path": "Makefile", "content": "all:\n"},
        {"path": "z.txt", "content": f'x = "{canary()}"\n'},
    ]
    found = [note.code for note in load_card(imports(bench, *files).card).warnings]
    assert found == ["secret", "runs_or_redirects", "hidden_characters", "deletes_file"]


def test_much_that_is_no_text_is_said_not_to_be_searched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "BINARY_BYTES", 100)
    content = base64.b64encode(b"\0" * 101).decode()
    planned = imports(bench, {"path": "b.bin", "content": content, "encoding": "base64"})
    assert "not_searched:b.bin" in [note.name for note in load_card(planned.card).warnings]


async def test_a_file_that_is_called_secret_is_none(house: House) -> None:
    shown = await house.propose(house.arguments({"path": "secret", "content": "x\n", "mode": "100755"}))
    assert shown["secrets"] is None


async def test_what_is_withheld_stays_so_where_many_files_have_secrets(house: House) -> None:
    secret = canary()
    files = [{"path": f"{secret}/f{number}.py", "content": f'x = "{canary()}"\n'} for number in range(12)]
    shown = await house.propose(house.arguments(*files, message=f"Add {secret}", reason=f"For {secret}."))
    assert secret not in json.dumps(shown)
    assert len([one for one in shown["secrets"] if one["where"] == "content"]) == 12
    plain = [{**file, "path": f"f{number}.py"} for number, file in enumerate(files)]
    shown = await house.propose(house.arguments(*plain))
    assert [one["path"] for one in shown["secrets"]] == sorted(file["path"] for file in plain)


# The decision


def asked(secret: str, **more: Any) -> Json:
    return {"message": "Add it", "files": [{"path": "k.py", "content": f'x = "{secret}"\n'}], **more}


async def test_a_secret_is_let_through_with_a_reason_only_which_is_written_down(house: House) -> None:
    shown = await house.propose(house.arguments(**asked(canary())))
    for reason in ("", " "):
        with pytest.raises(Refusal) as caught:
            await house.decide(shown, reason=reason)
        assert caught.value.code in {Code.REASON_MISSING, Code.TEXT_REJECTED}
    with pytest.raises(Refusal) as caught:
        await house.decide(shown, acknowledged=frozenset(), reason=REASON)
    assert caught.value.details["warnings"] == ["secret:k.py"]
    with pytest.raises(Refusal) as caught:
        await house.decide(shown, reason=f"It is {canary()}")
    assert (caught.value.code, caught.value.details["field"]) == (Code.TEXT_REJECTED, "reason")
    assert (await house.decide(shown, reason=REASON)).state == "approved"
    [row] = await rows(house, "SELECT reason FROM decision WHERE proposal = :id", shown)
    [entry] = await rows(house, "SELECT body FROM ledger_entry WHERE body LIKE '%decision.approve%'", shown)
    assert row.reason == REASON
    assert REASON in entry.body


async def test_who_declines_gives_no_reason_and_none_is_kept(house: House) -> None:
    shown = await house.propose(house.arguments(**asked(canary())))
    assert (await house.decide(shown, "decline", reason=f"Not {canary()}")).state == "declined"
    [row] = await rows(house, "SELECT reason FROM decision WHERE proposal = :id", shown)
    assert row.reason == ""


async def test_a_reason_is_for_secrets_and_nobody_else_needs_one(house: House) -> None:
    shown = await house.propose()
    assert "secrets" not in shown or shown["secrets"] is None
    assert (await house.decide(shown)).state == "approved"


async def test_what_newer_rules_find_stops_an_approval_and_the_agent_proposes_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = leaks._OWN
    monkeypatch.setattr(leaks, "_OWN", ())  # the rules of an earlier version
    arguments = house.arguments({"path": "u.txt", "content": KINDS["url"] + "\n"})
    shown = await house.propose(arguments)
    assert shown["secrets"] is None
    monkeypatch.setattr(leaks, "_OWN", own)
    with pytest.raises(Refusal) as caught:
        await house.decide(shown, reason=REASON)
    assert (caught.value.code, caught.value.details["warnings"]) == (Code.SECRETS_SINCE, ["secret:u.txt"])
    assert (await house.read(shown))["status"] == "pending"
    await house.decide(shown, "changes", note="Propose it again.")
    again = await house.propose(arguments)
    assert (await house.decide(again, reason=REASON)).state == "approved"


async def test_who_has_no_time_to_search_neither_proposes_nor_approves(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = await house.propose()
    monkeypatch.setattr(scanning, "SCAN_SECONDS", -1)
    with pytest.raises(Refusal) as caught:
        await house.decide(shown)
    assert caught.value.code is Code.OUT_OF_TIME
    assert (await house.read(shown))["status"] == "pending"
    monkeypatch.setattr(scanning, "find_leaks", _never_ends)
    with pytest.raises(Refusal) as caught:
        await house.propose()
    assert caught.value.code is Code.OUT_OF_TIME


def _never_ends(_text: str, _check_time: object, _lines: object = None) -> Iterator[Leak]:
    raise OutOfTime


async def test_the_secret_is_in_no_log_ledger_notice_or_answer(house: House, caplog: pytest.LogCaptureFixture) -> None:
    secret = canary()
    caplog.set_level(logging.DEBUG)
    path = {"path": f"k/{secret}.sh", "content": f'x = "{secret}"\n', "mode": "100755"}
    shown = await house.propose(house.arguments(path, message=f"Add {secret}", reason=f"For {secret}."))
    with pytest.raises(Refusal):
        await house.decide(shown)
    await house.decide(shown, reason=REASON)
    await house.execute(shown)
    listed = await house.call("list_proposals", {})
    told = [shown, listed, await house.read(shown), *await notice(house, shown)]
    for table in ("ledger_entry", "notice_queue", "work_queue"):
        told += [tuple(row) for row in await rows(house, f"SELECT * FROM {table}", shown)]  # noqa: S608  of these
    assert (await house.read(shown))["status"] == "executed"
    assert [one for one in told if secret.lower() in repr(one).lower()] == []
    assert secret not in caplog.text
    assert (shown["message"], shown["reason"], shown["received"][0]["path"]) == (WITHHELD,) * 3
    assert {(one["where"], one["line"]) for one in shown["secrets"]} >= {("message", 1), ("reason", 1), ("path", 1)}


async def notice(house: House, shown: Json) -> list[object]:
    async with house.stage.app_db.bound(house.tenant) as tx:
        news = await read_news(tx, UUID(shown["proposal_id"]))
    return [news, message_of("waiting", news, ISSUER, house.tenant)]


async def rows(house: House, statement: str, shown: Json) -> list[Row[Any]]:
    async with house.stage.owner_db.bound(house.tenant) as tx:
        asked_for = {"id": UUID(shown["proposal_id"])} if ":id" in statement else {}
        return list((await tx.execute(text(statement), asked_for)).all())


async def test_the_page_asks_for_the_reason_and_the_api_takes_it(web: Web, house: House) -> None:
    secret = canary()
    shown = await house.propose(house.arguments(**asked(secret)))
    browser, card = await web.browser(house.owner), f"/proposals/{shown['proposal_id']}"
    page = (await web.http.get(card, headers=browser)).text
    assert 'name="reason" form="decision" required' in page
    warnings = page.partition('class="warnings"')[2].partition("</section>")[0]
    assert "k.py" in warnings
    assert secret not in warnings
    told = (await web.http.get(f"/api/v1{card}", headers=browser)).json()
    assert secret not in json.dumps(told["warnings"])
    form = {"verdict": "approve", "card_digest": shown["card_digest"], "acknowledged": ["secret:k.py"], "reason": ""}
    answer = await web.http.post(f"/api/v1{card}/decision", headers=browser, json=form)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "reason_missing")
    answer = await web.http.post(f"{card}/decision", headers=browser, data=form)
    assert answer.status_code == 409
    answer = await web.http.post(
        f"{card}/decision", headers=browser, data={**form, "acknowledged": [], "reason": REASON}
    )
    assert f'value="{REASON}"' in answer.text

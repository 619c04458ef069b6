"""Patches and mails as agents send them: what is refused, with which code, and what lands."""

import base64
import quopri
import random
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from service.contract.mail import DEPTH_MOST, HEADER_BYTES, PARTS_MOST, is_mail, read_mail
from service.contract.patches import patched_files
from service.contract.plan import Outcome
from service.kit.canonical import sha256
from service.kit.errors import Code, Refusal
from service.proposals.planning import load_card, load_plan
from service.tools.propose.propose_patch import OPERATION, PATCH_CHARACTERS
from tests.planned import Bench, File, notes, warnings
from tests.stage import ENVIRONMENT, git

LINES = "".join(f"line {number}\n" for number in range(1, 31))
BASE: Mapping[str, File] = {
    "README.md": ("100644", b"# Orchard\n"),
    "app.py": ("100644", LINES.encode()),
    "docs/one.md": ("100644", b"1\n"),
    "run.sh": ("100755", b"#!/bin/sh\n"),
    "link": ("120000", b"app.py"),
    "folder": ("120000", b"docs"),
    "lib": ("160000", b"1" * 40),
    "caf\u00e9.txt": ("100644", b"a\n"),
    "win.txt": ("100644", b"x\r\ny\r\n"),
    **dict.fromkeys((".gitmodules", "sub/.GitModules", "GITMOD~1", ".gitmodules "), ("100644", b"[a]\n")),
}
EDIT = (
    "diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n@@ -4,3 +4,3 @@\n line 4\n-line 5\n+line five\n line 6\n"
)


@pytest.fixture(scope="module", name="bench")
def bench_fixture(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.made(tmp_path_factory.mktemp("patch"), OPERATION, BASE)


SUBMODULE = (
    f"diff --git a/lib b/lib\nindex {'1' * 7}..{'2' * 7} 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n"
    f"-Subproject commit {'1' * 40}\n+Subproject commit {'2' * 40}\n"
)


def made(path: str, mode: str = "100644", text: str = "new") -> str:
    end = "\n\\ No newline at end of file" if mode == "120000" else ""
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}{end}\n"


def gone(path: str, mode: str, text: str) -> str:
    return (
        f"diff --git a/{path} b/{path}\ndeleted file mode {mode}\n--- a/{path}\n+++ /dev/null\n"
        f"@@ -1 +0,0 @@\n-{text}\n\\ No newline at end of file\n"
    )


def ask(bench: Bench, patch: str, **more: Any) -> Any:
    return bench.ask({"message": "Apply a patch", "patch": patch, **more})


def refused(bench: Bench, patch: str, **more: Any) -> Refusal:
    return bench.refused({"message": "Apply a patch", "patch": patch, **more})


def test_a_diff_lands_as_one_commit_by_the_connection(bench: Bench, tmp_path: Path) -> None:
    landing = bench.copy(tmp_path)
    planned = landing.land(ask(bench, EDIT))
    assert git(landing.path, "show", "main:app.py").decode() == LINES.replace("line 5\n", "line five\n")
    assert git(landing.path, "log", "-1", "--format=%an %s", "main").decode() == "Claude (conn-1) Apply a patch\n"
    shown = notes(planned)["app.py"]
    assert (shown.code, shown.params["added"], shown.params["removed"]) == ("file_updated", 1, 1)


def test_the_card_shows_the_renames_that_the_patch_names_and_no_others(bench: Bench) -> None:
    renamed = "diff --git a/app.py b/src/app.py\nsimilarity index 90%\nrename from app.py\nrename to src/app.py\n"
    moved = notes(bench.plan(ask(bench, renamed + EDIT.split("\n", 1)[1].replace("+++ b/", "+++ b/src/"))))
    assert {path: note.code for path, note in moved.items()} == {"src/app.py": "file_renamed"}
    assert moved["src/app.py"].params["old_path"] == "app.py"
    copied = "diff --git a/app.py b/copy.py\nsimilarity index 100%\ncopy from app.py\ncopy to copy.py\n"
    assert {path: note.code for path, note in notes(bench.plan(ask(bench, copied))).items()} == {
        "copy.py": "file_created"
    }
    apart = gone("run.sh", "100755", "#!/bin/sh").replace("\\ No newline at end of file\n", "")
    apart += made("go.sh", "100755", "#!/bin/sh")
    assert {note.code for note in notes(bench.plan(ask(bench, apart))).values()} == {"file_created", "file_deleted"}


def test_what_hides_in_a_patch_is_warned_of(bench: Bench) -> None:
    patch = EDIT.replace("line five", "line \u202efive") + made(".github/workflows/ci.yml") + made("x.sh", "100755")
    assert warnings(bench.plan(ask(bench, patch, message="Apply \u200b"))) == [
        "runs_or_redirects:.github/workflows/ci.yml",
        "hidden_characters://message",
        "hidden_characters:app.py",
        "becomes_executable:x.sh",
    ]


@pytest.mark.parametrize(
    ("patch", "code", "at", "params"),
    [
        (EDIT.replace(" line 6", " no"), Code.PATCH_REJECTED, "app.py", {"why": "context", "line": 4}),
        (EDIT.replace("app.py", "no.py"), Code.PATCH_REJECTED, "no.py", {"why": "missing"}),
        (made("app.py"), Code.PATCH_REJECTED, "app.py", {"why": "exists"}),
        (made("docs"), Code.PATCH_REJECTED, "docs", {"why": "occupied"}),
        (made("app.py/x"), Code.PATCH_REJECTED, "app.py/x", {"why": "occupied"}),
        (made("folder/x"), Code.PATCH_REJECTED, "folder/x", {"why": "beyond_symlink"}),
        (made("new", "120000", "/etc/passwd"), Code.PATCH_REJECTED, "new", {"why": "symlink"}),
        (gone("link", "120000", "app.py") + made("link"), Code.PATCH_REJECTED, "link", {"why": "symlink"}),
        (gone("link", "120000", "app.py") + made("link", "120000"), Code.PATCH_REJECTED, "link", {"why": "symlink"}),
        (made("new", "160000", f"Subproject commit {'2' * 40}"), Code.PATCH_REJECTED, "new", {"why": "submodule"}),
        (SUBMODULE, Code.PATCH_REJECTED, "lib", {"why": "submodule"}),
        ("Hello.\n", Code.PATCH_REJECTED, "", {"why": "empty"}),
        (EDIT.replace("-4,3", "-4,9"), Code.PATCH_REJECTED, "", {"why": "malformed", "line": 9}),
        (made("readme.MD"), Code.PATH_REJECTED, "readme.MD", {"rule": "twin", "field": "patch"}),
        (made("n/A") + made("n/a"), Code.PATH_REJECTED, "n/a", {"rule": "twin"}),
        (EDIT.replace("+line five", "+line 5"), Code.NOTHING_TO_CHANGE, "main", {}),
    ],
)  # fmt: skip
def test_what_cannot_be_applied_is_refused_with_where_and_why(
    bench: Bench, patch: str, code: Code, at: str, params: dict[str, object]
) -> None:
    refusal = refused(bench, patch)
    assert (refusal.code, refusal.details["at"]) == (code, at)
    assert refusal.details.items() >= params.items()


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "/etc/x", "a//b", "./a", ".git/hooks/post-commit", ".GIT/config", ".git.", "git~1", "C:\\x", "a\\b"),
        *(
            "a/" * 20_000 + "x",
            "%2e%2e%2fx",
            "a\0b",
            "x" * 2_049,
            "aux.txt",
            ".gitmodules",
            "a/ b",
            "caf\u0065\u0301",
            "a\u202eb",
            "-x",
        ),
    ],
)
def test_a_path_that_no_proposal_may_make_is_not_made_by_a_patch_either(bench: Bench, path: str) -> None:
    for patch in (
        made(path),
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n",
        f"diff --git a/app.py b/{path}\nsimilarity index 100%\nrename from app.py\nrename to {path}\n",
    ):
        assert refused(bench, patch).code in {Code.PATH_REJECTED, Code.PATCH_REJECTED}


@pytest.mark.parametrize("path", [".gitmodules", "sub/.GitModules", "GITMOD~1", ".gitmodules "])
def test_what_passes_for_the_settings_of_submodules_is_not_changed_by_a_patch(bench: Bench, path: str) -> None:
    names = f"--- a/{path}\t\n+++ b/{path}\t\n"
    head = f"diff --git a/{path} b/{path}\n"
    for patch in (
        f"{head}{names}@@ -1 +1,2 @@\n [a]\n+url = ext::sh -c evil\n",
        f"{head}deleted file mode 100644\n--- a/{path}\t\n+++ /dev/null\n@@ -1 +0,0 @@\n-[a]\n",
        f"{head}old mode 100644\nnew mode 100755\n",
        f"diff --git a/{path} b/x\nsimilarity index 100%\nrename from {path}\nrename to x\n",
    ):
        refusal = refused(bench, patch)
        assert (refusal.code, refusal.details["field"]) == (Code.PATH_REJECTED, "patch")


def test_a_symbolic_link_may_be_taken_away_and_a_submodule_may_not(bench: Bench) -> None:
    assert notes(bench.plan(ask(bench, gone("link", "120000", "app.py"))))["link"].code == "file_deleted"
    sub = gone("lib", "160000", f"Subproject commit {'1' * 40}").replace("\\ No newline at end of file\n", "")
    assert refused(bench, sub).details["why"] == "submodule"


def test_policy_is_asked_for_the_paths_that_change_before_anything_is_read(bench: Bench) -> None:
    patch = (
        EDIT + "diff --git a/run.sh b/go.sh\nsimilarity index 100%\nrename from run.sh\nrename to go.sh\n"
        "diff --git a/README.md b/c.md\nsimilarity index 100%\ncopy from README.md\ncopy to c.md\n"
        'diff --git "a/caf\\303\\251.txt" "b/caf\\303\\251.txt"\nold mode 100644\nnew mode 100755\n'
    )
    request = ask(bench, patch)
    assert OPERATION.targets(request) == (
        ("refs/heads/main",),
        (b"app.py", b"run.sh", b"go.sh", b"c.md", "caf\u00e9.txt".encode()),
    )
    assert set(bench.plan(request).paths) == set(OPERATION.targets(request)[1])


def test_a_patch_of_just_the_size_that_is_allowed_is_taken_and_one_more_is_refused(bench: Bench) -> None:
    patch = made("big.txt", text="x" * (PATCH_CHARACTERS - len(made("big.txt", text=""))))
    assert notes(bench.plan(ask(bench, patch)))["big.txt"].code == "file_created"
    refusal = refused(bench, patch + "\n")
    assert (refusal.details["field"], refusal.details["limit"]) == ("patch", PATCH_CHARACTERS)


def test_the_answer_says_what_arrived_byte_for_byte(bench: Bench) -> None:
    sent = MAIL + "\u00e9"
    assert OPERATION.received(bench.ask({"patch": sent})) == [
        {"path": "patch", "bytes": len(MAIL) + 2, "sha256": sha256(sent.encode())}
    ]


def test_another_base_than_expected_is_refused(bench: Bench) -> None:
    assert refused(bench, EDIT, expected_base_oid="1" * 40).code is Code.BASE_MOVED
    assert refused(bench, EDIT, branch="none").code is Code.BRANCH_MISSING


def test_undoing_is_reverting(bench: Bench) -> None:
    plan = load_plan(bench.plan(ask(bench, EDIT)).plan)
    wish = OPERATION.undo(Outcome(request={"branch": "main"}, moves=plan.effects, commits=(plan.commits[0].id,)))
    assert wish is not None
    assert (wish.kind, wish.arguments["commits"]) == ("propose_revert", [plan.commits[0].id])


# Mails

BODY = f"It reads better.\n---\n app.py | 2 +-\n\n{EDIT}-- \n2.39.5\n"
HEAD = (
    "From: Somebody Else <else@example.org>\nSubject: [PATCH v2 1/2] Say five\nDate: Tue, 1 Dec 2026 10:00:00 +0000\n"
)
MAIL = f"{HEAD}\n{BODY}"
SWEET = "S\u00fc\u00df "


def encoded(body: str) -> str:
    """The end of a mail's head, and its body."""
    return f"Content-Transfer-Encoding: base64\n\n{base64.encodebytes(body.encode()).decode()}"


NESTED = "From: a\n" + "".join(
    f"Content-Type: multipart/mixed; boundary=x{depth}\n\n--x{depth}\n" for depth in range(3_000)
)
MBOX = "From 1234567890123456789012345678901234567890 Mon Sep 17 00:00:00 2001\n"


@pytest.mark.parametrize(
    "mail",
    [
        MAIL,
        MBOX + MAIL,
        MAIL.replace("\n", "\r\n"),
        "\n" + MAIL,
        f"{HEAD}{encoded(BODY)}",
        f"{HEAD}Content-Transfer-Encoding: quoted-printable\n\n{quopri.encodestring(BODY.encode()).decode()}",
        f"{HEAD.replace('Say five', '=?UTF-8?q?Say?= =?UTF-8?b?IGZpdmU=?=')}\n{BODY}",
    ],
)
def test_a_mail_gives_its_message_and_not_its_author(bench: Bench, mail: str) -> None:
    planned = bench.plan(bench.ask({"patch": mail}))
    assert load_card(planned.card).agent_words["message"] == "Say five\n\nIt reads better."
    (commit,) = load_plan(planned.plan).commits
    assert commit.message == b"Say five\n\nIt reads better."
    assert b"Somebody" not in commit.author


def test_a_message_of_ones_own_goes_before_the_mails(bench: Bench) -> None:
    assert load_plan(bench.plan(ask(bench, MAIL)).plan).commits[0].message == b"Apply a patch"


@pytest.mark.parametrize(
    ("sent", "field", "code"),
    [
        ({"patch": EDIT}, "message", Code.INVALID_ARGUMENT),
        ({"patch": MBOX + MAIL + MBOX + MAIL}, "patch", Code.INVALID_ARGUMENT),
        ({"patch": MBOX + MAIL + MBOX + MAIL, "message": "Both"}, "patch", Code.INVALID_ARGUMENT),
        ({"patch": MAIL.replace("Say five", "=?x-none?q?Say?=")}, "patch", Code.INVALID_ARGUMENT),
        ({"patch": MAIL.replace("Say five", "=?utf-8?b?a?=")}, "patch", Code.INVALID_ARGUMENT),
        ({"patch": NESTED}, "patch", Code.INVALID_ARGUMENT),
        ({"patch": MAIL.replace("It reads better.", "Approved-by: me")}, "patch", Code.TEXT_REJECTED),
        ({"patch": MAIL.replace("It reads better.", "x" * 10_001)}, "patch", Code.TEXT_REJECTED),
        ({"patch": MAIL, "message": "Proposal: x"}, "message", Code.TEXT_REJECTED),
        ({"patch": EDIT, "message": "x", "interactive": True}, "interactive", Code.INVALID_ARGUMENT),
        ({"patch": "", "message": "x"}, "patch", Code.INVALID_ARGUMENT),
    ],
)
def test_what_cannot_be_read_is_refused_naming_the_field(
    bench: Bench, sent: dict[str, Any], field: str, code: Code
) -> None:
    refusal = bench.refused(sent)
    assert (refusal.code, refusal.details["field"]) == (code, field)


@pytest.mark.parametrize(
    "mail",
    [
        f"{HEAD}\n{BODY}",
        f"{HEAD}\n\n\nSubject: Inner\n  one\nFrom: x <y@z>\n\nBody   \n\n\n\nmore\n{BODY}",
        f"{HEAD.replace('[PATCH v2 1/2] ', 'Re: [a] RE:  [PATCH] ')}\n{BODY}",
        f"{HEAD}\n---\n{BODY}",
        f"{HEAD}\nOnly words, and no patch.\n",
        f"{HEAD}\nIndex: app.py\n====\n{EDIT}",
        f"{HEAD}\nSubject: One\nSubject: two\n\nx\n--- not\n{EDIT}",
        f"{HEAD.replace('Say five', 'Say' + chr(10) + '  five')}\n{SWEET}\n{BODY}",
        f"{HEAD}Content-Type: text/plain; charset=UTF-8\n{encoded(SWEET + BODY)}",
    ],
)  # fmt: skip
def test_a_mail_is_read_as_git_mailinfo_reads_it(bench: Bench, tmp_path: Path, mail: str) -> None:
    done = subprocess.run(
        ["git", "mailinfo", "--encoding=UTF-8", "message", "patch"],
        cwd=tmp_path, input=mail.encode(), capture_output=True, check=True, env=ENVIRONMENT,
    )  # fmt: skip
    (subject,) = [line[9:] for line in done.stdout.decode().splitlines() if line.startswith("Subject: ")]
    whole = f"{subject}\n\n{(tmp_path / 'message').read_text()}"
    ours = read_mail(mail.encode())
    assert is_mail(mail.encode())
    assert ours.message == git(tmp_path, "stripspace", stdin=whole.encode()).decode().rstrip("\n")
    assert ours.patch == (tmp_path / "patch").read_bytes()


def test_no_mail_however_it_is_damaged_ends_in_an_error_of_ours() -> None:
    chance = random.Random(5)  # noqa: S311  the same damage every time
    heads = ("Content-Type: multipart/mixed; boundary=x", "Content-Transfer-Encoding: base64", "MIME-Version: 1.0")
    for _ in range(300):
        mail = bytearray(f"{HEAD}{chance.choice(heads)}\n\n--x\n{BODY}--x--\n".encode())
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(mail))
            mail[at : at + chance.randint(0, 3)] = chance.choice(
                [b"", b"\n", b"=?", b"?=", b"\xff", b'"', b";", b":", b"\0"]
            )
        with suppress(Refusal):
            read_mail(bytes(mail))


def parts(depth: int) -> str:
    return "".join(f"Content-Type: multipart/mixed; boundary=x{at}\n\n--x{at}\n" for at in range(depth))


def filled(start: str, more: str) -> str:
    """As long as a patch may be."""
    return start + more * ((PATCH_CHARACTERS - len(start)) // len(more))


BASE64 = f"{HEAD}Content-Transfer-Encoding: base64\n"
MIXED = f"{HEAD}Content-Type: multipart/mixed; boundary=x\n\n"
TOO_MUCH = [
    (filled(f'{HEAD}Content-Type: text/plain; a="', ";"), HEADER_BYTES),
    (filled(f'{MIXED}--x\nContent-Type: text/plain; a="', ";"), HEADER_BYTES),
    (filled(f"{HEAD}X: a\n", " a\n"), HEADER_BYTES),
    (filled(f"{HEAD}Subject: ", "=?a?q?"), HEADER_BYTES),
    (filled(MIXED, "--x\n\n"), PARTS_MOST),
    (filled(f"{HEAD}{parts(900)}", "\n"), DEPTH_MOST),
    (filled(f"{HEAD}Content-Type: message/rfc822\n\n", "Content-Type: message/rfc822\n\n"), DEPTH_MOST),
    (filled(f"{BASE64}Content-Type: text/plain; charset=punycode\n\n", "YWJj"), None),
    (filled(f"{BASE64}Content-Type: text/plain; charset=idna\n\n", "eG4t"), None),
]
JUST_ENOUGH = [
    filled(f'{HEAD}Content-Type: multipart/mixed; a="{";" * 7_700}\n\n', "a\n"),
    filled(f'{BASE64}Content-Type: text/plain; a="{";" * 7_600}\n\n', "YWFh\n"),
    filled(f"{HEAD}{parts(3)}", "\n"),
    filled(f"From: a\nSubject: {'=?utf-8?q?a?= ' * 550}\n\n", "x\n"),
    filled(f"{HEAD}\nSubject: x\n", " a\n"),
    filled(f"{HEAD}\n", "\r"),
    filled(f"{HEAD}\ndiff --git a/", "b "),
]


@pytest.mark.parametrize(("mail", "limit"), TOO_MUCH, ids=range(len(TOO_MUCH)))
def test_a_mail_that_would_take_long_to_read_is_refused_naming_the_limit(
    bench: Bench, mail: str, limit: int | None
) -> None:
    refusal = bench.refused({"patch": mail, "message": "x"})
    assert (refusal.code, refusal.details["field"]) == (Code.INVALID_ARGUMENT, "patch")
    assert refusal.details.get("limit") == limit


def test_no_mail_of_the_size_that_is_allowed_takes_long() -> None:
    before = time.process_time()
    for mail in (*(mail for mail, _ in TOO_MUCH), *JUST_ENOUGH):
        with suppress(Refusal):
            patched_files(read_mail(mail.encode()).patch)
    assert time.process_time() - before < 30


def test_a_mail_is_read_once_however_often_it_is_asked_for(bench: Bench) -> None:
    request = bench.ask({"patch": MAIL})
    assert request.sent() is request.sent()
    assert request.sent().files is request.sent().files


def test_a_mail_with_the_patch_attached_is_read(bench: Bench) -> None:
    parts = BODY.partition("---\n")
    mail = (
        f'{HEAD}MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="xx"\n\nNot this.\n--xx\n'
        f"Content-Type: text/plain; charset=UTF-8\n\n{parts[0]}---\n"
        f"--xx\nContent-Type: text/x-patch\n\n{EDIT}\n--xx--\n"
    )
    planned = bench.plan(bench.ask({"patch": mail}))
    assert load_card(planned.card).agent_words["message"] == "Say five\n\nIt reads better."


@pytest.mark.parametrize(
    "text", [EDIT, "commit 1\nAuthor: x\n\n" + EDIT, "Index: a\n" + EDIT, "", "From here on\n" + EDIT]
)
def test_a_diff_is_no_mail(text: str) -> None:
    assert not is_mail(text.encode())

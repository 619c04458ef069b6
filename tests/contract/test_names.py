"""Hostile paths, refs, texts and names are refused under one stable rule; those that people use are not."""

import itertools
import os
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pygit2
import pytest
from dulwich.index import validate_path_element_default, validate_path_element_hfs, validate_path_element_ntfs
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contract.hidden import is_hidden
from service.contract.names import (
    MODES,
    OWN_TRAILERS,
    check_existing_ref,
    check_message,
    check_mode,
    check_name,
    check_new_branch,
    check_new_path,
    check_new_tag,
    check_oid,
    check_read_path,
    check_text,
    quote_path,
    twin_key,
    unquote_path,
)
from service.kit.errors import Code, Refusal

LAW = settings(derandomize=True, deadline=None, max_examples=150)

USUAL_PATHS = (
    """
README.md|Makefile|src/app/[id].tsx|app/(group)/page.tsx|node/@scope/index.js|src/routes/+page.svelte|#notes.md|R&D.txt
.github/workflows/ci.yml|.gitattributes|.gitignore|.gitlab-ci.yml|.mailmap|docs/a file with spaces.md|notes.txt~
docs/-x.md|a..b|..a|...a|a/..b|100%|100% sure.md|café.txt|naïve/日本語.md|файл.txt|Ελληνικά.md|한국어.md|½.txt|ß.txt
עברית.txt|हिन्दी.md|emoji-😀.md|com10.txt|console.log|auxiliary.c|nullable.py|lpt.txt|.gitfoo|git|a.git/config
git~|~1|~$draft.docx|~user|version~12|backup~old|README~|it's.md|a,b;c.txt|x=1.txt|$(x)|`x`|!important|^caret
{{cookiecutter.name}}/setup.py|com1x/a|.GITHUB/CODEOWNERS|foo%20bar.md|\uff1a\u6ce8\u610f\uff1f.md
""".strip()
    .replace("\n", "|")
    .split("|")
)

HOSTILE_PATHS = [
    ("", "empty_component"),
    (".", "dot_component"),
    ("..", "dot_component"),
    ("./a", "dot_component"),
    ("a/.", "dot_component"),
    ("../x", "dot_component"),
    ("a/../b", "dot_component"),
    ("\u2025/x", "dot_component"),
    ("\uff0e\uff0e/x", "dot_component"),
    ("\u2026", "dot_component"),
    ("...", "trailing_dot"),
    ("/etc/passwd", "leading_slash"),
    ("/etc/x", "leading_slash"),
    ("/", "leading_slash"),
    ("a/", "trailing_slash"),
    ("a//b", "empty_component"),
    (".git", "dot_git"),
    (".GIT", "dot_git"),
    (".GIT/config", "dot_git"),
    (".git/hooks/post-commit", "dot_git"),
    ("a/.Git/x", "dot_git"),
    ("\uff0egit/x", "dot_git"),
    (".\uff27\uff29\uff34/config", "dot_git"),
    (".\U0001d420\U0001d422\U0001d42d", "dot_git"),
    (".git.", "trailing_dot"),
    (".git ", "edge_space"),
    (".git /x", "edge_space"),
    (".git...", "trailing_dot"),
    (".git::$INDEX_ALLOCATION", "colon"),
    (".git\\", "backslash"),
    (".git\\config", "backslash"),
    ("git~1", "short_name"),
    ("GIT~1/config", "short_name"),
    ("git~12345678901", "short_name"),
    ("GITMOD~1", "short_name"),
    ("gi7eba~1", "short_name"),
    ("gi7eb~10", "short_name"),
    ("GITHUB~1/workflows/x.yml", "short_name"),
    ("MAKEFI~1.TXT", "short_name"),
    (".gitmodules", "dot_gitmodules"),
    (".GitModules", "dot_gitmodules"),
    ("sub/.gitmodules", "dot_gitmodules"),
    (".g\u200cit", "hidden_character"),
    (".\ufeffgit", "hidden_character"),
    (".gi\u200dt", "hidden_character"),
    (".g\u202eit", "hidden_character"),
    (".git\u206a", "hidden_character"),
    (".gitmodules\u200c", "hidden_character"),
    ("a\0b", "hidden_character"),
    ("a\nb", "hidden_character"),
    ("a\tb", "hidden_character"),
    ("a\rb", "hidden_character"),
    ("a\x1b[31mb", "hidden_character"),
    ("a\x7fb", "hidden_character"),
    ("a\x85b", "hidden_character"),
    ("a\u2028b", "hidden_character"),
    ("a\u00a0b", "hidden_character"),
    ("a\u3000b", "hidden_character"),
    ("cod\u202egnp.exe", "hidden_character"),
    ("a\u200bb", "hidden_character"),
    ("a\U000e0041", "hidden_character"),
    ("a\ufe0f", "hidden_character"),
    ("a\ue000", "unassigned"),
    ("a\U0010ffff", "unassigned"),
    ("a\u0378", "unassigned"),
    ("a\ufffd", "unassigned"),
    ("a\u2800", "unassigned"),
    ("a\ud800", "unicode"),
    ("cafe\u0301", "not_nfc"),
    ("\u212b.txt", "not_nfc"),
    ("\u0301a", "leading_mark"),
    ("x/\u0338y", "leading_mark"),
    ("a" + "\u0323" * 31, "stacked_marks"),
    ("a\\b", "backslash"),
    ("..\\x", "backslash"),
    ("C:\\x", "backslash"),
    ("C:/x", "colon"),
    ("a:b", "colon"),
    ("-x", "leading_dash"),
    ("--output=/x", "leading_dash"),
    ("a<b", "windows"),
    ("a?", "windows"),
    ("a*b", "windows"),
    ('"a"', "windows"),
    ("a|b", "windows"),
    ("%2e%2e%2fx", "percent"),
    ("%2E%2E/x", "percent"),
    ("a%2fb", "percent"),
    ("a%5Cb", "percent"),
    ("a%00b", "percent"),
    ("%252e%252e%252fx", "percent"),
    ("%c0%ae%c0%ae/x", "percent"),
    (" a", "edge_space"),
    ("a ", "edge_space"),
    ("a /b", "edge_space"),
    ("a/ b", "edge_space"),
    ("a.", "trailing_dot"),
    ("a./b", "trailing_dot"),
    ("CON", "device_name"),
    ("con", "device_name"),
    ("a/Aux.c", "device_name"),
    ("NUL.tar.gz", "device_name"),
    ("prn .txt", "device_name"),
    ("COM1", "device_name"),
    ("COM\u00b9", "device_name"),
    ("lpt9.txt", "device_name"),
    ("CONIN$", "device_name"),
    ("a" * 256, "component_bytes"),
    ("\u6f22" * 86, "component_bytes"),
    ("/".join(["a"] * 33), "depth"),
    ("/".join(["a"] * 2000), "path_bytes"),
    ("a" * 4096, "path_bytes"),
    ("/".join(["a" * 227] * 9), "path_bytes"),
]


def rule_of(check: Callable[..., Any], *args: Any) -> str:
    """The rule under which the check refuses; empty if it accepts."""
    try:
        check(*args)
    except Refusal as refused:
        return str(refused.details["rule"])
    return ""


def refusal(check: Callable[..., Any], *args: Any, **kwargs: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        check(*args, **kwargs)
    return caught.value


@pytest.mark.parametrize("path", USUAL_PATHS)
def test_a_path_that_people_use_may_be_created(path: str) -> None:
    assert check_new_path(path, "path") == path.encode()


@pytest.mark.parametrize(("path", "rule"), HOSTILE_PATHS)
def test_a_hostile_path_is_refused_under_one_code_and_its_rule(path: str, rule: str) -> None:
    refused = refusal(check_new_path, path, "changes[3].path")
    assert refused.code is Code.PATH_REJECTED
    assert (refused.details["rule"], refused.details["field"]) == (rule, "changes[3].path")


def test_the_longest_deepest_and_widest_paths_are_exactly_at_the_limits() -> None:
    longest = "/".join(["a" * 226] * 6 + ["a" * 228] * 3)
    assert len(check_new_path(longest, "path")) == 2048
    assert check_new_path("/".join("a" * 32), "path")
    assert check_new_path("a" * 255, "path")
    over = refusal(check_new_path, longest + "a", "path")
    assert (over.details["limit"], over.details["value"]) == (2048, 2049)


def test_a_refusal_names_the_hidden_character_and_never_repeats_the_text() -> None:
    refused = refusal(check_new_path, "secret\u202egnp", "path")
    assert refused.details["character"] == "U+202E RLO"
    assert "secret" not in str(refused.body())
    assert "\u202e" not in str(refused.body())


def test_no_single_hidden_character_gets_into_a_path_anywhere() -> None:
    for char in filter(is_hidden, map(chr, range(0x110000))):
        for path in (f"a{char}b", f"{char}b", f"a{char}"):
            assert refusal(check_new_path, path, "path").code is Code.PATH_REJECTED


FRAGMENTS = (
    "", ".", "..", "/", "\\", " ", ":", "~1", "~2", "-", "%2e", "git", ".git", "GIT", ".gitmodules", "gi7eba", "con",
    "a", "B", "1", "\u00e9", "e\u0301", "\u200c", "\u202e", "\ufeff", "\u0130", "\u017f", "\u212a", "\uff0e", "\u2024",
    "\uff47it", "\u6f22", "\U0001f600", "\x00", "\x7f", "\n", "\ud800", "$INDEX_ALLOCATION", "x" * 250,
)  # fmt: skip


@pytest.fixture(scope="module")
def accepted() -> list[bytes]:
    made = {"".join(parts) for parts in itertools.product(FRAGMENTS, repeat=3)}
    paths = sorted(path for path in made.union(USUAL_PATHS) if not rule_of(check_new_path, path, "path"))
    assert len(paths) > 10_000
    return [path.encode() for path in paths]


def git(folder: Path, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    strict = ("-c", "core.protectHFS=true", "-c", "core.protectNTFS=true")
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    return subprocess.run(["git", *strict, *args], cwd=folder, env=env, input=stdin, capture_output=True, check=False)


def complaints(folder: Path, paths: list[bytes]) -> bytes:
    """What git says when the paths go into an index and a tree with every protection on, and are checked strictly."""
    git(folder, "init", "-q")
    oid = git(folder, "hash-object", "-w", "--stdin").stdout.strip()
    lines = b"".join(b"100644 %b\t%b\0" % (oid, path) for path in paths)
    said = git(folder, "update-index", "-z", "--index-info", stdin=lines).stderr
    tree = git(folder, "write-tree").stdout.strip()
    commit = git(folder, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit-tree", tree.decode(), "-m", "x")
    git(folder, "update-ref", "HEAD", commit.stdout.strip().decode())
    return said + git(folder, "fsck", "--strict").stderr


def test_git_takes_every_path_that_we_accept_with_all_protections_on(accepted: list[bytes], tmp_path: Path) -> None:
    assert complaints(tmp_path, accepted) == b""
    kept = git(tmp_path, "ls-tree", "-r", "-z", "--name-only", "HEAD").stdout.split(b"\0")[:-1]
    directories = {path[:end] for path in kept for end, byte in enumerate(path) if byte == ord("/")}
    assert set(kept) == set(accepted) - directories


@pytest.mark.parametrize("path", [b".git/x", b"git~1", b".g\xe2\x80\x8cit", b".git::$INDEX_ALLOCATION", b"a/../b"])
def test_that_comparison_with_git_can_fail(path: bytes, tmp_path: Path) -> None:
    assert path in complaints(tmp_path, [b"a", path])


def test_libgit2_and_dulwich_take_every_component_that_we_accept(accepted: list[bytes], tmp_path: Path) -> None:
    repository = pygit2.init_repository(tmp_path, bare=True)
    blob = repository.create_blob(b"")
    for component in {part for path in accepted for part in path.split(b"/")}:
        builder = repository.TreeBuilder()
        builder.insert(component.decode(), blob, pygit2.enums.FileMode.BLOB)
        assert [entry.raw_name for entry in repository[builder.write()]] == [component]
        for validate in (validate_path_element_default, validate_path_element_ntfs, validate_path_element_hfs):
            assert validate(component)


@LAW
@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Co", "Cn"]), max_size=40))
def test_an_accepted_path_is_its_own_normal_form_and_hides_nothing(path: str) -> None:
    if not rule_of(check_new_path, path, "path"):
        raw = check_new_path(path, "path")
        assert raw.decode() == path == unicodedata.normalize("NFC", path)
        assert not any(map(is_hidden, path))
        assert check_read_path(quote_path(raw), "path") == raw


# Reading.


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("a\\b", b"a\\b"),
        ("%2e%2e%2fx", b"%2e%2e%2fx"),
        ("C:/x", b"C:/x"),
        ("cafe\u0301", b"cafe\xcc\x81"),
        ("-x", b"-x"),
        (".gitmodules", b".gitmodules"),
        ("git~1", b"git~1"),
        ("a\nb", b"a\nb"),
        ('"a\\377b"', b"a\xffb"),
        ('"\\"q\\""', b'"q"'),
        ('"caf\u00e9\\t"', b"caf\xc3\xa9\t"),
        ("/".join(["d"] * 2000), b"/".join([b"d"] * 2000)),
    ],
)
def test_an_odd_name_that_a_tree_can_hold_is_readable(text: str, raw: bytes) -> None:
    assert check_read_path(text, "path") == raw


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "empty_component"),
        ('""', "empty_component"),
        ("/etc/passwd", "empty_component"),
        ("a//b", "empty_component"),
        ("a/", "empty_component"),
        (".", "dot_component"),
        ("a/./b", "dot_component"),
        ("../x", "dot_component"),
        ("a/..", "dot_component"),
        ("a\0b", "nul"),
        ('"a\\000b"', "nul"),
        (".git/config", "dot_git"),
        ("a/.GIT", "dot_git"),
        ('"\\056git"', "dot_git"),
        ("a\ud800", "unicode"),
        ('"a', "quoting"),
        ('"', "quoting"),
        ('"a"b"', "quoting"),
        ('"\\400"', "quoting"),
        ('"\\x41"', "quoting"),
        ('"\\"', "quoting"),
        ("a" * 4097, "path_bytes"),
    ],
)
def test_an_impossible_name_is_refused_when_read(text: str, rule: str) -> None:
    refused = refusal(check_read_path, text, "path")
    assert (refused.code, refused.details["rule"]) == (Code.PATH_REJECTED, rule)


@LAW
@given(st.one_of(st.binary(max_size=80), st.text(max_size=30).map(lambda text: text.encode(errors="replace"))))
def test_quoting_gives_back_every_byte_and_shows_nothing_hidden(raw: bytes) -> None:
    text = quote_path(raw)
    assert unquote_path(text, "path") == raw
    assert not any(is_hidden(char) or char in "\t\n" for char in text)


def test_each_single_byte_is_quoted_as_git_quotes_it(tmp_path: Path) -> None:
    names = [b"x" + bytes((byte,)) + b"y" for byte in range(1, 256) if byte != ord("/")]
    git(tmp_path, "init", "-q")
    oid = git(tmp_path, "hash-object", "-w", "--stdin").stdout.strip()
    stdin = b"".join(b"100644 %b\t%b\0" % (oid, name) for name in names)
    git(tmp_path, "-c", "core.protectNTFS=false", "update-index", "-z", "--index-info", stdin=stdin)
    shown = git(tmp_path, "-c", "core.protectNTFS=false", "ls-files").stdout.decode().split("\n")[:-1]
    assert sorted(map(quote_path, names)) == sorted(shown)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("README", "readme"),
        ("caf\u00e9", "cafe\u0301"),
        ("CAF\u00c9", "cafe\u0301"),
        ("Stra\u00dfe", "STRASSE"),
        ("\u212a", "k"),
        ("\u03c2", "\u03a3"),
        (".g\u200cit", ".GIT"),
        ("a.", "a"),
        ("a ", "A"),
        ("a.\u200b", "a"),
        ("Src/a./x", "src/A/X"),
    ],
)
def test_names_that_one_file_system_takes_for_the_same_share_a_key(one: str, other: str) -> None:
    assert twin_key(one.encode()) == twin_key(other.encode())


@pytest.mark.parametrize(("one", "other"), [(b"a", b"b"), (b"\xff", b"\xfe"), (b"\xff", b"?"), (b"a b", b"ab")])
def test_other_names_have_other_keys_whatever_their_bytes(one: bytes, other: bytes) -> None:
    assert twin_key(one) != twin_key(other)


@LAW
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_normal_form_and_case_folding_never_change_the_key(name: str) -> None:
    key = twin_key(name.encode())
    for form in ("NFC", "NFD"):
        assert twin_key(unicodedata.normalize(form, name).encode()) == key
    assert twin_key(name.casefold().encode()) == key
    assert twin_key(key.encode()) == key


# Refs.

HOSTILE_BRANCHES = [
    ("", "empty_component"),
    ("-x", "leading_dash"),
    ("--output=/x", "leading_dash"),
    ("main;id", "characters"),
    ("$(x)", "characters"),
    ("main\0", "control"),
    ("a\nb", "control"),
    ("a b", "reserved_character"),
    ("refs/heads/../x", "double_dot"),
    ("@{-1}", "at_brace"),
    ("@", "at_brace"),
    ("@x", "characters"),
    (":/regex", "reserved_character"),
    ("HEAD~1", "reserved_character"),
    ("HEAD~1e9", "reserved_character"),
    ("main^{tree}", "reserved_character"),
    ("a..b", "double_dot"),
    ("a:b", "reserved_character"),
    ("a\\b", "reserved_character"),
    ("a*", "reserved_character"),
    ("/a", "empty_component"),
    ("a/", "empty_component"),
    ("a//b", "empty_component"),
    (".a", "leading_dot"),
    ("a/.b", "leading_dot"),
    ("a.", "trailing_dot"),
    ("a./b", "trailing_dot"),
    ("a.lock", "lock"),
    ("a.lock/b", "lock"),
    ("a.LOCK", "lock"),
    ("HEAD", "head"),
    ("head", "head"),
    ("FETCH_HEAD", "head"),
    ("a" * 40, "object_id"),
    ("0123456789ABCDEF" * 4, "object_id"),
    ("refs/heads/x", "namespace"),
    ("heads/x", "namespace"),
    ("Tags/v1", "namespace"),
    ("m\u0430in", "characters"),
    ("a\u202eb", "characters"),
    ("a\u200bb", "characters"),
    ("a\ud800", "characters"),
    ("a" * 202, "length"),
    ("/".join("a" * 600), "length"),
]


@pytest.mark.parametrize("check", [check_new_branch, check_new_tag])
@pytest.mark.parametrize(("name", "rule"), HOSTILE_BRANCHES)
def test_a_hostile_name_of_a_branch_or_tag_is_refused_under_one_code_and_its_rule(
    check: Callable[[str, str], str], name: str, rule: str
) -> None:
    refused = refusal(check, name, "name")
    assert (refused.code, refused.details["rule"]) == (Code.REF_REJECTED, rule)


@pytest.mark.parametrize(
    "name",
    ["main", "feature/x-1", "release/v1.2.3", "dependabot/npm_and_yarn/@types/node-20", "fix/#123", "c++", "_x", "7",
     "overhead", "refs-cleanup", "a/HEAD", "deadbeef", "a" * 201, "user@host", "k=v", "a.lockx", "x/-y"],
)  # fmt: skip
def test_a_name_that_people_use_becomes_its_ref(name: str) -> None:
    assert check_new_tag(name, "name") == f"refs/tags/{name}"
    assert check_new_branch(name, "branch") == f"refs/heads/{name}"
    assert check_existing_ref(name, "branch") == f"refs/heads/{name}".encode()


@LAW
@given(st.lists(st.sampled_from(["a", "Z", "9", ".", "/", "-", "_", "@", "{", "+", "#", "=", ".lock", "~", "é"])))
def test_git_and_libgit2_agree_with_every_branch_name_that_we_accept(parts: list[str]) -> None:
    name = "".join(parts)
    if not rule_of(check_new_branch, name, "branch"):
        full = check_new_branch(name, "branch")
        assert pygit2.reference_is_valid_name(full)
        assert check_existing_ref(name, "branch") == full.encode()


@given(st.lists(st.sampled_from(["a", ".", "/", "-", "@", "{", ".lock", "~", "^", ":", "\\", " ", "*", "\x7f", "é"])))
@LAW
def test_an_existing_ref_is_what_libgit2_calls_valid_less_a_dash_at_the_start(parts: list[str]) -> None:
    name = "".join(parts)
    ours = not name.startswith("-") and name != "@" and pygit2.reference_is_valid_name(f"refs/heads/{name}")
    assert ours == (not rule_of(check_existing_ref, name, "ref"))


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("$(x)", b"refs/heads/$(x)"),
        ("m\u0430in", b"refs/heads/m\xd0\xb0in"),
        ("HEAD", b"refs/heads/HEAD"),
        ("f" * 40, b"refs/heads/" + b"f" * 40),
        ("refs/heads/main", b"refs/heads/main"),
        ("refs/heads/refs/x", b"refs/heads/refs/x"),
        ("refs/tags/v1", b"refs/tags/v1"),
        ('"a\\377"', b"refs/heads/a\xff"),
        ('"quoted"', b'refs/heads/"quoted"'),
        ("a" * 1013, b"refs/heads/" + b"a" * 1013),
    ],
)
def test_an_existing_ref_is_looked_up_by_its_exact_bytes(name: str, full: bytes) -> None:
    assert check_existing_ref(name, "ref") == full


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *((name, rule) for name, rule in HOSTILE_BRANCHES if rule in {"control", "reserved_character", "double_dot",
          "at_brace", "empty_component", "leading_dot", "leading_dash", "length"} and len(name) != 202),
        ("refs/heads/-x", "leading_dash"),
        ("refs/heads/", "empty_component"),
        ("refs/proposals/1", "namespace"),
        ("refs/replace/x", "namespace"),
        ("refs/heads", "namespace"),
        ("a\ud800", "unicode"),
        ('"a\\400"', "quoting"),
        ('"a\\000"', "control"),
        ("a.lock", "lock"),
        ("a" * 1025, "length"),
    ],
)  # fmt: skip
def test_an_expression_or_an_impossible_ref_is_never_looked_up(name: str, rule: str) -> None:
    refused = refusal(check_existing_ref, name, "ref")
    assert (refused.code, refused.details["rule"]) == (Code.REF_REJECTED, rule)


@pytest.mark.parametrize("text", ["", "a" * 39, "a" * 41, "A" * 40, "g" * 40, "a" * 40 + "\n", "HEAD", "a" * 64])
def test_anything_but_forty_lower_case_digits_is_no_object_id(text: str) -> None:
    assert refusal(check_oid, text, "base").code is Code.INVALID_ARGUMENT
    assert check_oid("0123456789abcdef" * 2 + "01234567", "base")


@pytest.mark.parametrize(
    "text", ["100777", "160000", "120000", "040000", "100664", "0100644", "garbage", "", "100644 "]
)
def test_an_agent_sets_no_mode_but_file_and_executable(text: str) -> None:
    refused = refusal(check_mode, text, "mode")
    assert (refused.code, refused.details["allowed"]) == (Code.INVALID_ARGUMENT, ["100644", "100755"])
    assert {mode: check_mode(mode, "mode") for mode in MODES} == {"100644": 0o100644, "100755": 0o100755}


# Texts.


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "length"),
        ("x" * 101, "length"),
        ("a\0b", "nul"),
        ("a\r\nb", "carriage_return"),
        ("a\rb", "carriage_return"),
        ("a\x1b[2J", "control"),
        ("a\x0cb", "control"),
        ("a\x7f", "control"),
        ("a\x9b", "control"),
        ("a\ud800", "unicode"),
        ("a\uffff", "noncharacter"),
        ("a\ufdd0", "noncharacter"),
        ("e" + "\u0301" * 31, "stacked_marks"),
        (" \n\t ", "blank"),
        ("\u200b\u00a0\u3164", "blank"),
    ],
)
def test_a_text_that_cannot_be_stored_or_shown_is_refused(text: str, rule: str) -> None:
    refused = refusal(check_text, text, "reason", most=100)
    assert (refused.code, refused.details["rule"]) == (Code.TEXT_REJECTED, rule)


@pytest.mark.parametrize("text", ["x", "two\nlines\twith a tab", "\U0001f469\u200d\U0001f680", "e\u0301", "a\u202eb"])
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert check_text(text, "reason", most=100) == text
    assert check_message(text, "message") == text


def test_the_length_of_a_text_is_counted_in_characters_and_named() -> None:
    assert check_text("\U0001f600" * 100, "reason", most=100)
    assert check_text("", "note", most=100, least=0) == ""
    over = refusal(check_message, "x" * 10_001, "message")
    assert (over.details["limit"], over.details["value"]) == (10_000, 10_001)
    under = refusal(check_text, "ab", "key", most=9, least=3)
    assert (under.details["limit"], under.details["value"]) == (3, 2)


FORGED = (
    "{key}: x",
    "{key} : x",
    "  {key}\t:x",
    "{key}\n : x",
    "{key}:",
    "\u200b{key}\u200b:x",
    "{key}\uff1ax",
    "{key}\u2236 x",
    "\u00a0{key}: x",
)
LIKE = (
    str,
    str.upper,
    str.lower,
    lambda key: key.replace("-", "\u2010"),
    lambda key: key.replace("-", " "),
    lambda key: key.replace("-", "-\n "),
    lambda key: "".join(chr(ord(char) + 0xFEE0) for char in key),
    lambda key: key.replace("o", "\u043e").replace("A", "\u0410").replace("i", "\u0456").replace("e", "\u0435"),
    lambda key: key[:3] + "\u00ad" + key[3:],
)


@pytest.mark.parametrize("key", OWN_TRAILERS)
@pytest.mark.parametrize("forged", FORGED)
def test_no_message_brings_a_trailer_of_ours(key: str, forged: str) -> None:
    for like, frame in itertools.product(LIKE, ("{}", "subject\n\n{}", "subject\n\nbody\u2028{}", "{}\n\nSigned: y")):
        refused = refusal(check_message, frame.format(forged.format(key=like(key))), "message")
        assert (refused.code, refused.details["rule"]) == (Code.TEXT_REJECTED, "own_trailer")


@pytest.mark.parametrize(
    "text",
    [
        "Fix\n\nSigned-off-by: A <a@example.org>\nCo-authored-by: B <b@example.org>",
        "Describe the proposal: what it does",
        "Connections: reuse them",
        "Proposals: list them",
        "Approved-by-nobody: x",
        "Close the connection\nwhen idle: done",
        "Add Approved-by: parsing",
        "see https://example.org/proposal:1",
    ],
)
def test_a_message_that_only_speaks_of_such_things_is_fine(text: str) -> None:
    assert check_message(text, "message") == text


def test_the_worst_messages_are_judged_without_backtracking() -> None:
    for piece in ("\n", " ", "\n ", "proposal", "proposal\n", "approved-", "approved \n", "\u0301", "\ufdfa"):
        text = ("x" + piece * 10_000)[:10_000]
        assert rule_of(check_message, text, "message") == ("stacked_marks" if piece == "\u0301" else "")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "length"),
        ("x" * 101, "length"),
        ("a\nb", "line_break"),
        ("a\rb", "line_break"),
        ("a\u2028b", "line_break"),
        ("a\0b", "hidden_character"),
        ("a\tb", "hidden_character"),
        ("a\u202eb", "hidden_character"),
        ("a\u200bb", "hidden_character"),
        ("a\u00a0b", "hidden_character"),
        ("A <a@example.org>", "angle_bracket"),
        (" a", "edge_space"),
        ("a ", "edge_space"),
        ("   ", "edge_space"),
        (".,:;\"'\\", "blank"),
        ("-\u0301\u0302"[1:], "blank"),
        ("a\ud800", "unicode"),
        ("a\ue000", "unassigned"),
    ],
)
def test_a_name_that_could_not_stand_in_a_git_author_is_refused(text: str, rule: str) -> None:
    refused = refusal(check_name, text, "name")
    assert (refused.code, refused.details["rule"]) == (Code.TEXT_REJECTED, rule)


@pytest.mark.parametrize(
    "text", ["Claude", "ACME Inc.", "Renée O'Neil", "李雷", "a@b", "x" * 100, "Bot \U0001f916", "#1"]
)
def test_a_name_that_people_use_comes_back_as_it_was(text: str) -> None:
    assert check_name(text, "name") == text


@LAW
@given(st.text(max_size=20))
def test_an_accepted_name_is_a_valid_git_author(text: str) -> None:
    if not rule_of(check_name, text, "name"):
        crud = ".,:;\"'\\ "
        assert pygit2.Signature(text, "conn@example.org", 0, 0).name.strip(crud) == text.strip(crud)


@LAW
@given(st.text(st.characters(), max_size=60))
def test_every_check_answers_or_refuses_and_says_nothing_hostile(text: str) -> None:
    checks = (check_new_path, check_read_path, check_new_branch, check_new_tag, check_existing_ref, check_oid,
              check_mode, check_message, check_name, unquote_path)  # fmt: skip
    for check in checks:
        if rule_of(check, text, "field"):
            refused = refusal(check, text, "field")
            assert refused.details["field"] == "field"
            assert not any(is_hidden(char) for char in str(refused.body()))

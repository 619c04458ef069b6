"""A repository is taken in whole or not at all."""

import http.server
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.kit.errors import Code, Refusal
from service.repositories.git import GitFailed
from service.repositories.intake import _refusal, _understood, create_from_files, import_repository
from service.repositories.refs import head_branch, list_refs
from service.repositories.snapshot import Snapshot

AUTHOR = b"A <a@example.org> 1700000000 +0000"


def _silent(*_: object) -> None:
    pass


@pytest.fixture(name="source")
def source_fixture(tmp_path: Path, git: Callable) -> Path:
    """A working repository: three branches, two tags, odd paths, a hook, a note, a remote and an alternate."""
    lender = tmp_path / "lender"
    git(tmp_path, "init", "-q", "-b", "trunk", str(lender))
    (lender / "a").write_text("1\n")
    git(lender, "add", "a")
    git(lender, "commit", "-qm", "one")
    source = tmp_path / "source folder"
    git(tmp_path, "clone", "-q", "--shared", str(lender), str(source))
    for name in (b"\xff\xfe", "é".encode(), b"new\nline", b"-x", b"a b"):
        with open(os.path.join(os.fsencode(source), name), "wb") as file:  # noqa: PTH118, PTH123  a name of bytes
            file.write(name)
    (source / "link").symlink_to("/etc/passwd")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "two")
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(source, "commit", "-qm", "three")
    git(source, "branch", "topic/ä", "HEAD~1")
    git(source, "branch", "other", "HEAD~2")
    git(source, "tag", "light")
    git(source, "tag", "-am", "heavy", "v1", "HEAD~1")
    git(source, "notes", "add", "-m", "note")
    git(source, "config", "core.sshCommand", "touch /tmp/never")
    (source / ".git/hooks/post-update").write_text("#!/bin/sh\nexit 1\n")
    return source


def _refs(git: Callable, folder: Path) -> bytes:
    return git(folder, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")


def _is_whole(git: Callable, source: Path, target: Path) -> None:
    assert _refs(git, target) == _refs(git, source)
    assert [name for name, _ in list_refs(target, "refs/") if not name.startswith(("refs/heads/", "refs/tags/"))] == []
    assert head_branch(target) == "refs/heads/trunk"
    assert git(target, "fsck", "--strict", "--no-dangling") == b""
    assert not (target / "objects/info/alternates").exists()
    assert not (target / "hooks").exists()
    assert b"remote" not in (target / "config").read_bytes()
    assert sorted(path.name for path in target.parent.iterdir() if path.name.startswith(".")) == []


def test_a_folder_with_a_working_tree_is_taken_in(source: Path, tmp_path: Path, git: Callable) -> None:
    heard = []
    import_repository(str(source), tmp_path / "target.git", lambda *step: heard.append(step))
    _is_whole(git, source, tmp_path / "target.git")
    assert {phase for phase, *_ in heard} >= {"Counting objects", "Receiving objects"}
    assert all(0 <= done <= total for _, done, total in heard)
    assert len(list((tmp_path / "target.git/objects/pack").glob("*.pack"))) == 1


def test_a_bare_folder_a_file_url_and_a_bundle_are_taken_in(source: Path, tmp_path: Path, git: Callable) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(source), "bare.git")
    git(source, "bundle", "create", "-q", str(tmp_path / "all.bundle"), "--branches", "--tags", "HEAD")
    for number, name in enumerate((tmp_path / "bare.git", f"file://{tmp_path}/bare.git", tmp_path / "all.bundle")):
        import_repository(str(name), tmp_path / f"{number}.git", _silent)
        _is_whole(git, source, tmp_path / f"{number}.git")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_taken_in(source: Path, tmp_path: Path, git: Callable) -> None:
    for path in (source, *source.rglob("*")):
        os.chown(path, 12_345, 12_345, follow_symlinks=False)
    import_repository(str(source), tmp_path / "target.git", _silent)
    assert Snapshot(tmp_path / "target.git").resolve("topic/ä")


def test_an_empty_repository_is_taken_in_with_its_branch_name(tmp_path: Path, git: Callable) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk", "empty")
    import_repository(str(tmp_path / "empty"), tmp_path / "target.git", _silent)
    assert head_branch(tmp_path / "target.git") == "refs/heads/trunk"
    assert Snapshot(tmp_path / "target.git").is_empty()


def test_a_detached_head_gives_the_branch_that_is_there_too(source: Path, tmp_path: Path, git: Callable) -> None:
    git(source, "checkout", "-q", "--detach", "other")
    import_repository(str(source), tmp_path / "target.git", _silent)
    assert head_branch(tmp_path / "target.git") == "refs/heads/other"


def test_a_history_of_an_old_program_is_taken_in(tmp_path: Path, git: Callable) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "old")
    tree = git(tmp_path / "old", "mktree").decode()
    commit = f"tree {tree}\nauthor A<a@b> 01 +051800\ncommitter <> 1 +0000\n\nm\n".encode()
    oid = git(tmp_path / "old", "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=commit).decode()
    git(tmp_path / "old", "update-ref", "refs/heads/main", oid)
    import_repository(str(tmp_path / "old"), tmp_path / "target.git", _silent)
    read = Snapshot(tmp_path / "target.git").commit(oid)
    assert (read.author, read.committer) == (b"A<a@b> 01 +051800", b"<> 1 +0000")


@pytest.mark.parametrize("how", ["folder", "bundle"])
@pytest.mark.parametrize("name", [b".GIT", b"..", b"git~1", ".g\u200cit".encode()])
def test_a_tree_that_would_write_into_a_git_folder_is_refused(
    tmp_path: Path, git: Callable, name: bytes, how: str
) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "evil")
    evil = tmp_path / "evil"
    blob = git(evil, "hash-object", "-w", "--stdin", stdin=b"x").decode()
    raw = b"100644 " + name + b"\0" + bytes.fromhex(blob)
    tree = git(evil, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw).decode()
    git(evil, "update-ref", "refs/heads/main", git(evil, "commit-tree", "-m", "m", tree).decode())
    git(evil, "bundle", "create", "-q", str(tmp_path / "b"), "main")
    _refused(str(evil if how == "folder" else tmp_path / "b"), tmp_path, "Git's own check")


def _refused(source: str, tmp_path: Path, sentence: str = "") -> Refusal:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Refusal) as caught:
        import_repository(source, tmp_path / "target.git", _silent, seconds=20)
    assert caught.value.code is Code.NOT_A_REPOSITORY
    assert sentence in caught.value.message
    assert sorted(tmp_path.iterdir()) == before
    return caught.value


def test_a_shallow_copy_is_refused(source: Path, tmp_path: Path, git: Callable) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{source}", "shallow")
    _refused(str(tmp_path / "shallow"), tmp_path, "shallow")


def test_a_bundle_of_a_part_is_refused(source: Path, tmp_path: Path, git: Callable) -> None:
    git(source, "bundle", "create", "-q", str(tmp_path / "part.bundle"), "trunk~1..trunk")
    _refused(str(tmp_path / "part.bundle"), tmp_path, "part of a history")


def test_a_bundle_that_is_cut_anywhere_is_refused_as_cut(source: Path, tmp_path: Path, git: Callable) -> None:
    bundle = tmp_path / "cut.bundle"
    git(source, "bundle", "create", "-q", str(bundle), "--all")
    content = bundle.read_bytes()
    head = content.index(b"\n\n")
    sizes = {9, 15, 16, 17, 30, 57, 58, 100, head, head + 1, head + 2, head + 6, head + 20, head + 21, head + 22, 600}
    for size in sorted({*sizes, len(content) * 2 // 3, len(content) - 21, len(content) - 20, len(content) - 1}):
        bundle.write_bytes(content[:size])
        _refused(str(bundle), tmp_path, "The bundle is cut off or damaged.")


def test_a_bundle_with_a_changed_byte_or_something_behind_is_refused_as_damaged(
    source: Path, tmp_path: Path, git: Callable
) -> None:
    bundle = tmp_path / "damaged.bundle"
    git(source, "bundle", "create", "-q", str(bundle), "--all")
    content = bundle.read_bytes()
    place = content.index(b"PACK") + 40
    for damaged in (content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :], content + b"x"):
        bundle.write_bytes(damaged)
        _refused(str(bundle), tmp_path, "The bundle is cut off or damaged.")


def test_a_bundle_without_a_branch_or_a_tag_is_refused(source: Path, tmp_path: Path, git: Callable) -> None:
    bundle = tmp_path / "few.bundle"
    git(source, "bundle", "create", "-q", str(bundle), "HEAD")
    _refused(str(bundle), tmp_path, "no branch and no tag")
    signature, _, pack = bundle.read_bytes().partition(b"\n\n")
    bundle.write_bytes(signature.split(b"\n")[0] + b"\n\n" + pack)
    _refused(str(bundle), tmp_path, "no branch and no tag")


def test_a_bundle_of_the_third_version_is_taken_in(source: Path, tmp_path: Path, git: Callable) -> None:
    git(source, "bundle", "create", "-q", "--version=3", str(tmp_path / "b"), "--branches", "--tags", "HEAD")
    import_repository(str(tmp_path / "b"), tmp_path / "target.git", _silent)
    _is_whole(git, source, tmp_path / "target.git")


def test_a_folder_with_a_lost_object_is_refused(source: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "lender/.git/objects")
    (tmp_path / "lender/.git/objects").mkdir()
    _refused(str(source), tmp_path)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "-x",
        "--upload-pack=touch /tmp/never",
        "ext::sh -c touch% /tmp/never",
        "fd::17",
        "ext://x",
        "ftp://example.org/x",
        "-git@example.org:x",
        "git@-oProxyCommand=touch:x",
        "git@example.org:-x",
        "git@example.org:x/--upload-pack=touch",
        "git@example.org::x",
        "git@example.org:",
        "git@example.org:x;touch y",
        "git@example.org:x%2e",
        "git@example.org:x//y",
        "git@example.org:x\n",
        "https://",
        "https:///x",
        "ssh://-oProxyCommand=touch/x",
        "ssh://user@-oProxyCommand=touch/x",
        "https://example.org:99999999/x",
        "https://[::1/x",
        "https://example.org/a b",
        "https://example.org/a\nb",
        "/nonexistent/place",
        "a\0b",
        "x" * 5_000,
        "/etc/passwd",
        "/dev/null",
        "/etc",
    ],
)
def test_an_address_that_is_none_is_refused_and_nothing_is_left(tmp_path: Path, address: str) -> None:
    _refused(address, tmp_path)


def test_a_host_that_does_not_answer_is_refused_without_the_credentials(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refusal = _refused(f"http://user:s3cret@127.0.0.1:{closed.getsockname()[1]}/r.git", tmp_path, "reached")
    chain = [str(refusal), str(refusal.__cause__), repr(refusal.body())]
    assert not any("s3cret" in text for text in chain)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("http://placet.invalid/r.git", "reached: no such host is known."),
        ("git://placet.invalid/r.git", "reached: no such host is known."),
        ("http://127.0.0.1:{closed}/r.git", "reached: no connection comes about."),
        ("git://127.0.0.1:{closed}/r.git", "reached: its host refuses the connection."),
    ],
)
def test_a_host_that_is_unknown_and_one_that_refuses_are_told_apart(
    tmp_path: Path, address: str, sentence: str
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        _refused(address.format(closed=closed.getsockname()[1]), tmp_path, sentence)


@pytest.mark.parametrize(
    "said",
    [
        "ssh: connect to host example.org port 22: Connection timed out",
        "fatal: unable to access 'https://example.org/': Connection timed out after 300 milliseconds",
        "fatal: unable to access 'https://example.org/': Failed to connect to x port 443: Timeout was reached",
        "fatal: unable to connect to example.org:\nexample.org[0: 192.0.2.1]: errno=Connection timed out",
    ],
)
def test_a_host_that_is_silent_is_told_as_that(said: str) -> None:
    assert _refusal(GitFailed("ls-remote", 128, said)).message.endswith("did not answer in time.")


@pytest.mark.parametrize(
    ("short", "address"),
    [
        ("git@example.org:owner/repo.git", "ssh://git@example.org/owner/repo.git"),
        ("me@10.0.0.1:/srv/repo", "ssh://me@10.0.0.1/srv/repo"),
        ("git@example.org:~me/a-b_c.git/", "ssh://git@example.org/~me/a-b_c.git/"),
    ],
)
def test_the_form_of_scp_is_understood_as_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: str, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    understood = _understood(short)
    assert (understood.address, understood.protocol, understood.bundle) == (address, "ssh", False)


def test_a_folder_whose_name_is_like_an_address_is_a_folder(
    source: Path, tmp_path: Path, git: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.rename(tmp_path / "git@example.org:repo")
    monkeypatch.chdir(tmp_path)
    import_repository("git@example.org:repo", tmp_path / "target.git", _silent)
    _is_whole(git, tmp_path / "git@example.org:repo", tmp_path / "target.git")


@pytest.mark.parametrize("address", ["example.org:owner/repo.git", "git@example.org:a b", "ext::sh", "rsync://a/b"])
def test_what_looks_like_an_address_but_is_none_is_told_how_to_write_it(tmp_path: Path, address: str) -> None:
    assert address not in _refused(address, tmp_path, "ssh://").message


class _Backend(http.server.SimpleHTTPRequestHandler):
    """git's "dumb" transport behind Basic credentials."""

    seen: list[str]

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        self.server.seen.append(given)
        if given == "Basic dXNlcjpzM2NyZXQ=":
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(name="web")
def web_fixture(source: Path, tmp_path: Path, git: Callable) -> Iterator[int]:
    git(tmp_path, "clone", "-q", "--bare", f"file://{source}", "web.git")
    git(tmp_path / "web.git", "update-server-info")

    def handler(*arguments: object) -> _Backend:
        return _Backend(*arguments, directory=str(tmp_path))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_url_is_taken_in_with_the_credentials_it_carries(
    web: int, source: Path, tmp_path: Path, git: Callable
) -> None:
    import_repository(f"http://user:s3cret@127.0.0.1:{web}/web.git", tmp_path / "target.git", _silent)
    _is_whole(git, source, tmp_path / "target.git")
    assert not [
        path for path in (tmp_path / "target.git").rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()
    ]


@pytest.mark.parametrize("user", ["", "user:wrong@", "user@"])
def test_a_url_that_needs_a_sign_in_never_prompts(web: int, tmp_path: Path, user: str) -> None:
    _refused(f"http://{user}127.0.0.1:{web}/web.git", tmp_path, "sign-in")


def test_a_taken_name_is_refused_and_what_is_there_stays(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.git"
    target.mkdir()
    for make in (
        lambda: import_repository(str(source), target, _silent),
        lambda: create_from_files(target, "refs/heads/main", {"a": b"1"}, author=AUTHOR, message=b"m\n"),
    ):
        with pytest.raises(Refusal) as caught:
            make()
        assert caught.value.code is Code.NAME_TAKEN
    assert list(target.iterdir()) == []


def test_a_repository_is_made_from_files(tmp_path: Path, git: Callable) -> None:
    target = tmp_path / "demo.git"
    oid = create_from_files(
        target, "refs/heads/main", {"README.md": b"# Demo\n", "src/a.py": b""}, author=AUTHOR, message=b"Begin\n"
    )
    assert git(target, "rev-parse", "HEAD").decode() == oid
    assert git(target, "ls-tree", "-r", "--name-only", "HEAD") == b"README.md\nsrc/a.py"
    assert git(target, "fsck", "--strict") == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.git"]


def test_a_failure_half_way_leaves_nothing(source: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_repository(str(source), tmp_path / "target.git", stop)
    assert sorted(tmp_path.iterdir()) == before
    _refused_late(source, tmp_path)


def _refused_late(source: Path, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="too long"):
        import_repository(str(source), tmp_path / "target.git", _silent, seconds=0)
    assert not (tmp_path / "target.git").exists()

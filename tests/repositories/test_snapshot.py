"""What is read is what git says, within limits, whatever a repository holds."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.contract import ports
from service.contract.data import NULL, Entry, Oid
from service.contract.plan import MoveRef
from service.kit.errors import Refusal
from service.repositories import snapshot as module
from service.repositories.objects import build_commit, staged
from service.repositories.packs import write_pack
from service.repositories.reading import BadObject
from service.repositories.refs import RefTransaction
from service.repositories.search import search
from service.repositories.snapshot import Snapshot
from service.repositories.staging import Staging

AUTHOR = b"Claude (conn-1) <conn-1@placet.example> 1700000000 +0000"
FILE = 0o100644
Grow = Callable[..., Oid]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no failure where time is not what is tested."""
    monkeypatch.setattr(module, "SECONDS", 60.0)


def _as_contract(snapshot: ports.Snapshot) -> ports.Snapshot:
    return snapshot


def test_a_repository_without_commits_is_empty_and_reads_without_an_error(repository: Path) -> None:
    read = _as_contract(Snapshot(repository))
    assert (read.is_empty(), read.default_branch(), read.branches(b"", 9), read.tags(b"", 9)) == (True, "main", [], [])
    assert read.resolve("main") is None
    assert read.resolve("HEAD") is None


def test_a_reader_that_is_open_sees_the_next_commit_of_another_process(
    repository: Path, grow: Grow, git: Callable
) -> None:
    read = Snapshot(repository)
    first = grow({"a": b"1\n"})
    assert (read.is_empty(), read.resolve("main")) == (False, first)
    tree = git(repository, "mktree", stdin=b"").decode()
    second = git(repository, "commit-tree", "-p", first, "-m", "m", tree).decode()
    git(repository, "update-ref", "refs/heads/main", second)
    git(repository, "repack", "-adq")
    git(repository, "pack-refs", "--all")
    assert read.resolve("main") == second
    assert [oid for oid, _ in read.log(second, 9)] == [second, first]
    assert read.walk(second, b"", after=b"", most=9, deep=True) == ([], False)


def test_only_exact_names_and_whole_ids_resolve(repository: Path, grow: Grow, git: Callable) -> None:
    old = grow({"a": b"1\n"})
    new = grow({"a": b"2\n"}, old)
    git(repository, "tag", "-a", "-m", "t", "v1", old)
    git(repository, "tag", "-a", "-m", "t", "v2", "v1")
    git(repository, "tag", "blob", f"{old}:a")
    git(repository, "update-ref", "refs/heads/v1", new)
    git(repository, "update-ref", "refs/proposals/1", new)
    read = Snapshot(repository)
    names = ("HEAD", "main", "refs/heads/main", "v2", "refs/tags/v1", "v1", old, "blob")
    assert [read.resolve(name) for name in names] == [new, new, new, old, old, new, old, None]
    blob = read.entry(new, b"a").oid
    for name in (
        *("@", "main~1", "main^", "main@{0}", "@{-1}", ":/Grow", "HEAD~1000000000", "v1^{}", "main:a", "refs/heads"),
        *("", "-x", "--output=/x", "main\0", "main;id", "../x", "refs/heads/../heads/main", "refs/proposals/1"),
        *(
            old[:39],
            old.upper(),
            old + "0",
            blob,
            NULL,
            "heads/main",
            "\ud800",
            "x" * 70_000,
            "refs/heads/" + "x/" * 600,
        ),
    ):
        assert read.resolve(name) is None, name


def test_branches_and_tags_are_paged_in_byte_order(repository: Path, grow: Grow, git: Callable) -> None:
    tip = grow({"a": b"1\n"})
    names = sorted([b"a", b"a-b", b"a.b", b"b/c", b"main", "é".encode(), b"\xff"])
    for name in names:
        git(repository, b"update-ref", b"refs/heads/" + name, tip.encode())
        git(repository, b"update-ref", b"refs/tags/" + name, tip.encode())
    git(repository, "pack-refs")
    read = Snapshot(repository)
    for listing in (read.branches, read.tags):
        found, after = [], b""
        while page := listing(after, 3):
            found += page
            after = page[-1].name
        assert [ref.name for ref in found][-7:] == names
        assert {ref.oid for ref in found} == {tip}


def test_a_branching_history_is_read_in_git_s_order(repository: Path, git: Callable) -> None:
    rng = random.Random(7)  # noqa: S311  the same history each time
    tree = git(repository, "mktree", stdin=b"").decode()
    commits: list[str] = []
    for number in range(60):
        parents = rng.sample(commits[-6:], min(len(commits), rng.choice((1, 1, 2, 3))))
        date = f"{1_700_000_000 + number // 3 - rng.choice((0, 0, 0, 9))} +0000"
        options = [option for parent in parents for option in ("-p", parent)]
        made = git(repository, "commit-tree", "-m", str(number), *options, tree, GIT_COMMITTER_DATE=date)
        commits.append(made.decode())
    expected = git(repository, "rev-list", commits[-1]).decode().split()
    assert [oid for oid, _ in Snapshot(repository).log(commits[-1], 100)] == expected


def test_a_history_is_read_newest_first(repository: Path, grow: Grow, git: Callable) -> None:
    tip = NULL
    for number in range(12):
        tip = grow({"a": b"%d\n" % number}, tip)
    read = Snapshot(repository)
    assert [oid for oid, _ in read.log(tip, 5)] == git(repository, "rev-list", "-5", tip).decode().split()
    assert len(read.log(tip, 100)) == 12
    for missing in (NULL, Oid("f" * 40), read.entry(tip, b"a").oid):
        with pytest.raises(BadObject):
            read.log(missing, 5)
        with pytest.raises(BadObject):
            read.commit(missing)


@pytest.fixture(name="odd")
def odd_fixture(repository: Path) -> Oid:
    """A commit with names of every kind, links, a submodule, and a folder whose tree is not there."""
    staging = Staging(repository, AUTHOR)
    file = Entry(mode=FILE, oid=staging.put(b"needle\nhay\n"))
    edits = dict.fromkeys((b"a", b"a-b", b"a.c/x", b"b/c/d", b"b/e", b"\xff\xfe", b"new\nline", b"-x", b"b0"), file)
    edits |= {
        b"link": Entry(mode=0o120000, oid=staging.put(b"b")),
        b"module": Entry(mode=0o160000, oid=Oid("1" * 40)),
        b"odd mode": Entry(mode=0o100664, oid=file.oid),
    }
    tree = staging.edit(None, edits)
    staging.draft((), tree, b"m")
    commit = build_commit(tree, (), author=AUTHOR, committer=AUTHOR, message=b"\xff\n")
    write_pack(repository, (*staging.staged(), commit))
    return commit.oid


def _pages(read: Snapshot, commit: Oid, path: bytes, deep: bool, most: int) -> list[ports.Listed]:
    found, after = [], b""
    while page := read.walk(commit, path, after=after, most=most, deep=deep)[0]:
        found += page
        after = page[-1].path
    return found


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("path", [b"", b"b", b"b/c"])
@pytest.mark.parametrize("deep", [True, False])
def test_all_pages_of_a_folder_give_every_entry_once(
    repository: Path, odd: Oid, git: Callable, path: bytes, deep: bool, most: int
) -> None:
    read = Snapshot(repository)
    found = _pages(read, odd, path, deep, most)
    paths = [one.path for one in found]
    assert paths == sorted(set(paths))
    top = b"%s:%s" % (odd.encode(), path)
    expected = git(repository, b"ls-tree", b"-z", b"--name-only", top).split(b"\0")
    if deep:
        expected = git(repository, b"ls-tree", b"-rz", b"--name-only", top).split(b"\0")
    prefix = path + b"/" if path else b""
    assert paths == sorted(prefix + name for name in expected if name)
    assert all((one.size == 11) == (one.entry.mode & 0o170000 == 0o100000) for one in found)


def test_links_and_files_have_nothing_under_them(repository: Path, odd: Oid) -> None:
    read = Snapshot(repository)
    assert read.entry(odd, b"link").mode == 0o120000
    for path in (b"link/e", b"module/x", b"a/x", b"none", b"b//e", b"/a", b"a\0", b"..", b"."):
        assert read.entry(odd, path) is None
        assert read.walk(odd, path, after=b"", most=9, deep=True) == ([], False)
    assert read.commit(odd).message == b"\xff\n"


def test_a_folder_whose_tree_is_lost_lists_as_empty(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    lost = Entry(mode=0o040000, oid=Oid("2" * 40))
    tree = staging.edit(None, {b"a": Entry(mode=FILE, oid=staging.put(b"x")), b"lost": lost})
    staging.draft((), tree, b"m")
    commit = build_commit(tree, (), author=AUTHOR, committer=AUTHOR, message=b"m\n")
    write_pack(repository, (*staging.staged(), commit))
    read = Snapshot(repository)
    assert [one.path for one in _pages(read, commit.oid, b"", True, 9)] == [b"a"]
    assert [one.path for one in _pages(read, commit.oid, b"", False, 9)] == [b"a", b"lost"]
    with pytest.raises(BadObject):
        read.entry(commit.oid, b"lost/x")


def test_a_blob_is_read_with_its_size(repository: Path, odd: Oid) -> None:
    read = Snapshot(repository)
    oid = read.entry(odd, b"\xff\xfe").oid
    assert (read.blob(oid), read.blob_size(oid)) == (b"needle\nhay\n", 11)
    for other in (odd, NULL):
        with pytest.raises(BadObject):
            read.blob(other)
        with pytest.raises(BadObject):
            read.blob_size(other)


def _bomb(repository: Path) -> Oid:
    """THREATS G11: ten trees of ten names each, the deepest of a blob: ten thousand million files in 12 objects."""
    objects = [staged("blob", b"x")]
    mode = b"100644"
    for _ in range(10):
        row = mode + b" %d\0" + bytes.fromhex(objects[-1].oid)
        objects.append(staged("tree", b"".join(row.replace(b"%d", b"%d" % digit) for digit in range(10))))
        mode = b"40000"
    objects.append(build_commit(objects[-1].oid, (), author=AUTHOR, committer=AUTHOR, message=b"m\n"))
    write_pack(repository, objects)
    return objects[-1].oid


def test_a_git_bomb_is_listed_and_searched_within_its_time(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 1.0)
    bomb = _bomb(repository)
    read = Snapshot(repository)
    begun = time.monotonic()
    page, stopped = read.walk(bomb, b"", after=b"", most=10**9, deep=True)
    assert stopped
    assert 0 < len(page) <= 10_000
    further, _ = read.walk(bomb, b"", after=page[-1].path, most=5, deep=True)
    assert all(one.path > page[-1].path for one in further)
    assert len(further) == 5
    hits, stopped = search(repository, bomb, "nowhere", most=5, seconds=0.2)
    assert (hits, stopped) == ([], True)
    assert time.monotonic() - begun < 60  # the whole would take for ever


def test_a_listing_stops_when_its_time_is_over(repository: Path, odd: Oid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", -1.0)
    assert Snapshot(repository).walk(odd, b"", after=b"", most=9, deep=True) == ([], True)
    assert Snapshot(repository).log(odd, 9) == []


def _search_all(repository: Path, commit: Oid, text: str, most: int) -> list[ports.Hit]:
    found, after = [], (b"", 0)
    while page := search(repository, commit, text, after=after, most=most, seconds=60)[0]:
        found += page
        after = (page[-1].path, page[-1].number)
    return found


@pytest.mark.parametrize("most", [1, 4, 100])
def test_all_pages_of_a_search_give_every_line_once(repository: Path, odd: Oid, most: int) -> None:
    found = _search_all(repository, odd, "needle", most)
    assert [(hit.path, hit.number, hit.line) for hit in found] == [
        (path, 1, b"needle")
        for path in sorted(
            [b"a", b"a-b", b"a.c/x", b"b/c/d", b"b/e", b"\xff\xfe", b"new\nline", b"-x", b"b0", b"odd mode"]
        )
    ]


def test_a_search_takes_text_letter_by_letter(repository: Path, grow: Grow) -> None:
    files = {
        "a": b"x.y\nxzy\n--all\n[a\n\xff n\nUPPER\n" + b"l" * 400_000 + b"end\n",
        "bin": b"\0x.y\n",
        "late": b"q\n" * 5_000,
    }
    tip = grow(files)
    one = {
        text: search(repository, tip, text, most=9, seconds=60)[0]
        for text in ("x.y", "--all", "[a", "upper", "end", "none")
    }
    assert {text: [hit.number for hit in hits] for text, hits in one.items()} == {
        "x.y": [1], "--all": [3], "[a": [4], "upper": [], "end": [7], "none": [],
    }  # fmt: skip
    assert one["end"][0].line == b"l" * 500
    assert [hit.number for hit in search(repository, tip, "upper", ignore_case=True, most=9)[0]] == [6]
    assert [hit.number for hit in search(repository, tip, "q", most=2)[0]] == [1, 2]
    assert len(_search_all(repository, tip, "q", 1_250)) == 5_000


@pytest.mark.parametrize("under", [b":(exclude)a", b":(glob)**", b"*", b"..", b":/", b"b/../a", b"none"])
def test_a_folder_to_search_is_no_pattern(repository: Path, odd: Oid, under: bytes) -> None:
    assert search(repository, odd, "needle", under=under, most=9)[0] == []
    assert [hit.path for hit in search(repository, odd, "needle", under=b"b", most=9)[0]] == [b"b/c/d", b"b/e"]


def test_a_text_of_two_lines_or_none_is_refused(repository: Path, odd: Oid) -> None:
    for text in ("", "a\nb", "a\0b"):
        with pytest.raises(Refusal):
            search(repository, odd, text, most=9)
    with pytest.raises(BadObject):
        search(repository, Oid("f" * 40), "x", most=9)


def test_a_snapshot_searches_too(repository: Path, odd: Oid) -> None:
    read = Snapshot(repository)
    hits, stopped = read.search(odd, "NEEDLE", under=b"b/e", ignore_case=True, after=(b"", 0), most=9)
    assert ([hit.path for hit in hits], stopped) == ([b"b/e"], False)


def test_five_thousand_files_are_walked_in_pages(repository: Path, grow: Grow) -> None:
    tip = grow({f"d{number % 7}/f{number}": b"x" for number in range(5_000)})
    assert len(_pages(Snapshot(repository), tip, b"", True, 500)) == 5_000
    assert len(_pages(Snapshot(repository), tip, b"d3", False, 357)) == 714
    RefTransaction(repository, None, (MoveRef(ref="refs/heads/x", old=NULL, new=tip),)).lock()
    assert os.path.exists(repository / "refs/heads/x.lock")  # noqa: PTH110
    assert [ref.name for ref in Snapshot(repository).branches(b"", 9)] == [b"main"]

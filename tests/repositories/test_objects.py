"""Objects built beside a repository are the ones git would build."""

import hashlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.contract.data import NULL, Draft, Entry, LineCount, Oid
from service.contract.world import OutOfTime
from service.repositories.objects import (
    Damaged,
    build_commit,
    decode,
    encode,
    staged,
)
from service.repositories.packs import write_pack
from service.repositories.reading import BadObject, Kind, Objects
from service.repositories.staging import Staging, manifest_lines

AUTHOR = b"Claude (conn-1) <conn-1@placet.example> 1700000000 +0000"
FILE = 0o100644
NAMES = (b"a", b"a-b", b"a.c", b"a0", b"ab", b"b", b"\xff\xfe", "é".encode(), b"with space", b"new\nline")


def _random_path(rng: random.Random) -> bytes:
    return b"/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 4)))


def _free(path: bytes, taken: set[bytes]) -> bool:
    return not any(path == other or path.startswith(other + b"/") or other.startswith(path + b"/") for other in taken)


def test_a_blob_has_the_id_that_git_gives_it() -> None:
    assert staged("blob", b"aGVsbG8gd29ybGQK").oid == "d4027b29389e7575881ddc454965cb5ea497204e"


@pytest.mark.parametrize("seed", range(12))
def test_edits_of_random_trees_equal_those_of_git_update_index(repository: Path, git: Callable, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  a seed that a failure names
    index = {"GIT_INDEX_FILE": str(repository / "index"), "GIT_DIR": str(repository)}
    present: set[bytes] = set()
    tree = None
    for _ in range(4):
        staging = Staging(repository, AUTHOR)
        gone = {path for path in sorted(present) if rng.random() < 0.4}
        edits: dict[bytes, Entry | None] = dict.fromkeys(gone)
        lines = [b"0 " + NULL.encode() + b"\t" + path for path in gone]
        for path in (_random_path(rng) for _ in range(15)):
            if _free(path, (present - gone - {path}) | {key for key, value in edits.items() if value and key != path}):
                mode = rng.choice((FILE, 0o100755, 0o120000))
                edits[path] = Entry(mode=mode, oid=staging.put(rng.randbytes(9)))
        lines += [b"%o %s\t%s" % (entry.mode, entry.oid.encode(), path) for path, entry in edits.items() if entry]
        tree = staging.edit(tree, edits)
        staging.draft((), tree, b"x")
        write_pack(repository, staging.staged())
        git(repository, "update-index", "-z", "--index-info", stdin=b"\0".join(lines) + b"\0", **index)
        assert git(repository, "write-tree", **index).decode() == tree
        present = (present - gone) | {path for path, entry in edits.items() if entry}
        listed = git(repository, "ls-tree", "-r", "-z", "--name-only", tree).split(b"\0")
        assert set(filter(None, listed)) == present


def test_a_file_takes_a_folder_s_place_and_a_folder_a_file_s(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    entry = Entry(mode=FILE, oid=staging.put(b"x"))
    tree = staging.edit(None, {b"a/b/c": entry, b"d": entry})
    assert staging.edit(tree, {b"a/b/c": None, b"a": entry, b"d": None, b"d/e": entry}) == staging.edit(
        None, {b"a": entry, b"d/e": entry}
    )
    assert staging.edit(tree, {b"a/b": entry}) == staging.edit(None, {b"a/b": entry, b"d": entry})
    assert staging.edit(tree, {b"d/x": entry}) == staging.edit(None, {b"a/b/c": entry, b"d/x": entry})


def test_a_path_that_is_set_to_a_file_and_to_a_folder_is_a_mistake(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    entry = Entry(mode=FILE, oid=staging.put(b"x"))
    with pytest.raises(ValueError, match="a file and to a folder"):
        staging.edit(None, {b"a": entry, b"a/b": entry})


def test_taking_everything_away_leaves_the_empty_tree_and_no_folder(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    tree = staging.edit(None, {b"a/b/c": Entry(mode=FILE, oid=staging.put(b"x"))})
    assert staging.edit(tree, {b"a/b/c": None}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert staging.edit(tree, {b"a": None, b"a/b/c": None, b"never/was": None}) == staging.edit(None, {})


def test_a_path_of_a_thousand_folders_is_edited(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    path = b"/".join([b"d"] * 1_024)
    tree = staging.edit(None, {path: Entry(mode=FILE, oid=staging.put(b"x"))})
    assert staging.entry(tree, path) == Entry(mode=FILE, oid=staging.put(b"x"))
    assert [change.path for change in staging.changes(None, tree)] == [path]


class _Counting(Staging):
    reads = 0

    def read(self, oid: Oid, kind: Kind) -> bytes:
        self.reads += 1
        return super().read(oid, kind)


@pytest.mark.parametrize("folders", [1, 1_000])
def test_an_edit_reads_the_trees_on_its_path_and_no_others(repository: Path, folders: int) -> None:
    """100,000 files in 1,000 folders: names of one blob, so that only the trees are many."""
    base = Staging(repository, AUTHOR)
    entry = Entry(mode=FILE, oid=base.put(b"x"))
    tree = base.edit(None, {b"top/%d/%d" % (folder, file): entry for folder in range(folders) for file in range(100)})
    base.draft((), tree, b"x")
    write_pack(repository, base.staged())
    staging = _Counting(repository, AUTHOR)
    edited = staging.edit(tree, {b"top/0/7": Entry(mode=FILE, oid=staging.put(b"y"))})
    assert staging.reads == 3
    assert [change.path for change in staging.changes(tree, edited)] == [b"top/0/7"]
    assert staging.reads == 9
    staging.draft((), edited, b"x")
    assert [one.kind for one in staging.staged()] == ["tree", "tree", "tree", "blob"]


@pytest.mark.parametrize("seed", range(6))
def test_changes_are_those_of_git_diff_tree(repository: Path, git: Callable, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  a seed that a failure names
    staging = Staging(repository, AUTHOR)
    trees = []
    for _ in range(2):
        edits: dict[bytes, Entry | None] = {}
        for path in (_random_path(rng) for _ in range(25)):
            if _free(path, set(edits) - {path}):
                edits[path] = Entry(mode=rng.choice((FILE, 0o100755)), oid=staging.put(rng.choice((b"1", b"2"))))
        trees.append(staging.edit(None, edits))
        staging.draft((), trees[-1], b"x")
    write_pack(repository, staging.staged())
    raw = git(repository, "diff-tree", "-r", "-z", "--no-renames", *trees).split(b"\0")
    expected = [(path, *head[1:].split()[:4]) for head, path in zip(raw[::2], raw[1::2], strict=False)]
    none = Entry(mode=0, oid=NULL)
    found = [
        (change.path, b"%06o" % old.mode, b"%06o" % new.mode, old.oid.encode(), new.oid.encode())
        for change in staging.changes(*trees)
        for old, new in [(change.old or none, change.new or none)]
    ]
    assert found == expected
    assert [path for path, *_ in found] == sorted(path for path, *_ in found)


def test_lines_are_counted_and_binary_content_is_not(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    text, other, late = staging.put(b"a\nb\n"), staging.put(b"a\nc\nd"), staging.put(b"x" * 8_000 + b"\0")
    assert staging.line_count(text, other) == LineCount(added=2, removed=1)
    assert staging.line_count(None, text) == LineCount(added=2, removed=0)
    assert staging.line_count(text, text) == LineCount(added=0, removed=0)
    assert staging.line_count(staging.put(b"x" * 7_999 + b"\0"), text) is None
    assert staging.line_count(late, None) == LineCount(added=0, removed=1)


def test_a_commit_is_byte_for_byte_git_s(repository: Path, git: Callable) -> None:
    staging = Staging(repository, AUTHOR)
    draft = staging.draft((), staging.edit(None, {b"a": Entry(mode=FILE, oid=staging.put(b"x"))}), b"Subject\n\nBody\n")
    who = b"A <a@example.org> 1700000000 +0000", b"C <c@example.org> 1700000000 +0000"
    commit = build_commit(draft.tree, (), author=who[0], committer=who[1], message=draft.message)
    write_pack(repository, (*staging.staged(), commit))
    assert git(repository, "commit-tree", draft.tree, stdin=b"Subject\n\nBody\n").decode() == commit.oid


def test_a_signature_header_is_folded_and_git_reads_it_back(repository: Path, git: Callable) -> None:
    tree = staged("tree", b"")
    signature = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"
    commit = build_commit(
        tree.oid, (), author=AUTHOR, committer=AUTHOR, message=b"m\n", extra=((b"gpgsig", signature),)
    )
    write_pack(repository, (tree, commit))
    assert git(repository, "fsck", "--strict", "--no-dangling") == b""
    read = Objects(repository).commit(commit.oid)
    assert (read.tree, read.author, read.committer, read.message) == (tree.oid, AUTHOR, AUTHOR, b"m\n")
    assert b"\ngpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n\nm\n" in commit.content


@pytest.mark.parametrize(
    "identity",
    [
        b"",
        b"A <a@b> 1 +0000\n",
        b"A\nB <a@b> 1 +0000",
        b"A\0 <a@b> 1 +0000",
        b"A <a>b> 1 +0000",
        b"A <x> <a@b> 1 +0000",
        b"A <a@b> 01 +0000",
        b"A <a@b> 1 0000",
        b"A <a@b> -1 +0000",
        b" <a@b> 1 +0000",
        b"<a@b> 1 +0000",
        b"A<a@b> 1 +0000",
    ],
)
def test_an_identity_line_that_would_be_read_otherwise_is_refused(identity: bytes) -> None:
    with pytest.raises(ValueError, match="identity"):
        build_commit(NULL, (), author=AUTHOR, committer=identity, message=b"")


def test_a_header_or_message_that_ends_early_is_refused() -> None:
    for message, extra in ((b"a\0b", ()), (b"", ((b"x\n", b"y"),)), (b"", ((b"x", b"\0"),))):
        with pytest.raises(ValueError, match="NUL"):
            build_commit(NULL, (), author=AUTHOR, committer=AUTHOR, message=message, extra=extra)


def test_only_what_the_drafts_reach_is_kept(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    staging.put(b"never used")
    draft = staging.draft((), staging.edit(None, {b"a/b": Entry(mode=FILE, oid=staging.put(b"x"))}), b"m")
    assert [one.kind for one in staging.staged()] == ["tree", "tree", "blob"]
    assert draft.tree in {one.oid for one in staging.staged()}


def test_staged_objects_read_back_from_the_store(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    tree = staging.edit(None, {b"a": Entry(mode=FILE, oid=staging.put(b"x" * 100_000)), b"b": None})
    draft = staging.draft((), tree, b"m")
    stored = encode(staging.staged())
    assert len(stored) < 1_000
    again = Staging(repository, AUTHOR, objects=decode(stored), drafts=(draft,))
    assert again.staged() == staging.staged()
    assert encode(again.staged()) == stored
    assert again.commit(draft.id).tree == tree
    assert again.blob(again.entry(tree, b"a").oid) == b"x" * 100_000
    assert decode(encode(())) == ()


def test_a_stored_value_with_one_byte_changed_or_cut_is_refused() -> None:
    stored = encode((staged("blob", b"hello"), staged("tree", b"")))
    for at in range(len(stored)):
        for damaged in (stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :], stored[:at]):
            with pytest.raises(Damaged):
                decode(damaged)


def test_planning_twice_gives_the_same_provisional_id_and_another_message_another(repository: Path) -> None:
    one, two = (Staging(repository, AUTHOR) for _ in range(2))
    tree = one.edit(None, {})
    assert one.draft((), tree, b"m") == two.draft((), tree, b"m")
    assert one.draft((), tree, b"m").id != two.draft((), tree, b"n").id
    assert one.commit(one.draft((tree,), tree, b"m").id).parents == (tree,)


def test_a_deadline_in_the_past_ends_planning(repository: Path) -> None:
    staging = Staging(repository, AUTHOR, deadline=time.monotonic() - 1)
    with pytest.raises(OutOfTime):
        list(staging.changes(None, staging.put_tree(b"")))


def test_what_is_not_there_or_of_another_kind_is_said(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    blob = staging.put(b"x")
    write_pack(repository, (staged("blob", b"stored"),))
    for oid in (NULL, blob, staged("blob", b"stored").oid, Oid("f" * 40), Draft(Oid("ab" * 20))):
        with pytest.raises(BadObject):
            staging.commit(oid)
    with pytest.raises(BadObject):
        Objects(repository).names(staged("blob", b"stored").oid)
    assert staging.entry(None, b"a") is None
    assert staging.entry(staging.edit(None, {b"f": Entry(mode=FILE, oid=blob)}), b"f/g") is None


def test_a_manifest_has_the_sha256_of_what_each_path_becomes(repository: Path) -> None:
    staging = Staging(repository, AUTHOR)
    module = Entry(mode=0o160000, oid=Oid("1" * 40))
    old = staging.edit(None, {b"gone": Entry(mode=FILE, oid=staging.put(b"x"))})
    edits = {b"link": Entry(mode=0o120000, oid=staging.put(b"target")), b"gone": None, b"module": module}
    lines = manifest_lines(staging, old, staging.edit(old, edits))
    assert [(line.path, line.mode, line.sha256) for line in lines] == [
        (b"gone", 0, ""),
        (b"link", 0o120000, hashlib.sha256(b"target").hexdigest()),
        (b"module", 0o160000, hashlib.sha256(b"1" * 40).hexdigest()),
    ]


def test_a_pack_passes_git_and_may_be_written_again(repository: Path, git: Callable) -> None:
    objects = [staged("blob", bytes([number]) * number * 37) for number in range(200)]
    name = write_pack(repository, objects)
    before = sorted(path.name for path in (repository / "objects" / "pack").iterdir())
    assert write_pack(repository, [*reversed(objects), objects[0]]) == name
    assert sorted(path.name for path in (repository / "objects" / "pack").iterdir()) == before
    git(repository, "verify-pack", f"objects/pack/{name}.idx")
    assert git(repository, "fsck", "--strict", "--no-dangling") == b""
    assert Objects(repository).blob(objects[7].oid) == objects[7].content


def test_a_pack_without_its_index_is_not_there_and_writing_it_again_completes_it(
    repository: Path, git: Callable
) -> None:
    one = staged("blob", b"x")
    name = write_pack(repository, (one,))
    (repository / "objects" / "pack" / f"{name}.idx").unlink()
    assert Objects(repository).header(one.oid) is None
    write_pack(repository, (one,))
    assert git(repository, "cat-file", "blob", one.oid) == b"x"


def test_a_full_disk_leaves_nothing_behind(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("service.repositories.durable.write_all", full)
    with pytest.raises(OSError, match="No space"):
        write_pack(repository, (staged("blob", b"x"),))
    assert list((repository / "objects" / "pack").iterdir()) == []

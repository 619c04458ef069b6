"""Maintenance leaves few packs and few loose refs, and nobody ever sees anything missing, whatever is killed when."""

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from service.contract.data import NULL, Oid
from service.contract.plan import MoveRef
from service.repositories import maintenance
from service.repositories.git import Call, GitFailed, run
from service.repositories.lease import Lease
from service.repositories.maintenance import LOOSE_REFS_MOST, PACKS_MOST, Maintenance, wants_maintenance
from service.repositories.reading import Objects
from service.repositories.refs import RefMoved, RefTransaction, list_refs, read_ref, remove_leftover_locks
from service.repositories.snapshot import Snapshot

MAIN = "refs/heads/main"
FORK = multiprocessing.get_context("fork")
PATIENCE_SECONDS = 60
MOMENTS = 6
FEW = 20
ROUNDS = 6


@pytest.fixture(name="few")
def few_fixture(monkeypatch: pytest.MonkeyPatch) -> int:
    """Fewer loose refs than elsewhere are enough to be packed."""
    monkeypatch.setattr(maintenance, "LOOSE_REFS_MOST", FEW)
    return FEW


def maintain(repository: Path, step: Callable[[str], None] = lambda _name: None) -> None:
    """Maintain as the worker does."""
    with Lease.acquire(repository, PATIENCE_SECONDS) as lease:
        Maintenance(repository, lease.fd, PATIENCE_SECONDS, step)()


def packs(repository: Path) -> set[str]:
    return {path.stem for path in (repository / "objects" / "pack").glob("*.idx")}


def objects(git: Callable, repository: Path) -> set[bytes]:
    return set(git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())


def history(grow: Callable, count: int, tip: Oid = NULL) -> list[Oid]:
    """So many commits, each in a pack of its own."""
    made = []
    for number in range(count):
        tip = grow({f"f{number % 7}": b"%d\n" % number, f"d/{number}": b"x\n"}, tip)
        made.append(tip)
    return made


def mark(git: Callable, repository: Path, tip: Oid, count: int = LOOSE_REFS_MOST) -> list[str]:
    """So many loose markers."""
    names = [f"refs/proposals/{number:08d}" for number in range(count)]
    git(repository, "update-ref", "--stdin", stdin="".join(f"create {name} {tip}\n" for name in names).encode())
    return names


def test_many_small_packs_become_one_and_every_object_is_still_there(
    repository: Path, grow: Callable, git: Callable
) -> None:
    commits = history(grow, PACKS_MOST - 1)
    assert not wants_maintenance(repository)
    history(grow, 1, commits[-1])
    assert wants_maintenance(repository)
    before = objects(git, repository)
    maintain(repository)
    assert len(packs(repository)) == 1
    assert objects(git, repository) == before
    assert git(repository, "fsck", "--strict", "--no-dangling") == b""


def test_a_large_pack_is_left_as_it_is_and_so_is_one_that_somebody_keeps(repository: Path, grow: Callable) -> None:
    commits = history(grow, 30)
    maintain(repository)
    (large,) = packs(repository)
    tip = history(grow, 1, commits[-1])[0]
    (kept,) = packs(repository) - {large}
    (repository / "objects" / "pack" / f"{kept}.keep").touch()
    history(grow, 4, tip)
    maintain(repository)
    assert packs(repository) >= {large, kept}
    assert len(packs(repository)) == 3


def test_loose_objects_are_packed_and_their_files_are_gone(repository: Path, grow: Callable, git: Callable) -> None:
    history(grow, 3)
    name = git(repository, "hash-object", "-w", "--stdin", stdin=b"loose\n").decode()
    loose = repository / "objects" / name[:2] / name[2:]
    assert loose.exists()
    maintain(repository)
    assert not loose.exists()
    assert Objects(repository).blob(Oid(name)) == b"loose\n"


def test_an_empty_repository_has_nothing_to_maintain(repository: Path) -> None:
    maintain(repository)
    assert packs(repository) == set()


def test_markers_are_packed_and_are_still_found_and_made_only_once(
    repository: Path, grow: Callable, git: Callable
) -> None:
    tip = history(grow, 2)[-1]
    few = mark(git, repository, tip, LOOSE_REFS_MOST - 1)
    maintain(repository)
    assert (repository / few[0]).exists()
    git(repository, "update-ref", "refs/proposals/last", tip)
    maintain(repository)
    assert not list((repository / "refs" / "proposals").iterdir())
    assert {read_ref(repository, name) for name in (*few, "refs/proposals/last", MAIN)} == {tip}
    again = RefTransaction(repository, (few[7], tip), [])
    again.lock()
    with pytest.raises(RefMoved):
        again.verify()
    again.abort()
    new = grow({"more": b"1\n"}, tip)
    assert (read_ref(repository, MAIN), len(list_refs(repository, "refs/proposals/"))) == (new, LOOSE_REFS_MOST)


def test_markers_in_a_long_packed_refs_wait_for_more_before_it_is_written_again(
    repository: Path, grow: Callable, git: Callable
) -> None:
    tip = history(grow, 1)[0]
    lines = "".join(f"{tip} refs/proposals/p{number:06d}\n" for number in range(60_000))
    (repository / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{lines}")
    names = mark(git, repository, tip)
    maintain(repository)
    assert (repository / names[0]).exists()


def test_a_damaged_pack_ends_it_and_nothing_is_removed(repository: Path, grow: Callable) -> None:
    history(grow, 6)
    path = next((repository / "objects" / "pack").glob("*.pack"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(content)
    before = packs(repository)
    with pytest.raises(GitFailed):
        maintain(repository)
    assert packs(repository) >= before


def test_out_of_time_it_ends_and_nothing_is_removed(repository: Path, grow: Callable) -> None:
    history(grow, 6)
    before = packs(repository)
    with Lease.acquire(repository, 0) as lease, pytest.raises(GitFailed):
        Maintenance(repository, lease.fd, 0, lambda _name: None)()
    assert packs(repository) == before


# What reads while maintenance runs: `steady` keeps one repository open, the others open it anew each time.
def _steady(repository: Path, commits: Sequence[Oid]) -> None:
    store = Objects(repository)
    for commit in commits * 3:
        entry = store.entry(store.commit(commit).tree, b"f0")
        assert entry
        store.blob(entry.oid)


def _anew(repository: Path, commits: Sequence[Oid]) -> None:
    for number, commit in enumerate(commits):
        assert Snapshot(repository).entry(commit, b"f0")
        assert read_ref(repository, f"refs/proposals/{number:08d}") == commits[-1]
    assert len(list_refs(repository, "refs/proposals/")) == FEW
    assert Snapshot(repository).resolve("main")


def _by_git(repository: Path, commits: Sequence[Oid]) -> None:
    counted = run(Call(repository, ("rev-list", "--objects", "--count", "main", *commits), 10))
    assert int(counted) >= len(commits)
    run(Call(repository, ("rev-parse", "--verify", "--quiet", "refs/proposals/00000001^{tree}"), 10))


def _read_on(read: Callable, repository: Path, commits: Sequence[Oid], stop: Event, rounds: object) -> None:
    while not stop.is_set():
        read(repository, commits)
        rounds.value += 1  # type: ignore[attr-defined]


def test_who_reads_without_pause_never_misses_an_object_or_a_ref(
    repository: Path, grow: Callable, git: Callable, few: int
) -> None:
    commits = history(grow, 10)
    mark(git, repository, commits[-1], few)
    stop = FORK.Event()
    rounds = [FORK.Value("i", 0) for _ in range(3)]
    readers = [
        FORK.Process(target=_read_on, args=(read, repository, tuple(commits), stop, count))
        for read, count in zip((_steady, _anew, _by_git), rounds, strict=True)
    ]
    for reader in readers:
        reader.start()
    tip, until = commits[-1], time.monotonic() + PATIENCE_SECONDS
    done = 0
    while (done < ROUNDS or min(count.value for count in rounds) < ROUNDS) and time.monotonic() < until:
        tip = history(grow, 3, tip)[-1]
        maintain(repository)
        done += 1
        again = "".join(f"update refs/proposals/{number:08d} {commits[-1]}\n" for number in range(few))
        git(repository, "update-ref", "--stdin", stdin=again.encode())
        if any(reader.exitcode is not None for reader in readers):
            break
    stop.set()
    for reader in readers:
        reader.join(PATIENCE_SECONDS)
    assert [reader.exitcode for reader in readers] == [0, 0, 0]
    assert min(count.value for count in rounds) >= ROUNDS


def _whole(git: Callable, repository: Path) -> tuple[dict[str, Oid], set[bytes]]:
    return dict(list_refs(repository, "refs/")), objects(git, repository)


def test_killed_at_any_moment_it_loses_nothing_and_leaves_nothing(
    repository: Path, grow: Callable, git: Callable, few: int, tmp_path: Path
) -> None:
    commits = history(grow, 12)
    maintain(repository)
    history(grow, 12, commits[-1])
    git(repository, "hash-object", "-w", "--stdin", stdin=b"loose\n")
    mark(git, repository, commits[-1], few)
    want = _whole(git, repository)
    trial, ends = tmp_path / "trial.git", 0
    shutil.copytree(repository, trial)
    begun = time.monotonic()
    maintain(trial)
    whole = time.monotonic() - begun
    for moment in range(MOMENTS):
        shutil.rmtree(trial)
        shutil.copytree(repository, trial)
        child = FORK.Process(target=maintain, args=(trial,))
        child.start()
        child.join(whole * (moment + 0.5) / MOMENTS)
        child.kill()
        child.join(PATIENCE_SECONDS)
        if child.exitcode == -signal.SIGKILL:
            ends += 1
        else:
            whole /= 2  # the machine was busy when it was measured
        _recovers(git, trial, want)
    assert ends


def _recovers(git: Callable, trial: Path, want: tuple[dict[str, Oid], set[bytes]]) -> None:
    with Lease.acquire(trial, PATIENCE_SECONDS):  # a git child that lives on for a moment has it
        remove_leftover_locks(trial)
    assert _whole(git, trial) == want
    names = [path.name for path in trial.rglob("*")]
    assert not [name for name in names if name.endswith((".lock", ".new")) or name.startswith(("tmp_", ".tmp-"))]
    maintain(trial)
    assert _whole(git, trial) == want
    assert len(packs(trial)) <= 2
    assert git(trial, "fsck", "--strict", "--no-dangling") == b""


STEPS = ("repacked", "removed", "refs copied", "refs packed")


@pytest.mark.parametrize("last", STEPS)
def test_ended_after_a_step_everything_is_there_and_it_is_done_again(
    repository: Path, grow: Callable, git: Callable, few: int, last: str
) -> None:
    mark(git, repository, history(grow, 8)[-1], few)
    want = _whole(git, repository)

    def step(name: str) -> None:
        if name == last:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        maintain(repository, step)
    _recovers(git, repository, want)


TRACED = """
import os, pathlib, sys
from service.repositories import maintenance
maintenance.LOOSE_REFS_MOST = 1
repository = pathlib.Path(sys.argv[1])
maintenance.Maintenance(repository, os.open(repository, os.O_RDONLY), 60, lambda _name: None)()
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
def test_the_new_is_flushed_with_its_folder_before_anything_old_is_removed(
    repository: Path, grow: Callable, git: Callable, tmp_path: Path
) -> None:
    mark(git, repository, history(grow, 8)[-1], FEW)
    git(repository, "hash-object", "-w", "--stdin", stdin=b"loose\n")
    log = tmp_path / "calls"
    calls = "trace=fsync,rename,renameat,unlink,unlinkat"
    traced = [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-y",
        "-o",
        str(log),
        "-e",
        calls,
        sys.executable,
        "-c",
        TRACED,
        str(repository),
    ]
    subprocess.run(traced, check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})  # noqa: PTH109  where tests run
    lines = log.read_text().splitlines()
    top = re.escape(str(repository))

    def first(pattern: str, after: int = -1) -> int:
        return next(at for at, line in enumerate(lines) if at > after and re.search(pattern, line))

    named = first(r'rename.*tmp_idx_.*pack-[0-9a-f]+\.idx"')
    flushed = first(rf"fsync\(\d+<{top}/objects/pack>", named)
    assert flushed < first(r'unlink.*pack-[0-9a-f]+\.(idx|pack)"')
    assert flushed < first(r'unlink.*objects/[0-9a-f]{2}/[0-9a-f]{38}"')
    named = first(r'rename.*packed-refs\.new.*packed-refs"')
    assert first(rf"fsync\(\d+<{top}>", named) < first(r'unlink.*refs/proposals/\d+"')


def test_what_killed_git_leaves_is_removed(repository: Path, grow: Callable, git: Callable) -> None:
    history(grow, 2)
    (repository / "packed-refs.new").touch()
    orphan = repository / "objects" / "pack" / f"pack-{'1' * 40}.pack"
    orphan.write_bytes(b"PACK")
    assert remove_leftover_locks(repository) == ("packed-refs.new",)  # its index may still come
    os.utime(orphan, (0, 0))
    assert remove_leftover_locks(repository) == (orphan.relative_to(repository).as_posix(),)
    assert len(packs(repository)) == 2
    git(repository, "pack-refs", "--all")


def test_a_branch_that_was_packed_is_deleted_and_stays_away(repository: Path, grow: Callable, git: Callable) -> None:
    tip = history(grow, 1)[0]
    git(repository, "update-ref", "refs/heads/old", tip)
    mark(git, repository, tip)
    maintain(repository)
    transaction = RefTransaction(repository, None, [MoveRef(ref="refs/heads/old", old=tip, new=NULL)])
    transaction.lock()
    transaction.verify()
    transaction.stage()
    transaction.commit_moves()
    maintain(repository)
    assert read_ref(repository, "refs/heads/old") == NULL
    assert read_ref(repository, "refs/proposals/00000001") == tip

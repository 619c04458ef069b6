"""Killed, or refused by the disk, at every single call that changes something: recovery ends in the one right state."""

import errno
import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from service.contract.data import NULL, Entry, Oid
from service.contract.plan import MoveRef
from service.repositories.bare import BareRepository
from service.repositories.objects import Staged, build_commit
from service.repositories.packs import write_pack
from service.repositories.refs import RefTransaction, read_ref, remove_leftover_locks
from service.repositories.staging import Staging
from service.writer.reconcile import roll_forward

AUTHOR = b"Claude (conn-1) <conn-1@placet.example> 1700000000 +0000"
MAIN = "refs/heads/main"
CALLS = ("open", "write", "fsync", "rename", "unlink", "mkdir", "rmdir", "ftruncate")
FORK = multiprocessing.get_context("fork")


class _Fails:
    """Makes the n-th call of any of CALLS fail, before or after it has happened."""

    def __init__(self, at: int, how: str) -> None:
        self._at = at
        self._how = how
        self._calls = itertools.count()

    def install(self) -> None:
        for name in CALLS:
            setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, plain: Callable) -> Callable:
        def call(*arguments: object, **options: object) -> object:
            now = next(self._calls) == self._at
            if now and self._how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if now:
                raise OSError(errno.EIO, "Input/output error")
            return plain(*arguments, **options)

        return call


def _steps(repository: Path, objects: Iterable[Staged], transaction: RefTransaction) -> None:
    write_pack(repository, objects)
    for step in (transaction.lock, transaction.verify, transaction.stage):
        step()
    transaction.commit_marker()
    transaction.commit_moves()


def _attempt(fails: _Fails, repository: Path, objects: Iterable[Staged], transaction: RefTransaction) -> None:
    fails.install()
    try:
        _steps(repository, objects, transaction)
    except OSError:
        transaction.abort()
        os._exit(3)


def _commit(repository: Path, parent: Oid, number: int) -> tuple[Staged, ...]:
    staging = Staging(repository, AUTHOR)
    edits = {b"a/%d" % number: Entry(mode=0o100644, oid=staging.put(b"%d\n" % number))}
    tree = staging.edit(staging.commit(parent).tree, edits)
    staging.draft((parent,), tree, b"m\n")
    commit = build_commit(tree, (parent,), author=AUTHOR, committer=AUTHOR, message=b"m\n")
    return (*staging.staged(), commit)


@pytest.mark.parametrize("how", ["killed", "refused"])
def test_every_call_may_be_the_last(repository: Path, grow: Callable, git: Callable, how: str) -> None:
    tip = grow({"a/x": b"1\n"})
    git(repository, "update-ref", "refs/heads/gone", tip)
    for number in itertools.count():
        git(repository, "pack-refs", "--all")
        objects = _commit(repository, tip, number)
        new, marker = objects[-1].oid, f"refs/proposals/{number}"
        moves = (
            MoveRef(ref=MAIN, old=tip, new=new),
            MoveRef(ref="refs/heads/gone", old=read_ref(repository, "refs/heads/gone"), new=NULL),
            MoveRef(ref=f"refs/heads/made/{number}/x", old=NULL, new=new),
        )
        transaction = RefTransaction(repository, (marker, new), moves)
        child = FORK.Process(target=_attempt, args=(_Fails(number, how), repository, objects, transaction))
        child.start()
        child.join(30)
        _recover(repository, objects, marker, moves)
        assert [read_ref(repository, move.ref) for move in moves] == [move.new for move in moves]
        assert not [
            path for path in repository.rglob("*") if path.name.endswith(".lock") or path.name.startswith("tmp_")
        ]
        git(repository, "update-ref", "refs/heads/gone", new)
        tip = new
        if child.exitcode == 0:
            break
        assert child.exitcode == (-signal.SIGKILL if how == "killed" else 3)
    assert number > 25
    assert git(repository, "fsck", "--strict", "--no-dangling") == b""
    assert int(git(repository, "rev-list", "--count", MAIN)) == number + 2


def _recover(repository: Path, objects: tuple[Staged, ...], marker: str, moves: tuple[MoveRef, ...]) -> None:
    remove_leftover_locks(repository)
    if read_ref(repository, marker) == NULL:
        assert [read_ref(repository, move.ref) for move in moves] == [move.old for move in moves]
        _steps(repository, objects, RefTransaction(repository, (marker, objects[-1].oid), moves))
    else:
        write_pack(repository, objects)
        roll_forward(BareRepository(repository), (marker, objects[-1].oid), moves, lambda *_: False)

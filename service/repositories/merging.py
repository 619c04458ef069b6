"""Merge commits with the git program, without a working tree: what is predicted is what is executed.

The merge's objects are staged beside the repository. git before 2.40 cannot be told a base: then both sides are
committed anew on top of it, which gives `git merge-tree` the same three trees.
Source: git-merge-tree(1), "Output"; git-rebase(1), "--empty", "--reapply-cherry-picks".
"""

from typing import Protocol

from service.contract.data import Commit, Entry, Oid
from service.contract.world import Merged, Replay


class Bench(Protocol):
    """Where a merge is made; `repositories.staging.Staging` is one."""

    def commit(self, oid: Oid) -> Commit: ...
    def entry(self, tree: Oid | None, path: bytes) -> Entry | None: ...
    def blob(self, oid: Oid) -> bytes: ...
    def edit(self, tree: Oid | None, edits: dict[bytes, Entry | None]) -> Oid: ...
    def solid(self, commit: Oid) -> Oid: ...
    def known_as(self, solid: Oid) -> Oid: ...
    def build(self, tree: Oid, parents: tuple[Oid, ...], message: bytes = b"") -> Oid: ...
    def git(self, *arguments: str | bytes, stdin: bytes = b"", answers: tuple[int, ...] = (0,)) -> bytes: ...


def merge(bench: Bench, ours: Oid, theirs: Oid, base: Oid | None) -> Merged:
    """See the contract's `Store.merge`."""
    raise NotImplementedError


def replay(bench: Bench, tip: Oid, upstream: Oid) -> Replay:
    """See the contract's `Store.replay`."""
    raise NotImplementedError

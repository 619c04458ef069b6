"""Apply a unified diff with the git program, on an index of the touched paths only.

Source: git-apply(1).
"""

from typing import Protocol

from service.contract.data import Entry, Oid
from service.contract.world import Applied


class Bench(Protocol):
    """Where a patch is applied; `repositories.staging.Staging` is one."""

    def entry(self, tree: Oid | None, path: bytes) -> Entry | None: ...
    def edit(self, tree: Oid | None, edits: dict[bytes, Entry | None]) -> Oid: ...
    def git(
        self, *arguments: str | bytes, stdin: bytes = b"", answers: tuple[int, ...] = (0,), **environment: str
    ) -> bytes: ...


def apply(bench: Bench, tree: Oid, patch: bytes) -> Applied:
    """See the contract's `Store.apply`."""
    raise NotImplementedError

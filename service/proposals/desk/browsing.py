"""One repository as its pages show it. Git is read in a thread, by exact names, and as much as a page has room for."""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from sqlalchemy import func, select

from service.contract.changes import content_of
from service.contract.data import NULL, Change, Entry, Oid
from service.contract.lookup import KINDS, TYPE_BITS, Place, find_place
from service.contract.names import quote_path
from service.contract.plan import Plan
from service.contract.ports import NamedRef
from service.contract.world import Store, tree_of
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.browse import (
    START_MOST,
    BranchLine,
    CommitView,
    FileContentView,
    FolderView,
    Head,
    HistoryView,
    OverviewView,
    RefsView,
    RestorePointsView,
)
from service.proposals.desk.reach import card_row, count_shown, now_of
from service.proposals.desk.repositories import repository_line, seen_repositories
from service.proposals.restore import kept_points, point_of
from service.proposals.states import read_outcome
from service.proposals.tables import restore_point
from service.proposals.view import COUNT_MOST, FileView, Show
from service.repositories.bare import BareRepository
from service.repositories.placement import Storage
from service.repositories.reading import BadObject, Objects
from service.repositories.snapshot import Snapshot
from service.repositories.tables import repository
from service.writer.keys import owner_keys, public_keys
from service.writer.signature import allowed_signers
from service.writer.verify import Signed, Signer, judge, read_commit, read_signers

ENTRIES_MOST: Final = 500
HISTORY_MOST: Final = 50
REFS_MOST: Final = 200
POINTS_MOST: Final = 50
FILES_MOST: Final = 100
FILE_BYTES: Final = 500_000
COMMIT_BYTES: Final = 2_000_000
OTHERS_MOST: Final = 1_000
SECONDS: Final = 1.0
"""For so long branches are compared with the default one."""


@dataclass(frozen=True)
class OwnerBrowsing:
    """Implements `browse.Browsing`. `issuer`: the service's origin, whose host names its keys."""

    database: Database
    storage: Storage
    issuer: str

    async def overview(self, actor: Actor, repository_id: UUID) -> OverviewView:
        """A repository at a glance."""
        async with self.database.bound(actor.tenant) as tx:
            head, path = await self._head(tx, actor, repository_id)
            counts = await count_shown(tx, actor, repository_id)
            kept = kept_points().where(restore_point.c.repository == repository_id).subquery()
            points = await tx.scalar(select(func.count()).select_from(kept))
        snapshot = Snapshot(path)
        return await asyncio.to_thread(lambda: _overview(head, snapshot, counts, int(points or 0)))

    async def files(
        self, actor: Actor, repository_id: UUID, ref: str | None, path: bytes, after: bytes
    ) -> FolderView | FileContentView:
        """What is at a path."""
        head, folder = await self._look(actor, repository_id)
        return await asyncio.to_thread(lambda: _files(head, _place(folder, ref), path, after))

    async def history(self, actor: Actor, repository_id: UUID, ref: str | None, start: int) -> HistoryView:
        """Commits of a ref."""
        head, folder = await self._look(actor, repository_id)
        return await asyncio.to_thread(lambda: _history(head, _place(folder, ref), start))

    async def refs(self, actor: Actor, repository_id: UUID) -> RefsView:
        """Branches and tags."""
        head, folder = await self._look(actor, repository_id)
        return await asyncio.to_thread(lambda: _refs(head, folder))

    async def commit(self, actor: Actor, repository_id: UUID, oid: Oid) -> CommitView:
        """One commit."""
        async with self.database.bound(actor.tenant) as tx:
            head, folder = await self._head(tx, actor, repository_id)
            keys = allowed_signers(await public_keys(tx), self.issuer, await owner_keys(tx))
        signed = await asyncio.to_thread(lambda: _signed(folder, oid))
        made = await self._made_by(actor, repository_id, signed, oid)
        return await asyncio.to_thread(lambda: _commit(head, folder, oid, signed, read_signers(keys), made))

    async def restore_points(self, actor: Actor, repository_id: UUID, after: str) -> RestorePointsView:
        """What was kept of executions."""
        async with self.database.bound(actor.tenant) as tx:
            head, _ = await self._head(tx, actor, repository_id)
            mine = kept_points(after).where(restore_point.c.repository == repository_id)
            found = (await tx.execute(mine.limit(POINTS_MOST + 1))).all()
        points = tuple(point_of(row) for row in found[:POINTS_MOST])
        return RestorePointsView(head, points, points[-1].id if len(found) > POINTS_MOST else "")

    async def _look(self, actor: Actor, repository_id: UUID) -> tuple[Head, Path]:
        async with self.database.bound(actor.tenant) as tx:
            return await self._head(tx, actor, repository_id)

    async def _head(self, tx: Bound, actor: Actor, repository_id: UUID) -> tuple[Head, Path]:
        """A repository that a person may see, and its folder. Raises NOT_FOUND."""
        row = (await tx.execute(seen_repositories(actor).where(repository.c.id == repository_id))).one_or_none()
        if row is None:
            raise Refusal(Code.NOT_FOUND, "There is no such repository.")
        here = (await count_shown(tx, actor, repository_id))["waiting"]
        head = Head(repository_line(row, here), await now_of(tx), (await count_shown(tx, actor))["waiting"])
        return head, (await self.storage.place(tx, repository_id)).path

    async def _made_by(self, actor: Actor, repository_id: UUID, signed: Signed, oid: Oid) -> UUID | None:
        """The proposal that a commit names, where it is one of this repository that made this very commit."""
        try:
            named = UUID(signed.trailers.get("Proposal", ""))
        except ValueError:
            return None
        try:
            async with self.database.bound(actor.tenant) as tx:
                row = await card_row(tx, actor, named)
        except Refusal:
            return None
        executed = read_outcome(row.outcome)
        mine = (executed.get("commit"), *executed.get("commits", ()))
        return named if row.repository == repository_id and row.state == "executed" and oid in mine else None


def _overview(head: Head, snapshot: Snapshot, counts: dict[Show, int], points: int) -> OverviewView:
    place = find_place(snapshot, None, None)
    newest = (place.commit, snapshot.commit(place.commit)) if place.commit else None
    branches, tags = (len(named(b"", COUNT_MOST + 1)) for named in (snapshot.branches, snapshot.tags))
    return OverviewView(head, snapshot.default_branch(), newest, counts, branches, tags, points)


def _place(folder: Path, ref: str | None) -> Place:
    """The commit that a ref leads to, under a name that leads there again: the default branch is named in full, which
    it may need to be, and a HEAD that names no branch is its commit.
    """
    snapshot = Snapshot(folder)
    place = find_place(snapshot, ref, None)
    if ref is not None:
        return place
    branch = snapshot.default_branch()
    name = quote_path(b"refs/heads/" + os.fsencode(branch)) if branch else place.commit
    return replace(place, ref=name or place.ref)


def _nothing() -> Refusal:
    return Refusal(Code.NOT_FOUND, "There is no such file or folder.")


def _files(head: Head, place: Place, path: bytes, after: bytes) -> FolderView | FileContentView:
    if place.commit is None:
        if path:
            raise _nothing()
        return FolderView(head, place.ref, None, path, (), None)
    entry = place.snapshot.entry(place.commit, path)
    if entry is None:
        raise _nothing()
    if KINDS.get(entry.mode & TYPE_BITS) == "directory":
        return _folder(head, place, place.commit, path, after)
    return _file(head, place, place.commit, path, entry)


def _folder(head: Head, place: Place, commit: Oid, path: bytes, after: bytes) -> FolderView:
    found, stopped = place.snapshot.walk(commit, path, after=after, most=ENTRIES_MOST + 1, deep=False)
    entries = tuple(found[:ENTRIES_MOST])
    more = entries and (stopped or len(found) > ENTRIES_MOST)
    return FolderView(head, place.ref, commit, path, entries, entries[-1].path if more else None)


def _file(head: Head, place: Place, commit: Oid, path: bytes, entry: Entry) -> FileContentView:
    if KINDS.get(entry.mode & TYPE_BITS) == "submodule":
        return FileContentView(head, place.ref, commit, path, entry, None, None)
    size = place.snapshot.blob_size(entry.oid)
    content = place.snapshot.blob(entry.oid) if size <= FILE_BYTES else None
    return FileContentView(head, place.ref, commit, path, entry, size, content)


def _history(head: Head, place: Place, start: int) -> HistoryView:
    if place.commit is None:
        return HistoryView(head, place.ref, (), 0, None)
    read = place.snapshot.log(place.commit, start + HISTORY_MOST + 1)
    found, names = tuple(read[start:]), {name for name, _ in read}
    more = len(found) > HISTORY_MOST and start + HISTORY_MOST <= START_MOST
    ends = read and len(found) <= HISTORY_MOST and all(names.issuperset(commit.parents) for _, commit in read)
    cut = not more and not ends
    return HistoryView(head, place.ref, found[:HISTORY_MOST], start, start + HISTORY_MOST if more else None, cut)


def _refs(head: Head, folder: Path) -> RefsView:
    snapshot = Snapshot(folder)
    branches, tags = snapshot.branches(b"", REFS_MOST + 1), snapshot.tags(b"", REFS_MOST + 1)
    default = snapshot.default_branch()
    lines = tuple(_compared(Objects(folder), snapshot.resolve(f"refs/heads/{default}"), branches[:REFS_MOST]))
    more = max(len(branches), len(tags)) > REFS_MOST
    return RefsView(head, default, lines, tuple(tags[:REFS_MOST]), more)


def _compared(objects: Objects, base: Oid | None, branches: Iterable[NamedRef]) -> Iterator[BranchLine]:
    """Each branch beside the default one, while there is time."""
    until = time.monotonic() + SECONDS
    for ref in branches:
        found = None if base is None or time.monotonic() > until else _apart(objects, ref.oid, base)
        yield BranchLine(ref, *(found or (None, None)))


def _apart(objects: Objects, one: Oid, base: Oid) -> tuple[int, int] | None:
    """None for a history that cannot be read: the other branches are told all the same."""
    try:
        return objects.apart(one, base)
    except BadObject:
        return None


def _signed(folder: Path, oid: Oid) -> Signed:
    """A commit as it is stored. Raises NOT_FOUND."""
    try:
        return read_commit(Objects(folder).read(oid, "commit"))
    except BadObject:
        raise Refusal(Code.NOT_FOUND, "There is no such commit.") from None


def _commit(
    head: Head, folder: Path, oid: Oid, signed: Signed, signers: tuple[Signer, ...], made: UUID | None
) -> CommitView:
    store = BareRepository(folder).store(Plan(kinds=(), build=(), effects=()), ())
    commit = store.commit(oid)
    changes = tuple(store.changes(tree_of(store, commit.parents[0] if commit.parents else NULL), commit.tree))
    files = tuple(_whole(Objects(folder), store, changes[:FILES_MOST]))
    others = tuple(change.path for change in changes[len(files) :][:OTHERS_MOST])
    return CommitView(head, oid, commit, judge(signed, signers), made, files, others)


def _whole(objects: Objects, store: Store, changes: Iterable[Change]) -> Iterator[FileView]:
    """Changed files while there is room; the first that does not fit ends it."""
    room = COMMIT_BYTES
    for change in changes:
        room -= sum(header[1] for one in (change.old, change.new) if one and (header := objects.header(one.oid)))
        if room < 0:
            return
        yield FileView(
            path=change.path,
            old_path=None,
            old_mode=change.old.mode if change.old else 0,
            new_mode=change.new.mode if change.new else 0,
            old=content_of(store, change.old) if change.old else None,
            new=content_of(store, change.new) if change.new else None,
        )

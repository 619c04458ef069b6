"""A plan's objects beside a repository, in memory: a contract `Store`. Nothing is written to the repository."""

import hashlib
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from service.contract.data import NULL, Change, Commit, Draft, Entry, LineCount, Oid
from service.contract.lines import Span
from service.contract.lookup import TYPE_BITS
from service.contract.plan import Line, NewCommit, NewTag
from service.contract.risk import is_binary
from service.contract.world import Applied, Merged, OutOfTime, Replay, Store
from service.kit.errors import Code, Refusal
from service.repositories.applying import apply
from service.repositories.diff import diff_spans, line_stats
from service.repositories.merging import merge, replay
from service.repositories.objects import NUMBERS, Staged, build_commit, check_identity, staged
from service.repositories.reading import GITLINK, TREE, BadObject, Kind, Names, Objects, Record, entry_of
from service.repositories.scratch import Scratch
from service.repositories.trees import edited

_ENCODING = re.compile(rb"[A-Za-z0-9._:+()-]{0,40}")
LOOK_BYTES = 10_000
"""Smaller contents count as text without being looked at."""
_Side = tuple[int, bytes] | None  # what one of two trees has: mode and hexadecimal id
_Pair = tuple[bytes, _Side, _Side]


class Staging(Objects, Store):
    """A repository's objects and, beside them in memory, the ones that a plan builds.

    Args:
        repository: the bare repository's folder.
        author: this proposal's whole author line: name, mail, seconds, zone.
        deadline: when to raise OutOfTime, in `time.monotonic()` seconds.
        objects: objects staged before, as `decode` gives them.
        drafts: the plan's commits that were built on them.
    """

    def __init__(
        self,
        repository: Path,
        author: bytes,
        deadline: float | None = None,
        objects: Iterable[Staged] = (),
        drafts: Iterable[NewCommit] = (),
    ) -> None:
        super().__init__(repository)
        self._path = repository
        self._author = check_identity(author)
        self._deadline = deadline
        self._objects = {one.oid: one for one in objects}
        self._drafts: dict[Oid, NewCommit] = {one.id: one for one in drafts}
        self._tags: dict[Oid, Oid] = {}  # the targets of planned tags
        self._built: dict[Oid, Oid] = {}  # what drafts are called while they are merged
        self._found: set[Oid] = set()
        self._scratch: Scratch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scratch is not None:
            self._scratch.close()

    def check_time(self) -> None:
        """Raise OutOfTime where the deadline has passed."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime

    def read(self, oid: Oid, kind: Kind) -> bytes:
        """An object's content, staged or from the repository.

        Raises:
            OutOfTime: the deadline has passed.
            BadObject: there is none of this kind.
        """
        self.check_time()
        one = self._objects.get(oid)
        if one is None:
            self._found.add(oid)
            return super().read(oid, kind)
        if one.kind != kind:
            raise BadObject(oid, f"it is a {one.kind}, not a {kind}")
        return one.content

    def commit(self, oid: Oid) -> Commit:
        """The commit with this id; a draft has its author as committer until it is sealed."""
        if (new := self._drafts.get(oid)) is None:
            return super().commit(oid)
        return Commit(
            tree=new.tree,
            parents=new.parents,
            author=new.author,
            committer=new.author,
            message=new.message,
            encoding=new.encoding,
        )

    def is_draft(self, oid: Oid) -> bool:
        """Whether this commit is only planned, so that its id means nothing to anybody else."""
        return oid in self._drafts

    def find_commit(self, oid: Oid) -> Oid | None:
        """The commit that this id is or, as a tag, leads to; None where there is none."""
        oid = self._tags.get(oid, oid)
        return oid if oid in self._drafts else super().find_commit(oid)

    def contains(self, tip: Oid, commit: Oid) -> bool:
        """Whether a commit is the tip or one of its ancestors."""
        self.check_time()
        drafts, stored = self._above(tip)
        if tip == commit or commit in drafts:
            return True
        return commit not in self._drafts and any(super(Staging, self).contains(one, commit) for one in stored)

    def merge_base(self, one: Oid, other: Oid) -> Oid | None:
        """A best common ancestor; None for histories that have nothing in common."""
        if one not in self._drafts and other not in self._drafts:
            return super().merge_base(one, other)
        found = self.git("merge-base", self.solid(one), self.solid(other), answers=(0, 1)).decode().strip()
        return self.known_as(Oid(found)) if found else None

    def log(self, tip: Oid, without: Oid, most: int) -> tuple[tuple[Oid, ...], int]:
        """What the tip has and `without` (NULL: nothing) has not: the newest commits, at most `most`, and how many."""
        self.check_time()
        drafts, stored = self._above(tip)
        known, hidden = self._above(without) if without != NULL else ([], [])
        fresh = [one for one in drafts if one not in known]
        found, count = super().walk_log(stored, hidden, max(most - len(fresh), 0))
        return tuple([*fresh, *found][:most]), len(fresh) + count

    def _above(self, tip: Oid) -> tuple[list[Oid], list[Oid]]:
        """The drafts that a commit hangs on, itself included, the newest first, and the stored commits below them."""
        drafts: list[Oid] = []
        stored: list[Oid] = []
        waiting = [tip]
        while waiting:
            oid = waiting.pop(0)
            if oid in self._drafts and oid not in drafts:
                drafts.append(oid)
                waiting.extend(self._drafts[oid].parents)
            elif oid not in self._drafts and oid not in stored:
                stored.append(oid)
        return drafts, stored

    def changes(self, old: Oid | None, new: Oid | None) -> Iterator[Change]:
        """The paths that differ between two trees, in byte order, renames as a deletion and a creation."""
        waiting: list[_Pair] = [(b"", _tree(old), _tree(new))]
        while waiting:
            path, before, after = waiting.pop()
            if before == after:
                continue
            if TREE in {side[0] for side in (before, after) if side}:
                waiting.extend(reversed(self._pairs(path, before, after)))
            else:
                yield Change(path=path, old=_entry_or_none(before), new=_entry_or_none(after))

    def _pairs(self, path: bytes, before: _Side, after: _Side) -> "list[_Pair]":
        """The names in either of two trees, in Git's order; a folder never pairs with a file of its name."""
        old, new = (set(self.records(_hex(side[1]))) if side else set() for side in (before, after))
        olds, news = _keyed(old - new), _keyed(new - old)  # most of a big tree is the same on both sides
        prefix = path + b"/" if path else b""
        return [(prefix + key.rstrip(b"/"), olds.get(key), news.get(key)) for key in sorted(olds.keys() | news.keys())]

    def line_count(self, old: Oid | None, new: Oid | None) -> LineCount | None:
        """Lines added and removed between two blobs; None when either is binary."""
        if old == new:
            return LineCount(added=0, removed=0)
        return line_stats(*(self.blob(oid) if oid else None for oid in (old, new)))

    def spans(self, old: Oid, new: Oid) -> tuple[Span, ...] | None:
        """Where the lines of two blobs differ, from top to bottom; None when either is binary."""
        contents = self.blob(old), self.blob(new)
        return None if any(map(is_binary, contents)) else diff_spans(*contents)

    def text_size(self, entry: Entry) -> int:
        """The size in bytes of what stands there, if it is text; 0 for anything that is not shown as lines."""
        if entry.mode == GITLINK or entry.mode & TYPE_BITS == TREE:
            return 0
        staged_one = self._objects.get(entry.oid)
        size = len(staged_one.content) if staged_one else (self.header(entry.oid) or ("blob", 0))[1]
        return 0 if size > LOOK_BYTES and is_binary(self.blob(entry.oid)) else size

    def put(self, content: bytes) -> Oid:
        """Stage a blob."""
        return self._stage("blob", content)

    def put_tree(self, content: bytes) -> Oid:
        """Stage a tree from its sorted entries."""
        return self._stage("tree", content)

    def _stage(self, kind: Kind, content: bytes) -> Oid:
        one = staged(kind, content)
        self._objects.setdefault(one.oid, one)
        return one.oid

    def edit(self, tree: Oid | None, edits: Mapping[bytes, Entry | None]) -> Oid:
        """Stage the tree that has these paths set or (None) taken away; directories left empty go too."""
        return edited(self, tree, edits)

    def merge(self, ours: Oid, theirs: Oid, base: Oid | None = None) -> Merged:
        """Merge two commits as `git merge` does by default; see the contract."""
        return merge(self, ours, theirs, base)

    def replay(self, tip: Oid, upstream: Oid) -> Replay:
        """What `git rebase` would repeat of the tip on the upstream."""
        return replay(self, tip, upstream)

    def apply(self, tree: Oid, patch: bytes) -> Applied:
        """Apply a unified diff as `git apply` does by default."""
        return apply(self, tree, patch)

    def git(
        self, *arguments: str | bytes, stdin: bytes = b"", answers: Sequence[int] = (0,), **environment: str
    ) -> bytes:
        """Run git where it sees the repository's objects and the staged ones, and stage what it writes.

        Raises:
            OutOfTime: the deadline passed.
            GitFailed: it ended with another status than `answers`.
        """
        scratch = self.scratch
        scratch.add(self._objects.values())
        said = scratch.run(arguments, stdin=stdin, answers=answers, environment=environment)
        for one in scratch.made():  # of a great merge there are so many that to read them takes longer than git took
            self.check_time()
            self._objects[one.oid] = one
        return said

    @property
    def scratch(self) -> Scratch:
        """Where git plans; its folder may hold an index."""
        if self._scratch is None:
            self._scratch = Scratch(self._path, self._deadline)
        return self._scratch

    def solid(self, commit: Oid) -> Oid:
        """The id by which git knows a commit: its own, or that of a draft built for the time of planning."""
        waiting = [commit]
        while waiting:  # not by recursion: thousands may stand on each other
            draft = self._drafts.get(waiting[-1])
            if draft is None or draft.id in self._built:
                waiting.pop()
            elif below := [one for one in draft.parents if one in self._drafts and one not in self._built]:
                waiting.extend(below)
            else:
                parents = tuple(self._built.get(one, one) for one in draft.parents)
                self._built[waiting.pop()] = self.build(draft.tree, parents, draft.message)
        return self._built.get(commit, commit)

    def build(self, tree: Oid, parents: tuple[Oid, ...], message: bytes = b"") -> Oid:
        """A commit for the time of planning, for git alone to see."""
        built = build_commit(tree, parents, author=self._author, committer=self._author, message=message)
        self.scratch.add([built])
        return built.oid

    def known_as(self, solid: Oid) -> Oid:
        """A commit by its own id, whatever git calls it."""
        return next((draft for draft, built in self._built.items() if built == solid), solid)

    def draft(self, parents: tuple[Oid, ...], tree: Oid, message: bytes, replays: Oid | None = None) -> NewCommit:
        """A commit to build; equal ones have the same provisional id.

        Raises:
            Refusal: COMMIT_REJECTED where the replayed commit's author, message or encoding cannot be written again.
        """
        author, encoding = (self._author, b"") if replays is None else _repeated(replays, self.commit(replays))
        parts = (*parents, tree, replays or "")
        seed = b"draft\n" + "\n".join(parts).encode() + author + b"\n" + message
        new = NewCommit(
            id=Draft(Oid(hashlib.sha256(seed).hexdigest()[:40])),
            parents=parents,
            tree=tree,
            author=author,
            message=message,
            replays=replays,
            encoding=encoding,
        )
        self._drafts[new.id] = new
        return new

    def tag(self, target: Oid, name: str, message: bytes) -> NewTag:
        """An annotated tag to build; equal ones have the same provisional id."""
        seed = b"tag\n" + f"{target}\n{name}\n".encode() + message
        new = NewTag(id=Draft(Oid(hashlib.sha256(seed).hexdigest()[:40])), target=target, name=name, message=message)
        self._tags[new.id] = target
        return new

    def among(self, wanted: Collection[Oid]) -> tuple[Staged, ...]:
        """Those of these objects that are staged."""
        return tuple(self._objects[oid] for oid in sorted(wanted) if oid in self._objects)

    def keep(self, blobs: Iterable[Oid]) -> None:
        """Stage blobs that git did not write because the repository has them: they may hang on nothing there."""
        for oid in blobs:
            self.check_time()
            if oid not in self._objects:
                self._objects[oid] = staged("blob", super().read(oid, "blob"))

    def staged(self) -> tuple[Staged, ...]:
        """The staged objects that the drafts' trees reach, less those that planning read from the repository.

        What it read hangs on a pinned ref. Anything else is kept even when the repository has it too: it may hang on
        nothing there, and be gone when the plan is executed.
        """
        kept: dict[Oid, Staged] = {}
        waiting = [new.tree for new in self._drafts.values()]
        while waiting:
            one = self._objects.get(waiting.pop())
            if one is None or one.oid in kept or one.oid in self._found:
                continue
            kept[one.oid] = one
            if one.kind == "tree":
                waiting.extend(Oid(sha.decode()) for _, sha in self.names(one.oid).values())
        return tuple(sorted(kept.values(), key=lambda one: (NUMBERS[one.kind], one.oid)))


def _repeated(oid: Oid, commit: Commit) -> tuple[bytes, bytes]:
    """The author and the encoding of a commit that is repeated."""
    try:
        author = check_identity(commit.author)
    except ValueError:
        message = "The author of a commit is not a line that can be written again."
        raise Refusal(Code.COMMIT_REJECTED, message, commit=oid, field="author") from None
    for field, bad in (("message", b"\0" in commit.message), ("encoding", not _ENCODING.fullmatch(commit.encoding))):
        if bad:
            raise Refusal(
                Code.COMMIT_REJECTED, f"The {field} of a commit cannot be written again.", commit=oid, field=field
            )
    return author, commit.encoding


def _tree(oid: Oid | None) -> _Side:
    return None if oid is None else (TREE, oid.encode())


def _hex(sha: bytes) -> Oid:
    return Oid(sha.decode("ascii"))


def _keyed(records: Iterable[Record]) -> Names:
    return {name + b"/" if mode == TREE else name: (mode, sha) for name, mode, sha in records}


def _entry_or_none(value: tuple[int, bytes] | None) -> Entry | None:
    return None if value is None else entry_of(value)


def manifest_lines(store: Store, old: Oid | None, new: Oid | None) -> tuple[Line, ...]:
    """What each path that differs between two trees is in the new one, in byte order.

    SHA-256 is of a file's or symbolic link's content, of the text of a submodule's commit id, and empty for a
    deletion, whose mode is 0.
    """
    return tuple(_line(store, change) for change in store.changes(old, new))


def _line(store: Store, change: Change) -> Line:
    if change.new is None:
        return Line(path=change.path, mode=0, sha256="")
    content = change.new.oid.encode() if change.new.mode == GITLINK else store.blob(change.new.oid)
    return Line(path=change.path, mode=change.new.mode, sha256=hashlib.sha256(content).hexdigest())

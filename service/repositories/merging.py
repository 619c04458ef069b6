"""Merge commits with the git program, without a working tree: what is predicted is what is executed.

The merge's objects are staged beside the repository. git before 2.40 cannot be told a base: then both sides are
committed anew on top of it, which gives `git merge-tree` the same three trees.
Source: git-merge-tree(1), "Output"; git-rebase(1), "--empty", "--reapply-cherry-picks".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from service.contract.changes import GITLINK, SYMLINK
from service.contract.data import NULL, Commit, Entry, Oid
from service.contract.lines import Span, lines_of
from service.contract.plan import Conflict, Region
from service.contract.risk import is_binary
from service.contract.world import Merged, Replay
from service.repositories.diff import diff_spans
from service.repositories.git import GitFailed

_EMPTY_TREE: Final = Oid("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
_SIDES: Final = {b"1": "base", b"2": "ours", b"3": "theirs"}
_VIRTUAL: Final = (b"Temporary merge branch 1", b"Temporary merge branch 2")  # a base that git merged from several
_CONFLICT: Final = b"CONFLICT"
_KINDS_SAID: Final = {  # git's names for what went wrong, as `merge-tree -z` prints them
    b"CONFLICT (file/directory)": "directory",
    b"CONFLICT (directory rename suggested)": "directory",
    b"CONFLICT (file in way of directory rename)": "directory",
    b"CONFLICT(directory rename collision)": "directory",
    b"CONFLICT(directory rename unclear split)": "directory",
    b"CONFLICT (rename/rename)": "renamed",
    b"CONFLICT (rename/delete)": "renamed",
    b"CONFLICT (rename involved in collision)": "renamed",
    b"CONFLICT (binary)": "binary",
}
_TYPE: Final = 0o170000
_FILE: Final = 0o100000


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
    sides = _sides(bench, ours, theirs, base)
    said = bench.git("merge-tree", "--write-tree", "-z", "--messages", *sides, answers=(0, 1))
    told = _told(said)
    if _is_clean(bench, told, sides):
        return Merged(tree=told.tree)
    trees = (_tree(bench, ours), _tree(bench, theirs))
    return Merged(tree=told.tree, conflicts=tuple(_conflicts(bench, told, sides, trees)))


def _is_clean(bench: Bench, told: "_Told", sides: tuple[Oid, Oid]) -> bool:
    """Whether git would commit it. A conflict that it speaks of and leaves no entries for is one by its status only."""
    if told.stages or not any(kind.startswith(_CONFLICT) for _, kind in told.messages):
        return not told.stages
    try:
        bench.git("merge-tree", "--write-tree", "--no-messages", *sides)
    except GitFailed as failed:
        if failed.status == 1:
            return False
        raise
    return True


def _sides(bench: Bench, ours: Oid, theirs: Oid, base: Oid | None) -> tuple[Oid, Oid]:
    """The commits to give to git: the two as they are, or their trees as children of the base's."""
    if base is None:
        return bench.solid(ours), bench.solid(theirs)
    root = bench.build(_tree(bench, base), ())
    return bench.build(_tree(bench, ours), (root,)), bench.build(_tree(bench, theirs), (root,))


def _tree(bench: Bench, commit: Oid) -> Oid:
    return _EMPTY_TREE if commit == NULL else bench.commit(commit).tree


@dataclass
class _Told:
    """What `git merge-tree` printed: the tree, each conflicted path's entries by side, and its messages: the paths that
    each speaks of, and its kind.
    """

    tree: Oid
    stages: dict[bytes, dict[str, Entry]] = field(default_factory=dict)
    messages: list[tuple[tuple[bytes, ...], bytes]] = field(default_factory=list)


def _told(said: bytes) -> _Told:
    fields = iter(said.split(b"\0"))
    told = _Told(Oid(next(fields).decode()))
    for record in iter(lambda: next(fields, b""), b""):  # an empty field ends the conflicted entries
        place, _, path = record.partition(b"\t")
        mode, oid, stage = place.split(b" ")
        entry = Entry(mode=int(mode, 8), oid=Oid(oid.decode()))
        told.stages.setdefault(path, {})[_SIDES[stage]] = entry
    for count in iter(lambda: next(fields, b""), b""):
        if not count.isdigit():  # advice on submodules, in plain words, comes last
            break
        paths = tuple(next(fields) for _ in range(int(count)))
        told.messages.append((paths, next(fields)))
        next(fields)  # the sentence
    return told


def _conflicts(bench: Bench, told: _Told, sides: tuple[Oid, Oid], trees: tuple[Oid, ...]) -> Iterator[Conflict]:
    """Every path on which the sides disagree, in byte order."""
    kinds: dict[bytes, set[bytes]] = {}
    for paths, kind in told.messages:
        for path in paths:
            kinds.setdefault(path, set()).add(kind)
    joined: dict[bytes, dict[str, Entry]] = {}
    said: dict[bytes, set[bytes]] = {}
    for path, entries in told.stages.items():
        true = _true_path(bench, path, sides, trees)
        at = path if joined.get(true, {}).keys() & entries.keys() else true
        joined.setdefault(at, {}).update(entries)
        said.setdefault(at, set()).update(kinds.get(path, ()), kinds.get(true, ()))
    if not joined:  # a folder that was renamed to several: nothing is left unmerged, yet it is no merge
        joined = {paths[0]: {} for paths, kind in told.messages if kind.startswith(_CONFLICT)}
        said = kinds
    for path in sorted(joined):
        yield _conflict(bench, path, joined[path], said[path])


def _true_path(bench: Bench, path: bytes, sides: tuple[Oid, Oid], trees: tuple[Oid, ...]) -> bytes:
    """Where the file was before git moved it out of the way of another, to `PATH~COMMIT`, or `PATH~COMMIT_1`."""
    name, _, label = path.rpartition(b"~")
    moved = label.partition(b"_")[0] in {*(side.encode() for side in sides), *_VIRTUAL}
    return name if moved and all(bench.entry(tree, path) is None for tree in trees) else path


def _conflict(bench: Bench, path: bytes, entries: Mapping[str, Entry], said: set[bytes]) -> Conflict:
    base, ours, theirs = (entries.get(side) for side in _SIDES.values())
    return Conflict(
        path=path,
        kind=_kind(base, ours, theirs, said),
        base=base,
        ours=ours,
        theirs=theirs,
        regions=_regions(bench, base, ours, theirs),
    )


def _kind(base: Entry | None, ours: Entry | None, theirs: Entry | None, said: set[bytes]) -> str:
    found = {_KINDS_SAID[kind] for kind in said if kind in _KINDS_SAID}
    types = {entry.mode & _TYPE for entry in (ours, theirs) if entry}
    cases = (
        ("directory", "directory" in found or not (types or base)),
        ("renamed", "renamed" in found),
        ("deleted_by_us", ours is None),
        ("deleted_by_them", theirs is None),
        ("submodule", GITLINK in types),
        ("symlink", SYMLINK in types),
        ("mode", ours is not None and theirs is not None and ours.oid == theirs.oid),
        ("binary", "binary" in found),
        ("both_added", base is None),
    )
    return next((kind for kind, fits in cases if fits), "content")


def _regions(bench: Bench, base: Entry | None, ours: Entry | None, theirs: Entry | None) -> tuple[Region, ...]:
    """Where two texts changed the same lines of a third; without a third, where the two differ."""
    if ours is None or theirs is None or ours.oid == theirs.oid:
        return ()
    if any(entry.mode & _TYPE != _FILE for entry in (base, ours, theirs) if entry):
        return ()
    contents = [bench.blob(entry.oid) if entry else b"" for entry in (base, ours, theirs)]
    if any(map(is_binary, contents)):
        return ()
    old, our, their = contents
    if base is None:
        spans = diff_spans(our, their)
        return tuple(Region(base=(1, 0), ours=(one.old, one.gone), theirs=(one.new, one.come)) for one in spans)
    counts = [len(lines_of(content)) for content in contents]
    whole = Region(base=(1, counts[0]), ours=(1, counts[1]), theirs=(1, counts[2]))
    return tuple(_disputed(old, our, their)) or (whole,)


def _disputed(base: bytes, ours: bytes, theirs: bytes) -> Iterator[Region]:
    """What both sides changed, each in its own way: spans that overlap or touch count as one."""
    our_lines, their_lines = lines_of(ours), lines_of(theirs)
    for first, end, spans in _grouped(diff_spans(base, ours), diff_spans(base, theirs)):
        if all(spans):
            our, their = (_range(first, end, one) for one in spans)
            if _cut(our_lines, our) != _cut(their_lines, their):
                yield Region(base=(first, end - first), ours=our, theirs=their)


def _grouped(*sides: tuple[Span, ...]) -> Iterator[tuple[int, int, tuple[list[Span], ...]]]:
    """The spans of both sides in groups that lie apart: first line of the base, the line after the last, the spans."""
    order = sorted((span.old, span.old + span.gone, side) for side, spans in enumerate(sides) for span in spans)
    found = {(span.old, side): span for side, spans in enumerate(sides) for span in spans}
    group: tuple[list[Span], ...] = tuple([] for _ in sides)
    first = end = 0
    for start, stop, side in order:
        if start > end:
            if any(group):
                yield first, end, group
            group, first, end = tuple([] for _ in sides), start, stop
        end = max(end, stop)
        group[side].append(found[start, side])
    if any(group):
        yield first, end, group


def _range(first: int, end: int, spans: list[Span]) -> tuple[int, int]:
    """The lines of one side that stand where the base has those from `first` to before `end`."""
    start = spans[0].new - (spans[0].old - first)
    stop = spans[-1].new + spans[-1].come + (end - spans[-1].old - spans[-1].gone)
    return start, stop - start


def _cut(lines: list[bytes], place: tuple[int, int]) -> list[bytes]:
    return lines[place[0] - 1 : place[0] - 1 + place[1]]


def replay(bench: Bench, tip: Oid, upstream: Oid) -> Replay:
    """See the contract's `Store.replay`."""
    said = bench.git(
        "rev-list",
        "--reverse",
        "--topo-order",
        "--right-only",
        "--cherry-mark",
        "--end-of-options",
        f"{bench.solid(upstream)}...{bench.solid(tip)}",
    )
    commits: list[Oid] = []
    dropped: list[tuple[Oid, str]] = []
    for line in said.decode().split():
        oid = bench.known_as(Oid(line[1:]))
        why = _why_dropped(bench, oid, same=line.startswith("="))
        if why:
            dropped.append((oid, why))
        else:
            commits.append(oid)
    return Replay(commits=tuple(commits), dropped=tuple(dropped))


def _why_dropped(bench: Bench, oid: Oid, *, same: bool) -> str:
    """All changes that are none look alike, so an empty commit is never taken for one that upstream has."""
    commit = bench.commit(oid)
    if len(commit.parents) > 1:
        return "merge"
    before = _tree(bench, commit.parents[0] if commit.parents else NULL)
    return "upstream" if same and commit.tree != before else ""

"""What a card says of changed files, the same for every operation that changes some: from what differs between two
trees, not from what was asked.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.contract.data import Change, Entry, Oid
from service.contract.names import quote_path
from service.contract.plan import Note, Plan, ReviewCard, Section
from service.contract.risk import (
    content_warnings,
    is_binary,
    line_ends_changed,
    path_warnings,
    running_warnings,
    text_warnings,
)
from service.contract.world import Store, World, tree_of
from service.kit.canonical import sha256

EXECUTABLE: Final = 0o100755
DIRECTORY: Final = 0o040000
SYMLINK: Final = 0o120000
GITLINK: Final = 0o160000
FILE_MODES: Final = (0o100644, EXECUTABLE)
"""What a proposal may ask for; an old history may have others, such as 100664."""
_TYPE: Final = 0o170000
_FILE: Final = 0o100000
_OWNER_RUNS: Final = 0o100
ALIKE_MOST: Final = 10
"""So many warnings of one code are told one by one; more become one warning with all their paths in the files."""
PATHS_SHOWN: Final = 20


@dataclass(frozen=True)
class ChangedFile:
    """One path as the card shows it; `old_path` is where it was, if it was renamed."""

    path: bytes
    old: Entry | None
    new: Entry | None
    old_path: bytes | None = None

    def note(self, store: Store) -> Note:
        """What happens to it, as a code and figures."""
        params: dict[str, Any] = {"old_path": quote_path(self.old_path)} if self.old_path is not None else {}
        for side, entry in (("old", self.old), ("new", self.new)):
            if entry is not None:
                params |= {f"{side}_mode": f"{entry.mode:06o}", f"{side}_oid": entry.oid}
        old, new = (content_of(store, entry) for entry in (self.old, self.new))
        params["binary"] = is_binary(old) or is_binary(new)
        params |= self._lines(store)
        if self.new is not None:
            params |= {"bytes": len(new), "sha256": sha256(new)}
        if ends := line_ends_changed(old, new) if self.old and self.new else 0:
            params["line_ends_changed"] = ends
        return Note(code=self._code(), at=quote_path(self.path), params=params)

    def _lines(self, store: Store) -> dict[str, int]:
        if GITLINK in {entry.mode for entry in (self.old, self.new) if entry}:
            return {}
        lines = store.line_count(*(entry.oid if entry else None for entry in (self.old, self.new)))
        return {"added": lines.added, "removed": lines.removed} if lines else {}

    def _code(self) -> str:
        if GITLINK in {entry.mode for entry in (self.old, self.new) if entry}:
            return "submodule_changed"
        if self.old_path is not None:
            return "file_renamed"
        if self.old is None or self.new is None:
            return "file_created" if self.old is None else "file_deleted"
        return "mode_changed" if self.old.oid == self.new.oid else "file_updated"

    def becomes_executable(self) -> bool:
        """Whether it is a program now and was none before."""
        return _runs(self.new) and not _runs(self.old)

    def warnings(self, store: Store) -> Iterator[Note]:
        """What must be acknowledged about it."""
        shown = quote_path(self.path)
        yield from path_warnings(self.path)
        if self.old_path is not None:
            yield from running_warnings(self.old_path)  # it is gone there, as if it were deleted
        if self.new is None:
            yield Note(code="deletes_file", at=shown)
            return
        if self.becomes_executable():
            yield Note(code="becomes_executable", at=shown, params={"mode": f"{self.new.mode:o}"})
        if self.new.mode == SYMLINK and (self.old is None or self.old != self.new):
            yield Note(code="symbolic_link", at=shown)
        if self.new.mode & _TYPE == _FILE and (self.old is None or self.old.oid != self.new.oid):
            old = content_of(store, self.old)
            yield from content_warnings(self.path, old, store.blob(self.new.oid))


def _runs(entry: Entry | None) -> bool:
    return entry is not None and entry.mode & _TYPE == _FILE and bool(entry.mode & _OWNER_RUNS)


def content_of(store: Store, entry: Entry | None) -> bytes:
    """What stands at a path: a file's content, a link's target, a submodule's commit as git diff writes it."""
    if entry is None:
        return b""
    return f"Subproject commit {entry.oid}\n".encode() if entry.mode == GITLINK else store.blob(entry.oid)


def changed_files(
    store: Store, old: Oid | None, new: Oid | None, renames: Mapping[bytes, bytes] | None = None
) -> tuple[ChangedFile, ...]:
    """What differs between two trees, in byte order of the paths.

    Args:
        store: where the trees are.
        old: the tree before; None for none.
        new: the tree after.
        renames: old paths by their new ones; left out, a file that is the same elsewhere is taken for renamed.
    """
    changes = {change.path: change for change in store.changes(old, new)}
    moved = _same_content(changes.values()) if renames is None else renames
    known = {path: source for path, source in moved.items() if path in changes and source in changes}
    gone = {source for source in known.values() if changes[source].new is None}
    return tuple(
        ChangedFile(path, changes[known[path]].old if path in known else change.old, change.new, known.get(path))
        for path, change in changes.items()
        if path not in gone
    )


def _same_content(changes: Iterable[Change]) -> dict[bytes, bytes]:
    """New paths whose content was at exactly one path that is gone, and is new at exactly one."""
    made = [(change.path, change.new) for change in changes if change.old is None and change.new is not None]
    gone = {change.old.oid: change.path for change in changes if change.new is None and change.old is not None}
    once = Counter(entry.oid for _, entry in made)
    lost = Counter(change.old.oid for change in changes if change.new is None and change.old is not None)
    return {path: gone[entry.oid] for path, entry in made if once[entry.oid] == 1 and lost.get(entry.oid) == 1}


def files_section(notes: Sequence[Note]) -> Section:
    """The files of a card."""
    return Section(code="files", notes=tuple(notes))


def file_warnings(store: Store, files: Sequence[ChangedFile]) -> tuple[Note, ...]:
    """What must be acknowledged about these files; many alike are one."""
    return fold_alike([note for one in files for note in one.warnings(store)])


def fold_alike(found: Sequence[Note]) -> tuple[Note, ...]:
    """Warnings as they are shown: more than ALIKE_MOST of one code are one, with the first of their paths or refs."""
    counts = Counter(note.code for note in found)
    many = [code for code, count in counts.items() if count > ALIKE_MOST]
    single = [note for note in found if note.code not in many]
    return (*single, *(_many(code, [note for note in found if note.code == code]) for code in many))


def _many(code: str, notes: Sequence[Note]) -> Note:
    paths = [note.at for note in notes[:PATHS_SHOWN]]
    asks = {
        name: note.params[name] for note in reversed(notes) for name in ("confirm", "reason") if name in note.params
    }
    told = {"count": len(notes), "paths": paths, "first": notes[0].params}
    return Note(code="many_alike", at=code, params={**told, **asks})


def change_counts(files: Sequence[ChangedFile], notes: Sequence[Note]) -> dict[str, Any]:
    """The parameters of a headline about files: how many of each kind, lines added and removed, new executables."""
    codes = Counter(note.code for note in notes)
    return {
        "created": codes["file_created"],
        "updated": codes["file_updated"] + codes["submodule_changed"],
        "deleted": codes["file_deleted"],
        "renamed": codes["file_renamed"],
        "mode_changed": codes["mode_changed"],
        "executable": sum(one.becomes_executable() for one in files),
        "added": sum(note.params.get("added", 0) for note in notes),
        "removed": sum(note.params.get("removed", 0) for note in notes),
    }


def one_commit_card(
    world: World,
    plan: Plan,
    branch: str,
    words: Mapping[str, str],
    renames: Mapping[bytes, bytes] | None = None,
) -> ReviewCard:
    """The card of an operation that makes one commit on a branch.

    Args:
        world: where it was planned.
        plan: what was planned.
        branch: its name, as the agent gave it.
        words: the agent's own words, by what they are.
        renames: see `changed_files`.
    """
    store, old = world.store, plan.effects[0].old
    files = changed_files(store, tree_of(store, old), plan.commits[0].tree, renames)
    notes = [one.note(store) for one in files]
    return ReviewCard(
        headline=Note(code="files_change", at=branch, params={"branch": branch, **change_counts(files, notes)}),
        agent_words=dict(words),
        sections=(files_section(notes),),
        warnings=(
            *(note for where, text in reversed(list(words.items())) for note in text_warnings(text, where)),
            *file_warnings(store, files),
        ),
    )

"""A part of a change: what can be chosen of a plan's one commit, and the plan that does only what was chosen.

A part is a file, or one group of lines of a text that is changed in several places. A rename, another mode, a file that
comes or goes, and what is no text are chosen whole. Files that only stand together are one part: a new file where a
folder goes, two names that some file system takes for one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.contract.changes import ChangedFile, changed_files
from service.contract.data import NULL, Entry
from service.contract.lines import Span, lines_of
from service.contract.names import quote_path, twin_key, unquote_path
from service.contract.plan import NewCommit, Note, Plan, ReviewCard, Section
from service.contract.world import Store, tree_of
from service.kit.errors import Code, Refusal

PARTS_MOST: Final = 400
"""What more than so many files change is not divided, and a file is not, once all have so many parts together."""
PART: Final = "part"
"""The section of a card that says what it is a part of, and what was left out."""
_REGULAR: Final = 0o100000
_TYPE: Final = 0o170000


@dataclass(frozen=True)
class Hunk:
    """A group of changed lines; `id` is such as `3.2`."""

    id: str
    span: Span


@dataclass(frozen=True)
class Part:
    """What is chosen together.

    Attributes:
        id: its place among the parts, from 1; stands for all of its hunks.
        files: one, or several that only stand together.
        hunks: two or more of the one file; none where it is chosen whole.
    """

    id: str
    files: tuple[ChangedFile, ...]
    hunks: tuple[Hunk, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The smallest choices in it."""
        return tuple(hunk.id for hunk in self.hunks) or (self.id,)


def is_one_commit(plan: Plan) -> bool:
    """Whether a plan is one ordinary commit of its own on one branch."""
    if len(plan.build) != 1 or len(plan.effects) != 1 or plan.steps:
        return False
    new, move = plan.build[0], plan.effects[0]
    below = () if move.old == NULL else (move.old,)
    return isinstance(new, NewCommit) and (new.replays, new.parents, new.id) == (None, below, move.new)


def renames_of(card: ReviewCard) -> dict[bytes, bytes]:
    """Old paths by their new ones, as a card tells them."""
    return {
        unquote_path(note.at, "at"): unquote_path(note.params["old_path"], "old_path")
        for section in card.sections
        for note in section.notes
        if "old_path" in note.params
    }


def divide(store: Store, plan: Plan, renames: Mapping[bytes, bytes]) -> tuple[Part, ...]:
    """The parts of a plan's one commit, in byte order of the paths; none where it has only one, or too many files.

    Args:
        store: where the trees are.
        plan: one commit; see `is_one_commit`.
        renames: old paths by their new ones.
    """
    files = changed_files(store, tree_of(store, plan.effects[0].old), plan.commits[0].tree, renames)
    if len(files) > PARTS_MOST:
        return ()
    groups = _together(files)
    room = PARTS_MOST - len(groups)
    parts = []
    for place, group in enumerate(groups, 1):
        hunks = _hunks(store, str(place), group)
        hunks = hunks if len(hunks) <= room else ()
        room -= len(hunks)
        parts.append(Part(str(place), group, hunks))
    return tuple(parts) if len(parts) > 1 or parts[0].hunks else ()


def choose(store: Store, plan: Plan, parts: Sequence[Part], keep: Collection[str]) -> Plan:
    """The plan that does only what was chosen: the same commit with a smaller change.

    Args:
        store: where the trees are; what is new is staged there, with this author.
        plan: what the parts are of.
        parts: see `divide`.
        keep: ids of parts and hunks.

    Raises:
        Refusal: CHOOSE_SOME where that is nothing or everything; INVALID_ARGUMENT for an id that is none.
    """
    chosen = chosen_ids(parts, keep)
    files = [file for part in parts for file in part.files]
    edits: dict[bytes, Entry | None] = {}
    for part in parts:
        if chosen.issuperset(part.ids):
            edits |= {path: None for file in part.files if (path := _leaves(file, files)) is not None}
            edits |= {file.path: file.new for file in part.files if file.new is not None}
        elif not chosen.isdisjoint(part.ids):
            edits[part.files[0].path] = _in_part(store, part, chosen)
    whole, move = plan.commits[0], plan.effects[0]
    new = store.draft(whole.parents, store.edit(tree_of(store, move.old), edits), whole.message)
    return plan.model_copy(update={"build": (new,), "effects": (move.model_copy(update={"new": new.id}),)})


def chosen_ids(parts: Sequence[Part], keep: Collection[str]) -> frozenset[str]:
    """What was chosen, as the smallest choices. Raises as `choose`."""
    smallest = {one: (one,) for part in parts for one in part.ids} | {part.id: part.ids for part in parts}
    if unknown := sorted(set(keep) - smallest.keys()):
        raise Refusal(Code.INVALID_ARGUMENT, "There is no such part of this proposal.", field="keep", value=unknown[0])
    chosen = frozenset(one for name in keep for one in smallest[name])
    if not chosen:
        raise Refusal(Code.CHOOSE_SOME, "Nothing was chosen.", field="keep")
    if all(one in chosen for part in parts for one in part.ids):
        raise Refusal(Code.CHOOSE_SOME, "Everything was chosen: that is the proposal itself.", field="keep")
    return chosen


def part_section(proposal: str, parts: Sequence[Part], keep: Collection[str]) -> Section:
    """What the card of a part says of the whole: which proposal that is, and everything that was left out."""
    chosen = chosen_ids(parts, keep)
    left = (note for part in parts for note in _left_out(part, chosen))
    return Section(code=PART, notes=(Note(code="part_of", at=proposal), *left))


def left_out(card: ReviewCard) -> list[dict[str, Any]]:
    """What the card of a part left out, as data: a path and, of a file that was taken in part, `hunks`: a `Span` for
    each group of lines that was not.
    """
    notes = (note for section in card.sections if section.code == PART for note in section.notes)
    return [{"path": note.at, **note.params} for note in notes if note.code == "left_out"]


def _together(files: Sequence[ChangedFile]) -> list[tuple[ChangedFile, ...]]:
    """The files in groups that only stand together, in the order of the first of each."""
    gone = {place: path for place, file in enumerate(files) if (path := _leaves(file, files)) is not None}
    made = {place: file.path for place, file in enumerate(files) if file.old is None or file.old_path is not None}
    keys = {path: _keyed(path) for path in (*gone.values(), *made.values())}
    group = list(range(len(files)))
    for one, left in gone.items():
        linked = [other for other, path in made.items() if _excludes(keys[path], keys[left])]
        linked += [other for other, path in gone.items() if path == left]
        for other in linked:
            group = [group[one] if found == group[other] else found for found in group]
    order = dict.fromkeys(group)
    return [tuple(file for file, of in zip(files, group, strict=True) if of == one) for one in order]


def _leaves(file: ChangedFile, files: Sequence[ChangedFile]) -> bytes | None:
    """The path that is no longer there afterwards, if any: of a rename, unless something else comes there."""
    if file.old_path is None:
        return file.path if file.new is None else None
    return None if any(other.path == file.old_path for other in files) else file.old_path


_Keyed = tuple[tuple[bytes, str], ...]


def _keyed(path: bytes) -> _Keyed:
    return tuple((name, twin_key(name)) for name in path.split(b"/"))


def _excludes(made: _Keyed, gone: _Keyed) -> bool:
    """Whether a path cannot be while the other is: one is above the other, or some file system takes them for one."""
    for (name, key), (other, other_key) in zip(made, gone, strict=False):
        if key != other_key:
            return False
        if name != other:
            return True
    return True


def _hunks(store: Store, place: str, group: Sequence[ChangedFile]) -> tuple[Hunk, ...]:
    """The groups of lines of a text that stays where it is and as it is but for them."""
    file = group[0]
    if len(group) > 1 or file.old_path is not None or file.old is None or file.new is None:
        return ()
    if file.old.mode != file.new.mode or file.new.mode & _TYPE != _REGULAR:
        return ()
    spans = store.spans(file.old.oid, file.new.oid) or ()
    return tuple(Hunk(f"{place}.{number}", span) for number, span in enumerate(spans, 1)) if len(spans) > 1 else ()


def _in_part(store: Store, part: Part, chosen: Collection[str]) -> Entry:
    """The text with some of its groups of lines."""
    old, new = part.files[0].old, part.files[0].new
    if old is None or new is None:
        raise ValueError("what comes or goes is chosen whole")
    taken = [hunk.span for hunk in part.hunks if hunk.id in chosen]
    return Entry(mode=new.mode, oid=store.put(_mixed(store.blob(old.oid), store.blob(new.oid), taken)))


def _mixed(old: bytes, new: bytes, taken: Sequence[Span]) -> bytes:
    """The old content with these groups of lines of the new one, every byte of the rest kept."""
    before, after = lines_of(old), lines_of(new)
    mixed, at = [], 0
    for span in taken:
        mixed += before[at : span.old - 1] + after[span.new - 1 : span.new - 1 + span.come]
        at = span.old - 1 + span.gone
    return b"".join(mixed + before[at:])


def _left_out(part: Part, chosen: frozenset[str]) -> Iterator[Note]:
    if set(part.ids) <= chosen:
        return
    left = [] if chosen.isdisjoint(part.ids) else [hunk.span for hunk in part.hunks if hunk.id not in chosen]
    lines = [list(span) for span in left]
    for file in part.files:
        yield Note(code="left_out", at=quote_path(file.path), params={"hunks": lines} if lines else {})

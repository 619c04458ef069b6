"""Bring refs back to what a restore point kept.

The owner sees: for each ref where it is and where it comes to, the commits that leave and come, and the files of
branches that move.
The writer does: moves the refs back, makes those that were taken away, and deletes those that the execution made.
Refused when: the restore point says nothing of a ref, a ref that the execution made has moved on, another ref stands in
the way, or everything is so already.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field

from service.contract.changes import (
    PATHS_SHOWN,
    ChangedFile,
    changed_files,
    file_warnings,
    files_section,
    fold_alike,
)
from service.contract.data import NULL, Oid
from service.contract.history import COMMITS_SHOWN, commits_section
from service.contract.moves import ref_note, rewrites_history
from service.contract.names import QUOTED, REF_BYTES, check_existing_ref
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.plan import (
    Blocked,
    Fact,
    MoveRef,
    Need,
    Note,
    Outcome,
    Plan,
    RefAt,
    ReviewCard,
    Section,
    Value,
    Wish,
)
from service.contract.refs import BRANCHES, short_name
from service.contract.risk import text_warnings
from service.contract.room import room_needs, room_obstacle
from service.contract.undoing import RESTORED_MOST, kept_ref, made_ref, reset_of, restore_of
from service.contract.world import Store, World
from service.kit.errors import Code, Refusal


def _full(name: str, field: str) -> str:
    raw = check_existing_ref(name, field)
    if raw.decode("latin-1") != name or not raw.isascii():
        message = "A restore point names its refs in full and in ASCII."
        raise Refusal(Code.REF_REJECTED, message, field=field, rule="namespace")
    return name


def _distinct(values: list[str]) -> list[str]:
    for index, value in enumerate(values):
        if _full(value, f"refs[{index}]") in values[:index]:
            message = "This ref stands in the request twice."
            raise Refusal(Code.INVALID_ARGUMENT, message, field=f"refs[{index}]")
    return values


class Restore(Request):
    """What of a restore point to bring back."""

    restore_point_id: Annotated[
        str,
        Field(
            description="The restore point's id, as list_restore_points gives it.",
            pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        ),
    ]
    refs: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=QUOTED * REF_BYTES)]],
        Field(
            description="1 to 100 refs of it to bring back, in full as read_restore_point gives them (refs/heads/main, "
            "refs/tags/v1).",
            min_length=1,
            max_length=RESTORED_MOST,
        ),
        AfterValidator(_distinct),
    ]


@dataclass(frozen=True)
class _Shift:
    """A branch that moves: the newest commits that leave and come with how many there are, and what changes."""

    move: MoveRef
    gone: tuple[Oid, ...]
    leaves: int
    come: tuple[Oid, ...]
    comes: int
    files: tuple[ChangedFile, ...]

    @property
    def branch(self) -> str:
        """Its short name."""
        return short_name(self.move.ref)


class RestoreRefs:
    """The operation. See the module."""

    kind = "propose_restore"
    version = 1
    toolset: ClassVar[Toolset] = "git"
    divisible = False
    title = "Propose to bring refs back"
    description = (
        "Proposes to bring 1 to 100 branches and tags back to what they were before an execution that its restore "
        "point kept: they are moved back or made again, and what the execution made is deleted if it is still just "
        "that. Nothing changes until an owner approves. When one of them moves before the approval, the proposal "
        "becomes stale."
    )
    request = Restore

    def targets(self, request: Restore) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return tuple(request.refs), ()

    def pins(self, request: Restore, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        point = request.restore_point_id
        needs = []
        for ref in request.refs:
            names = (ref, kept_ref(point, ref), made_ref(point, ref))
            now, kept, _ = (RefAt(name=name) for name in names)
            needs += [Need(fact=RefAt(name=name)) for name in names]
            if seen.get(now) == NULL and seen.get(kept, NULL) != NULL:
                needs += room_needs(ref)
        return tuple(needs)

    def received(self, request: Restore) -> list[dict[str, object]]:
        return []

    def plan(self, request: Restore, world: World) -> Plan | Blocked:
        found = [_move(request.restore_point_id, ref, world) for ref in request.refs]
        blockers = tuple(one for one in found if isinstance(one, Note))
        if blockers:
            return Blocked(blockers=blockers)
        moves = tuple(one for one in found if isinstance(one, MoveRef) and one.old != one.new)
        if not moves:
            return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.refs[0]),))
        return Plan(kinds=(self.kind,), build=(), effects=moves)

    def review_card(self, request: Restore, world: World, plan: Plan) -> ReviewCard:
        store = world.store
        shifts = tuple(_shift(store, move) for move in plan.effects if _is_moved_branch(move))
        refs = [ref_note(store, _code(move), move.ref, *_facts(move)) for move in plan.effects]
        files = [_of_branch(one.note(store), shift, len(shifts) > 1) for shift in shifts for one in shift.files]
        return ReviewCard(
            headline=_headline(request, plan),
            agent_words={"reason": request.reason},
            sections=(
                Section(code="refs", notes=tuple(refs)),
                *_commits("leaves", store, shifts, lambda one: (one.gone, one.leaves)),
                *_commits("commits", store, shifts, lambda one: (one.come, one.comes)),
                *((files_section(files),) if shifts else ()),
            ),
            warnings=(
                *(rewrites_history(one.move.ref, one.leaves, one.comes) for one in shifts if one.leaves),
                *fold_alike([note for move in plan.effects for note in _warnings(move)]),
                *text_warnings(request.reason, "reason"),
                *_file_warnings(store, shifts),
            ),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        """A branch that only went forward is moved back; nothing else was kept of it."""
        return restore_of(outcome) or (reset_of(outcome) if len(outcome.moves) == 1 else None)

    def examples(self) -> tuple[Example[Restore], ...]:
        return EXAMPLES


def _move(point: str, ref: str, world: World) -> MoveRef | Note:
    """What brings the ref back, or what keeps it from coming back."""
    now, kept, made = (world.ref(name) for name in (ref, kept_ref(point, ref), made_ref(point, ref)))
    if (kept == NULL) == (made == NULL) or (ref.startswith(BRANCHES) and not _is_commit(world.store, kept)):
        return Note(code=Code.NOT_RESTORABLE.value.name, at=ref)
    if made not in (NULL, now) and now != NULL:
        return Note(code=Code.BASE_MOVED.value.name, at=ref, params={"ref": ref, "head": now, "made": made})
    if kept != NULL and world.seen[RefAt(name=ref)] == NULL and (obstacle := room_obstacle(ref, world)):
        return obstacle
    return MoveRef(ref=ref, old=now, new=kept)


def _is_commit(store: Store, oid: Oid) -> bool:
    """Whether a branch can be there; it can always be nowhere."""
    return oid == NULL or store.find_commit(oid) == oid


def _is_moved_branch(move: MoveRef) -> bool:
    return move.ref.startswith(BRANCHES) and NULL not in (move.old, move.new)


def _shift(store: Store, move: MoveRef) -> _Shift:
    gone, leaves = store.log(move.old, move.new, COMMITS_SHOWN)
    come, comes = store.log(move.new, move.old, COMMITS_SHOWN)
    files = changed_files(store, store.commit(move.old).tree, store.commit(move.new).tree)
    return _Shift(move, gone, leaves, come, comes, files)


def _code(move: MoveRef) -> str:
    if move.new == NULL:
        return "ref_goes"
    return "ref_comes_back" if move.old == NULL else "ref_moves_back"


def _facts(move: MoveRef) -> tuple[Oid, dict[str, Any]]:
    return move.old if move.new == NULL else move.new, {"old": move.old, "new": move.new}


def _headline(request: Restore, plan: Plan) -> Note:
    codes = Counter(map(_code, plan.effects))
    names = [short_name(move.ref) for move in plan.effects]
    counts = {code.removeprefix("ref_"): codes[code] for code in ("ref_comes_back", "ref_moves_back", "ref_goes")}
    params = {"refs": names[:PATHS_SHOWN], "count": len(names), **counts, "restore_point": request.restore_point_id}
    return Note(code="restore_refs", at=names[0] if len(names) == 1 else "", params=params)


def _commits(
    code: str, store: Store, shifts: Sequence[_Shift], of: Callable[[_Shift], tuple[tuple[Oid, ...], int]]
) -> tuple[Section, ...]:
    """One list of commits for all branches, each commit with its branch; the branches share what a card shows."""
    moved = [shift for shift in shifts if of(shift)[1]]
    each = max(COMMITS_SHOWN // len(moved), 1) if moved else 0
    notes = []
    for shift in moved:
        oids, total = of(shift)
        section = commits_section(code, store, oids[:each], total)
        notes += [_of_branch(note, shift, several=True) for note in section.notes]
    return (Section(code=code, notes=tuple(notes)),) if notes else ()


def _of_branch(note: Note, shift: _Shift, several: bool) -> Note:
    """A note with the branch it speaks of, where there are several."""
    return note.model_copy(update={"params": {**note.params, "branch": shift.branch}}) if several else note


def _warnings(move: MoveRef) -> tuple[Note, ...]:
    """What is lost besides the commits of a branch: the ref itself, or where a tag was."""
    at = short_name(move.ref)
    if move.new == NULL:
        code = "deletes_branch" if move.ref.startswith(BRANCHES) else "deletes_tag"
        return (Note(code=code, at=at, params={"oid": move.old}),)
    if move.old == NULL or move.ref.startswith(BRANCHES):
        return ()
    return (Note(code="moves_tag", at=at, params={"old": move.old, "new": move.new}),)


def _file_warnings(store: Store, shifts: Sequence[_Shift]) -> tuple[Note, ...]:
    """One of a name: the same file may change alike on several branches."""
    found = file_warnings(store, [one for shift in shifts for one in shift.files])
    return tuple({note.name: note for note in found}.values())


_POINT: Final = "0d9c1f0e-1a5b-4c3d-8e7f-2b6a4c8d0e1f"
_ONE, _TWO = {"a.txt": "1\n"}, {"a.txt": "2\n"}
_SIDE = {"a.txt": "1\n", "side.txt": "s\n"}
_COMMITS = {
    "one": Made(files=_ONE, message="One"),
    "two": Made(files=_TWO, parents=("one",), message="Two"),
    "side": Made(files=_SIDE, parents=("one",), message="Side"),
}
_KEPT, _MADE = f"refs/restore/{_POINT}/kept", f"refs/restore/{_POINT}/made"


def _example(name: str, restored: tuple[str, ...], refs: Mapping[str, str], **more: Any) -> Example[Restore]:
    """An example on the history above."""
    arguments = {"restore_point_id": _POINT, "refs": list(restored), "reason": "Because it was asked."}
    return Example(name=name, commits=_COMMITS, refs=refs, arguments=arguments, **more)


EXAMPLES: tuple[Example[Restore], ...] = (
    _example(
        "a branch that was moved back",
        ("refs/heads/main",),
        {"refs/heads/main": "one", f"{_KEPT}/heads/main": "two"},
        after={"refs/heads/main": _TWO},
    ),
    _example(
        "a branch that was rewritten, and moved on since",
        ("refs/heads/main",),
        {"refs/heads/main": "side", f"{_KEPT}/heads/main": "two"},
        after={"refs/heads/main": _TWO},
        warnings=("rewrites_history", "deletes_file"),
    ),
    _example(
        "what was deleted comes back, what was made goes",
        ("refs/heads/old", "refs/heads/new", "refs/tags/v1"),
        {
            "refs/heads/main": "two",
            "refs/heads/new": "side",
            "refs/tags/v1": "one",
            f"{_KEPT}/heads/old": "one",
            f"{_MADE}/heads/new": "side",
            f"{_MADE}/tags/v1": "one",
        },
        after={"refs/heads/old": _ONE, "refs/heads/new": None, "refs/tags/v1": None},
        warnings=("deletes_branch", "deletes_tag"),
    ),
    _example(
        "one ref of two",
        ("refs/heads/old",),
        {"refs/heads/main": "one", f"{_KEPT}/heads/main": "two", f"{_KEPT}/heads/old": "one"},
        after={"refs/heads/old": _ONE},
    ),
    _example(
        "a tag that was made elsewhere since",
        ("refs/tags/v1",),
        {"refs/heads/main": "two", "refs/tags/v1": "two", f"{_KEPT}/tags/v1": "one"},
        after={"refs/tags/v1": _ONE},
        warnings=("moves_tag",),
    ),
    _example(
        "what was made has moved on",
        ("refs/heads/new",),
        {"refs/heads/main": "two", "refs/heads/new": "two", f"{_MADE}/heads/new": "one"},
        blocked="base_moved",
    ),
    _example(
        "a ref that the point does not know",
        ("refs/heads/main",),
        {"refs/heads/main": "two", f"{_KEPT}/heads/old": "one"},
        blocked="not_restorable",
    ),
    _example(
        "another branch in the way",
        ("refs/heads/old",),
        {"refs/heads/main": "two", "refs/heads/old/x": "two", f"{_KEPT}/heads/old": "one"},
        blocked="branch_exists",
    ),
    _example(
        "everything is so already",
        ("refs/heads/main", "refs/heads/new"),
        {"refs/heads/main": "two", f"{_KEPT}/heads/main": "two", f"{_MADE}/heads/new": "one"},
        blocked="nothing_to_change",
    ),
)

OPERATION = RestoreRefs()

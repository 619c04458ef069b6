"""What repeating commits on a branch and undoing them there have in common: each is a merge of its own, one after the
other, and all of them must change something.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from service.contract.changes import change_counts, changed_files, file_warnings, files_section
from service.contract.conflicting import conflicted
from service.contract.data import NULL, Oid
from service.contract.history import commits_section
from service.contract.operation import Request
from service.contract.plan import Blocked, MoveRef, Need, NewCommit, Note, Plan, ReviewCard
from service.contract.refs import Branch, Source, branch_ref, source_commit, source_needs, tip_need, tip_of
from service.contract.risk import text_warnings
from service.contract.world import Merged, Store, World
from service.kit.errors import Code

COMMITS_MOST: Final = 20
Commits = Annotated[
    list[Source],
    Field(
        description="1 to 20 commits in the order in which they are taken, each as a branch, a tag or a whole id.",
        min_length=1,
        max_length=COMMITS_MOST,
    ),
]
Mainline = Annotated[
    int | None,
    Field(
        description="For merge commits: which parent counts as what was there before, from 1. Without it a merge "
        "commit is refused.",
        ge=1,
        le=100,
    ),
]


class PickRequest(Request):
    """Commits to repeat or to undo on a branch."""

    branch: Branch
    commits: Commits
    mainline: Mainline = None


class Pick(NamedTuple):
    """A commit, and its parent that counts as what was there before; NULL where it has none."""

    oid: Oid
    parent: Oid


Merge = Callable[[Store, Oid, Pick], Merged]
"""Takes one commit onto the head of a branch."""
Build = Callable[[Store, Oid, Oid, Pick], NewCommit]
"""The commit on a head with a tree that a pick gave."""


def pick_needs(request: PickRequest) -> tuple[Need, ...]:
    """The branch and everything that the commits are named by."""
    return (tip_need(request.branch), *(need for source in request.commits for need in source_needs(source)))


def pick_plan(kind: str, request: PickRequest, world: World, merge: Merge, build: Build) -> Plan | Blocked:
    """One commit after the other on the branch's tip."""
    tip = tip_of(request.branch, world)
    if isinstance(tip, Blocked):
        return tip
    head, made = tip, list[NewCommit]()
    for source in request.commits:
        pick = picked(source, request.mainline, world)
        if isinstance(pick, Blocked):
            return pick
        merged = merge(world.store, head, pick)
        if merged.conflicts:
            return conflicted(world.store, merged.conflicts, pick.oid)
        if merged.tree == world.store.commit(head).tree:
            return _unchanged(request.branch, world.store, pick.oid)
        made.append(build(world.store, head, merged.tree, pick))
        head = made[-1].id
    effect = MoveRef(ref=branch_ref(request.branch), old=tip, new=head)
    return Plan(kinds=(kind,), build=tuple(made), effects=(effect,))


def _unchanged(branch: str, store: Store, commit: Oid) -> Blocked:
    shown = None if store.is_draft(commit) else commit
    return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=branch, params={"commit": shown}),))


def picked(source: str, mainline: int | None, world: World) -> Pick | Blocked:
    """The commit that a source names, with the parent that counts; a commit with one parent has none to choose."""
    oid = source_commit(source, world, "commits")
    if isinstance(oid, Blocked):
        return oid
    parents = world.store.commit(oid).parents
    if (len(parents) > 1 and mainline is None) or (mainline or 1) > max(len(parents), 1):
        params = {"parents": len(parents), "mainline": mainline}
        return Blocked(blockers=(Note(code=Code.MERGE_COMMIT.value.name, at=source, params=params),))
    return Pick(oid, parents[(mainline or 1) - 1] if parents else NULL)


def pick_card(headline: str, request: PickRequest, world: World, plan: Plan, **words: str) -> ReviewCard:
    """The commits that are repeated or undone, and what changes by all of them together.

    Args:
        headline: the code of what is done.
        request: what was asked.
        world: where it was planned.
        plan: what was planned.
        words: further words of the agent's.
    """
    store = world.store
    picks = [pick for source in request.commits if isinstance(pick := picked(source, request.mainline, world), Pick)]
    old, new = (store.commit(oid).tree for oid in (plan.effects[0].old, plan.effects[0].new))
    files = changed_files(store, old, new)
    notes = [one.note(store) for one in files]
    facts: dict[str, Any] = {"branch": request.branch, "commits": len(picks), "mainline": request.mainline}
    oids = [pick.oid for pick in picks]
    return ReviewCard(
        headline=Note(code=headline, at=request.branch, params={**facts, **change_counts(files, notes)}),
        agent_words={"reason": request.reason, **words},
        sections=(commits_section("commits", store, oids, len(oids)), files_section(notes)),
        warnings=(
            *message_warnings(plan.commits),
            *text_warnings(request.reason, "reason"),
            *file_warnings(store, files),
        ),
    )


def message_warnings(made: Sequence[NewCommit]) -> Iterator[Note]:
    """What the messages of new commits hide: a warning of each kind, with how often in all of them."""
    found: dict[str, Note] = {}
    for new in made:
        for note in text_warnings(new.message.decode("utf-8", "replace"), "message"):
            before = found[note.name].params["count"] if note.name in found else 0
            found[note.name] = note.model_copy(
                update={"params": {**note.params, "count": before + note.params["count"]}}
            )
    yield from found.values()

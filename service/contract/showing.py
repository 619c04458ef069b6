"""What of a plan an owner must be shown: every content that it brings to any ref, or into the history below one."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from service.contract.data import NULL, Entry, Oid
from service.contract.plan import MoveRef, NewCommit, NewTag, Plan
from service.contract.refs import BRANCHES
from service.contract.world import Store, tree_of


class Shown(NamedTuple):
    """A difference to show: from one commit (NULL: nothing) to another.

    Attributes:
        of: the ref that moves so, by its full name; of a commit below it, the commit's id.
        old: where it starts.
        new: where it ends.
    """

    of: str
    old: Oid
    new: Oid


def brings(move: MoveRef, drafts: Collection[Oid]) -> bool:
    """Whether a move of a branch brings or takes content: not one that makes it at, or takes it from, what is there."""
    return move.ref.startswith(BRANCHES) and (move.new in drafts or NULL not in (move.old, move.new))


def shown_changes(store: Store, plan: Plan) -> tuple[Shown, ...]:
    """The net change of each branch, of each tag at a new commit, and of each new commit that has something in between
    that none of them ends with: it stays in the history, where a tag or anybody can reach it.

    Of commits that are repeated or joined only the net change is shown, as what they bring is in the history already.
    """
    found = list(_ends(plan))
    seen = {end for one in found for end in _brought(store, one)}
    for new in plan.commits:
        if new.replays is None and len(new.parents) < 2:  # noqa: PLR2004  a merge has two
            one = Shown(new.id, new.parents[0] if new.parents else NULL, new.id)
            brought = set(_brought(store, one))
            if not brought <= seen:
                found.append(one)
                seen |= brought
    return tuple(found)


def _ends(plan: Plan) -> Iterator[Shown]:
    drafts = {new.id for new in plan.commits}
    tagged: dict[Oid, Oid] = {new.id: new.target for new in plan.build if isinstance(new, NewTag)}
    branches = [Shown(move.ref, plan.base(move), move.new) for move in plan.effects if brings(move, drafts)]
    yield from branches
    ends = {(one.old, one.new) for one in branches}
    for move in plan.effects:
        target = tagged.get(move.new, move.new)
        if not move.ref.startswith(BRANCHES) and target in drafts:
            one = Shown(move.ref, plan.base(move.model_copy(update={"old": NULL, "new": target})), target)
            if (one.old, one.new) not in ends:
                yield one


def _brought(store: Store, one: Shown) -> Iterator[tuple[bytes, Entry]]:
    """What stands at each path in the end that stood not there before."""
    changes = store.changes(tree_of(store, one.old), tree_of(store, one.new))
    return ((change.path, change.new) for change in changes if change.new is not None)


def label(one: Shown, commits: Collection[NewCommit]) -> str:
    """How a difference is told from the others: `main`, `tag v1`, or the first line of a commit's message."""
    if one.of.startswith("refs/"):
        short = one.of.removeprefix(BRANCHES)
        return short if short != one.of else f"tag {one.of.removeprefix('refs/tags/')}"
    message = next((new.message for new in commits if new.id == one.of), b"")
    return message.lstrip(b"\n").partition(b"\n")[0].decode("utf-8", "replace")

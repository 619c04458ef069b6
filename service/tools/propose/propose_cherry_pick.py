"""Cherry-pick: repeat commits from elsewhere on a branch, one by one, each with its author, date and message.

The owner sees: the commits, and what changes by all of them together, every file with its whole diff.
The writer does: builds one commit for each on the pinned tip and moves the branch to the last.
Refused when: one of them does not fit without a conflict, changes nothing, or is a merge of which no parent is named.
"""

from collections.abc import Mapping
from typing import ClassVar

from service.contract.data import Oid
from service.contract.operation import Example, Made, Toolset
from service.contract.picking import Pick, PickRequest, pick_card, pick_needs, pick_plan
from service.contract.plan import Blocked, Fact, Need, NewCommit, Outcome, Plan, ReviewCard, Value, Wish
from service.contract.refs import branch_ref
from service.contract.undoing import revert_of
from service.contract.world import Merged, Store, World


class CherryPick(PickRequest):
    """Commits to repeat on a branch, the oldest first."""


class PickCommits:
    """The operation. See the module."""

    kind = "propose_cherry_pick"
    version = 1
    toolset: ClassVar[Toolset] = "git"
    divisible = False
    title = "Propose to cherry-pick commits"
    description = (
        "Proposes to repeat 1 to 20 commits on a branch, in the order given (the oldest first), each with its own "
        "author, date and message. Nothing changes until an owner approves. A conflict is answered with its paths and "
        "lines, and nothing is proposed; nor where a commit would change nothing. The branch is pinned, and so is "
        "every branch or tag that a commit is named by."
    )
    request = CherryPick

    def targets(self, request: CherryPick) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (branch_ref(request.branch),), ()

    def pins(self, request: CherryPick, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return pick_needs(request)

    def received(self, request: CherryPick) -> list[dict[str, object]]:
        return []

    def plan(self, request: CherryPick, world: World) -> Plan | Blocked:
        return pick_plan(self.kind, request, world, _merge, _build)

    def review_card(self, request: CherryPick, world: World, plan: Plan) -> ReviewCard:
        return pick_card("cherry_pick", request, world, plan)

    def undo(self, outcome: Outcome) -> Wish | None:
        return revert_of(outcome, outcome.request["branch"])

    def examples(self) -> tuple[Example[CherryPick], ...]:
        return EXAMPLES


def _merge(store: Store, head: Oid, pick: Pick) -> Merged:
    return store.merge(head, pick.oid, base=pick.parent)


def _build(store: Store, head: Oid, tree: Oid, pick: Pick) -> NewCommit:
    return store.draft((head,), tree, store.commit(pick.oid).message, replays=pick.oid)


_BASE = {"README.md": "# Orchard\n", "app.py": "one\ntwo\nthree\nfour\nfive\n"}
_FIXED = {**_BASE, "app.py": "ONE\ntwo\nthree\nfour\nfive\n"}
_SECOND = {**_FIXED, "new.txt": "new\n"}
_TIP = {**_BASE, "app.py": "one\ntwo\nthree\nfour\nFIVE\n"}
_SIDE = {**_BASE, "side.txt": "side\n"}
_COMMITS = {
    "base": Made(files=_BASE),
    "fix": Made(files=_FIXED, parents=("base",), message="Fix the first line\n\nIt was small.\n"),
    "second": Made(files=_SECOND, parents=("fix",), message="Add a file\n"),
    "side": Made(files=_SIDE, parents=("base",), message="Aside\n"),
    "joined": Made(files={**_SECOND, "side.txt": "side\n"}, parents=("second", "side"), message="Join\n"),
    "tip": Made(files=_TIP, parents=("base",), message="Change the last line\n"),
    "rival": Made(files={**_BASE, "app.py": "uno\n"}, parents=("base",), message="All anew\n"),
    "link": Made(
        files={**_BASE, "link": "/etc/passwd", "lib": "1" * 40},
        parents=("base",),
        modes={"link": 0o120000, "lib": 0o160000},
        message="Link\n",
    ),
}
_REFS = {
    "refs/heads/main": "tip",
    "refs/heads/dev": "second",
    "refs/heads/joined": "joined",
    "refs/heads/rival": "rival",
    "refs/heads/link": "link",
}
_WORDS = {"branch": "main", "reason": "It is needed here too."}
_BOTH = "ONE\ntwo\nthree\nfour\nFIVE\n"

EXAMPLES: tuple[Example[CherryPick], ...] = (
    Example(
        name="two commits, the oldest first",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["{fix}", "dev"]},
        after={"refs/heads/main": {**_TIP, "app.py": _BOTH, "new.txt": "new\n"}},
    ),
    Example(
        name="a merge with the parent that counts",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["joined"], "mainline": 1},
        after={"refs/heads/main": {**_TIP, "side.txt": "side\n"}},
    ),
    Example(
        name="a symbolic link and a submodule",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["link"]},
        after={"refs/heads/main": {**_TIP, "link": "/etc/passwd", "lib": "1" * 40}},
        modes={"refs/heads/main:link": 0o120000, "refs/heads/main:lib": 0o160000},
        warnings=("symbolic_link",),
    ),
    Example(
        name="a commit without a parent",
        commits={**_COMMITS, "alone": Made(files={"alone.txt": "alone\n"}, message="Alone\n")},
        refs={**_REFS, "refs/tags/alone": "alone"},
        arguments={**_WORDS, "commits": ["alone"]},
        after={"refs/heads/main": {**_TIP, "alone.txt": "alone\n"}},
    ),
    Example(
        name="a merge without a word on its parents",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["joined"]},
        blocked="merge_commit",
    ),
    Example(
        name="a parent that is not there",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["dev"], "mainline": 2},
        blocked="merge_commit",
    ),
    Example(
        name="what does not fit",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["{fix}", "rival"]},
        blocked="conflicts",
    ),
    Example(
        name="what is there already",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["{fix}", "{fix}"]},
        blocked="nothing_to_change",
    ),
    Example(
        name="a commit that is nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commits": ["nowhere"]},
        blocked="commit_missing",
    ),
    Example(
        name="onto a branch that is nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "nowhere", "commits": ["dev"]},
        blocked="branch_missing",
    ),
)

OPERATION = PickCommits()

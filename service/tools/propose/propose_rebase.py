"""Rebase: repeat what a branch has beyond another on top of it, or elsewhere. Never interactive.

The owner sees: old and new commits pair by pair, those that are dropped with why, those that leave, what comes with the
new base, and what changes in the end.
The writer does: builds the repeated commits, each with its author, date and message, and moves the branch to the last.
Refused when: one of them does not fit without a conflict, or nothing would be another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from pydantic import Field

from service.contract.changes import change_counts, changed_files, file_warnings, files_section
from service.contract.conflicting import conflicted
from service.contract.data import NULL, Oid
from service.contract.history import COMMITS_SHOWN, commit_note, commits_section
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.plan import (
    Blocked,
    Fact,
    MoveRef,
    Need,
    NewCommit,
    Note,
    Outcome,
    Plan,
    ReviewCard,
    Section,
    Value,
    Wish,
)
from service.contract.refs import Branch, Source, branch_ref, source_commit, source_needs, tip_need, tip_of
from service.contract.risk import text_warnings
from service.contract.undoing import reset_of, restore_of
from service.contract.world import Store, World
from service.kit.errors import Code

REPLAYS_MOST: Final = 200


class Rebase(Request):
    """What to repeat where."""

    branch: Branch
    onto: Annotated[Source, Field(description="What the branch's own commits are to stand on.")]
    upstream: Annotated[
        Source | None,
        Field(description="The branch's own commits are those that this has not; left out, those that onto has not."),
    ] = None


class RebaseBranch:
    """The operation. See the module."""

    kind = "propose_rebase"
    version = 1
    toolset: ClassVar[Toolset] = "git"
    divisible = False
    title = "Propose a rebase"
    description = (
        "Proposes to repeat the commits that a branch has beyond another one on top of that, or elsewhere (onto), as "
        "git rebase does by default: merges are left out, and so is what the other has already. At most 200 commits. "
        "Nothing changes until an owner approves; what the branch was is kept. A conflict is answered with its paths, "
        "lines and commit, and nothing is proposed. The branch and what it goes onto are pinned."
    )
    request = Rebase

    def targets(self, request: Rebase) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (branch_ref(request.branch),), ()

    def pins(self, request: Rebase, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        upstream = () if request.upstream is None else source_needs(request.upstream)
        return (tip_need(request.branch), *source_needs(request.onto), *upstream)

    def received(self, request: Rebase) -> list[dict[str, object]]:
        return []

    def plan(self, request: Rebase, world: World) -> Plan | Blocked:
        bases = _bases(request, world)
        if isinstance(bases, Blocked):
            return bases
        tip, onto, upstream = bases
        if _is_linear(world.store, tip, onto, upstream):
            return _unchanged(request)
        commits = world.store.replay(tip, upstream).commits
        if len(commits) > REPLAYS_MOST:
            params = {"limit": REPLAYS_MOST, "value": len(commits)}
            return Blocked(blockers=(Note(code=Code.TOO_MUCH_TO_REVIEW.value.name, at=request.branch, params=params),))
        made = _repeat(world.store, onto, commits)
        if isinstance(made, Blocked):
            return made
        if made.head == tip:
            return _unchanged(request)
        effect = MoveRef(ref=branch_ref(request.branch), old=tip, new=made.head)
        return Plan(kinds=(self.kind,), build=tuple(made.built), effects=(effect,))

    def review_card(self, request: Rebase, world: World, plan: Plan) -> ReviewCard:
        store, move = world.store, plan.effects[0]
        files = changed_files(store, store.commit(move.old).tree, store.commit(move.new).tree)
        notes = [one.note(store) for one in files]
        fate = _fate(request, world, plan)
        facts = {
            "branch": request.branch,
            "onto": request.onto,
            "upstream": request.upstream,
            "replayed": len(plan.commits),
            "dropped": len(fate.dropped),
            "leaves": fate.gone,
            "commits": fate.coming_total,
        }
        return ReviewCard(
            headline=Note(code="rebase", at=request.branch, params={**facts, **change_counts(files, notes)}),
            agent_words={"reason": request.reason},
            sections=(*fate.sections(store, plan), files_section(notes)),
            warnings=(
                *fate.warnings(request.branch),
                *text_warnings(request.reason, "reason"),
                *file_warnings(store, files),
            ),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        """A branch that only moved forward left nothing behind to be restored."""
        return restore_of(outcome) or reset_of(outcome)

    def examples(self) -> tuple[Example[Rebase], ...]:
        return EXAMPLES


@dataclass
class _Repeated:
    """Where the commits led, and those that were built for it."""

    head: Oid
    built: list[NewCommit] = field(default_factory=list)


@dataclass(frozen=True)
class _Fate:
    """What became of everything that the branch had.

    Attributes:
        coming: the newest of the commits that come with the new base, and `coming_total` how many those are.
        kept: own commits that stay what they are.
        dropped: own commits that are not repeated, with why.
        leaving: the newest of those that go beside them, and `leaving_total` how many those are.
        gone: how many commits the branch no longer has, repeated and dropped ones included.
    """

    coming: tuple[Oid, ...]
    coming_total: int
    kept: tuple[Oid, ...]
    dropped: tuple[tuple[Oid, str], ...]
    leaving: tuple[Oid, ...]
    leaving_total: int
    gone: int

    def sections(self, store: Store, plan: Plan) -> tuple[Section, ...]:
        """All of it; what is empty is left out, but the pairs."""
        pairs = [_pair(store, new) for new in plan.commits[:COMMITS_SHOWN]]
        dropped = [commit_note(store, oid, "dropped", why=why) for oid, why in self.dropped[:COMMITS_SHOWN]]
        found = (
            commits_section("kept", store, self.kept, len(self.kept)),
            Section(code="dropped", notes=(*dropped, *_more(len(self.dropped)))),
            commits_section("leaves", store, self.leaving, self.leaving_total),
            commits_section("commits", store, self.coming, self.coming_total),
        )
        replayed = Section(code="replayed", notes=(*pairs, *_more(len(plan.commits))))
        return (replayed, *(section for section in found if section.notes))

    def warnings(self, branch: str) -> tuple[Note, ...]:
        """What others have of the branch will no longer be part of it."""
        if not self.gone:
            return ()
        return (Note(code="rewrites_history", at=branch, params={"commits": self.gone, "confirm": branch}),)


def _bases(request: Rebase, world: World) -> tuple[Oid, Oid, Oid] | Blocked:
    """The branch's tip, what it goes onto, and what says which commits are its own."""
    tip, onto = tip_of(request.branch, world), source_commit(request.onto, world, "onto")
    upstream = onto if request.upstream is None else source_commit(request.upstream, world, "upstream")
    for found in (tip, onto, upstream):
        if isinstance(found, Blocked):
            return found
    return tip, onto, upstream  # type: ignore[return-value]  # none of them is blocked


def _is_linear(store: Store, tip: Oid, onto: Oid, upstream: Oid) -> bool:
    """Whether the branch stands on it already, in one line: git then leaves it alone, whatever the upstream has."""
    if not store.contains(tip, onto) or store.merge_base(tip, upstream) != onto:
        return False
    at = tip
    while at != onto:
        parents = store.commit(at).parents
        if len(parents) != 1:
            return False
        at = parents[0]
    return True


def _repeat(store: Store, onto: Oid, commits: tuple[Oid, ...]) -> _Repeated | Blocked:
    """One after the other; one that stands where it should already is taken as it is, one that became empty is not."""
    done = _Repeated(onto)
    for oid in commits:
        commit = store.commit(oid)
        if commit.parents == (done.head,):
            done.head = oid
            continue
        parent = commit.parents[0] if commit.parents else NULL
        merged = store.merge(done.head, oid, base=parent)
        if merged.conflicts:
            return conflicted(store, merged.conflicts, oid)
        if merged.tree != store.commit(done.head).tree or _is_empty(store, oid):
            done.built.append(store.draft((done.head,), merged.tree, commit.message, replays=oid))
            done.head = done.built[-1].id
    return done


def _is_empty(store: Store, oid: Oid) -> bool:
    """Whether a commit changed nothing in its own place."""
    commit = store.commit(oid)
    before = store.commit(commit.parents[0]).tree if commit.parents else store.edit(None, {})
    return commit.tree == before


def _fate(request: Rebase, world: World, plan: Plan) -> _Fate:
    store, move = world.store, plan.effects[0]
    bases = _bases(request, world)
    if isinstance(bases, Blocked):
        raise TypeError("it was planned on what is not there")
    tip, onto, upstream = bases
    replay = store.replay(tip, upstream)
    repeated = {new.replays for new in plan.commits}
    others = [oid for oid in replay.commits if oid not in repeated]
    kept = tuple(oid for oid in others if store.contains(move.new, oid))
    dropped = (*replay.dropped, *((oid, "empty") for oid in others if oid not in kept))
    told = {*repeated, *(oid for oid, _ in dropped)}
    gone, count = store.log(tip, move.new, COMMITS_SHOWN + len(told))
    coming, total = store.log(onto, tip, COMMITS_SHOWN)
    return _Fate(
        coming=coming,
        coming_total=total,
        kept=kept,
        dropped=dropped,
        leaving=tuple(oid for oid in gone if oid not in told),
        leaving_total=count - sum(oid in told for oid in gone),
        gone=count,
    )


def _pair(store: Store, new: NewCommit) -> Note:
    """A new commit beside the one that it repeats."""
    known = new.replays is not None and not store.is_draft(new.replays)
    return commit_note(store, new.id, "replayed", old=new.replays if known else "")


def _more(total: int) -> tuple[Note, ...]:
    more = total - COMMITS_SHOWN
    return (Note(code="more_commits", params={"count": more}),) if more > 0 else ()


def _unchanged(request: Rebase) -> Blocked:
    return Blocked(blockers=(Note(code=Code.NOTHING_TO_CHANGE.value.name, at=request.branch),))


_BASE = {"README.md": "# Orchard\n", "app.py": "one\ntwo\nthree\nfour\nfive\n"}
_MAIN = {**_BASE, "app.py": "one\ntwo\nthree\nfour\nFIVE\n"}
_FIX = {**_BASE, "app.py": "ONE\ntwo\nthree\nfour\nfive\n"}
_SIDE = {**_BASE, "side.txt": "side\n"}
_COMMITS = {
    "base": Made(files=_BASE, message="Begin\n"),
    "last": Made(files=_MAIN, parents=("base",), message="Change the last line\n"),
    "main": Made(files={**_MAIN, "more.txt": "more\n"}, parents=("last",), message="Add more\n"),
    "fix": Made(files=_FIX, parents=("base",), message="Fix the first line\n"),
    "same": Made(
        files={**_FIX, "app.py": "ONE\ntwo\nthree\nfour\nFIVE\n"}, parents=("fix",), message="The last line, too\n"
    ),
    "side": Made(files=_SIDE, parents=("base",), message="Aside\n"),
    "join": Made(
        files={**_SIDE, "app.py": "ONE\ntwo\nthree\nfour\nFIVE\n"}, parents=("same", "side"), message="Join\n"
    ),
    "dev": Made(
        files={"README.md": "# Orchard\n", "src/app.py": "ONE\ntwo\nthree\nfour\nFIVE\n", "side.txt": "side\n"},
        parents=("join",),
        message="Move the program\n",
    ),
    "rival": Made(files={**_BASE, "app.py": "uno\n"}, parents=("base",), message="All anew\n"),
}
_REFS = {
    "refs/heads/main": "main",
    "refs/heads/old": "base",
    "refs/heads/dev": "dev",
    "refs/heads/fix": "fix",
    "refs/heads/rival": "rival",
}
_WORDS = {"branch": "dev", "onto": "main", "reason": "To be on what is there."}

EXAMPLES: tuple[Example[Rebase], ...] = (
    Example(
        name="a branch with a merge, and with a change that is there already",
        commits=_COMMITS,
        refs=_REFS,
        arguments=_WORDS,
        after={
            "refs/heads/dev": {
                "README.md": "# Orchard\n",
                "src/app.py": "ONE\ntwo\nthree\nfour\nFIVE\n",
                "side.txt": "side\n",
                "more.txt": "more\n",
            }
        },
        warnings=("rewrites_history",),
    ),
    Example(
        name="only what is beyond another commit",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "upstream": "{join}"},
        after={
            "refs/heads/dev": {
                "README.md": "# Orchard\n",
                "src/app.py": _MAIN["app.py"],
                "more.txt": "more\n",
            }
        },
        warnings=("rewrites_history", "deletes_file"),
    ),
    Example(
        name="on what is further back, flattened",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "onto": "old"},
        after={
            "refs/heads/dev": {
                "README.md": "# Orchard\n",
                "src/app.py": "ONE\ntwo\nthree\nfour\nFIVE\n",
                "side.txt": "side\n",
            }
        },
        warnings=("rewrites_history",),
    ),
    Example(
        name="what just moves forward",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "old"},
        after={"refs/heads/old": {**_MAIN, "more.txt": "more\n"}},
    ),
    Example(
        name="what stands there already",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "main", "onto": "old"},
        blocked="nothing_to_change",
    ),
    Example(
        name="a change that does not fit",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "rival"},
        blocked="conflicts",
    ),
    Example(
        name="onto what is nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "onto": "nowhere"},
        blocked="commit_missing",
    ),
    Example(
        name="what is nowhere",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "branch": "nowhere"},
        blocked="branch_missing",
    ),
)

OPERATION = RebaseBranch()

"""Move a submodule: record another commit at the path of a submodule that is there.

The owner sees: the old and the new commit, whether the new one is in this repository, and where both are, the commits
between them; else that nothing can be known of them here.
The writer does: builds one commit on the pinned tip and moves the branch to it.
Refused when: no submodule is at the path, it is not at the commit that the request expects, or it is at the new one.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from service.contract.changes import GITLINK, changed_files, file_warnings, files_section
from service.contract.data import NULL, Entry, Oid
from service.contract.history import COMMITS_SHOWN, commits_section
from service.contract.names import check_oid, check_read_path, quote_path
from service.contract.operation import Example, Made, Request, Toolset
from service.contract.plan import Blocked, Fact, MoveRef, Need, Note, Outcome, Plan, ReviewCard, Section, Value, Wish
from service.contract.refs import Branch, ExpectedOid, Message, branch_ref, tip_need, tip_of
from service.contract.risk import text_warnings
from service.contract.undoing import revert_of
from service.contract.world import Store, World
from service.kit.errors import Code, Refusal


def _path(value: str) -> str:
    check_read_path(value, "path")
    return value


def _commit(value: str) -> str:
    if check_oid(value, "commit") == NULL:
        raise Refusal(Code.INVALID_ARGUMENT, "Forty zeros are no commit.", field="commit")
    return value


def _expected(value: str | None) -> str | None:
    return value if value is None else check_oid(value, "expected_commit")


class SubmodulePointer(Request):
    """Another commit for one submodule."""

    branch: Branch
    message: Message
    path: Annotated[
        str,
        Field(description="Path of the submodule from the root, with slashes.", min_length=1, max_length=8_192),
        AfterValidator(_path),
    ]
    commit: Annotated[
        str,
        Field(description="The commit of the submodule's repository to record: 40 hexadecimal digits.", max_length=40),
        AfterValidator(_commit),
    ]
    expected_commit: Annotated[
        str | None,
        Field(description="The commit recorded now; with another one nothing is proposed.", max_length=40),
        AfterValidator(_expected),
    ] = None
    expected_base_oid: ExpectedOid = None

    @property
    def raw_path(self) -> bytes:
        """The path's bytes."""
        return check_read_path(self.path, "path")


class MoveSubmodule:
    """The operation. See the module."""

    kind = "propose_submodule_pointer"
    version = 1
    toolset: ClassVar[Toolset] = "git"
    divisible = False
    title = "Propose a submodule's commit"
    description = (
        "Proposes one commit on a branch that records another commit for a submodule that is there. Submodules are "
        "neither made nor taken away this way. Nothing changes until an owner approves."
    )
    request = SubmodulePointer

    def targets(self, request: SubmodulePointer) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        return (branch_ref(request.branch),), (request.raw_path,)

    def pins(self, request: SubmodulePointer, seen: Mapping[Fact, Value]) -> tuple[Need, ...]:
        return (tip_need(request.branch, request.expected_base_oid),)

    def received(self, request: SubmodulePointer) -> list[dict[str, object]]:
        return [{"path": quote_path(request.raw_path)}]

    def plan(self, request: SubmodulePointer, world: World) -> Plan | Blocked:
        tip = tip_of(request.branch, world)
        if isinstance(tip, Blocked):
            return tip
        store, tree = world.store, world.store.commit(tip).tree
        if (blocker := _blocker(request, store.entry(tree, request.raw_path))) is not None:
            return Blocked(blockers=(blocker,))
        new_tree = store.edit(tree, {request.raw_path: Entry(mode=GITLINK, oid=Oid(request.commit))})
        commit = store.draft((tip,), new_tree, request.message.encode())
        move = MoveRef(ref=branch_ref(request.branch), old=tip, new=commit.id)
        return Plan(kinds=(self.kind,), build=(commit,), effects=(move,))

    def review_card(self, request: SubmodulePointer, world: World, plan: Plan) -> ReviewCard:
        store, at = world.store, quote_path(request.raw_path)
        old_tree = store.commit(plan.effects[0].old).tree
        files = changed_files(store, old_tree, plan.commits[0].tree)
        notes = [one.note(store) for one in files]
        old = store.entry(old_tree, request.raw_path)
        commits = {"old": old.oid if old else "", "new": request.commit}
        params = {"branch": request.branch, "path": at, **commits}
        return ReviewCard(
            headline=Note(code="submodule_changes", at=request.branch, params=params),
            agent_words={"reason": request.reason, "message": request.message},
            sections=(files_section(notes), *_between(store, at, Oid(commits["old"]), Oid(commits["new"]))),
            warnings=(
                *text_warnings(request.message, "message"),
                *text_warnings(request.reason, "reason"),
                Note(code="submodule_moves", at=at, params=commits),
                *file_warnings(store, files),
            ),
        )

    def undo(self, outcome: Outcome) -> Wish | None:
        """Back to the commit that was recorded, where the request names it; else by reverting."""
        request = outcome.request
        before, after = request.get("expected_commit"), request["commit"]
        if before is None:
            return revert_of(outcome, request["branch"])
        arguments = {
            "branch": request["branch"],
            "path": request["path"],
            "commit": before,
            "expected_commit": after,
            "message": f"Move the submodule back to {before}",
        }
        return Wish(kind=self.kind, arguments=arguments)

    def examples(self) -> tuple[Example[SubmodulePointer], ...]:
        return EXAMPLES


def _blocker(request: SubmodulePointer, now: Entry | None) -> Note | None:
    """Why the submodule cannot be moved, if so."""
    at = quote_path(request.raw_path)
    if now is None or now.mode != GITLINK:
        return Note(code=Code.NOT_A_SUBMODULE.value.name, at=at)
    if request.expected_commit not in (None, now.oid):
        params = {"field": "expected_commit", "commit": now.oid}
        return Note(code=Code.BLOB_MISMATCH.value.name, at=at, params=params)
    if now.oid == request.commit:
        return Note(code=Code.NOTHING_TO_CHANGE.value.name, at=at)
    return None


def _between(store: Store, at: str, old: Oid, new: Oid) -> tuple[Section, ...]:
    """What this repository knows of the two commits: most often nothing, since they are another repository's."""
    known = {name: store.find_commit(oid) == oid for name, oid in (("old", old), ("new", new))}
    params = {"old": old, "new": new, **{f"{name}_known": here for name, here in known.items()}}
    if not all(known.values()):
        return (Section(code="submodule", notes=(Note(code="submodule_log_unknown", at=at, params=params),)),)
    facts = Section(code="submodule", notes=(Note(code="submodule_log_known", at=at, params=params),))
    logs = (("commits", store.log(new, old, COMMITS_SHOWN)), ("leaves", store.log(old, new, COMMITS_SHOWN)))
    return (facts, *(commits_section(code, store, *found) for code, found in logs if found[1]))


_OLD, _NEW = "1" * 40, "2" * 40
_BASE = {"README.md": "# Orchard\n", "lib": _OLD}
_MODES = {"lib": GITLINK}
_COMMITS = {"base": Made(files=_BASE, modes=_MODES)}
_REFS = {"refs/heads/main": "base"}
_WORDS = {"branch": "main", "message": "Move lib", "reason": "Because it was asked.", "path": "lib", "commit": _NEW}

EXAMPLES: tuple[Example[SubmodulePointer], ...] = (
    Example(
        name="another commit",
        commits=_COMMITS,
        refs=_REFS,
        arguments=_WORDS,
        after={"refs/heads/main": {**_BASE, "lib": _NEW}},
        modes={"refs/heads/main:lib": GITLINK},
        warnings=("submodule_moves",),
    ),
    Example(
        name="commits of this very repository",
        commits={
            "one": Made(files={"a": "1\n"}),
            "two": Made(files={"a": "2\n"}, parents=("one",)),
            "base": Made(files=_BASE, modes=_MODES),
        },
        refs={**_REFS, "refs/heads/lib": "two"},
        arguments={**_WORDS, "commit": "{two}", "expected_commit": _OLD},
        after={"refs/heads/main": {**_BASE, "lib": "{two}"}},
        modes={"refs/heads/main:lib": GITLINK},
        warnings=("submodule_moves",),
    ),
    Example(
        name="no submodule",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "path": "README.md"},
        blocked="not_a_submodule",
    ),
    Example(
        name="nothing there",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "path": "libs/new"},
        blocked="not_a_submodule",
    ),
    Example(
        name="another commit than expected",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "expected_commit": "3" * 40},
        blocked="blob_mismatch",
    ),
    Example(
        name="the same commit",
        commits=_COMMITS,
        refs=_REFS,
        arguments={**_WORDS, "commit": _OLD},
        blocked="nothing_to_change",
    ),
)

OPERATION = MoveSubmodule()

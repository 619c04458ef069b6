"""Every example of every operation as a repository, a plan, and what comes of it; each made once and shared."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pygit2

from service.contract.changes import DIRECTORY, GITLINK
from service.contract.data import NULL, Json, Oid
from service.contract.operation import Example, Operation
from service.contract.plan import Blocked, Manifest, NewCommit, Outcome, Pin, Plan, ReviewCard, Wish
from service.contract.world import World
from service.proposals.planning import Planned, load_card, load_manifests, load_pins, load_plan, plan_proposal
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.repositories.staging import Staging
from service.writer.intent import Intent, seal
from service.writer.provenance import Trailers
from service.writer.write import write
from tests.proposals.history import make_history
from tests.stage import git

AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"
COMMITTER = b"Olive Owner <olive@example.org> 1700000100 +0000"
PROPOSAL = UUID("3b0e2c9a-7a55-4f0e-9f4e-6f1d2f9b1c11")
UNDOING = UUID("3b0e2c9a-7a55-4f0e-9f4e-6f1d2f9b1c12")
PLAN_SECONDS = 30
Files = dict[str, tuple[int, str]]
"""Mode and content by path; of a submodule the commit id."""


@dataclass(frozen=True)
class Case:
    """An operation on an example's repository, planned."""

    operation: Operation[Any]
    example: Example[Any]
    scene: "Scene"
    request: Any
    planned: Planned

    @property
    def plan(self) -> Plan:
        return load_plan(self.planned.plan)

    @property
    def card(self) -> ReviewCard:
        return load_card(self.planned.card)

    @property
    def pins(self) -> tuple[Pin, ...]:
        return load_pins(self.planned.pins)

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return load_manifests(self.planned.manifest)

    def store(self) -> Staging:
        """The repository with what is planned."""
        return Staging(self.scene.path, AUTHOR, None, decode(self.planned.objects), self.plan.commits)


@dataclass(frozen=True)
class Landed:
    """A repository in which a plan was executed."""

    path: Path
    case: Case
    sealed: Intent

    @property
    def outcome(self) -> Outcome:
        """What the operation is told, to say how it is undone."""
        new = [one.oid for one in self.sealed.commits if one.kind == "commit"]
        kept = str(PROPOSAL) if self.case.plan.restorable else None
        request = self.case.request.model_dump(mode="json")
        return Outcome(request=request, moves=self.sealed.effects, commits=tuple(new), restore_point=kept)


@dataclass(frozen=True)
class Scene:
    """An example's repository. Planning only reads it."""

    path: Path
    names: dict[str, str]
    example: Example[Any]
    refs: dict[str, str]
    state: dict[str, str]

    def request(self, operation: Operation[Any]) -> Any:
        """The example's request; its repository has an id of its own."""
        return read(operation, {"repository_id": self.id, **self.filled(dict(self.example.arguments))})

    @property
    def id(self) -> str:
        return str(UUID(int=int(self.path.stem)))

    def filled(self, value: Any) -> Any:
        """See `filled`."""
        return filled(self.example, self.names, value)


def filled(example: Example[Any], names: Mapping[str, str], value: Any) -> Any:
    """Replace strings that are exactly `{NAME}` or `{NAME:PATH}` by the ids that they stand for."""
    if isinstance(value, dict):
        return {name: filled(example, names, inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [filled(example, names, inner) for inner in value]
    return _id(example, names, value) if isinstance(value, str) else value


def _id(example: Example[Any], names: Mapping[str, str], text: str) -> str:
    name, _, path = text[1:-1].partition(":")
    if (text[:1], text[-1:]) != ("{", "}") or name not in names:
        return text
    made = example.commits[name]
    if not path:
        return names[name]
    return made.files[path] if made.modes.get(path) == GITLINK else blob_id(made.files[path].encode())


@dataclass
class Scenes:
    """The scenes of a module, by operation and example."""

    folder: Path
    _scenes: dict[tuple[str, str], Scene] = field(default_factory=dict)
    _cases: dict[tuple[int, str], Case] = field(default_factory=dict)
    _landed: dict[tuple[int, str], Landed] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        self._empty = self.folder / "empty.git"
        make_history(self._empty, {}, {})

    def scene(self, operation: Operation[Any], example: Example[Any]) -> Scene:
        key = (operation.kind, example.name)
        if key not in self._scenes:
            path = self.copy(self._empty)
            names = make_history(path, example.commits, example.refs)
            refs = {ref: names[name] for ref, name in example.refs.items()}
            self._scenes[key] = Scene(path, names, example, refs, contents(path))
        return self._scenes[key]

    def case(self, operation: Operation[Any], example: Example[Any]) -> Case:
        """The example planned; raises what planning raises."""
        key = (id(operation), example.name)
        if key not in self._cases:
            scene = self.scene(operation, example)
            request = scene.request(operation)
            self._cases[key] = Case(operation, example, scene, request, plan(scene.path, operation, request))
        return self._cases[key]

    def landed(self, operation: Operation[Any], example: Example[Any]) -> Landed:
        """The example executed, on a copy of its repository."""
        key = (id(operation), example.name)
        if key not in self._landed:
            case = self.case(operation, example)
            path = self.copy(case.scene.path)
            self._landed[key] = Landed(path, case, execute(path, case.planned, PROPOSAL))
        return self._landed[key]

    def undone(self, landed: Landed, operations: dict[str, Operation[Any]], wish: Wish) -> Path:
        """Execute a wish on a copy of where something landed."""
        path = self.copy(landed.path)
        assert wish.kind in operations
        operation = operations[wish.kind]
        planned = plan(path, operation, read(operation, wish.arguments), UNDOING)
        execute(path, planned, UNDOING)
        return path

    def copy(self, path: Path) -> Path:
        """A repository of its own with the same in it."""
        self._count += 1
        return Path(shutil.copytree(path, self.folder / f"{self._count}.git"))


class Recorded:
    """An operation that plans its examples as it did before, from what was staged then: to be spoilt at little cost."""

    def __init__(self, operation: Operation[Any], cases: Iterable[Case]) -> None:
        self._right = operation
        self._cases = {case.request.repository_id: case for case in cases}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def plan(self, request: Any, world: World) -> Plan | Blocked:
        case = self._cases.get(request.repository_id)
        if case is None or {pin.fact: pin.seen for pin in case.pins} != world.seen:
            return self._right.plan(request, world)
        store: Any = world.store
        for one in decode(case.planned.objects):
            (store.put if one.kind == "blob" else store.put_tree)(one.content)
        for new in case.plan.build:
            if isinstance(new, NewCommit):
                store.draft(new.parents, new.tree, new.message, new.replays)
            else:
                store.tag(new.target, new.name, new.message)
        return case.plan


def read(operation: Operation[Any], arguments: Json) -> Any:
    """A request as the registry reads what an agent sends."""
    sent = {"repository_id": str(uuid4()), "reason": "Because it was asked.", **arguments}
    return operation.request.model_validate_json(json.dumps(sent))


def plan(path: Path, operation: Operation[Any], request: Any, proposal: UUID = PROPOSAL) -> Planned:
    return plan_proposal(path, operation, request, proposal, AUTHOR, time.monotonic() + PLAN_SECONDS)


def execute(path: Path, planned: Planned, proposal: UUID) -> Intent:
    """Seal and write as the writer does."""
    found = load_plan(planned.plan)
    sealed = seal(found, COMMITTER, Trailers(proposal, "olive@example.org", UUID(int=1), planned.digest))
    write(
        BareRepository(path),
        found,
        load_manifests(planned.manifest),
        decode(planned.objects),
        sealed,
        lambda _name: None,
    )
    return sealed


def contents(path: Path) -> dict[str, str]:
    """Every file of a repository's folder by its path, as the SHA-256 of its content."""
    files = (one for one in sorted(path.rglob("*")) if one.is_file())
    return {str(one.relative_to(path)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def refs_of(path: Path) -> dict[str, str]:
    """Where every ref is, as git says."""
    lines = git(path, "for-each-ref", "--format=%(refname) %(objectname)").decode().splitlines()
    return {name: oid for name, _, oid in (line.rpartition(" ") for line in lines)}


def files_of(path: Path, ref: str) -> Files:
    """The files of the commit that a ref leads to."""
    repository = pygit2.Repository(str(path))
    tree = repository.lookup_reference(ref).peel(pygit2.Tree)
    return {name: (mode, _content(repository, mode, oid)) for name, mode, oid in _walk(tree, "")}


def _walk(tree: Any, above: str) -> Iterator[tuple[str, int, str]]:
    for entry in tree:
        if entry.filemode == DIRECTORY:
            yield from _walk(entry, f"{above}{entry.name}/")
        else:
            yield above + entry.name, entry.filemode, str(entry.id)


def _content(repository: Any, mode: int, oid: str) -> str:
    return oid if mode == GITLINK else repository[oid].data.decode("utf-8", "surrogateescape")


def wanted_files(case: Case, ref: str) -> Files:
    """What the example says a ref holds after the execution."""
    files = case.example.after[ref] or {}
    modes = case.example.modes
    return {name: (modes.get(f"{ref}:{name}", 0o100644), case.scene.filled(text)) for name, text in files.items()}


def blob_id(content: bytes) -> str:
    """The id that Git gives a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def coming(case: Case) -> set[Oid]:
    """The commits that a branch that is there gets, less those that are only planned."""
    store, drafts = case.store(), {new.id for new in case.plan.commits}
    moves = [move for move in case.plan.effects if NULL not in (move.old, move.new)]
    return {oid for move in moves for oid in store.log(move.new, move.old, 1_000)[0]} - drafts


def leaving(case: Case) -> set[Oid]:
    """The commits that a branch loses, and those that no branch and no tag has when another one is gone."""
    store = case.store()
    gone = {oid for move in case.plan.effects if NULL not in (move.old, move.new)
            for oid in store.log(move.old, move.new, 1_000)[0]}  # fmt: skip
    deleted = [move.old for move in case.plan.effects if move.new == NULL]
    after = {**case.scene.refs, **{move.ref: str(move.new) for move in case.plan.effects}}
    left = [
        store.find_commit(Oid(oid)) for name, oid in after.items() if name.startswith(("refs/heads/", "refs/tags/"))
    ]
    lost = {oid for tip in deleted for oid in store.log(store.find_commit(tip) or tip, NULL, 1_000)[0]}
    return gone | {oid for oid in lost if not any(tip and store.contains(tip, oid) for tip in left)}


def replayed(case: Case) -> Iterator[tuple[NewCommit, Oid]]:
    """The new commits that repeat another one, with that one."""
    for new in case.plan.commits:
        if new.replays is not None:
            yield new, new.replays

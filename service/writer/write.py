"""Execute an intent in Git, in the order in which a crash at any point can be told apart.

    1. the built trees are compared with what was reviewed
    2. objects as one pack                a crash before 5 leaves objects that nothing points to
    3. locks on every ref, all old values verified
    4. new values in the lock files, flushed
    5. the marker is renamed into place   THE COMMIT POINT: before it nothing happened, after it everything will
    6. the other refs are renamed         a crash between them is rolled forward by `reconcile`

The caller holds the repository's lease and has committed the intent.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

from service.contract.data import NULL, Oid
from service.contract.plan import Line, Manifest, Plan
from service.contract.showing import brings
from service.contract.world import Store, tree_of
from service.repositories.objects import Staged
from service.repositories.staging import manifest_lines
from service.writer.intent import Intent
from service.writer.ports import Repository

Step = Callable[[str], None]
"""Called with the name of each step that was just done; production does nothing with it."""


class ManifestDiffers(Exception):
    """What would be written is not what was reviewed."""


def manifests(store: Store, plan: Plan) -> tuple[Manifest, ...]:
    """What each new commit changes, and each move of a branch that is there or that gets one of them, path by path: the
    content that an approval is bound to. A ref that is made at, or taken from, a commit that is there brings nothing;
    one that is made at a new commit brings what differs from the first commit below that is there already.
    """
    drafts = {new.id for new in plan.commits}
    pairs: list[tuple[str, Oid, Oid]] = [
        *((new.id, new.parents[0] if new.parents else NULL, new.id) for new in plan.commits),
        *((move.ref, plan.base(move), move.new) for move in plan.effects if brings(move, drafts)),
    ]
    tree = cache(partial(tree_of, store))
    known: dict[tuple[Oid | None, Oid | None], tuple[Line, ...]] = {}  # a commit and its ref's move differ in the same
    found = []
    for name, old, new in pairs:
        trees = (tree(old), tree(new))
        if trees not in known:
            known[trees] = manifest_lines(store, *trees)
        found.append(Manifest(of=name, old=old, lines=known[trees]))
    return tuple(found)


def write(
    repository: Repository,
    plan: Plan,
    reviewed: Sequence[Manifest],
    objects: Sequence[Staged],
    intent: Intent,
    step: Step,
) -> None:
    """Do it. Nothing has happened when this raises before the marker is there.

    Raises:
        ManifestDiffers: never to be executed.
        RefMoved, RefConflict: another hand moved a ref; the proposal is stale.
        LockHeld: another hand holds a ref's lock; to be tried again.
        OSError: the disk refused; to be tried again.
    """
    if manifests(repository.store(plan, objects), plan) != tuple(reviewed):
        raise ManifestDiffers
    step("compared")
    repository.write_pack([*objects, *intent.commits])
    step("packed")
    transaction = repository.ref_steps(intent.marker, intent.moves)
    try:
        transaction.lock()
        step("locked")
        transaction.verify()
        step("verified")
        transaction.stage()
        step("staged")
        transaction.commit_marker()
    finally:
        transaction.abort()  # gives the locks back before the commit point; nothing after it
    step("marked")
    transaction.commit_moves()
    step("moved")

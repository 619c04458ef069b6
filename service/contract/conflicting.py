"""What is answered when a merge, or one of several, cannot agree with itself."""

from collections.abc import Sequence
from typing import Any, Final

from service.contract.data import Oid
from service.contract.names import quote_path
from service.contract.plan import Blocked, Conflict, Note
from service.contract.world import Store
from service.kit.errors import Code

PATHS_TOLD: Final = 50
REGIONS_TOLD: Final = 20


def conflicted(store: Store, conflicts: Sequence[Conflict], commit: Oid | None = None) -> Blocked:
    """The blocker: how many paths, the first of them with where they disagree, and the commit that was being repeated.

    Args:
        store: where the commit is.
        conflicts: at least one.
        commit: which of several commits did not fit; None for a merge as a whole.
    """
    told = {
        "count": len(conflicts),
        "paths": [_told(one) for one in conflicts[:PATHS_TOLD]],
        "commit": None if commit is None or store.is_draft(commit) else commit,
    }
    note = Note(code=Code.CONFLICTS.value.name, at=quote_path(conflicts[0].path), params=told)
    return Blocked(blockers=(note,), conflicts=tuple(conflicts))


def _told(conflict: Conflict) -> dict[str, Any]:
    shown = [one.model_dump(mode="json") for one in conflict.regions[:REGIONS_TOLD]]
    more = len(conflict.regions) - len(shown)
    told = {"path": quote_path(conflict.path), "kind": conflict.kind, "regions": shown}
    return {**told, "more_regions": more} if more else told

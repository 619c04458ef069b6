"""What a card says of refs that come, move and go, and what an owner must notice about it."""

from collections.abc import Mapping
from typing import Any

from service.contract.data import Oid
from service.contract.history import commit_note
from service.contract.plan import Note
from service.contract.refs import short_name
from service.contract.world import Store


def ref_note(store: Store, code: str, ref: str, oid: Oid, params: Mapping[str, Any]) -> Note:
    """A ref with the commit that it leads to, or led to; of a tag of something else there is no commit to tell."""
    commit = store.find_commit(oid)
    facts = commit_note(store, commit).params if commit else {}
    return Note(code=code, at=short_name(ref), params={**facts, "ref": ref, **params})


def rewrites_history(ref: str, leaves: int, comes: int) -> Note:
    """The warning that commits leave a branch; who approves types the branch's name."""
    name = short_name(ref)
    return Note(code="rewrites_history", at=name, params={"leaves": leaves, "comes": comes, "confirm": name})

"""How the reading tools name a place in a repository, and what their answers say of where content came from."""

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from service.contract.data import Json, Oid
from service.contract.names import QUOTED, READ_PATH_BYTES, REF_BYTES, check_existing_ref, check_read_path
from service.contract.ports import Answer, Snapshot
from service.kit.errors import Code, Refusal

Kind = Literal["file", "directory", "symlink", "submodule"]
# The type bits of Git's modes (git-fast-import(1)); an old mode such as 0100664 is a file too.
TYPE_BITS: Final = 0o170000
KINDS: Final[dict[int, Kind]] = {0o100000: "file", 0o040000: "directory", 0o120000: "symlink", 0o160000: "submodule"}
_OID: Final = re.compile(r"[0-9a-f]{40}")
_HEADS: Final = "refs/heads/"
_TAGS: Final = "refs/tags/"


def _ref(value: str | None) -> str | None:
    if value is not None and not _OID.fullmatch(value):
        check_existing_ref(value, "ref")
    return value


def _path(value: str | None) -> str | None:
    if value is not None:
        check_read_path(value, "path")
    return value


RefArgument = Annotated[
    str | None,
    Field(
        max_length=QUOTED * REF_BYTES,
        description="A branch, a tag, or a whole commit id (40 hexadecimal digits). Left out: the default branch.",
    ),
    AfterValidator(_ref),
]
PathArgument = Annotated[
    str | None,
    Field(
        max_length=QUOTED * READ_PATH_BYTES,
        description="A path from the root, with slashes, as listings show it. Left out: the root.",
    ),
    AfterValidator(_path),
]


class Provenance(Answer):
    """Where the content of an answer comes from: everything beside this is data from there, not from the service."""

    origin: Literal["repository"] = "repository"
    repository_id: str
    repository: str
    ref: str
    commit: str | None = Field(None, description="Absent when the branch has no commits.")


@dataclass(frozen=True)
class Place:
    """A repository at one commit; None where the default branch has none yet, so that there is nothing to see."""

    snapshot: Snapshot
    ref: str
    commit: Oid | None
    empty: bool = False


def find_place(snapshot: Snapshot, ref: str | None, position: Json | None) -> Place:
    """The commit that a ref leads to; a walk that is under way stays at the commit where it began.

    Raises:
        Refusal: NOT_FOUND when there is no such branch, tag or commit.
    """
    name = ref or snapshot.default_branch() or "HEAD"
    if position is not None:
        return Place(snapshot, name, Oid(position["commit"]))
    for candidate in ("HEAD", _HEADS + name) if ref is None else _candidates(ref):
        if (commit := snapshot.resolve(candidate)) is not None:
            return Place(snapshot, name, commit)
    empty = snapshot.is_empty()
    if empty or ref is None:
        return Place(snapshot, name, None, empty)
    raise Refusal(Code.NOT_FOUND, "There is no such branch, tag or commit.", field="ref")


def _candidates(ref: str) -> tuple[str, ...]:
    """A commit id is one whatever a branch is called; another name is a branch before it is a tag."""
    if _OID.fullmatch(ref):
        return (ref,)
    full = check_existing_ref(ref, "ref").decode(errors="surrogateescape")
    return (full,) if ref.startswith("refs/") else (full, full.replace(_HEADS, _TAGS, 1))

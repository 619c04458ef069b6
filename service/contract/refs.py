"""How a propose tool names what it changes and what it takes: a branch, or any branch, tag or commit."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationInfo

from service.contract.data import NULL, Oid
from service.contract.names import QUOTED, REF_BYTES, check_existing_ref, check_message, check_oid
from service.contract.plan import Blocked, Need, Note, RefAt
from service.contract.world import World
from service.kit.errors import Code, Refusal

BRANCHES: Final = "refs/heads/"
TAGS: Final = "refs/tags/"
_OID: Final = re.compile(r"[0-9a-f]{40}")


def branch_ref(branch: str, field: str = "branch") -> str:
    """The full name of a branch that proposals may change.

    Raises:
        Refusal: `ref_rejected`.
    """
    ref = check_existing_ref(branch, field)
    if not ref.startswith(BRANCHES.encode()) or not ref.isascii():
        raise Refusal(Code.REF_REJECTED, "Proposals go to branches with names in ASCII.", field=field, rule="branch")
    return ref.decode()


def short_name(ref: str) -> str:
    """A ref as people say it: without `refs/heads/` or `refs/tags/`, unless what is left would be read as another ref's
    full name.
    """
    short = ref.removeprefix(BRANCHES if ref.startswith(BRANCHES) else TAGS)
    return ref if short.startswith("refs/") else short


def _branch(value: str, info: ValidationInfo) -> str:
    branch_ref(value, info.field_name or "branch")
    return value


def _source(value: str, info: ValidationInfo) -> str:
    field = info.field_name or "source"
    if not _OID.fullmatch(value):
        try:
            check_existing_ref(value, field).decode()
        except UnicodeDecodeError:
            raise Refusal(Code.REF_REJECTED, "The name is not UTF-8.", field=field, rule="unicode") from None
    return value


def _oid(value: str | None, info: ValidationInfo) -> str | None:
    return value if value is None else check_oid(value, info.field_name or "expected")


Branch = Annotated[
    str,
    Field(description="The branch that changes, by its name.", min_length=1, max_length=1_024),
    AfterValidator(_branch),
]
Source = Annotated[
    str,
    Field(
        description="A branch, a tag (refs/tags/NAME where a branch has that name too), or a whole commit id "
        "(40 hexadecimal digits).",
        min_length=1,
        max_length=QUOTED * REF_BYTES,
    ),
    AfterValidator(_source),
]
ExpectedOid = Annotated[
    str | None,
    Field(description="The commit that the branch must be at now; left out, its tip is taken.", max_length=40),
    AfterValidator(_oid),
]
Message = Annotated[
    str,
    Field(description="The commit message, at most 10,000 characters.", min_length=1, max_length=10_000),
    AfterValidator(lambda text: check_message(text, "message")),
]


def tip_need(branch: str, expected: str | None = None) -> Need:
    """The fact where a branch is."""
    return Need(fact=RefAt(name=branch_ref(branch)), expected=Oid(expected) if expected else None)


def source_needs(source: str) -> tuple[Need, ...]:
    """The facts that a source stands on: the branch and the tag of this name; none for a commit id."""
    return tuple(Need(fact=RefAt(name=name)) for name in _names(source))


def source_commit(source: str, world: World, field: str = "source") -> Oid | Blocked:
    """The commit that a source is: a branch before a tag; a commit id is one whatever a branch is called.

    Args:
        source: as the caller named it.
        world: where it is looked up.
        field: the argument that names it.
    """
    values = [world.ref(name) for name in _names(source)] or [Oid(source)]
    found = next((value for value in values if value != NULL), NULL)
    commit = world.store.find_commit(found) if found != NULL else None
    return commit or Blocked(blockers=(Note(code=Code.COMMIT_MISSING.value.name, at=source, params={"field": field}),))


def tip_of(branch: str, world: World) -> Oid | Blocked:
    """The commit that a branch is at."""
    tip = world.ref(branch_ref(branch))
    return (
        Blocked(blockers=(Note(code=Code.BRANCH_MISSING.value.name, at=branch, params={"field": "branch"}),))
        if tip == NULL
        else tip
    )


def _names(source: str) -> tuple[str, ...]:
    if _OID.fullmatch(source):
        return ()
    full = check_existing_ref(source, "source").decode()
    return (full,) if source.startswith("refs/") else (full, full.replace(BRANCHES, TAGS, 1))

"""Whether a new ref can come to be: nothing of its name, nothing on the way to it, nothing under it, no twin."""

from collections.abc import Iterator

from service.contract.data import NULL, Oid
from service.contract.plan import Need, Note, RefAt
from service.contract.refs import BRANCHES, short_name
from service.contract.world import World
from service.kit.errors import Code


def room_needs(ref: str) -> tuple[Need, ...]:
    """The facts that a new ref stands on besides its own: each name above it, and whatever lies under it."""
    return tuple(Need(fact=RefAt(name=name)) for name in (*_above(ref), f"{ref}/"))


def new_ref_needs(ref: str) -> tuple[Need, ...]:
    """The facts that a ref of a new name stands on: its own, its room, and the same name in lower case, which a file
    system that ignores case takes for it. A twin in capitals would be found only in the list of all refs.
    """
    names = (ref, _twin(ref)) if _twin(ref) != ref else (ref,)
    return (*(Need(fact=RefAt(name=name)) for name in names), *room_needs(ref))


def ref_obstacle(ref: str, world: World) -> Note | None:
    """What keeps a ref of a new name from coming to be, if anything."""
    if (there := world.ref(ref)) != NULL:
        return Note(code=_taken(ref), at=short_name(ref), params={"oid": there})
    if _twin(ref) != ref and (there := world.ref(_twin(ref))) != NULL:
        params = {"rule": "twin", "twin": short_name(_twin(ref)), "oid": there}
        return Note(code=Code.REF_REJECTED.value.name, at=short_name(ref), params=params)
    return room_obstacle(ref, world)


def room_obstacle(ref: str, world: World) -> Note | None:
    """The ref on the way to a new one, or under it, if any.

    One that the same plan takes away is in the way too: refs come and go in one transaction, in which neither makes
    room for the other.
    """
    for name in (*_above(ref), f"{ref}/"):
        for there in (world.seen.get(RefAt(name=name), NULL), world.ref(name)):
            if there != NULL:
                return _in_the_way(ref, name, there)
    return None


def _in_the_way(ref: str, name: str, oid: Oid) -> Note:
    return Note(code=_taken(ref), at=short_name(ref), params={"rule": "folder", "by": short_name(name), "oid": oid})


def _taken(ref: str) -> str:
    code = Code.BRANCH_EXISTS if ref.startswith(BRANCHES) else Code.TAG_EXISTS
    return code.value.name


def _above(ref: str) -> Iterator[str]:
    """`refs/heads/a` and `refs/heads/a/b` for `refs/heads/a/b/c`."""
    parts = ref.split("/")
    return ("/".join(parts[:count]) for count in range(3, len(parts)))


def _twin(ref: str) -> str:
    space, name = ref[: ref.index("/", len("refs/")) + 1], ref[ref.index("/", len("refs/")) + 1 :]
    return space + name.lower()

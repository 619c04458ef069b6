"""Whether a new path can come to be in a tree: nothing on it, nothing but folders above it, no twin beside it."""

from collections.abc import Iterable, Iterator

from service.contract.changes import DIRECTORY
from service.contract.data import Oid
from service.contract.names import quote_path, twin_key
from service.contract.plan import Note
from service.contract.world import Store
from service.kit.errors import Code


def obstacle(store: Store, tree: Oid | None, path: bytes, gone: frozenset[bytes] = frozenset()) -> Note | None:
    """What keeps a path from coming to be, if anything; `gone` are the paths that are taken away with it."""
    there = store.entry(tree, path)
    if there is not None and path not in gone:
        by = "directory" if there.mode == DIRECTORY else "file"
        code = Code.FILE_EXISTS if by == "file" else Code.PATH_OCCUPIED
        return _note(code, path, blob_oid=there.oid, by=by)
    parts = path.split(b"/")
    for depth, name in enumerate(parts):
        parent, at = b"/".join(parts[:depth]), b"/".join(parts[: depth + 1])
        entry = store.entry(tree, at)
        if depth < len(parts) - 1 and entry and entry.mode != DIRECTORY and at not in gone:
            return _note(Code.PATH_OCCUPIED, path, by="file", occupied=quote_path(at))
        if entry is None:
            return _twin(store, tree, path, (parent, name), gone)
    return None


def _twin(
    store: Store, tree: Oid | None, path: bytes, place: tuple[bytes, bytes], gone: frozenset[bytes]
) -> Note | None:
    """A file system that ignores case or normal form would take this name for one that is there."""
    parent, name = place
    above = store.entry(tree, parent)
    key = twin_key(name)
    for other, entry in store.entries(above.oid) if above and above.mode == DIRECTORY else ():
        at = b"/".join(filter(None, (parent, other)))
        if other != name and twin_key(other) == key and not (at in gone and entry.mode != DIRECTORY):
            return _note(Code.PATH_REJECTED, path, rule="twin", twin=quote_path(at))
    return None


def crossed(paths: Iterable[bytes]) -> Iterator[Note]:
    """New paths that cannot be together: one under the other, or twins."""
    made = dict.fromkeys(paths)
    known: dict[bytes, str] = {}
    keys: dict[str, bytes] = {}
    for path in made:
        parts = path.split(b"/")
        above = [b"/".join(parts[:depth]) for depth in range(1, len(parts))]
        yield from (
            _note(Code.PATH_OCCUPIED, path, by="file", occupied=quote_path(one)) for one in above if one in made
        )
        for at in (*above, path):
            if at not in known:
                known[at] = twin_key(at)
            if (twin := keys.setdefault(known[at], at)) != at:
                yield _note(Code.PATH_REJECTED, path, rule="twin", twin=quote_path(twin))
                break


def _note(code: Code, path: bytes, **params: object) -> Note:
    return Note(code=code.value.name, at=quote_path(path), params=params)

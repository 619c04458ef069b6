"""Build a tree from another by setting and taking away paths, reading and writing only the trees on those paths."""

from collections.abc import Mapping
from typing import Protocol

from dulwich.objects import ObjectID, serialize_tree, sorted_tree_items

from service.contract.data import Entry, Oid
from service.repositories.reading import TREE, Names


class Trees(Protocol):
    """Where trees are read and staged."""

    def names(self, oid: Oid) -> Names: ...
    def put_tree(self, content: bytes) -> Oid: ...


def edited(trees: Trees, tree: Oid | None, edits: Mapping[bytes, Entry | None]) -> Oid:
    """The tree with these paths set or (None) taken away. Folders left empty go; what stands in the way is replaced.

    Args:
        trees: where to read and to stage.
        tree: the tree to start from; None is the empty one.
        edits: valid paths; a deletion takes a folder whole, and deletions come before everything that is set.

    Raises:
        ValueError: a path lies under another one that is set to something else than a tree.
    """
    edit = _Edit(trees, tree)
    for path in sorted(path for path, entry in edits.items() if entry is None):
        edit.take(path)
    for path, entry in sorted((path, entry) for path, entry in edits.items() if entry is not None):
        edit.place(path, entry)
    return edit.write()


class _Edit:
    """The folders on the edited paths, opened one by one, by their path."""

    def __init__(self, trees: Trees, tree: Oid | None) -> None:
        self._trees = trees
        self._folders: dict[bytes, Names] = {b"": trees.names(tree) if tree else {}}
        self._placed: dict[bytes, Entry] = {}

    def take(self, path: bytes) -> None:
        folder, _, name = path.rpartition(b"/")
        self._folder(folder).pop(name, None)

    def place(self, path: bytes, entry: Entry) -> None:
        folder, _, name = path.rpartition(b"/")
        self._folder(folder)[name] = (entry.mode, entry.oid.encode())
        self._placed[path] = entry
        if path in self._folders:
            self._forget(path)

    def _forget(self, path: bytes) -> None:
        for opened in [key for key in self._folders if key == path or key.startswith(path + b"/")]:
            del self._folders[opened]

    def _folder(self, path: bytes) -> Names:
        at = b""
        for name in path.split(b"/") if path else ():
            inner = at + b"/" + name if at else name
            if inner not in self._folders:
                self._folders[inner] = self._read(inner, self._folders[at].get(name))
            at = inner
        return self._folders[at]

    def _read(self, path: bytes, found: tuple[int, bytes] | None) -> Names:
        if found and found[0] == TREE:
            return self._trees.names(Oid(found[1].decode()))
        if path in self._placed:
            raise ValueError(f"{path!r} is set to a file and to a folder")
        return {}

    def write(self) -> Oid:
        """Stage the folders, the deepest first, and hang each into the one above."""
        for path in sorted(filter(None, self._folders), key=lambda path: path.count(b"/"), reverse=True):
            above, _, name = path.rpartition(b"/")
            parent, names = self._folders[above], self._folders[path]
            if names:
                parent[name] = (TREE, self._put(names).encode())
            elif parent.get(name, (0,))[0] == TREE:
                del parent[name]
        return self._put(self._folders[b""])

    def _put(self, names: Names) -> Oid:
        ordered = sorted_tree_items(
            {name: (mode, ObjectID(sha)) for name, (mode, sha) in names.items()}, name_order=False
        )
        return self._trees.put_tree(b"".join(serialize_tree(ordered)))

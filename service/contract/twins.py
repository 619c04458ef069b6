"""New names that a person, or some file system, takes for another one beside them."""

import unicodedata
from collections.abc import Collection, Iterator
from functools import cache
from typing import Final

from service.contract.changes import DIRECTORY, fold_alike
from service.contract.data import Oid
from service.contract.hidden import is_hidden
from service.contract.names import quote_path, twin_key
from service.contract.plan import Note, Plan
from service.contract.showing import Shown, shown_changes
from service.contract.world import Store, tree_of

Names = Collection[bytes]


def look_alikes(store: Store, plan: Plan) -> tuple[Note, ...]:
    """A warning for each name that comes and passes for one beside it: `how` says whether by look-alike letters
    (`letters`), by letter case alone (`case`) or by the form in which Unicode is written (`form`).

    By its letters it may also pass for one that goes: that is what a file is replaced by.
    """
    found = {note.at: note for one in shown_changes(store, plan) for note in _in_one(store, one)}
    return fold_alike(list(found.values()))


def skeleton(text: str) -> str:
    """What a text looks like; two that look alike have the same (UTS 39, section 4, with compatibility forms)."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not is_hidden(char))
    return unicodedata.normalize("NFKD", plain.translate(_prototypes()))


def _in_one(store: Store, one: Shown) -> Iterator[Note]:
    old, new = tree_of(store, one.old), tree_of(store, one.new)
    made: dict[bytes, set[bytes]] = {}
    for change in store.changes(old, new):
        if change.old is None:
            for folder, name in _steps(change.path):
                made.setdefault(folder, set()).add(name)
    for folder, names in sorted(made.items()):
        before, after = _names(store, old, folder), _names(store, new, folder)
        for name, other, how in _pairs(names - set(before), before, after):
            at, beside = (quote_path(folder + b"/" + last if folder else last) for last in (name, other))
            yield Note(code="looks_alike", at=at, params={"other": beside, "how": how})


def _steps(path: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each folder on the way, with the name in it that leads on."""
    parts = path.split(b"/")
    for depth, name in enumerate(parts):
        yield b"/".join(parts[:depth]), name


def _names(store: Store, tree: Oid | None, folder: bytes) -> tuple[bytes, ...]:
    if folder:
        entry = store.entry(tree, folder)
        tree = entry.oid if entry and entry.mode == DIRECTORY else None
    return tuple(name for name, _ in store.entries(tree)) if tree else ()


def _pairs(fresh: Names, before: Names, after: Names) -> Iterator[tuple[bytes, bytes, str]]:
    """Each new name with one that it passes for. Of two new ones the later does so."""
    there = sorted({*before, *after}, key=lambda name: (name in fresh, name))
    twins: dict[str, bytes] = {}
    alike: dict[str, bytes] = {}
    for name in there:
        key = twin_key(name)
        twin = twins.setdefault(key, name) if name in after else name
        other = alike.setdefault(skeleton(name.decode("utf-8", "replace")), name)
        if name in fresh and twin != name:
            yield name, twin, "form" if _same_form(name, twin) else "case"
        elif name in fresh and twin_key(other) != key:
            yield name, other, "letters"


def _same_form(one: bytes, other: bytes) -> bool:
    forms = {unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape")) for name in (one, other)}
    return len(forms) == 1


_MARKS: Final = "\u200e"
"""The library's table puts one on each side of what is written from right to left."""


@cache
def _prototypes() -> dict[int, str]:
    """What stands for each character that has look-alikes. The library has them as pairs: all that are linked are one
    class, and its longest text (`rn` for `m`) or else an ASCII letter stands for it.
    """
    from confusable_homoglyphs.confusables import confusables_data  # noqa: PLC0415  a megabyte, for who compares

    above: dict[str, str] = {}

    def top(text: str) -> str:
        while above.setdefault(text, text) != text:
            above[text] = text = above[above[text]]
        return text

    for text, others in confusables_data.items():
        for other in others:
            low, high = sorted((top(text.strip(_MARKS)), top(other["c"].strip(_MARKS))), key=_standing)
            above[low] = high
    return {ord(text): top(text) for text in above if len(text) == 1}


def _standing(text: str) -> tuple[int, bool, str]:
    return len(text), text.isascii(), text

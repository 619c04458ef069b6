"""The secrets that a proposal brings, as warnings: of which kind, where and on which line, never what they are.

Looked at is what is new: the added lines of every file that is shown, paths and names, messages, the reason. What stood
there before, on a line that stays, that goes or that only moves, is nothing new.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Final

from service.contract.changes import GITLINK, fold_alike
from service.contract.data import NULL, Change, Oid
from service.contract.names import quote_path
from service.contract.plan import Note, Plan, ReviewCard
from service.contract.refs import short_name
from service.contract.risk import LEAK, WORDS_PLACE, is_binary
from service.contract.showing import Shown, shown_changes
from service.contract.world import OutOfTime, tree_of
from service.kit.canonical import digest
from service.kit.errors import Code, Refusal
from service.kit.leaks import Leak, find_leaks, laid_open
from service.repositories.bare import NOBODY
from service.repositories.objects import decode
from service.repositories.staging import Staging

SCAN_SECONDS: Final = 10
"""For how long an approval may search."""
NAME_PLACE: Final = WORDS_PLACE + "name"
"""Where a secret is that stands in the name of a new branch or tag."""
LEAKS_MOST: Final = 20
"""So many of one file, message or the like are named."""
FOUND_SHOWN: Final = 100
"""So many are named where many files have some."""
BINARY_BYTES: Final = 8_000_000
"""So much of what is no text is searched in one proposal."""


@dataclass(frozen=True)
class _Known:
    """What was there before. It is read once something is found, and once only."""

    texts: Callable[[], Iterable[str]] = tuple

    @cached_property
    def text(self) -> str:
        return "\n".join(map(laid_open, self.texts()))


@dataclass(frozen=True)
class _Piece:
    """A text to search.

    Attributes:
        at: the place of its warning.
        where: what it is: `content`, `path`, `name`, `message`, `reason`.
        text: itself.
        lines: those that are new; None for all.
        known: a secret that this has too is none that comes.
    """

    at: str
    where: str
    text: str
    lines: Sequence[range] | None = None
    known: _Known = _Known()

    def leaks(self, check_time: Callable[[], None]) -> Iterator[Leak]:
        """The first secrets that come with it."""
        found = find_leaks(self.text, check_time, self.lines)
        return islice((leak for leak in found if leak.mark not in self.known.text), LEAKS_MOST)


def secret_warnings(store: Staging, plan: Plan, words: Mapping[str, str]) -> tuple[Note, ...]:
    """What a plan and its proposer's words bring.

    Raises:
        OutOfTime: the store's deadline passed.
    """
    contents = _Contents(store)
    shown = shown_changes(store, plan)
    found: dict[tuple[str, str], set[tuple[int, str]]] = {}
    for piece in chain(_words(plan, words), _paths(store, shown), contents.pieces(shown)):
        for leak in piece.leaks(store.check_time):
            found.setdefault((piece.at, piece.where), set()).add((leak.first, leak.kind))
    notes = [_note(at, where, places) for (at, where), places in found.items()]
    return (*_folded(notes), *fold_alike(contents.left_out))


def check_secrets(path: Path, plan: Plan, card: ReviewCard, objects: bytes, reason: str) -> None:
    """Search again what is to be approved: the rules may know more than when the card was made.

    Args:
        path: the repository's folder.
        plan: what was planned.
        card: what was shown of it.
        objects: what was staged for it.
        reason: why its owner lets through what the card warns of; it is written down, and no place for a secret.

    Raises:
        Refusal: SECRETS_SINCE for what the card does not warn of; TEXT_REJECTED; OUT_OF_TIME.
    """
    try:
        with Staging(path, NOBODY, time.monotonic() + SCAN_SECONDS, decode(objects), plan.commits) as store:
            fresh = secret_warnings(store, plan, card.agent_words)
            said = next(find_leaks(reason, store.check_time), None)
    except OutOfTime:
        message = f"To search this for secrets took longer than {SCAN_SECONDS} seconds."
        raise Refusal(Code.OUT_OF_TIME, message, limit=SCAN_SECONDS) from None
    if said:
        raise Refusal(Code.TEXT_REJECTED, "Your reason has what looks like a secret.", field="reason")
    if missing := [note.name for note in fresh if note not in card.warnings]:
        message = "The rules know of secrets here that the card does not warn of."
        raise Refusal(Code.SECRETS_SINCE, message, warnings=missing)


def _words(plan: Plan, words: Mapping[str, str]) -> Iterator[_Piece]:
    for text in [new.message.decode("utf-8", "replace") for new in plan.build]:
        yield _Piece(WORDS_PLACE + "message", "message", text)
    for key, text in words.items():
        if not key.startswith("message"):
            yield _Piece(WORDS_PLACE + key, key, text)
    names = [short_name(move.ref) for move in plan.effects if move.old == NULL]
    yield _Piece(NAME_PLACE, "name", "\n".join(names))


def _paths(store: Staging, shown: Sequence[Shown]) -> Iterator[_Piece]:
    """The new paths of all that is shown, each on a line of its own. Such a secret is named by its line: its path would
    say it.
    """
    for one in shown:
        changes = _changes(store, one)
        new = [change.path for change in changes if change.old is None]
        there = [change.path for change in changes if change.old is not None]
        known = _Known(partial(_known_paths, store, tree_of(store, one.old), new, there))
        yield _Piece(WORDS_PLACE + "path", "path", "\n".join(map(_spelled, new)), known=known)


def _spelled(path: bytes) -> str:
    """A path, and its parts with and without their endings, each as if it stood alone."""
    text = path.decode("utf-8", "replace").replace("\n", " ")
    parts = text.split("/")
    return " ".join((text, *parts, *(part.partition(".")[0] for part in parts)))


def _known_paths(store: Staging, tree: Oid | None, new: Sequence[bytes], there: Sequence[bytes]) -> Iterator[str]:
    folders = {path[:at] for path in new for at, byte in enumerate(path) if byte == ord("/")}
    yield "\n".join(map(_spelled, there))
    yield "\n".join(_spelled(folder) for folder in sorted(folders) if store.entry(tree, folder) is not None)


def _changes(store: Staging, one: Shown) -> list[Change]:
    return list(store.changes(tree_of(store, one.old), tree_of(store, one.new)))


class _Contents:
    """What files hold. `left_out` warns of what was too much to search."""

    def __init__(self, store: Staging) -> None:
        self._store = store
        self._binary = 0
        self.left_out: list[Note] = []

    def pieces(self, shown: Sequence[Shown]) -> Iterator[_Piece]:
        """The new contents of all that is shown; what only moved is none."""
        for one in shown:
            changes = _changes(self._store, one)
            before = {change.old.oid for change in changes if change.old and change.old.mode != GITLINK}
            known = _Known(partial(map, self._text, sorted(before)))
            for change in changes:
                if change.new and change.new.mode != GITLINK and change.new.oid not in before:
                    yield from self._piece(change, change.new.oid, known)

    def _piece(self, change: Change, new: Oid, known: _Known) -> Iterator[_Piece]:
        at = quote_path(change.path)
        content = self._store.blob(new)
        self._binary += len(content) if is_binary(content) else 0
        if is_binary(content) and self._binary > BINARY_BYTES:
            self.left_out.append(Note(code="not_searched", at=at, params={"bytes": len(content)}))
            return
        spans = self._store.spans(change.old.oid, new) if change.old and change.old.mode != GITLINK else None
        lines = None if spans is None else [range(span.new, span.new + span.come) for span in spans]
        yield _Piece(at, "content", self._text(new), lines, known)

    def _text(self, oid: Oid) -> str:
        """A content as text; what has NULs may be UTF-16, which without them reads as ASCII."""
        content = self._store.blob(oid)
        return (content.replace(b"\0", b"") if is_binary(content) else content).decode("utf-8", "replace")


def _note(at: str, where: str, places: Iterable[tuple[int, str]]) -> Note:
    found = [[kind, line] for line, kind in sorted(places)]
    return Note(code=LEAK, at=at, params={"where": where, "found": found, "reason": True})


def _folded(notes: Sequence[Note]) -> tuple[Note, ...]:
    """Those of many files are one, with the first places; a digest tells it from one of others that are as many."""
    words = [note for note in notes if note.at.startswith(WORDS_PLACE)]
    files = [note for note in notes if not note.at.startswith(WORDS_PLACE)]
    folded = fold_alike(files)
    if len(folded) != len(files):
        first = [[kind, line, note.at] for note in files for kind, line in note.params["found"]][:FOUND_SHOWN]
        all_of_them = digest({"found": [note.model_dump(mode="json") for note in files]})
        more = {"found": first, "sha256": all_of_them}
        folded = tuple(note.model_copy(update={"params": {**note.params, **more}}) for note in folded)
    return (*words, *folded)

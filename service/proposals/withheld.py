"""What leaves the card only as the word that it is withheld: an agent's words and paths in which a secret was found.

On the card they stand as they are, since they would be committed as they are.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from service.contract.data import Json
from service.contract.plan import ReviewCard
from service.contract.risk import LEAK, WORDS_PLACE
from service.kit.canonical import sha256

MANY_LEAKS: Final = ("many_alike", LEAK)
"""Code and place of the one warning of many files with secrets."""
WITHHELD: Final = "[withheld: here is what looks like a secret]"


def secrets_of(card: ReviewCard) -> Sequence[Json] | None:
    """What the card says of secrets, for who proposed them: kind, place and line of each."""
    withheld = is_withheld(card, "path")
    told = []
    for note in card.warnings:
        if note.code == LEAK or (note.code, note.at) == MANY_LEAKS:  # then the places are in it
            where = note.params.get("where", "content")
            for kind, line, *at in note.params["found"]:
                path = None if withheld or where != "content" else (*at, note.at)[0]
                told.append({"kind": kind, "where": where, "line": line, "path": path})
    return told or None


def is_withheld(card: ReviewCard, where: str) -> bool:
    """Whether a secret was found in the words (`message`, `reason`) or in a `path`."""
    return any(note.code == LEAK and note.at == WORDS_PLACE + where for note in card.warnings)


def words_of(card: ReviewCard, where: str) -> str | None:
    """The agent's words, for other places than its card."""
    return WITHHELD if is_withheld(card, where) else card.agent_words.get(where)


def names_of(card: ReviewCard, names: Iterable[str]) -> list[str]:
    """The names of warnings, which hold paths, for the ledger; their SHA-256 where a path is withheld."""
    return [sha256(name.encode()) for name in names] if is_withheld(card, "path") else list(names)

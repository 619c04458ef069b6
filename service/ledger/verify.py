"""Recompute a ledger's chain: nothing changed, nothing missing, nothing after the end."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from service.kit.canonical import canonical, sha256
from service.ledger.append import FIRST


@dataclass(frozen=True)
class Entry:
    """An entry as stored: its columns and the bytes that were hashed."""

    seq: int
    kind: str
    subject: str
    body: str
    previous: bytes
    hash: bytes


@dataclass(frozen=True)
class Verdict:
    """What came out: how many entries hold, and at the first one that does not, what is wrong with it."""

    entries: int
    broken_at: int | None = None
    why: str = ""

    @property
    def intact(self) -> bool:
        return self.broken_at is None


def verify(entries: Iterable[Entry], head_seq: int, head_hash: bytes) -> Verdict:
    """Check entries in the order of their numbers against each other and against the head.

    Args:
        entries: all of one tenant, ordered by `seq`.
        head_seq: the number of the last entry as the head row has it; 0 for an empty ledger.
        head_hash: the hash of the last entry as the head row has it.
    """
    count, last = 0, FIRST
    for entry in entries:
        wrong = _what_is_wrong(entry, count + 1, last)
        if wrong:
            return Verdict(count, count + 1, wrong)
        count, last = entry.seq, entry.hash
    if (count, last) != (head_seq, head_hash):
        return Verdict(count, count + 1, "the head names another end")
    return Verdict(count)


def _what_is_wrong(entry: Entry, seq: int, last: bytes) -> str:
    if entry.seq != seq:
        return "an entry is missing"
    if entry.previous != last:
        return "it does not follow the entry before it"
    if bytes.fromhex(sha256(entry.body.encode())) != entry.hash:
        return "its content is not what was hashed"
    body = _read(entry.body)
    if (body.get("seq"), body.get("kind"), body.get("subject")) != (entry.seq, entry.kind, entry.subject):
        return "its columns are not what its content says"
    if body.get("previous") != last.hex():
        return "its content names another entry before it"
    return ""


def _read(body: str) -> dict[str, Any]:
    """The body, or nothing where it is not in the canonical form that is hashed."""
    found = json.loads(body)
    return found if isinstance(found, dict) and canonical(found) == body.encode() else {}

"""What a card says of commits: those that come, those that leave, those that are repeated."""

import re
from collections.abc import Sequence
from typing import Any, Final

from service.contract.data import Oid
from service.contract.plan import Note, Section
from service.contract.world import Store

COMMITS_SHOWN: Final = 100
SUBJECT_MOST: Final = 200
_IDENTITY: Final = re.compile(rb"(?P<name>[^<\n]*?) ?<[^>\n]*>(?: (?P<seconds>[0-9]{1,11}) [+-][0-9]+)?")


def commit_note(store: Store, oid: Oid, code: str = "commit", **params: Any) -> Note:
    """One commit: its id (empty where it is only planned), the first line of its message, who wrote it and when
    (seconds since 1970).
    """
    commit = store.commit(oid)
    shown = "" if store.is_draft(oid) else oid
    author, seconds = identity_of(commit.author)
    facts = {"oid": shown, "subject": subject_of(commit.message), "author": author, "seconds": seconds}
    return Note(code=code, at=shown, params={**facts, **params})


def identity_of(line: bytes) -> tuple[str, int]:
    """The name in an author or committer line, and its seconds since 1970; empty and 0 where a broken one has none."""
    found = _IDENTITY.match(line)
    return (found["name"].decode("utf-8", "replace"), int(found["seconds"] or 0)) if found else ("", 0)


def subject_of(message: bytes) -> str:
    """The first line of a message, cut."""
    return message.lstrip(b"\n").partition(b"\n")[0].decode("utf-8", "replace")[:SUBJECT_MOST]


def commits_section(code: str, store: Store, oids: Sequence[Oid], total: int) -> Section:
    """A list of commits, cut to COMMITS_SHOWN with a note of how many more there are."""
    notes = [commit_note(store, oid) for oid in oids[:COMMITS_SHOWN]]
    more = total - len(notes)
    cut = (Note(code="more_commits", params={"count": more}),) if more > 0 else ()
    return Section(code=code, notes=(*notes, *cut))

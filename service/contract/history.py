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
    author = _IDENTITY.match(commit.author)
    subject = commit.message.lstrip(b"\n").partition(b"\n")[0].decode("utf-8", "replace")
    facts = {
        "oid": shown,
        "subject": subject[:SUBJECT_MOST],
        "author": author["name"].decode("utf-8", "replace") if author else "",
        "seconds": int(author["seconds"] or 0) if author else 0,
    }
    return Note(code=code, at=shown, params={**facts, **params})


def commits_section(code: str, store: Store, oids: Sequence[Oid], total: int) -> Section:
    """A list of commits, cut to COMMITS_SHOWN with a note of how many more there are."""
    notes = [commit_note(store, oid) for oid in oids[:COMMITS_SHOWN]]
    more = total - len(notes)
    cut = (Note(code="more_commits", params={"count": more}),) if more > 0 else ()
    return Section(code=code, notes=(*notes, *cut))

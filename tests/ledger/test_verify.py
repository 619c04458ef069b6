"""The chain of a ledger, recomputed."""

from dataclasses import replace
from typing import Any

import pytest

from service.kit.canonical import canonical, sha256
from service.ledger.append import FIRST
from service.ledger.verify import Entry, Verdict, verify


def chain(length: int) -> list[Entry]:
    """Entries as `append` writes them."""
    entries: list[Entry] = []
    last = FIRST
    for seq in range(1, length + 1):
        body = canonical({"seq": seq, "kind": "thing.done", "subject": f"s{seq}", "previous": last.hex()})
        entries.append(Entry(seq, "thing.done", f"s{seq}", body.decode(), last, bytes.fromhex(sha256(body))))
        last = entries[-1].hash
    return entries


def judged(entries: list[Entry], length: int = 5) -> Verdict:
    whole = chain(length)
    return verify(entries, len(whole), whole[-1].hash)


def test_an_untouched_chain_is_intact() -> None:
    assert judged(chain(5)) == Verdict(5)
    assert verify([], 0, FIRST) == Verdict(0)


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize(
    "change",
    [
        {"seq": 9},
        {"kind": "thing.undone"},
        {"subject": "another"},
        {"body": '{"seq":1}'},
        {"previous": bytes(31) + b"\1"},
        {"hash": bytes(32)},
    ],
)
def test_one_changed_column_is_found_where_it_is(at: int, change: dict[str, Any]) -> None:
    entries = chain(5)
    entries[at] = replace(entries[at], **change)
    verdict = judged(entries)
    assert not verdict.intact
    assert verdict.broken_at in {at + 1, at + 2}


@pytest.mark.parametrize("at", range(5))
def test_a_missing_entry_is_found(at: int) -> None:
    entries = chain(5)
    del entries[at]
    assert not judged(entries).intact


def test_a_chain_that_goes_on_after_its_head_is_found() -> None:
    assert not judged(chain(6)).intact


def test_an_entry_rewritten_with_its_own_hash_breaks_the_next() -> None:
    entries = chain(5)
    body = canonical({"seq": 2, "kind": "lie.told", "subject": "s2", "previous": entries[0].hash.hex()})
    entries[1] = Entry(2, "lie.told", "s2", body.decode(), entries[0].hash, bytes.fromhex(sha256(body)))
    assert judged(entries).broken_at == 3


def test_a_body_in_another_form_is_not_accepted() -> None:
    entries = chain(1)
    body = entries[0].body.replace(",", ", ")
    entries[0] = replace(entries[0], body=body, hash=bytes.fromhex(sha256(body.encode())))
    assert not verify(entries, 1, entries[0].hash).intact

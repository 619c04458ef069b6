"""How much one answer holds, and how a listing is cut to that."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import Field

from service.contract.ports import Answer

ANSWER_BYTES = 60_000
"""The most bytes of JSON in one answer (DESIGN, Limits); hosts cut at 150,000 characters."""

CURSOR_MOST = 16_384

Cursor = Annotated[
    str | None,
    Field(min_length=1, max_length=CURSOR_MOST, description="next_cursor of the answer before, with the same filters."),
]

A = TypeVar("A", bound=Answer)


def json_bytes(answer: Answer) -> int:
    """How many bytes the answer takes as compact JSON."""
    return len(answer.model_dump_json(exclude_none=True).encode())


def fit(items: Sequence[A], most: int, room: int) -> list[A]:
    """The first items, at most `most`, that take no more than `room` bytes; one at least, so that paging goes on."""
    kept: list[A] = []
    for item in items[:most]:
        room -= json_bytes(item) + 1
        if room < 0 and kept:
            break
        kept.append(item)
    return kept


def text_that_fits(text: str, room: int) -> str:
    """The longest start of a text that takes no more than `room` bytes as a JSON string; one character at least."""
    most = min(len(text), room)
    kept = bisect_right(range(1, most + 1), room, key=lambda length: _text_bytes(text[:length]))
    return text[: max(kept, 1)]


def _text_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())

"""Where a page of the inbox ends and the next one begins.

A place is the key of the last line, not a number of lines: what is decided meanwhile takes nothing from the next page.
A group's key, its oldest line, can only grow, so that a line may come twice and is never left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Row, and_, literal, or_, tuple_

from service.kit.errors import Code, Refusal

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DIGITS_MOST: Final = 17
NEVER: Final = "-"


def _write(value: Any) -> str:
    if isinstance(value, datetime):
        return str((value - EPOCH) // timedelta(microseconds=1))
    return NEVER if value is None else value.hex


def _time(text: str) -> datetime:
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MOST):
        raise ValueError(text)
    return EPOCH + timedelta(microseconds=int(text))


def _time_or_never(text: str) -> datetime | None:
    return None if text == NEVER else _time(text)


@dataclass(frozen=True)
class Order:
    """A total order of lines, by the names of its key's columns; `read` is how each part of a place is read."""

    key: Sequence[str]
    read: Sequence[Callable[[str], Any]]
    newest_first: bool

    def by(self, columns: Any) -> list[ColumnElement[Any]]:
        """For ORDER BY. What has not ended comes before what has."""
        found = [columns[name] for name in self.key]
        return [one.desc() for one in found] if self.newest_first else found

    def beyond(self, columns: Any, place: str) -> ColumnElement[bool]:
        """What comes after this place. Raises INVALID_CURSOR."""
        values, found = self._read(place), [columns[name] for name in self.key]
        if not self.newest_first:
            return tuple_(*found) > tuple_(*map(literal, values))
        (ended, other), (ended_at, other_id) = found, values
        if ended_at is None:
            return or_(and_(ended.is_(None), other < other_id), ended.is_not(None))
        return and_(ended.is_not(None), tuple_(ended, other) < tuple_(literal(ended_at), literal(other_id)))

    def write(self, row: Row[Any]) -> str:
        """The place of a line."""
        return ".".join(_write(getattr(row, name)) for name in self.key)

    def _read(self, place: str) -> list[Any]:
        parts = place.split(".")
        try:
            return [read(part) for read, part in zip(self.read, parts, strict=True)]
        except (ValueError, OverflowError):
            message = "This is not where a page of this list begins."
            raise Refusal(Code.INVALID_CURSOR, message, field="after") from None


WAITING: Final = Order(("first", "repository", "proposer", "created_at", "id"), (_time, UUID, UUID, _time, UUID), False)
ENDED: Final = Order(("ended_at", "id"), (_time_or_never, UUID), True)

"""Texts as Git counts their lines: a line ends at LF only, and a lone CR is part of it."""

import re
from typing import Final, NamedTuple

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")


class Span(NamedTuple):
    """Lines that differ: where in the old content and how many are gone, where in the new and how many have come. Where
    there are none, the line is the one before which they would stand. Lines count from 1.
    """

    old: int
    gone: int
    new: int
    come: int


def lines_of(content: bytes) -> list[bytes]:
    """The lines of a text, each with its end."""
    return _LINE.findall(content)

"""Which words of a line changed, in bounded work: common ends first, then a comparison of what is between them."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

Span = tuple[int, int]
"""Start and end in code points."""

WORK_MOST: Final = 100_000
"""Pairs of tokens that may be compared for one file; a line beyond that is marked from its first to its last change."""

_PAIR_MOST: Final = 10_000
_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE: Final = 0.3


class Words:
    """Compares the lines of one file while its allowance of work lasts."""

    def __init__(self) -> None:
        self._left = WORK_MOST

    def changed(self, old: str, new: str) -> tuple[list[Span], list[Span]]:
        """The changed stretches of both lines; none where the lines have little in common."""
        start = _head(old, new)
        before, after = _TOKEN.findall(old, start), _TOKEN.findall(new, start)
        tail = _common(reversed(before), reversed(after))
        spans = self._compare(before[: len(before) - tail], after[: len(after) - tail], start)
        kept = max(len(old), len(new)) - max(sum(end - begin for begin, end in side) for side in spans)
        return spans if kept >= _ALIKE * max(len(old), len(new)) else ([], [])

    def _compare(self, before: list[str], after: list[str], start: int) -> tuple[list[Span], list[Span]]:
        work = len(before) * len(after)
        if work <= 1 or work > min(self._left, _PAIR_MOST):  # one word for another needs no comparison
            return _whole(before, start), _whole(after, start)
        self._left -= work
        old, new = _offsets(before, start), _offsets(after, start)
        codes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        moves = [code for code in codes if code[0] != "equal"]
        return (
            [(old[first], old[last]) for _, first, last, _, _ in moves if first < last],
            [(new[first], new[last]) for _, _, _, first, last in moves if first < last],
        )


def _head(old: str, new: str) -> int:
    """How far both lines are the same, in whole tokens."""
    same, most = 0, min(len(old), len(new))
    while same < most:  # halves what is left to compare
        half = (same + most + 1) // 2
        if old.startswith(new[same:half], same):
            same = half
        else:
            most = half - 1
    run = _kind(old[same - 1 : same])
    if run and run in (_kind(old[same : same + 1]), _kind(new[same : same + 1])):  # it goes on in one of them
        while same and _kind(old[same - 1]) == run:
            same -= 1
    return same


def _kind(char: str) -> str:
    """Which run a character can be part of: of a word, of white space, or none."""
    if char.isalnum() or char == "_":
        return "word"
    return "space" if char.isspace() else ""


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _whole(tokens: list[str], start: int) -> list[Span]:
    size = sum(map(len, tokens))
    return [(start, start + size)] if size else []


def _offsets(tokens: list[str], start: int) -> list[int]:
    offsets = [start]
    for token in tokens:
        offsets.append(offsets[-1] + len(token))
    return offsets

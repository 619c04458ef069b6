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
        before, after = _TOKEN.findall(old), _TOKEN.findall(new)
        head = _common(before, after)
        tail = _common(reversed(before[head:]), reversed(after[head:]))
        start = sum(map(len, before[:head]))
        middle = before[head : len(before) - tail], after[head : len(after) - tail]
        spans = self._compare(*middle, start)
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

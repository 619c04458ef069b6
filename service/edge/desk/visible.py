"""Text as HTML in which nothing hides.

A character that cannot be seen, or that reorders what is read, becomes a mark such as `U+202E RLO`; so does a byte
that is no UTF-8. All of it is escaped, here and nowhere else: the only markup is our own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from markupsafe import Markup, escape

from service.contract.hidden import HIDDEN_RANGES, decode, mark, split_hidden

_HIDDEN: Final = Markup('<span class="hid">{}</span>')
_NO_TEXT: Final = Markup('<span class="byte">{}</span>')
_LINE_END: Final = Markup('<span class="eol">{}</span>')
_SURROGATE: Final = re.compile("([\ud800-\udfff])")
_BREAK: Final = re.compile("([\t\n\r])")
_MARKED: Final = re.compile(f"[{HIDDEN_RANGES}\ud800-\udfff]")
"""Whatever becomes a mark, and the CR of a CR LF: text without any of them only has to be escaped."""
_BYTES: Final = range(0xDC80, 0xDD00)  # how "surrogateescape" keeps a byte that is no UTF-8


class Visible:
    """Makes text visible, and counts what it marked.

    Attributes:
        hidden: hidden characters so far.
        stray: bytes so far that are no UTF-8.
    """

    def __init__(self) -> None:
        self.hidden = 0
        self.stray = 0

    def text(self, text: str) -> Markup:
        """Text of several lines: LF, TAB and the CR of a CR LF stay as they are."""
        if _MARKED.search(text) is None:
            return escape(text)
        return Markup("").join(self._pieces(text))

    def texts(self, texts: Sequence[str]) -> Sequence[str]:
        """The same of many texts: all at once where they hold nothing to mark and no LF, which parts them meanwhile."""
        whole = "\n".join(texts)
        if whole.count("\n") == len(texts) - 1 and _MARKED.search(whole) is None:
            return str(escape(whole)).split("\n")
        return [self.text(text) for text in texts]

    def line(self, text: str) -> Markup:
        """Text that ought to be one line, such as a name: tabs and line ends are marked too."""
        parts = (self._mark(part) if _BREAK.fullmatch(part) else self.text(part) for part in _BREAK.split(text))
        return Markup("").join(parts)

    def path(self, path: bytes) -> Markup:
        """A path from Git, which need not be UTF-8."""
        return self.line(decode(path))

    def _pieces(self, text: str) -> Iterator[Markup]:
        for part in _SURROGATE.split(text):
            if _SURROGATE.fullmatch(part):
                yield self._mark(part)
                continue
            for piece in split_hidden(part):
                yield escape(piece) if isinstance(piece, str) else self._mark(chr(piece.code_point))

    def _mark(self, char: str) -> Markup:
        if ord(char) in _BYTES:
            self.stray += 1
            return _NO_TEXT.format(mark(char))
        self.hidden += 1
        return _HIDDEN.format(mark(char))


class Sheet:
    """Lines of HTML, put together from markup of ours and texts of others.

    The texts are made visible all at once when the lines are wanted: none of them costs a call of its own.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []  # markup and text by turns
        self._ends: list[int] = []

    def add(self, markup: str, text: str) -> None:
        """Add markup of ours, and after it a text of anybody's."""
        self._parts += (markup, text)

    def end_line(self, markup: str) -> None:
        """Add markup of ours and end the line."""
        self._parts += (markup, "")
        self._ends.append(len(self._parts))

    def lines(self, visible: Visible) -> list[str]:
        """Every line."""
        parts = self._parts.copy()
        parts[1::2] = visible.texts(parts[1::2])
        starts = chain((0,), self._ends)
        return ["".join(parts[start:end]) for start, end in zip(starts, self._ends, strict=False)]


def ours(pieces: Iterable[str]) -> Markup:
    """HTML put together from literals of ours, numbers, and what was made visible."""
    return Markup("".join(pieces))  # noqa: S704  nothing else is given to it


def marked(text: str) -> int:
    """How many marks a text has, without making them."""
    return len(_MARKED.findall(text))


def line_end(name: str) -> Markup:
    """The mark of a line's end, where line ends are what changes."""
    return _LINE_END.format(name)

"""Text as HTML in which nothing hides.

A character that cannot be seen, or that reorders what is read, becomes a mark such as `U+202E RLO`; so does a byte
that is no UTF-8. All of it is escaped: the only markup here is our own.
"""

import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup, escape

from service.contract.hidden import mark, split_hidden

_HIDDEN: Final = Markup('<span class="hid">{}</span>')
_NO_TEXT: Final = Markup('<span class="byte">{}</span>')
_LINE_END: Final = Markup('<span class="eol">{}</span>')
_SURROGATE: Final = re.compile("([\ud800-\udfff])")
_BREAK: Final = re.compile("([\t\n\r])")
_BYTES: Final = range(0xDC80, 0xDD00)  # how "surrogateescape" keeps a byte that is no UTF-8


def decode(raw: bytes) -> str:
    """Bytes as text that loses none of them; only for `Visible`, which shows what is no UTF-8 as bytes."""
    return raw.decode("utf-8", "surrogateescape")


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
        return Markup("").join(self._pieces(text))

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


def line_end(name: str) -> Markup:
    """The mark of a line's end, where line ends are what changes."""
    return _LINE_END.format(name)

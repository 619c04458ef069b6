"""Colours for code: stretches of a text and what they are, never the text itself.

An agent chooses the text, so the work is bounded: by size, by a deadline between tokens, and to languages whose rules
were measured on hostile input. What is not coloured is shown plain.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Token

from service.contract.risk import is_binary
from service.edge.desk.visible import decode

BYTES_MOST: Final = 100_000
SECONDS_MOST: Final = 0.5

LANGUAGES: Final = frozenset(
    {
        *("Bash", "CSS", "Docker", "Go", "HTML", "JSON", "Java", "JavaScript", "Kotlin", "Markdown", "PHP", "Python"),
        *("Ruby", "Rust", "SQL", "Swift", "TOML", "TypeScript", "XML", "YAML"),
    }
)
"""Names in pygments of the languages whose rules stayed fast on 100 KB of hostile content.

Those for C, C++, INI and make did not: a run of spaces takes them time in the square of its length, all of it inside
one match, where no deadline reaches.
"""

Stretch = tuple[int, int, str]
"""Start and end in a line, in code points, and what it is."""

_KINDS: Final = {
    Token.Comment: "comment",
    Token.Keyword: "keyword",
    Token.Operator.Word: "keyword",
    Token.Name.Tag: "keyword",
    Token.Generic.Heading: "keyword",
    Token.Generic.Subheading: "keyword",
    Token.Literal.String: "string",
    Token.Literal.Number: "number",
    Token.Name.Function: "name",
    Token.Name.Class: "name",
    Token.Name.Decorator: "name",
    Token.Name.Attribute: "name",
    Token.Name.Builtin: "name",
}


class Colours:
    """The coloured stretches of a text, line by line."""

    def __init__(self) -> None:
        self._lines: list[list[Stretch]] = [[]]
        self._column = 0

    def add(self, text: str, kind: str | None) -> None:
        """Say what the next piece of the text is."""
        pieces = text.split("\n")
        for index, piece in enumerate(pieces):
            if index:
                self._lines.append([])
                self._column = 0
            if kind and piece:
                self._lines[-1].append((self._column, self._column + len(piece), kind))
            self._column += len(piece)

    def line(self, number: int | None) -> Sequence[Stretch]:
        """The stretches of a line, counted from 1, in order; none for a line that was not reached."""
        return self._lines[number - 1] if number and number <= len(self._lines) else ()


def colour(path: bytes, content: bytes | None) -> Colours:
    """Colours for a file's content, as far as its name says a language and the bounds reach."""
    colours = Colours()
    lexer = _lexer(path)
    if not content or len(content) > BYTES_MOST or is_binary(content) or lexer is None:
        return colours
    text = decode(content)
    until = time.monotonic() + SECONDS_MOST
    at = 0
    for start, kind, value in lexer.get_tokens_unprocessed(text):
        if start != at or not text.startswith(value, at) or time.monotonic() > until:
            break  # not a token of this text, or too slow: the rest stays plain
        colours.add(value, _kind(kind))
        at += len(value)
    return colours


def _lexer(path: bytes) -> Any:
    """What colours a file of this name. Code blocks in Markdown would bring in every other language."""
    found = find_lexer_class_for_filename(decode(path).rsplit("/", 1)[-1])
    return found(handlecodeblocks=False) if found and found.name in LANGUAGES else None


def _kind(token: Any) -> str | None:
    return next((_KINDS[part] for part in reversed(token.split()) if part in _KINDS), None)

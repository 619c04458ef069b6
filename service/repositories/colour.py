"""Colours for code: stretches of a text and what they are, never the text itself.

An agent chooses the text, so the work is bounded: by size, by a deadline between tokens, and to languages whose rules
were measured on hostile input. What is not coloured is shown plain.
"""

import hashlib
import importlib.metadata
import struct
import time
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Token

from service.contract.hidden import decode
from service.contract.risk import is_binary

BYTES_MOST: Final = 100_000
SECONDS_MOST: Final = 0.5
PAGE_SECONDS_MOST: Final = 3.0
"""Of a processor's time, for one content and for all of a page; what comes after is plain."""
_OURS: Final = "1"
"""Changes when the same text is coloured otherwise, or stored otherwise, by code of ours."""

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
"""Start and end in a text, in code points, and what it is."""

KINDS: Final = ("comment", "keyword", "string", "number", "name")
_COMMENT, _KEYWORD, _STRING, _NUMBER, _NAME = range(len(KINDS))
_KIND_OF: Final = {
    Token.Comment: _COMMENT,
    Token.Keyword: _KEYWORD,
    Token.Operator.Word: _KEYWORD,
    Token.Name.Tag: _KEYWORD,
    Token.Generic.Heading: _KEYWORD,
    Token.Generic.Subheading: _KEYWORD,
    Token.Literal.String: _STRING,
    Token.Literal.Number: _NUMBER,
    Token.Name.Function: _NAME,
    Token.Name.Class: _NAME,
    Token.Name.Decorator: _NAME,
    Token.Name.Attribute: _NAME,
    Token.Name.Builtin: _NAME,
}
_LOOKS: Final = 63  # at the clock: every 64 tokens
_RECORD: Final = 9  # two numbers of four bytes, and a kind of one


class Key(NamedTuple):
    """What the colours of a content depend on.

    Attributes:
        content: its SHA-256.
        lexer: the name of its language in pygments.
        version: of pygments, and of this module.
    """

    content: bytes
    lexer: str
    version: str


@dataclass(frozen=True)
class Colours:
    """The coloured stretches of a text, in its order: `edges` holds the start and the end of each in code points."""

    edges: Sequence[int] = ()
    kinds: bytes = b""

    def within(self, start: int, end: int) -> Sequence[Stretch]:
        """The stretches of a piece of it, from start to end; what reaches over is cut off."""
        edges, at = self.edges, bisect_right(self.edges, start) & ~1
        until = (bisect_left(edges, end, at) + 1) & ~1
        if at == until or start == end:
            return ()
        found = list(zip(edges[at:until:2], edges[at + 1 : until : 2], self._names[at >> 1 : until >> 1], strict=True))
        if edges[at] < start:
            found[0] = (start, *found[0][1:])
        if edges[until - 1] > end:
            found[-1] = (found[-1][0], end, found[-1][2])
        return found

    @cached_property
    def _names(self) -> Sequence[str]:
        return [KINDS[kind] for kind in self.kinds]

    def pack(self) -> bytes:
        """The same, small: distances from edge to edge, then the kinds."""
        steps = (edge - before for before, edge in zip((0, *self.edges), self.edges, strict=False))
        return zlib.compress(struct.pack(f"<{len(self.edges)}I", *steps) + self.kinds)


PLAIN: Final = Colours()


def unpack(packed: bytes) -> Colours:
    """What was packed. Whatever else it is, it is no colours: it can point nowhere but into the text, or behind it."""
    try:
        raw = zlib.decompressobj().decompress(packed, BYTES_MOST * _RECORD)
    except zlib.error:
        return PLAIN
    count = len(raw) // _RECORD
    kinds = raw[count * (_RECORD - 1) :]
    if len(kinds) != count or max(kinds, default=0) >= len(KINDS):
        return PLAIN
    return Colours(tuple(accumulate(struct.unpack_from(f"<{count * 2}I", raw))), kinds)


@dataclass
class Palette:
    """Colours for the files of one page: those that are known, and those that it had to make.

    Attributes:
        known: packed colours.
        made: the same of what was not among them.
    """

    known: Mapping[Key, bytes] = field(default_factory=dict)
    made: dict[Key, bytes] = field(default_factory=dict)
    _left: float = PAGE_SECONDS_MOST

    def colours(self, path: bytes, content: bytes | None) -> Colours:
        """Colours for a file's content, as far as its name says a language and the bounds reach."""
        key = key_of(path, content)
        if key is None or content is None:
            return PLAIN
        if (packed := self.known.get(key)) is not None:
            return unpack(packed)
        return self._make(key, path, content)

    def _make(self, key: Key, path: bytes, content: bytes) -> Colours:
        begun = time.thread_time()
        if self._left <= 0:
            return PLAIN
        found = _colour(path, decode(content), min(SECONDS_MOST, self._left))
        self.made[key] = found.pack()
        self._left -= time.thread_time() - begun
        return found


def key_of(path: bytes, content: bytes | None) -> Key | None:
    """By what the colours of a content are known; None for what has none."""
    lexer = _lexer_of(path)
    if not content or len(content) > BYTES_MOST or lexer is None or is_binary(content):
        return None
    return Key(hashlib.sha256(content).digest(), lexer.name, _version())


@cache
def _version() -> str:
    return f"{_OURS} {importlib.metadata.version('pygments')}"


def _colour(path: bytes, text: str, seconds: float) -> Colours:
    edges: list[int] = []
    kinds = bytearray()
    until = time.thread_time() + seconds
    at = 0
    for count, (start, token, value) in enumerate(_tokens(path, text)):
        if start != at or not text.startswith(value, at):
            break  # not a token of this text: the rest stays plain
        if count & _LOOKS == 0 and time.thread_time() > until:
            break
        at += len(value)
        kind = _kind(token)
        if kind is None or start == at:
            continue
        if kinds and kinds[-1] == kind and edges[-1] == start:
            edges[-1] = at
        else:
            edges += (start, at)
            kinds.append(kind)
    return Colours(edges, bytes(kinds))


def _tokens(path: bytes, text: str) -> Iterator[tuple[int, Any, str]]:
    """Code blocks in Markdown would bring in every other language."""
    tokens: Iterator[tuple[int, Any, str]] = _lexer_of(path)(handlecodeblocks=False).get_tokens_unprocessed(text)
    return tokens


def _lexer_of(path: bytes) -> Any:
    """What colours a file of this name."""
    return _lexer(decode(path[path.rfind(b"/") + 1 :]))


@lru_cache(maxsize=512)
def _lexer(name: str) -> Any:
    found = find_lexer_class_for_filename(name)
    return found if found and found.name in LANGUAGES else None


@lru_cache(maxsize=512)
def _kind(token: Any) -> int | None:
    return next((_KIND_OF[part] for part in reversed(token.split()) if part in _KIND_OF), None)

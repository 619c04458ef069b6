"""Characters that a reader cannot see, or that reorder what he reads, and words that mix look-alike alphabets.

The set is default-ignorable, bidi controls, control characters (Cc), format characters (Cf), spaces other than U+0020
and the line and paragraph separators, less TAB and LF: 4,287 code points in Unicode 18.0 (UAX #44). They are written
out, because 30 ranges in `re` are found twice as fast as the properties in `regex`; a test compares them with the
properties over every code point, so that new Unicode tables are noticed.
A CR is one of the set, but where text is scanned a CR directly before a LF is an ordinary line end.
Everything here takes time linear in the length of the text.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import regex

HIDDEN_RANGES: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u115f-\u1160"
    r"\u1680\u17b4-\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The set as the inside of a character class, for `re` and `regex` alike."""

_HIDDEN: Final = re.compile(f"[{HIDDEN_RANGES}]")
_UNREADABLE: Final = re.compile(f"[{HIDDEN_RANGES}\t\n\ud800-\udfff]")
_BYTES: Final = range(0xDC80, 0xDD00)  # how "surrogateescape" keeps a byte that is no UTF-8
_RUN: Final = re.compile(f"[{HIDDEN_RANGES}]+")

# Abbreviations of Unicode's NameAliases.txt, by the first code point of a run.
_RUNS: Final = {
    0x0000: "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI",
    0x0010: "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US",
    0x007F: "DEL PAD HOP BPH NBH IND NEL SSA ESA HTS HTJ VTS PLD PLU RI SS2 SS3",
    0x0090: "DCS PU1 PU2 STS CCH MW SPA EPA SOS SGC SCI CSI ST OSC PM APC NBSP",
    0x00AD: "SHY",
    0x034F: "CGJ",
    0x061C: "ALM",
    0x180B: "FVS1 FVS2 FVS3 MVS FVS4",
    0x200B: "ZWSP ZWNJ ZWJ LRM RLM",
    0x2028: "LS PS LRE RLE PDF LRO RLO NNBSP",
    0x205F: "MMSP WJ",
    0x2066: "LRI RLI FSI PDI ISS ASS IAFS AAFS NADS NODS",
    0x3000: "IDSP",
    0xFE00: " ".join(f"VS{number}" for number in range(1, 17)),
    0xFEFF: "ZWNBSP",
    0xE0100: " ".join(f"VS{number}" for number in range(17, 257)),
}
_SHORT_NAMES: Final = {
    first + place: name for first, names in _RUNS.items() for place, name in enumerate(names.split(" "))
}

# Alphabets with letters that pass for those of another one here. Han, kana, Hangul and the like are left out: people
# do write them next to Latin letters, and nobody confuses them (UTS 39, section 5.2).
_SCRIPTS: Final = {
    name: regex.compile(rf"\p{{Script={name}}}")  # type: ignore[no-untyped-call]
    for name in (
        "Latin",
        "Cyrillic",
        "Greek",
        "Armenian",
        "Cherokee",
        "Coptic",
        "Georgian",
        "Hebrew",
        "Lisu",
        "Canadian_Aboriginal",
    )
}


class Hidden(NamedTuple):
    """One hidden character in a text.

    Attributes:
        offset: its place in the text, in code points from 0.
        code_point: what it is.
        line: the line it stands on, from 1; only a LF ends a line, as in Git.
        name: its short name, such as `RLO`.
    """

    offset: int
    code_point: int
    line: int
    name: str


def decode(raw: bytes) -> str:
    """Bytes as text that loses none of them: one that is no UTF-8 becomes a lone surrogate, which `mark` names."""
    return raw.decode("utf-8", "surrogateescape")


def is_hidden(char: str) -> bool:
    """Whether one character is in the set; a CR is, whatever follows it."""
    return _HIDDEN.fullmatch(char) is not None


def label(char: str) -> str:
    """What to show in place of one character: `U+202E RLO`."""
    return f"U+{ord(char):04X} {_name(char)}"


def readable(text: str) -> str:
    """One line of plain text in which nothing hides, for titles and for programs: a mark reads `[U+202E RLO]`, and a
    byte that is no UTF-8 `[byte FF]`.
    """
    return _UNREADABLE.sub(lambda found: f"[{mark(found[0])}]", text)


def mark(char: str) -> str:
    """What to show in place of one character, or of a byte as "surrogateescape" keeps it."""
    code = ord(char)
    return f"byte {code - 0xDC00:02X}" if code in _BYTES else label(char)


def find_hidden(text: str) -> tuple[Hidden, ...]:
    """Every hidden character of a text in order, less each CR directly before a LF."""
    return tuple(_scan(text))


def split_hidden(text: str) -> Iterator[str | Hidden]:
    """The text in pieces for a renderer: stretches without hidden characters as strings, never empty, and each hidden
    character by itself. Strings and code points joined again give the text.
    """
    start = 0
    for found in _scan(text):
        if start < found.offset:
            yield text[start : found.offset]
        yield found
        start = found.offset + 1
    if start < len(text):
        yield text[start:]


def mixed_scripts(word: str) -> tuple[str, ...]:
    """The names of the look-alike alphabets (Unicode's Script property) that one word mixes; empty if it does not.

    Digits, punctuation and scripts that nobody confuses with these do not count.
    """
    found = tuple(name for name, letter in _SCRIPTS.items() if letter.search(word))
    return found if len(found) > 1 else ()


def _scan(text: str) -> Iterator[Hidden]:
    line, counted = 1, 0
    for run in _RUN.finditer(text):
        start, end = run.span()
        if text.startswith("\r\n", end - 1):
            end -= 1
        if start < end:  # no run holds a LF, so all of it is on one line
            line += text.count("\n", counted, start)
            counted = start
        for offset in range(start, end):
            yield Hidden(offset, ord(text[offset]), line, _name(text[offset]))


@lru_cache(maxsize=8192)
def _name(char: str) -> str:
    return _SHORT_NAMES.get(ord(char), "") or unicodedata.name(char, "unassigned")

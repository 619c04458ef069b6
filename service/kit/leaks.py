"""Passwords, keys and tokens in a text, found by their shapes.

betterleaks (a Go library with some 460 rules) knows most kinds; a few rules of our own are added for what it misses
or takes for granted: credentials in a URL, a basic authorization header, an AWS key id that stands alone, the first
half of a private key. A marker in the text that asks the library to look away is not obeyed: who wrote the text wrote
it. Base64 that holds a text is looked into, twice over.

Work is bounded by counts: a text is searched in windows of so many characters, which overlap, and no further than
findings are asked for. Whoever calls is asked before each window whether there is time.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

WINDOW: Final = 32_000
"""Characters that are searched at once."""
OVERLAP: Final = 8_000
"""Characters of one window, at least, that the next one sees again: no secret that is written out is longer."""
LEAST: Final = WINDOW - OVERLAP
"""A window has at least so many; each begins a third of that after the one before, or later."""
DECODED_MOST: Final = 2
"""How often base64 is looked into."""


class Leak(NamedTuple):
    """A secret in a text. Lines count from 1; `mark` is what tells it from others, and is for comparing only."""

    kind: str
    first: int
    last: int
    mark: str


class _Own(NamedTuple):
    """A rule of our own: the group `secret` of the pattern is one, where `real` says so."""

    kind: str
    pattern: re.Pattern[str]
    real: Callable[[str], bool]


def _is_password(text: str) -> bool:
    return not _PLACEHOLDER.fullmatch(text)


def _is_basic(text: str) -> bool:
    plain = _decoded(text)
    return plain is not None and ":" in plain and _is_password(plain.partition(":")[2])


_MARKERS: Final = re.compile(r"(gitleaks|betterleaks):(?=allow)")
# What stands for a password in examples and templates: a variable, a field to fill in, the word itself, stars.
_PLACEHOLDER: Final = re.compile(
    r"|.{0,2}|[$%#@&!?~]?[({\[<%].*|\$.*|(.)\1*|(?i:(your|my|the|a)?[-_]?(pass(word|wd)?|pw|pwd|secret|token|changeme)s?)"
)
_OWN: Final = (
    _Own(
        "url-password",
        re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@'\"<>`]{0,128}:(?P<secret>[^\s/@'\"<>`]{1,256})@[\w.\[-]"),
        _is_password,
    ),
    _Own("basic-auth", re.compile(r"(?i)\bbasic[ \t]+['\"]?(?P<secret>[a-z0-9+/_-]{8,2000}={0,2})"), _is_basic),
    _Own(
        "aws-access-key-id",
        re.compile(r"(?<![A-Za-z0-9])(?P<secret>(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?![A-Za-z0-9])"),
        lambda text: not text.endswith("EXAMPLE"),
    ),
    _Own(  # the library wants its end too, which may be in another file
        "private-key",
        re.compile(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----\s{1,9}(?P<secret>[A-Za-z0-9+/=]{40})"),
        bool,
    ),
)
_MIXED: Final = re.compile(r"(?=\S{0,300}[A-Za-z])(?=\S{0,300}\d)\S{8,}")
_REAL: Final[dict[str, Callable[[str], object]]] = {
    "generic-credential-uri": _is_password,
    "generic-password": _MIXED.fullmatch,  # of mere words it takes too many for one
}
"""Rules of the library that find what is none."""
_MARK_LEAST: Final = 16
# Lines of a width such as encoders write, with what is left over on the last; or one run.
_BASE64: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:(?:[A-Za-z0-9+/_-]{60,}+\r?\n[ \t]*+)++[A-Za-z0-9+/_-]*+|[A-Za-z0-9+/_-]{20,}+)={0,2}"
)
_NOT_TEXT: Final = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\U0010ffff]")
_URL_SAFE: Final = str.maketrans("-_", "+/", "\r\n\t ")


def find_leaks(text: str, check_time: Callable[[], None], lines: Sequence[range] | None = None) -> Iterator[Leak]:
    """The secrets in a text, one on a line, searched as far as somebody wants the next one.

    Args:
        text: where to look.
        check_time: called before each window; raises where there is no more time.
        lines: those that count; None for all. A secret that stands on none of them is left out.
    """
    seen: set[int] = set()
    for view in _views(text.replace("\0", " ")):  # a C string ends at NUL
        for start, window in _windows(_MARKERS.sub(r"\1 ", view)):
            if not _meets(lines, start, start + window.count("\n")):
                continue
            check_time()
            for leak in (*_engine_leaks(window, start), *_own_leaks(window, start)):
                if _meets(lines, leak.first, leak.last) and leak.first not in seen:
                    seen.add(leak.first)  # another window, view or rule may find it too
                    yield leak


def laid_open(text: str) -> str:
    """A text with all that it has in base64: a secret's mark is in it where the secret is in the text."""
    return "\n".join(_views(text))


def _meets(lines: Sequence[range] | None, first: int, last: int) -> bool:
    return lines is None or any(one.start <= last and first < one.stop for one in lines)


def _windows(text: str) -> Iterator[tuple[int, str]]:
    """Each window with the number of its first line. One begins and ends with a line, unless a line is too long."""
    start, line = 0, 1
    while start < len(text):
        end = start + WINDOW
        if end < len(text):
            end = text.rfind("\n", start + LEAST, end) + 1 or end
        yield line, text[start:end]
        if end >= len(text):
            return
        following = text.rfind("\n", end - 2 * OVERLAP, end - OVERLAP) + 1 or end - OVERLAP
        line += text.count("\n", start, following)
        start = following


def _own_leaks(window: str, line: int) -> Iterator[Leak]:
    for kind, pattern, real in _OWN:
        for found in pattern.finditer(window):
            if real(found["secret"]):
                at = line + window.count("\n", 0, found.start())
                yield Leak(kind, at, at, found[0])


def _engine_leaks(window: str, line: int) -> Iterator[Leak]:
    from betterleaks import scan_string  # noqa: PLC0415  its library of 23 MB is for those who search only

    for found in scan_string(window):
        value = found.match.value
        if not _REAL.get(found.rule_id, bool)(value):
            continue
        first, last = (line + at - 1 for at in (found.location.start_line, found.location.end_line))
        yield Leak(found.rule_id, first, last, value if len(value) >= _MARK_LEAST else found.match.full)


def _views(text: str) -> Iterator[str]:
    """The text, then with what it has in base64 in place of that, line for line."""
    yield text
    for _ in range(DECODED_MOST):
        plain = _BASE64.sub(_opened, text)
        if plain == text:
            return
        yield (text := plain)


def _opened(found: re.Match[str]) -> str:
    """What a run stands for, on as many lines; the last of several may be no part of it."""
    several, line_end, last = found[0].rpartition("\n")
    for run, rest in ((found[0], ""), (several, line_end + last)):
        if run and (plain := _decoded(run)) is not None:
            return " ".join(plain.split()) + "\n" * run.count("\n") + rest
    return found[0]


def _decoded(text: str) -> str | None:
    """The text that base64 stands for; None where it is no base64 or no text."""
    run = text.translate(_URL_SAFE).rstrip("=")
    try:
        plain = base64.b64decode(run + "=" * (-len(run) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return None if _NOT_TEXT.search(plain) else plain

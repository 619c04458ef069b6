"""What sentences are put together from: plain words, and those that are set otherwise."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from service.contract.hidden import decode
from service.contract.names import unquote_path
from service.kit.errors import Refusal
from service.kit.language import figure, gettext, later, ngettext


class Mono(str):
    """A branch, path, mode or id inside a sentence."""

    __slots__ = ()


class Quoted(str):
    """What somebody else wrote, inside a sentence of ours: the subject of a commit, a name."""

    __slots__ = ()


class Lead(str):
    """The first words of a warning, which say what kind it is."""

    __slots__ = ()


Pieces = tuple[str, ...]
Params = Mapping[str, Any]
Maker = Callable[[str, Params], Pieces]

_NUMBERS: Final = (
    *(later("no"), later("one"), later("two"), later("three"), later("four"), later("five"), later("six")),
    *(later("seven"), later("eight"), later("nine"), later("ten"), later("eleven"), later("twelve")),
)
_MODE_FORM: Final = "06o"
_PARTS: Final = re.compile(r"\{(\w+)\}|<b>(.*?)</b>")


def said(message: str, /, **values: str | Pieces) -> Pieces:
    """A message of ours in pieces: each `{name}` stands for a value as it is, and `<b>…</b>` for the lead.

    `message` is spoken already (`gettext`, `ngettext`), and what its places are filled with is not: a value is never
    read as a message.
    """
    return tuple(piece for piece in _pieces(message, values) if piece)


def _pieces(message: str, values: Mapping[str, str | Pieces]) -> Iterator[str]:
    at = 0
    for found in _PARTS.finditer(message):
        yield message[at : found.start()]
        at = found.end()
        if found[1] is None:
            yield Lead("".join(_pieces(found[2], values)))
            continue
        value = values[found[1]]
        yield from (value,) if isinstance(value, str) else value
    yield message[at:]


def phrase(message: str, /, **values: Markup | str) -> Markup:
    """A spoken message as HTML: what its places are filled with is escaped, unless it is HTML already."""
    return Markup("").join(  # the message is ours
        values[part] if place else Markup(part)  # noqa: S704
        for place, part in _split(message)
    )


def _split(message: str) -> Iterator[tuple[bool, str]]:
    for index, part in enumerate(re.split(r"\{(\w+)\}", message)):
        yield bool(index % 2), part


def listed(names: Sequence[str]) -> Pieces:
    """`a`, `b` and `c`, each set as code."""
    set_as_code = [Mono(at_text(name)) for name in names]
    if len(set_as_code) < 2:  # noqa: PLR2004  two are joined
        return tuple(set_as_code)
    *most, last = set_as_code
    joined = [piece for name in most for piece in (name, ", ")][:-1]
    return said(gettext("{several} and {last}"), several=tuple(joined), last=last)


def number(count: int) -> str:
    """A small number as a word."""
    return gettext(_NUMBERS[count]) if 0 <= count < len(_NUMBERS) else figure(count)


def capital(text: str) -> str:
    """The text as a sentence begins."""
    return text[:1].upper() + text[1:]


def commits_text(count: int) -> str:
    """`1 commit`, `1,000 commits`."""
    return ngettext("{count} commit", "{count} commits", count)


def bytes_text(count: int) -> str:
    """`1 byte`, `1,000 bytes`."""
    return ngettext("{count} byte", "{count} bytes", count)


def hidden_text(count: int) -> str:
    """`1 hidden character`, `2 hidden characters`."""
    return ngettext("{count} hidden character", "{count} hidden characters", count)


def mode_text(mode: int) -> str:
    """A mode as Git prints it: `100755`."""
    return format(mode, _MODE_FORM)


def at_text(at: str) -> str:
    """The path or ref of a note as it is; C-quoted in a note where it is not plain."""
    if not at.startswith('"'):
        return at
    try:
        return decode(unquote_path(at, "at"))
    except Refusal:
        return at

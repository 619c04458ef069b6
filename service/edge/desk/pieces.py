"""What sentences are put together from: plain words, and those that are set otherwise."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from service.contract.names import unquote_path
from service.edge.desk.visible import decode
from service.kit.errors import Refusal


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
    *("no", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_MODE_FORM: Final = "06o"


def number(count: int) -> str:
    """A small number as a word."""
    return _NUMBERS[count] if 0 <= count < len(_NUMBERS) else f"{count:,}"


def counted(count: int, noun: str, many: str = "") -> str:
    """`1 file`, `2 files`, `1,000 files`; `many` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


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

"""In which language a person is spoken to. A message is found by its English text; without another it is that text.

Source: GNU gettext manual, "The Format of PO Files"; RFC 9110, 12.5.4 (Accept-Language).
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Any, Final

CATALOGUES: Final = Path(__file__).parent.parent / "languages"
"""One PO file per language, read as it is: nothing has to be compiled."""
LANGUAGES: Final = {"en": "English", "es": "Español"}
"""Each by its own name; the first is the one that messages are written in."""
ENGLISH: Final = "en"
_THOUSANDS: Final = {"en": ",", "es": "."}
_PLACE: Final = re.compile(r"\{(\w+)\}")
_ASKED_MOST: Final = 20
_ASKED: Final = re.compile(r"([A-Za-z]{2,8})(?:-[A-Za-z0-9-]*)?(?:;q=([01](?:\.\d{0,3})?))?")
_LANGUAGE: Final = ContextVar("language", default=ENGLISH)


def language() -> str:
    """The one that is spoken now."""
    return _LANGUAGE.get()


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """Speak this language, as far as this task and the threads that it starts go."""
    token = _LANGUAGE.set(name if name in LANGUAGES else ENGLISH)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def preferred(accept: str) -> str:
    """The best language for an Accept-Language header; English where it names none of ours."""
    found: dict[str, float] = {}
    for part in accept.split(",")[:_ASKED_MOST]:
        asked = _ASKED.fullmatch(part.replace(" ", ""))
        if asked and asked[1].lower() in LANGUAGES:
            found.setdefault(asked[1].lower(), float(asked[2] or 1))
    best = max(found, key=lambda name: found[name], default=ENGLISH)
    return best if found.get(best) else ENGLISH


def gettext(message: str, /, **values: Any) -> str:
    """A message with its `{named}` places filled."""
    return _filled(_catalogue(language()).gettext(message), values)


def ngettext(one: str, many: str, count: int, /, **values: Any) -> str:
    """A message that depends on a number; `{count}` in it is that number, written as the language does."""
    return _filled(translated(one, many, count), {"count": figure(count), **values})


def translated(one: str, many: str, count: int) -> str:
    """The message for this number, its places not filled."""
    return _catalogue(language()).ngettext(one, many, count)


def later(message: str) -> str:
    """A message that is only named here and spoken elsewhere, where the language is known."""
    return message


def plural(one: str, many: str) -> tuple[str, str]:
    """The same for a message that depends on a number."""
    return one, many


def figure(count: int) -> str:
    """A number in digits: `1,400`, `1.400`."""
    return f"{count:,}".replace(",", _THOUSANDS[language()])


def _filled(text: str, values: dict[str, Any]) -> str:
    """In one pass: what a value says is never read as a place, and a place without a value stays for later."""
    return _PLACE.sub(lambda found: str(values.get(found[1], found[0])), text) if values else text


@lru_cache
def _catalogue(name: str) -> NullTranslations:
    if name == ENGLISH:
        return NullTranslations()
    from babel.messages.mofile import write_mo  # noqa: PLC0415  who speaks English need not wait for it
    from babel.messages.pofile import read_po  # noqa: PLC0415

    compiled = io.BytesIO()
    with (CATALOGUES / f"{name}.po").open("rb") as file:
        write_mo(compiled, read_po(file, locale=name))
    compiled.seek(0)
    return GNUTranslations(compiled)

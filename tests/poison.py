"""Puts a text in place of everything in a view that anybody but us wrote, whatever fields a view has."""

import re
from dataclasses import fields, is_dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import regex
from pydantic import BaseModel

from service.contract.data import Oid
from service.contract.names import quote_path

HIDDEN: Final = "".join(
    regex.findall(
        r"[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Cc}\p{Cf}\u2028\u2029\p{Zs}--[ \t\n]]",
        "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF),
        flags=regex.VERSION1,
    )
)
"""The 4,287 code points of FACTS that hide, named by Unicode's own data and not by the code that is tested."""
_AN_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f-]{36}")
OURS: Final = frozenset(
    {"id", "repository_id", "digest", "hash", "code", "way", "kind", "channel", "zone", "after", "csrf", "standing"}
    | {"state", "event"}
)
"""Fields of our own making that are typed as any text: digests, codes, words of a short list."""
ROUNDS: Final = frozenset({"made_at", "expires_at"})
"""Times as text."""


def poisoned(value: Any, text: str) -> Any:
    """The same with `text` for every string, and its bytes for every byte string; lists and values inside too."""
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        return _copied(value, text)
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{name: poisoned(one, text) for name, one in vars(value).items()})
    if isinstance(value, tuple | list):
        inner = [poisoned(one, text) for one in value]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    if isinstance(value, dict):
        return {name: poisoned(one, text) for name, one in value.items()}
    if isinstance(value, bytes):  # of a content the first line, so that places in it stay
        return b"".join((text.encode("utf-8", "surrogateescape"), *value.partition(b"\n")[1:]))
    return text if isinstance(value, str) and not _AN_ID.fullmatch(value) else value


def _copied(value: Any, text: str) -> Any:
    hints = get_type_hints(type(value))
    model = isinstance(value, BaseModel)
    names = list(type(value).model_fields) if model else [one.name for one in fields(value)]
    given = {name: _field(name, hints[name], getattr(value, name), text) for name in names}
    return value.model_copy(update=given) if model else replace(value, **given)


def _field(name: str, hint: Any, value: Any, text: str) -> Any:
    if name in OURS | ROUNDS or hint in {Oid, Oid | None} or _is_word(hint):
        return value
    if name == "at" and isinstance(value, str):
        return quote_path(text.encode())
    return poisoned(value, text)


def _is_word(hint: Any) -> bool:
    """Whether a type is a short list of words of ours."""
    return get_origin(hint) is Literal or any(_is_word(one) for one in get_args(hint))

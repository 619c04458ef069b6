"""JSON in and out: strict reading of what a stranger sends, RFC 8785 for what is hashed."""

import hashlib
import json
import re
from typing import Any, NoReturn

import rfc8785

from service.kit.errors import Code, Refusal

DEPTH_MOST = 64
INTEGER_MOST = 2**53 - 1
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_STEP = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value."""
    return rfc8785.dumps(value)


def sha256(data: bytes) -> str:
    """SHA-256 as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """SHA-256 over the RFC 8785 form of a JSON value."""
    return sha256(canonical(value))


def read_json(data: bytes) -> Any:
    """Parse what a stranger sent.

    Raises:
        Refusal: INVALID_JSON for anything that is not one value of UTF-8 JSON with unique keys, at most 64 levels,
            integers within 2^53 - 1, finite numbers, and strings without NUL or lone surrogates.
    """
    _check_depth(data)
    try:
        text = data.decode("utf-8")
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_integer, parse_float=_number
        )
    except UnicodeDecodeError:
        raise _bad("The body is not UTF-8.") from None
    except (ValueError, RecursionError):
        raise _bad("The body is not JSON.") from None


def check_strings(value: Any, field: str) -> None:
    """Refuse NUL and lone surrogates anywhere in a JSON value; PostgreSQL stores neither.

    Raises:
        Refusal: TEXT_REJECTED naming the field.
    """
    if isinstance(value, str):
        _check_string(value, field)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_string(key, field)
            check_strings(inner, f"{field}.{key}" if field else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            check_strings(inner, f"{field}[{index}]")


def _check_string(text: str, field: str) -> None:
    if "\0" in text:
        raise Refusal(Code.TEXT_REJECTED, f"{field} contains a NUL character.", field=field, rule="nul")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Refusal(
            Code.TEXT_REJECTED, f"{field} contains a lone surrogate.", field=field, rule="surrogate"
        ) from None


def _check_depth(data: bytes) -> None:
    """Counted before parsing, since the parser recurses."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_MOST:
        return
    depth = 0
    for token in _BRACKETS.finditer(data):
        depth += _STEP.get(token.group(), 0)
        if depth > DEPTH_MOST:
            raise _bad(f"The body is nested deeper than {DEPTH_MOST} levels.", limit=DEPTH_MOST)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _bad("The body has an object with the same key twice.")
    return found


def _no_constant(text: str) -> NoReturn:
    raise _bad(f"{text} is not JSON.")


def _integer(text: str) -> int:
    if len(text) > len(str(INTEGER_MOST)) + 1 or abs(int(text)) > INTEGER_MOST:
        raise _bad(f"An integer is beyond {INTEGER_MOST}.", limit=INTEGER_MOST)
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _bad("A number is too large.")
    return number


def _bad(message: str, **details: Any) -> Refusal:
    return Refusal(Code.INVALID_JSON, message, **details)

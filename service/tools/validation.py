"""From what pydantic found wrong to one Refusal: field, limit and a sentence, never the text that was refused."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.contract.data import Json
from service.kit.canonical import INTEGER_MOST
from service.kit.errors import Code, Refusal

ERRORS_MOST = 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KINDS = {
    "string_type": "a string",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "float_type": "a number",
}
_BOUNDS = {
    "string_too_long": ("max_length", "has more than {limit:,} characters"),
    "string_too_short": ("min_length", "has less than {limit:,} characters"),
    "too_long": ("max_length", "has more than {limit:,} items"),
    "too_short": ("min_length", "has less than {limit:,} items"),
    "less_than_equal": ("le", "is more than {limit:,}"),
    "less_than": ("lt", "is not less than {limit:,}"),
    "greater_than_equal": ("ge", "is less than {limit:,}"),
    "greater_than": ("gt", "is not more than {limit:,}"),
}
_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": "is not an argument of this tool",
    "string_pattern_mismatch": "has not the form that the schema gives",
}
M = TypeVar("M", bound=BaseModel)


def errors_of(model: type[M], sent: Json) -> tuple[M | None, list[Json]]:
    """The model, or what is wrong with the arguments: each error with `field`, `message`, and `limit` and `value`.

    Types are those of JSON, strictly: a list is a tuple's form, but no number is a string.

    Raises:
        Refusal: one that a validator raised itself.
    """
    try:
        return model.model_validate_json(json.dumps(sent)), []
    except ValidationError as error:
        return None, [_described(one) for one in error.errors(include_url=False)]


def refuse(errors: list[Json]) -> Refusal:
    """The first error, with all of them (at most 10) under `errors` when there are several."""
    first = errors[0]
    details: dict[str, Any] = {key: value for key, value in first.items() if key != "message"}
    if len(errors) > 1:
        details["errors"] = errors[:ERRORS_MOST]
    return Refusal(Code.INVALID_ARGUMENT, first["message"], **details)


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Say of a refusal of inner arguments where they stand: its fields get this place before them."""
    try:
        yield
    except Refusal as error:
        raise Refusal(error.code, **_placed(error.details | {"message": error.message}, place)) from None


def _placed(told: Json, place: str) -> Json:
    """An error's `field`, the message where it starts with it, and the errors inside."""
    field = str(told.get("field", ""))
    message = told["message"].removeprefix(field)
    full = f"{place}.{field}" if field else place
    inner = {"errors": [_placed(one, place) for one in told["errors"]]} if "errors" in told else {}
    whole = full + message if field and message != told["message"] else told["message"]
    return {**told, **inner, "field": full, "message": whole}


def _described(error: ErrorDetails) -> Json:
    field = _field(error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        return _out_of_bounds(field, *_BOUNDS[kind], error)
    if kind == "literal_error":
        return {"field": field, "message": f"{field} is none of {context['expected']}."}
    sentence = f"is not {_KINDS[kind]}" if kind in _KINDS else _PLAIN.get(kind, "is not valid")
    return {"field": field, "message": f"{field} {sentence}."}


def _out_of_bounds(field: str, key: str, sentence: str, error: ErrorDetails) -> Json:
    limit = error["ctx"][key]
    described = {"field": field, "message": f"{field} {sentence.format(limit=limit)}.", "limit": limit}
    value = error["input"] if isinstance(error["input"], int) else len(error["input"])
    return described | ({"value": value} if abs(value) <= INTEGER_MOST else {})


def _field(place: tuple[int | str, ...]) -> str:
    """`files[3].content`. A name that a caller made up is shown only when it is harmless."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _NAME.fullmatch(part) else "?")
    return text or "arguments"

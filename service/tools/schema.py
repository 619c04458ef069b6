"""JSON Schemas that every host takes: no references, no unions, no formats, nothing unknown allowed.

Measured on hosts: one `$ref` or top-level `oneOf` in one tool fails the whole catalogue (PROTOCOL, Reports).
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel

from service.contract.data import Json

FORBIDDEN = ("$ref", "$defs", "oneOf", "anyOf", "allOf", "format", "definitions", "prefixItems", "discriminator")
_made: dict[tuple[type[BaseModel], str], Json] = {}
_NOISE = frozenset({"title", "$defs", "format"})


def portable_schema(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> Json:
    """The model's schema with references put in place and an optional field shown as its plain type.

    It is made once and shared: whoever adds to it makes a copy.
    """
    if (model, mode) not in _made:
        schema = model.model_json_schema(mode=mode)
        plain: Json = _plain(schema, schema.get("$defs", {}))
        plain.pop("description", None)  # the tool's own says more
        _made[model, mode] = plain
    return _made[model, mode]


def faults(schema: Json) -> list[str]:
    """What is not portable in a schema, each with its place; empty when all is well."""
    found = [] if schema.get("type") == "object" else ["/: the root is not an object"]
    for place, node in _nodes(schema, ""):
        found += [f"{place}: {word} is used" for word in FORBIDDEN if word in node]
        if "properties" in node and node.get("additionalProperties") is not False:
            found.append(f"{place}: unknown fields are not refused")
        if "type" not in node and "const" not in node and "enum" not in node:
            found.append(f"{place}: there is no type")
    return found


def _plain(node: Any, defs: Json) -> Any:
    if isinstance(node, list):
        return [_plain(inner, defs) for inner in node]
    if not isinstance(node, dict):
        return node
    node = _resolved(node, defs)
    return {
        key: {name: _plain(inner, defs) for name, inner in value.items()}
        if key == "properties"
        else _plain(value, defs)
        for key, value in node.items()
        if key not in _NOISE and not (key == "default" and value is None)
    }


def _resolved(node: Json, defs: Json) -> Json:
    """The node without a reference and without the null of an optional field; its own words win."""
    outer = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
    if "$ref" in node:
        inner = _resolved(defs[node["$ref"].rpartition("/")[2]], defs)
        return {**inner, **outer}
    choices = [choice for choice in node.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        return {**_resolved(choices[0], defs), **outer}
    return node


def _nodes(schema: Json, place: str) -> Iterator[tuple[str, Json]]:
    yield place or "/", schema
    for name, inner in schema.get("properties", {}).items():
        yield from _nodes(inner, f"{place}/{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _nodes(schema[key], f"{place}/{key}")

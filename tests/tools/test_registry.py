"""The registry finds tools by file and refuses a bad one before the first call."""

from types import ModuleType
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from service.contract.ports import Answer, Arguments
from service.kit.errors import Code, Refusal
from service.tools.registry import BadTool, Registry, ToolEntry, discover, entry_of
from service.tools.schema import faults, portable_schema
from service.tools.validation import errors_of, refuse


class Plain(Answer):
    """An answer."""

    ok: bool


def tool(**changed: Any) -> Any:
    parts = {
        "name": "look",
        "title": "Look",
        "description": "Looks.",
        "scope": "repo:read",
        "toolset": "core",
        "read_only": True,
        "destructive": False,
        "idempotent": True,
        "arguments": Arguments,
        "answer": Plain,
        "run": lambda _self, _arguments, _ports: None,
        **changed,
    }
    return type("Look", (), {name: part for name, part in parts.items() if part is not None})()


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(f"service.tools.read.{name}")
    made.__dict__.update(content)
    return made


def test_a_file_gives_its_tool() -> None:
    assert entry_of(module("look", TOOL=tool())).name == "look"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("look", {}, "exposes not exactly one"),
        (
            "look",
            {"TOOL": tool(), "OPERATION": next(one.operation for one in discover() if hasattr(one, "operation"))},
            "one",
        ),
        ("other", {"TOOL": tool()}, "another name"),
        ("look", {"TOOL": tool(title=None)}, "lacks title"),
        ("look", {"TOOL": tool(run=None)}, "lacks run"),
        ("look", {"OPERATION": tool()}, "lacks divisible, examples, kind"),
    ],
)
def test_a_file_that_gives_none_is_refused(file: str, content: dict[str, Any], said: str) -> None:
    with pytest.raises(BadTool, match=said):
        entry_of(module(file, **content))


@pytest.mark.parametrize("name", ["Look", "look.at", "look-at", "1look", "l" * 41, "", "look\n"])
def test_a_name_that_some_host_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(BadTool, match="no name"):
        Registry([ToolEntry(tool(name=name))])


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(BadTool, match="twice"):
        Registry([ToolEntry(tool()), ToolEntry(tool())])


class Either(Arguments):
    """A union has no plain type."""

    either: str | int


class Open(BaseModel):
    """What is not known passes."""

    a: int


class Opened(Arguments):
    """An open object inside."""

    inner: Open


@pytest.mark.parametrize("arguments", [Either, Opened])
def test_a_schema_that_is_not_portable_is_refused(arguments: type[Arguments]) -> None:
    with pytest.raises(BadTool, match="not portable"):
        Registry([ToolEntry(tool(arguments=arguments))])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "oneOf": []},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "string", "format": "uuid"}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "string"}], "type": "string"}}},
            "additionalProperties": False,
        },
    ],
)
def test_what_is_not_portable_is_found_at_any_depth(schema: dict[str, Any]) -> None:
    assert faults(schema)


class Inner(BaseModel):
    """An inner object."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Annotated[str, Field(max_length=3, description="Text.")]
    mode: Annotated[str | None, Field(pattern="^[0-7]{6}$")] = None


class Outer(Arguments):
    """An outer object, which says more than its inner."""

    files: Annotated[tuple[Inner, ...], Field(min_length=1, max_length=2)]
    first: Annotated[Inner | None, Field(description="The first.")] = None
    count: Annotated[int, Field(ge=1, le=5)] = 1


def test_optional_fields_and_inner_objects_are_shown_plainly() -> None:
    schema = portable_schema(Outer, "validation")
    assert faults(schema) == []
    inner = schema["properties"]["files"]["items"]
    assert inner["properties"]["mode"] == {"type": "string", "pattern": "^[0-7]{6}$"}
    assert schema["properties"]["first"]["description"] == "The first."
    assert schema["properties"]["first"]["properties"] == inner["properties"]
    assert schema["required"] == ["files"]


@pytest.mark.parametrize(
    ("sent", "field", "limit", "value"),
    [
        ({"files": [{"content": "a"}, {"content": "abcd"}]}, "files[1].content", 3, 4),
        ({"files": []}, "files", 1, 0),
        ({"files": [{"content": "a"}] * 3}, "files", 2, 3),
        ({"files": [{"content": "a"}], "count": 0}, "count", 1, 0),
        ({"files": [{"content": "a"}], "count": 10**9}, "count", 5, 10**9),
        ({"files": [{"content": "a"}], "count": 10**30}, "count", 5, None),
        ({"files": [{"content": "a"}], "count": "1"}, "count", None, None),
        ({"files": [{}]}, "files[0].content", None, None),
        ({"files": [{"content": "a", "mode": "9"}]}, "files[0].mode", None, None),
        ({"files": [{"content": "a", "x": 1}]}, "files[0].x", None, None),
        ({"files": [{"content": "a", "<b>": 1}]}, "files[0].?", None, None),
        ({"files": "a"}, "files", None, None),
        ({}, "files", None, None),
    ],
)
def test_an_error_names_its_place_and_its_limit(sent: Any, field: str, limit: int | None, value: int | None) -> None:
    _, errors = errors_of(Outer, sent)
    refusal = refuse(errors)
    assert refusal.code is Code.INVALID_ARGUMENT
    assert refusal.details["field"] == field
    assert refusal.details.get("limit") == limit
    assert refusal.details.get("value") == value
    assert refusal.message.startswith(field)


def test_many_errors_are_told_ten_at_most() -> None:
    _, errors = errors_of(Outer, {f"x{number}": 1 for number in range(50)})
    refusal = refuse(errors)
    assert refusal.details["field"] == "files"
    assert len(refusal.details["errors"]) == 10


class Judged(Arguments):
    """A validator of ours that refuses."""

    path: str

    def model_post_init(self, _context: Any) -> None:
        raise Refusal(Code.PATH_REJECTED, "No.", field="path")


def test_a_refusal_of_our_own_passes_through_as_it_is() -> None:
    with pytest.raises(Refusal) as refused:
        errors_of(Judged, {"path": "x"})
    assert (refused.value.code, refused.value.details) == (Code.PATH_REJECTED, {"field": "path"})

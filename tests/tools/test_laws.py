"""Laws that every tool keeps, whichever there are."""

import ast
import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.contract.answers import ProposalAnswer
from service.contract.ports import Ports
from service.kit.actor import Actor
from service.kit.errors import Refusal
from service.tools.registry import NAME, Entry, catalogue_text, discover
from service.tools.schema import faults
from tests.good_arguments import GOOD

ROOT = Path(__file__).parent.parent.parent
REGISTRY = discover()
ENTRIES = list(REGISTRY)
CATALOGUE = {one["name"]: one for one in REGISTRY.catalogue()}
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
MOST_TOOLS = 15

every_tool = pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one.name)


class Reached(Exception):
    """The arguments were accepted, and the tool asked for something."""


class Wall:
    """Ports behind which there is nothing: whoever gets this far has validated what was sent."""

    def __getattr__(self, name: str) -> Any:
        raise Reached(name)


ACTOR = Actor("agent", UUID(int=1), UUID(int=2), "Claude", frozenset({"repo:read", "repo:propose"}))
WALL = Ports(ACTOR, Wall(), Wall(), Wall(), Wall(), Wall(), asyncio.to_thread)  # type: ignore[arg-type]


def call(entry: Entry, sent: dict[str, Any]) -> BaseException | None:
    """What a call with these arguments ends in; it stops at the wall before it waits for anything."""
    try:
        entry.call(sent, WALL).send(None)
    except Exception as error:  # noqa: BLE001  the law is about which it is
        return error
    return None


def nodes(schema: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield place, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{place}/{name}")
    if isinstance(schema.get("items"), dict):
        yield from nodes(schema["items"], f"{place}/*")


def test_the_committed_catalogue_is_the_one_that_is_served() -> None:
    assert (ROOT / "openapi" / "tools.json").read_text() == catalogue_text(discover())


def test_the_order_is_the_same_every_time_and_the_catalogue_is_small() -> None:
    assert [one["name"] for one in REGISTRY.catalogue()] == sorted(CATALOGUE)
    assert len(REGISTRY.catalogue({"core"})) <= MOST_TOOLS


@every_tool
def test_every_schema_is_portable_and_valid(entry: Entry) -> None:
    for side in ("inputSchema", "outputSchema"):
        schema = CATALOGUE[entry.name][side]
        assert faults(schema) == []
        jsonschema.Draft202012Validator.check_schema(schema)


@every_tool
def test_every_tool_says_all_that_a_host_shows(entry: Entry) -> None:
    listed = CATALOGUE[entry.name]
    assert NAME.fullmatch(listed["name"])
    assert listed["title"]
    assert listed["description"]
    assert set(listed["annotations"]) >= HINTS
    assert all(isinstance(listed["annotations"][hint], bool) for hint in HINTS)
    assert listed["securitySchemes"] == listed["_meta"]["securitySchemes"]
    assert listed["securitySchemes"] == [{"type": "oauth2", "scopes": [entry.scope]}]


@every_tool
def test_only_a_tool_that_reads_is_called_so(entry: Entry) -> None:
    assert CATALOGUE[entry.name]["annotations"]["readOnlyHint"] == (entry.scope == "repo:read")


@every_tool
def test_every_argument_is_described_and_bounded(entry: Entry) -> None:
    for place, node in nodes(CATALOGUE[entry.name]["inputSchema"]):
        if place and not place.endswith("/*"):
            assert node.get("description"), place
        kind = node["type"]
        if kind == "string":
            fixed = re.fullmatch(r"\^[^*+,]*\$", node.get("pattern", ""))
            assert "maxLength" in node or "enum" in node or fixed, place
        elif kind == "array":
            assert "maxItems" in node, place
        elif kind in {"integer", "number"}:
            assert {"minimum", "maximum"} <= set(node), place


@every_tool
def test_a_description_gives_the_model_no_orders(entry: Entry) -> None:
    words = CATALOGUE[entry.name]["description"].lower()
    assert not re.search(r"\b(you must|you should|always|never|important|ignore|please)\b", words)


@every_tool
def test_an_unknown_argument_is_refused_by_name(entry: Entry) -> None:
    error = call(entry, {"_confirmed": True, "approve": True})
    assert isinstance(error, Refusal)
    fields = {one["field"] for one in error.details.get("errors", [error.details])}
    assert {"_confirmed", "approve"} <= fields


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # what the wire lets through: no NUL, no lone surrogate
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@every_tool
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(data=st.data())
def test_whatever_is_sent_is_refused_or_runs(entry: Entry, data: st.DataObject) -> None:
    schema = CATALOGUE[entry.name]["inputSchema"]
    sent = {name: value for name, value in GOOD.items() if name in schema["properties"]}
    for name in data.draw(st.lists(st.sampled_from(sorted(schema["properties"])), max_size=3)):
        sent[name] = data.draw(JSON)
    error = call(entry, sent)
    assert isinstance(error, (Refusal, Reached)), error
    if isinstance(error, Refusal):
        assert error.details["field"]
        json.dumps(error.body()).encode()


@every_tool
def test_what_the_schema_asks_for_runs(entry: Entry) -> None:
    schema = CATALOGUE[entry.name]["inputSchema"]
    sent = {name: GOOD[name] for name in schema["required"]} if "required" in schema else {}
    jsonschema.validate(sent, schema)
    assert isinstance(call(entry, sent), Reached)


@dataclass
class Builder:
    """Makes a value of a JSON Schema, whole or with nothing that may be left out."""

    whole: bool

    def make(self, schema: dict[str, Any]) -> Any:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        return getattr(self, schema["type"])(schema)

    def object(self, schema: dict[str, Any]) -> Any:
        wanted = schema.get("properties", {}) if self.whole else schema.get("required", [])
        return {name: self.make(schema["properties"][name]) for name in wanted}

    def array(self, schema: dict[str, Any]) -> Any:
        return [self.make(schema["items"])] if self.whole else []

    def string(self, _schema: dict[str, Any]) -> str:
        return "x"

    def integer(self, schema: dict[str, Any]) -> int:
        return int(schema.get("minimum", 1))

    def boolean(self, _schema: dict[str, Any]) -> bool:
        return True


@every_tool
@pytest.mark.parametrize("whole", [True, False])
def test_every_answer_conforms_to_its_schema(entry: Entry, whole: bool) -> None:
    schema = CATALOGUE[entry.name]["outputSchema"]
    answer = entry.answer.model_validate(Builder(whole).make(schema))
    jsonschema.validate(answer.model_dump(mode="json", exclude_none=True), schema)


def test_every_tool_about_a_proposal_answers_in_one_shape() -> None:
    about = {"propose_file_import", "read_proposal", "cancel_proposal"}
    assert all(entry.answer is ProposalAnswer for entry in ENTRIES if entry.name in about)


@pytest.mark.parametrize("path", sorted((ROOT / "service/tools").glob("*/*.py")), ids=lambda one: one.name)
def test_a_tool_knows_the_contract_and_the_kit_only(path: Path) -> None:
    found = ast.walk(ast.parse(path.read_text()))
    names = [node.module or "" for node in found if isinstance(node, ast.ImportFrom)]
    own = [name for name in names if name.startswith("service")]
    assert all(name.startswith(("service.contract.", "service.kit.")) for name in own), own

"""The one place that knows all tools: it finds them by file, refuses a bad one at start, and calls them by name."""

import json
import pkgutil
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, Protocol, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from service.contract.answers import ProposalAnswer
from service.contract.data import Json
from service.contract.operation import SERVERS_KEYS, Composed, Operation, Toolset
from service.contract.ports import Answer, Ports, Scope, Tool
from service.kit.errors import Code, Refusal
from service.tools import propose, read
from service.tools.schema import faults, portable_schema
from service.tools.validation import errors_of, placed, refuse

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
KEY = "idempotency_key"
SHARED = ("repository_id", "reason", "group_id", KEY)
"""What a step has no say in: it is the whole plan's."""
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)


class BadTool(Exception):
    """A tool cannot be offered: a mistake in its file, found at start."""


def _own_key(key: str) -> str:
    if key.casefold().startswith(SERVERS_KEYS):
        message = f"Keys that begin with {SERVERS_KEYS} are the service's own."
        raise Refusal(Code.INVALID_ARGUMENT, message, field=KEY, rule="prefix")
    return key


class Keyed(BaseModel):
    """What every propose tool takes besides its own arguments."""

    model_config = ConfigDict(frozen=True, strict=True)

    idempotency_key: Annotated[
        str,
        Field(
            min_length=8,
            max_length=128,
            pattern=r"^[ -~]+$",
            description="A name you choose for this request, 8 to 128 printable ASCII characters. Sent again with the "
            "same arguments it gives the same proposal; with other arguments it is refused.",
        ),
        AfterValidator(_own_key),
    ]


class Entry(Protocol):
    """A tool as the endpoint lists and calls it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def toolset(self) -> Toolset: ...
    @property
    def hints(self) -> Json: ...
    @property
    def input_schema(self) -> Json: ...
    @property
    def answer(self) -> type[Answer]: ...
    async def call(self, sent: Json, ports: Ports) -> Answer:
        """Validate what was sent, and run.

        Raises:
            Refusal: for arguments that do not fit (INVALID_ARGUMENT with `field`), and whatever the tool refuses.
        """


@dataclass(frozen=True)
class ToolEntry:
    """A tool that reads, or that withdraws."""

    tool: Tool[Any]

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def title(self) -> str:
        return self.tool.title

    @property
    def description(self) -> str:
        return self.tool.description

    @property
    def scope(self) -> Scope:
        return self.tool.scope

    @property
    def toolset(self) -> Toolset:
        return self.tool.toolset

    @property
    def hints(self) -> Json:
        return _hints(self.tool.read_only, self.tool.destructive, self.tool.idempotent)

    @property
    def input_schema(self) -> Json:
        return portable_schema(self.tool.arguments, "validation")

    @property
    def answer(self) -> type[Answer]:
        return self.tool.answer

    async def call(self, sent: Json, ports: Ports) -> Answer:
        arguments, errors = errors_of(self.tool.arguments, sent)
        if arguments is None:
            raise refuse(errors)
        return await self.tool.run(arguments, ports)


@dataclass(frozen=True)
class ProposeEntry:
    """An operation as a tool: its request and the key in, a proposal out. It only adds a proposal."""

    operation: Operation[Any]
    scope: Scope = "repo:propose"
    answer: type[Answer] = ProposalAnswer

    @property
    def name(self) -> str:
        return self.operation.kind

    @property
    def title(self) -> str:
        return self.operation.title

    @property
    def description(self) -> str:
        return self.operation.description

    @property
    def toolset(self) -> Toolset:
        return self.operation.toolset

    @property
    def hints(self) -> Json:
        return _hints(False, False, True)

    @property
    def input_schema(self) -> Json:
        own, keyed = (portable_schema(model, "validation") for model in (self.operation.request, Keyed))
        return {
            **own,
            "properties": {**own["properties"], **keyed["properties"]},
            "required": [*own["required"], KEY],
        }

    async def call(self, sent: Json, ports: Ports) -> Answer:
        body = {name: value for name, value in sent.items() if name != KEY}
        keyed, key_errors = errors_of(Keyed, {name: value for name, value in sent.items() if name == KEY})
        request, errors = errors_of(self.operation.request, body)
        if keyed is None or request is None:
            raise refuse([*errors, *key_errors])
        answer = await ports.proposals.submit(self.operation, request, keyed.idempotency_key, body)
        return ProposalAnswer.model_validate(answer)


@dataclass(frozen=True)
class StepReader:
    """Reads the steps of an operation that is made of others; `operations` are those, by kind."""

    operations: Mapping[str, Operation[Any]]

    def read(
        self, kind: str, arguments: Json, repository_id: str, reason: str, field: str
    ) -> tuple[Operation[Any], Any]:
        """See the contract's `Steps`."""
        operation = self.operations.get(kind)
        if operation is None:
            kinds = sorted(self.operations)
            message = f"{field}.kind is none of {', '.join(kinds)}."
            raise Refusal(Code.INVALID_ARGUMENT, message, field=f"{field}.kind", kinds=kinds)
        place = f"{field}.arguments"
        if taken := [name for name in SHARED if name in arguments]:
            name = f"{place}.{taken[0]}"
            raise Refusal(Code.INVALID_ARGUMENT, f"{name} is not an argument of a step.", field=name)
        with placed(place):
            sent = {**arguments, "repository_id": repository_id, "reason": reason}
            request, errors = errors_of(operation.request, sent)
            if request is None:
                raise refuse(errors)
            return operation, request


class Registry:
    """The tools by name, in the order of their names.

    Args:
        entries: the tools.

    Raises:
        BadTool: a name or a schema that some host would refuse, or a name twice.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: dict[str, Entry] = {}
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.name in self._entries:
                raise BadTool(f"{entry.name} is there twice")
            _check(entry)
            self._entries[entry.name] = entry

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def operations(self) -> dict[str, Operation[Any]]:
        """The operations by kind."""
        return {entry.name: entry.operation for entry in self if isinstance(entry, ProposeEntry)}

    def find(self, name: str) -> Entry | None:
        """The tool with this name."""
        return self._entries.get(name)

    def catalogue(self, toolsets: Collection[Toolset] = TOOLSETS) -> list[Json]:
        """What `tools/list` shows of these toolsets; `openapi/tools.json` holds all of them."""
        return [_listed(entry) for entry in self if entry.toolset in toolsets]


def catalogue_text(registry: Registry) -> str:
    """The content of `openapi/tools.json`, which a test compares, so that a changed tool is a change a person reads."""
    return json.dumps({"tools": registry.catalogue()}, indent=2, ensure_ascii=False) + "\n"


def discover() -> Registry:
    """Every tool in `tools/read` and `tools/propose`, one file each; what is made of others knows these."""
    registry = Registry(
        entry_of(import_module(f"{package.__name__}.{found.name}"))
        for package in (read, propose)
        for found in pkgutil.iter_modules(package.__path__)
    )
    operations = registry.operations()
    plain = {kind: operation for kind, operation in operations.items() if not isinstance(operation, Composed)}
    for operation in operations.values():
        if isinstance(operation, Composed):
            operation.compose(StepReader(plain))
    return registry


def entry_of(module: ModuleType) -> Entry:
    """The tool that a file exposes as `TOOL`, or the operation that it exposes as `OPERATION`.

    Raises:
        BadTool: neither or both, a missing part, or a name that is not the file's.
    """
    file = module.__name__.rpartition(".")[2]
    found: list[Entry] = []
    if (tool := getattr(module, "TOOL", None)) is not None:
        found.append(ToolEntry(_with_parts(file, tool, Tool)))
    if (operation := getattr(module, "OPERATION", None)) is not None:
        found.append(ProposeEntry(_with_parts(file, operation, Operation)))
    if len(found) != 1:
        raise BadTool(f"{file} exposes not exactly one TOOL or OPERATION")
    if found[0].name != file:
        raise BadTool(f"{file} holds a tool of another name")
    return found[0]


def _with_parts(file: str, given: Any, protocol: type) -> Any:
    parts = {*protocol.__annotations__, *(name for name in vars(protocol) if not name.startswith("_"))}
    if missing := sorted(name for name in parts if not hasattr(given, name)):
        raise BadTool(f"{file} lacks {', '.join(missing)}")
    return given


def _check(entry: Entry) -> None:
    if not NAME.fullmatch(entry.name):
        raise BadTool(f"{entry.name} is no name that every host takes")
    schemas = {"input": entry.input_schema, "output": portable_schema(entry.answer, "serialization")}
    for side, schema in schemas.items():
        if found := faults(schema):
            raise BadTool(f"the {side} schema of {entry.name} is not portable: {'; '.join(found)}")


def _hints(read_only: bool, destructive: bool, idempotent: bool) -> Json:
    return {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": False,
    }


def _listed(entry: Entry) -> Json:
    security = [{"type": "oauth2", "scopes": [entry.scope]}]
    return {
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "inputSchema": entry.input_schema,
        "outputSchema": portable_schema(entry.answer, "serialization"),
        "annotations": {"title": entry.title, **entry.hints},
        "securitySchemes": security,
        "_meta": {"securitySchemes": security},
    }

"""Git's own facts as frozen values: object ids, tree entries, commits, and what differs between two trees."""

from typing import Annotated, Any, NewType

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from service.contract.names import quote_path, unquote_path

Json = dict[str, Any]

Oid = NewType("Oid", str)
"""An object id: 40 lower-case hexadecimal digits."""

Draft = NewType("Draft", Oid)
"""A provisional id of an object that is not built yet: readable, never shown, never in an intent."""

NULL = Oid("0" * 40)
"""The null object id: absent."""

Raw = Annotated[
    bytes,
    BeforeValidator(lambda value: unquote_path(value, "bytes") if isinstance(value, str) else value),
    PlainSerializer(quote_path, return_type=str, when_used="json"),
]
"""Bytes that Git does not promise to be UTF-8 (paths, names, messages); C-quoted in JSON where they are not plain."""


class Data(BaseModel):
    """A frozen value that refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Entry(Data):
    """What a tree holds at a path. `mode` is Git's number (0o100644, 0o100755, 0o120000, 0o160000, 0o040000)."""

    mode: int
    oid: Oid


class Commit(Data):
    """A commit that exists. `author` and `committer` are whole identity lines: name, mail, seconds, zone. `encoding` is
    what it says its message is written in; empty is UTF-8.
    """

    tree: Oid
    parents: tuple[Oid, ...]
    author: Raw
    committer: Raw
    message: Raw
    encoding: Raw = b""


class Change(Data):
    """One path that differs between two trees; `old` or `new` is None where the path does not exist."""

    path: Raw
    old: Entry | None
    new: Entry | None


class LineCount(Data):
    """How many lines a change adds and removes; None for content that is not text."""

    added: int
    removed: int

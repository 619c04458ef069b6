"""Cursors open only for the query, the connection and the tenant that they were sealed for. [M12, M13]"""

import base64
from uuid import UUID

import pytest

from service.edge.mcp.cursors import MAC_BYTES, SignedCursors
from service.kit.actor import Actor
from service.kit.errors import Code, Refusal

SECRET = bytes(range(32))
ACTOR = Actor("agent", UUID(int=1), UUID(int=2), "Claude")
QUERY = {"tool": "list", "state": "pending"}
POSITION = {"after": "ä", "line": 3}


def cursors(actor: Actor = ACTOR, secret: bytes = SECRET) -> SignedCursors:
    return SignedCursors(secret, actor)


def refused(opened: SignedCursors, query: dict[str, str], cursor: str) -> None:
    with pytest.raises(Refusal) as found:
        opened.open(query, cursor)
    assert found.value.code is Code.INVALID_CURSOR
    assert found.value.details == {"field": "cursor"}


def test_a_cursor_gives_its_position_back() -> None:
    assert cursors().open(QUERY, cursors().seal(QUERY, POSITION)) == POSITION


def test_a_cursor_of_another_query_connection_tenant_or_secret_is_refused() -> None:
    cursor = cursors().seal(QUERY, POSITION)
    refused(cursors(), {**QUERY, "state": "executed"}, cursor)
    refused(cursors(), {"tool": "list"}, cursor)
    refused(cursors(Actor("agent", UUID(int=1), UUID(int=3), "Claude")), QUERY, cursor)
    refused(cursors(Actor("agent", UUID(int=9), UUID(int=2), "Claude")), QUERY, cursor)
    refused(cursors(secret=bytes(32)), QUERY, cursor)


def test_a_cursor_with_any_character_changed_is_refused() -> None:
    cursor = cursors().seal(QUERY, POSITION)
    for index, letter in enumerate(cursor):
        refused(cursors(), QUERY, cursor[:index] + ("A" if letter != "A" else "B") + cursor[index + 1 :])
        refused(cursors(), QUERY, cursor[:index])


def test_a_position_with_a_mac_of_another_is_refused() -> None:
    raw = base64.urlsafe_b64decode(cursors().seal(QUERY, {"after": "x"}) + "==")
    forged = raw[:MAC_BYTES] + b'{"after":"y"}'
    refused(cursors(), QUERY, base64.urlsafe_b64encode(forged).rstrip(b"=").decode())


@pytest.mark.parametrize("cursor", ["", "x", "!", "ä", "=", "A" * 20_000, "a b", "\n", "null", "AA=="])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    refused(cursors(), QUERY, cursor)

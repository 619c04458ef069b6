"""Signed positions in a listing. They are no secret and no authority: they only say where the caller was."""

import base64
import binascii
import hmac
import json
from dataclasses import dataclass

from service.contract.data import Json
from service.contract.paging import CURSOR_MOST
from service.kit.actor import Actor
from service.kit.canonical import canonical
from service.kit.errors import Code, Refusal

MAC_BYTES = 32
_PURPOSE = b"placet cursor 1"


@dataclass(frozen=True)
class SignedCursors:
    """Cursors of one actor: HMAC-SHA256 (RFC 2104) over tenant, actor, query and position, then base64url.

    Args:
        secret: 32 random bytes that every web process shares.
        actor: whose cursors these are; nobody else's open.
    """

    secret: bytes
    actor: Actor

    def seal(self, query: Json, position: Json) -> str:
        """The position as a cursor for this query."""
        body = canonical(position)
        return base64.urlsafe_b64encode(self._mac(query, body) + body).rstrip(b"=").decode()

    def open(self, query: Json, cursor: str) -> Json:
        """The position that was sealed for this query.

        Raises:
            Refusal: INVALID_CURSOR when it was changed, or belongs to another query, connection or tenant.
        """
        raw = _decoded(cursor)
        mac, body = raw[:MAC_BYTES], raw[MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(query, body)):
            raise _refused()
        position: Json = json.loads(body)
        return position

    def _mac(self, query: Json, body: bytes) -> bytes:
        key = hmac.digest(self.secret, _PURPOSE, "sha256")
        bound = canonical({"tenant": str(self.actor.tenant), "actor": str(self.actor.id), "query": query})
        return hmac.digest(key, len(bound).to_bytes(8) + bound + body, "sha256")


def _decoded(cursor: str) -> bytes:
    if len(cursor) > CURSOR_MOST or not cursor.isascii():
        raise _refused()
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _refused() from None
    # One position has one spelling: padding bits and the other alphabet are no cursor of ours.
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != cursor:
        raise _refused()
    return raw


def _refused() -> Refusal:
    return Refusal(Code.INVALID_CURSOR, "This cursor is not one for these arguments.", field="cursor")

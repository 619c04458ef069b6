"""Webhooks, as Standard Webhooks signs them (github.com/standard-webhooks/standard-webhooks, spec 1.0): ids and a link,
never what was proposed.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from service.kit.errors import Refusal
from service.kit.outgoing import Outgoing
from service.kit.sealed import derived_secret
from service.publish.channel import Undelivered
from service.publish.words import Event, News, link_to

_GONE: Final = 410


@dataclass(frozen=True)
class Webhooks:
    """Sends to the addresses that owners named. `secret` is the service's; that of each webhook follows from it."""

    secret: bytes
    issuer: str
    outgoing: Outgoing

    def shown_secret(self, tenant: UUID, webhook: UUID) -> str:
        """What the receiver checks signatures with."""
        return f"whsec_{base64.b64encode(self._secret(tenant, webhook)).decode()}"

    async def send(self, url: str, webhook: UUID, delivery: UUID, event: Event, news: News, now: datetime) -> None:
        """Send one event. The same delivery has the same id, however often it is sent.

        Raises:
            Undelivered: the receiver did not answer with success.
        """
        body = json.dumps(
            {
                "type": f"proposal.{event}",
                "timestamp": now.isoformat(timespec="seconds"),
                "data": {
                    "tenant_id": str(news.tenant),
                    "project_id": str(news.project_id),
                    "repository_id": str(news.repository_id),
                    "proposal_id": str(news.proposal),
                    "state": news.state,
                    "link": link_to(self.issuer, news.tenant, news.proposal),
                },
            },
            separators=(",", ":"),
        ).encode()
        headers = signed(self._secret(news.tenant, webhook), str(delivery), int(now.timestamp()), body)
        try:
            reply = await self.outgoing.send("POST", url, headers=headers, content=body)
        except Refusal as refusal:
            raise Undelivered(refusal.message) from None
        if reply.status == _GONE:
            raise Undelivered("The receiver says that it is gone (410).", gone=True)
        if not 200 <= reply.status < 300:  # noqa: PLR2004  success
            raise Undelivered(f"The receiver answered {reply.status}.")

    def _secret(self, tenant: UUID, webhook: UUID) -> bytes:
        return derived_secret(self.secret, f"placet: webhook {tenant} {webhook}, 1")


def signed(secret: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a signed body: HMAC-SHA256 over id, time in seconds, and body."""
    mac = hmac.digest(secret, b"%s.%d.%s" % (message_id.encode(), timestamp, body), hashlib.sha256)
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }

"""Web Push: encrypted for one browser (RFC 8291), signed as this service (VAPID, RFC 8292)."""

import base64
import binascii
import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02

from service.kit.errors import Refusal
from service.kit.outgoing import Outgoing
from service.kit.sealed import derived_secret
from service.publish.channel import Undelivered
from service.publish.words import Message

TTL_SECONDS: Final = 86_400
TOKEN_SECONDS: Final = 3_600
LINES_MOST: Final = 300
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the group of P-256 (FIPS 186-5): private keys are 1 to this, less one."""
_POINT, _SALT = 65, 16
_GONE: Final = frozenset({404, 410})


@dataclass(frozen=True)
class Browser:
    """A push subscription, as the browser gave it; the keys are base64url."""

    endpoint: str
    p256dh: str
    auth: str

    def keys(self) -> tuple[bytes, bytes]:
        """The public key (65 bytes, on the curve) and the shared secret (16 bytes).

        Raises:
            ValueError: they are no such keys.
        """
        point, salt = decode(self.p256dh), decode(self.auth)
        if len(point) != _POINT or len(salt) != _SALT:
            raise ValueError("these are not the keys of a push subscription")
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        return point, salt


@dataclass(frozen=True)
class Push:
    """Sends to browsers. `secret` is the service's; the VAPID key follows from it."""

    secret: bytes
    issuer: str
    outgoing: Outgoing

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        derived = int.from_bytes(derived_secret(self.secret, "placet: web push, 1"))
        return ec.derive_private_key(derived % (_ORDER - 1) + 1, ec.SECP256R1())

    @property
    def public_key(self) -> str:
        """What a browser subscribes with, base64url."""
        return encode(self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    async def send(self, to: Browser, message: Message, topic: UUID) -> None:
        """Send to one browser. Of two that carry the same topic it keeps the newer.

        Raises:
            Undelivered: the push service did not take it.
        """
        body = json.dumps(
            {
                "title": message.subject,
                "body": message.lines[0][:LINES_MOST],
                "link": message.link,
                "tag": str(topic),
            }
        ).encode()
        try:
            reply = await self.outgoing.send(
                "POST", to.endpoint, headers=self._headers(to, topic), content=self._sealed(to, body)
            )
        except Refusal as refusal:
            raise Undelivered(refusal.message) from None
        if reply.status in _GONE:
            raise Undelivered("The browser does not want to be notified any more.", gone=True)
        if not 200 <= reply.status < 300:  # noqa: PLR2004  success
            raise Undelivered(f"The browser's push service answered {reply.status}.")

    def _sealed(self, to: Browser, body: bytes) -> bytes:
        point, shared = to.keys()
        own = ec.generate_private_key(ec.SECP256R1())
        sealed: bytes = http_ece.encrypt(body, private_key=own, dh=point, auth_secret=shared, version="aes128gcm")
        return sealed

    def _headers(self, to: Browser, topic: UUID) -> dict[str, str]:
        parts = urlsplit(to.endpoint)
        by = f"mailto:placet@{urlsplit(self.issuer).hostname}"
        claims = {"aud": f"{parts.scheme}://{parts.netloc}", "sub": by, "exp": int(time.time()) + TOKEN_SECONDS}
        signed: dict[str, str] = Vapid02(self._key).sign(claims)
        return {
            "authorization": signed["Authorization"],
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(TTL_SECONDS),
            "topic": topic.hex,  # 32 characters of base64url at most (RFC 8030, section 5.4)
            "urgency": "normal",
        }


def encode(raw: bytes) -> str:
    """Bytes as base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of base64url, padded or not. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("this is not base64url") from None

"""A software authenticator: real keys, real CBOR, and every way to get an answer wrong."""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def data(given: str) -> bytes:
    return base64.urlsafe_b64decode(given + "=" * (-len(given) % 4))


@dataclass
class Authenticator:
    """One passkey; `counts` False: as synchronised ones, it always says 0."""

    origin: str
    es256: bool = True
    counts: bool = True
    count: int = 0
    flags: int = PRESENT | VERIFIED
    id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    user: bytes = b""
    changes: dict[str, Any] = field(default_factory=dict)  # of the client data

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1()) if self.es256 else ed25519.Ed25519PrivateKey.generate()

    @property
    def rp_id(self) -> str:
        return self.origin.split("//")[1].split(":")[0]

    def make(self, options: dict[str, Any]) -> dict[str, Any]:
        """What `navigator.credentials.create()` gives."""
        self.user = data(options["user"]["id"])
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + self._public()
        statement = {"fmt": "none", "attStmt": {}, "authData": self._data(ATTESTED) + attested}
        response = {
            "clientDataJSON": text(self._client("webauthn.create", options)),
            "attestationObject": text(cbor2.dumps(statement)),
            "transports": ["internal", "nonsense"],
        }
        return {"id": text(self.id), "rawId": text(self.id), "type": "public-key", "response": response}

    def use(self, options: dict[str, Any]) -> dict[str, Any]:
        """What `navigator.credentials.get()` gives."""
        self.count += self.counts
        client, known = self._client("webauthn.get", options), self._data(0)
        signed = known + hashlib.sha256(client).digest()
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            signature = self.key.sign(signed)
        else:
            signature = self.key.sign(signed, ec.ECDSA(SHA256()))
        response = {
            "clientDataJSON": text(client),
            "authenticatorData": text(known),
            "signature": text(signature),
            "userHandle": text(self.user),
        }
        return {"id": text(self.id), "rawId": text(self.id), "type": "public-key", "response": response}

    def _client(self, kind: str, options: dict[str, Any]) -> bytes:
        said = {"type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": False}
        return json.dumps({**said, **self.changes}, separators=(",", ":")).encode()

    def _data(self, more: int) -> bytes:
        head = hashlib.sha256(self.rp_id.encode()).digest() + bytes([self.flags | more])
        return head + (self.count if self.counts else 0).to_bytes(4, "big")

    def _public(self) -> bytes:
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return cbor2.dumps({1: 1, 3: -8, -1: 6, -2: self.key.public_key().public_bytes_raw()})
        point = self.key.public_key().public_numbers()
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")})

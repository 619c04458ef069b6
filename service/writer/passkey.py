"""A browser's authenticator as what signs a commit: its answer to a challenge put into SSH's own format.

The challenge is what is to be signed (`signature.to_be_signed`), so what the authenticator answers is a signature of
the commit, and ssh-keygen verifies it. Sources: OpenSSH PROTOCOL.u2f (webauthn signatures); WebAuthn Level 3, 6.1 and
7.2.
"""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass

import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from service.writer.signature import Reader, wire

KEY_TYPE = b"sk-ecdsa-sha2-nistp256@openssh.com"
SIGNATURE_TYPE = b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
_CURVE = b"nistp256"
_COORDINATE = 32
_POINT = 1 + 2 * _COORDINATE
_DATA_LEAST = 37  # hash of the rp id, flags, counter
_KTY, _ALG, _CRV, _X, _Y = 1, 3, -1, -2, -3  # COSE's labels
PRESENT, VERIFIED = 0x01, 0x04


class BadAssertion(Exception):
    """What an authenticator gave is no signature of what was asked; the message says why, in one sentence."""


@dataclass(frozen=True)
class Passkey:
    """The public half of an owner's ES256 credential.

    Attributes:
        point: 0x04, X and Y.
        rp_id: the host for which it was made.
    """

    point: bytes
    rp_id: str

    @classmethod
    def read(cls, blob: bytes) -> "Passkey":
        """From SSH's wire format. Raises ValueError for any other kind of key."""
        reader = Reader(blob)
        kind, curve, point, rp_id = (reader.string() for _ in range(4))
        reader.end()
        if (kind, curve, len(point), point[:1]) != (KEY_TYPE, _CURVE, _POINT, b"\x04"):
            raise ValueError("this is no key of an authenticator")
        return cls(point, rp_id.decode())

    @classmethod
    def from_cose(cls, cose: bytes, rp_id: str) -> "Passkey | None":
        """From a credential's public key as WebAuthn gives it; None for one that is not ES256 (RFC 9053, 2.1)."""
        key = cbor2.loads(cose)
        if (key.get(_KTY), key.get(_ALG), key.get(_CRV)) != (2, -7, 1):
            return None
        return cls(b"\x04" + key[_X] + key[_Y], rp_id)

    @property
    def blob(self) -> bytes:
        """In SSH's wire format."""
        return wire(KEY_TYPE, _CURVE, self.point, self.rp_id.encode())

    def holds(self, signature: bytes, message: bytes) -> bool:
        """Whether a signature in DER is this key's."""
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), self.point)
        try:
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class Assertion:
    """What an authenticator answered, as the browser gives it.

    Attributes:
        authenticator_data: hash of the rp id, flags, counter, extensions.
        client_data: the JSON that the browser made of challenge and origin.
        signature: ECDSA in DER.
    """

    authenticator_data: bytes
    client_data: bytes
    signature: bytes

    @property
    def counter(self) -> int:
        """How often the authenticator signed; 0 where it does not count, or says too little."""
        data = self.authenticator_data
        return int.from_bytes(data[33:37], "big") if len(data) >= _DATA_LEAST else 0


def challenge(message: bytes) -> str:
    """A message as it stands in the client data: base64url without padding."""
    return base64.urlsafe_b64encode(message).decode().rstrip("=")


def passkey_signature(key: Passkey, origin: str, message: bytes, given: Assertion) -> bytes:
    """The signature in SSH's wire format.

    Args:
        key: the credential that was asked.
        origin: where its owner was asked, such as `https://placet.example.org`.
        message: what was to be signed.
        given: what came back.

    Raises:
        BadAssertion: it is another credential's, of another message, origin or rp id, or nobody was verified.
    """
    data = given.authenticator_data
    if len(data) < _DATA_LEAST:
        raise BadAssertion("The authenticator's data is too short.")
    flags, counter = data[32], struct.unpack_from(">I", data, 33)[0]
    try:
        r, s = decode_dss_signature(given.signature)
    except ValueError:
        raise BadAssertion("The signature cannot be read.") from None
    blob = _signature_blob(r, s, flags, counter, origin.encode(), given.client_data, data[_DATA_LEAST:])
    if data[:32] != _sha256(key.rp_id.encode()):
        raise BadAssertion("The authenticator answered for another host.")
    verify_passkey(key, message, blob, origin)
    return blob


def verify_passkey(key: Passkey, message: bytes, signature: bytes, origin: str | None = None) -> None:
    """Verify a signature in SSH's wire format, as ssh-keygen does, and that the authenticator verified its owner.

    Args:
        key: whose it should be.
        message: what was signed.
        signature: in wire format.
        origin: where it was made; None: anywhere.

    Raises:
        BadAssertion: it does not hold.
    """
    try:
        found = _read_signature(signature)
    except ValueError as error:
        raise BadAssertion(f"The signature cannot be read: {error}.") from None
    if not (found.flags & PRESENT and found.flags & VERIFIED):
        raise BadAssertion("The authenticator did not verify its owner.")
    if origin is not None and found.origin != origin.encode():
        raise BadAssertion("It was made at another address.")
    _check_challenge(found, message)
    signed = _sha256(key.rp_id.encode()) + struct.pack(">BI", found.flags, found.counter) + found.extensions
    if not key.holds(encode_dss_signature(found.r, found.s), signed + _sha256(found.client_data)):
        raise BadAssertion("The signature does not hold.")
    _check_page(found.client_data)


@dataclass(frozen=True)
class _Signature:
    r: int
    s: int
    flags: int
    counter: int
    origin: bytes
    client_data: bytes
    extensions: bytes


def _check_challenge(found: _Signature, message: bytes) -> None:
    """The JSON must begin so, byte for byte: PROTOCOL.u2f. What a browser adds comes after it."""
    start = f'{{"type":"webauthn.get","challenge":"{challenge(message)}","origin":"'.encode() + found.origin + b'"'
    if b'"' in found.origin or not found.client_data.startswith(start):
        raise BadAssertion("Something else was signed.")


def _check_page(client_data: bytes) -> None:
    """Only of what a browser signed: strangers can nest JSON as deep as they like."""
    try:
        said = json.loads(client_data)
    except (ValueError, RecursionError):
        raise BadAssertion("The client data is no JSON.") from None
    if said.get("crossOrigin", False) is not False:
        raise BadAssertion("It was made inside another site's page.")


def _signature_blob(r: int, s: int, flags: int, counter: int, origin: bytes, client: bytes, extensions: bytes) -> bytes:
    numbers = wire(_mpint(r), _mpint(s))
    return wire(SIGNATURE_TYPE, numbers) + struct.pack(">BI", flags, counter) + wire(origin, client, extensions)


def _read_signature(blob: bytes) -> _Signature:
    reader = Reader(blob)
    if reader.string() != SIGNATURE_TYPE:
        raise ValueError("it is of another type")
    numbers = Reader(reader.string())
    r, s = (int.from_bytes(numbers.string(), "big", signed=True) for _ in range(2))
    numbers.end()
    flags, counter = struct.unpack(">BI", reader.take(5))
    origin, client, extensions = (reader.string() for _ in range(3))
    reader.end()
    if r <= 0 or s <= 0:
        raise ValueError("a number is not positive")
    return _Signature(r, s, flags, counter, origin, client, extensions)


def _mpint(number: int) -> bytes:
    """SSH's integers: as many bytes as a leading zero bit needs (RFC 4251, 5)."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()

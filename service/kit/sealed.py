"""Secrets at rest: encrypted with a key that the database never sees, and bound to the one row that they are stored in.

A sealed secret is AES-256-GCM (NIST SP 800-38D), laid out as

    1 byte    the format: 1
    8 bytes   the id of the key that sealed it
    12 bytes  a random nonce
    the rest  ciphertext and tag

Its associated data are format and key id, the tenant's id and the row's: it opens in its own row and in no other.
"""

import os
from dataclasses import dataclass, field
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_FORMAT = b"\x01"
_KEY, _ID, _NONCE = 32, 8, 12
_PURPOSE = b"placet: secrets at rest, 1"


class Unsealable(Exception):
    """What is stored does not open here; the message says why, in one sentence without anything secret."""


@dataclass(frozen=True)
class _Key:
    id: bytes
    cipher: AESGCM = field(repr=False)


class Sealer:
    """Seals with one secret, opens what that one or an older one sealed.

    Args:
        secret: at least 32 random bytes.
        older: secrets that were in force before; what they sealed shall be sealed anew.
    """

    def __init__(self, secret: bytes, *older: bytes) -> None:
        self._key = _key(secret)
        self._ring = {key.id: key for key in (*map(_key, older), self._key)}

    def seal(self, secret: bytes, tenant: UUID, row: UUID) -> bytes:
        """Seal a secret for this row of this tenant."""
        head, nonce = _FORMAT + self._key.id, os.urandom(_NONCE)
        return head + nonce + self._key.cipher.encrypt(nonce, secret, _bound(head, tenant, row))

    def open(self, sealed: bytes, tenant: UUID, row: UUID) -> bytes:
        """The secret that was sealed for this row of this tenant.

        Raises:
            Unsealable: it was sealed with a secret that is not at hand, for another row, or was changed since.
        """
        head, nonce, rest = sealed[: 1 + _ID], sealed[1 + _ID :][:_NONCE], sealed[1 + _ID + _NONCE :]
        key = self._ring.get(head[1:])
        if head[:1] != _FORMAT or key is None:
            raise Unsealable("It was sealed with a secret that is not at hand.")
        try:
            return key.cipher.decrypt(nonce, rest, _bound(head, tenant, row))
        except (InvalidTag, ValueError):
            raise Unsealable("It was sealed for another row, or changed since.") from None

    def is_current(self, sealed: bytes) -> bool:
        """Whether the secret in force sealed it, and not an older one."""
        return sealed.startswith(_FORMAT + self._key.id)


def derived_secret(secret: bytes, purpose: str) -> bytes:
    """Another secret of 32 bytes for this purpose alone (HKDF, RFC 5869); it tells nothing of the one it comes from."""
    return HKDF(algorithm=SHA256(), length=_KEY, salt=None, info=purpose.encode()).derive(secret)


def _key(secret: bytes) -> _Key:
    """Key and id from a secret: HKDF (RFC 5869) gives both, and neither tells of the other."""
    derived = HKDF(algorithm=SHA256(), length=_KEY + _ID, salt=None, info=_PURPOSE).derive(secret)
    return _Key(derived[_KEY:], AESGCM(derived[:_KEY]))


def _bound(head: bytes, tenant: UUID, row: UUID) -> bytes:
    return head + tenant.bytes + row.bytes

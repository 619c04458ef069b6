"""SSH signatures as git makes and verifies them. Pure functions over bytes: they know no key and no database.

What an authenticator signs is put in the same armour as what a stored key signs: both give a public key and a signature
in SSH's wire format. Sources: OpenSSH PROTOCOL.sshsig; RFC 8709 for ed25519; ssh-keygen(1), ALLOWED SIGNERS.
"""

import base64
import hashlib
import struct
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Sign = Callable[[bytes], bytes | None]
"""Gives the armoured signature for the bytes of a commit or tag without one; None where this one gets none."""

_MAGIC = b"SSHSIG"
_VERSION = struct.pack(">I", 1)
GIT, DECISION = b"git", b"placet-decision"
"""What a signature is for, so that none for one thing passes for the other."""
_RESERVED = b""
_HASH = b"sha512"
_ED25519 = b"ssh-ed25519"
_LINE = 70
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----\n", b"-----END SSH SIGNATURE-----\n"


@dataclass(frozen=True)
class OwnerKey:
    """The public half of a credential with which a person signed approvals.

    Attributes:
        email: the person's, as it stands in the commits.
        line: type and base64.
        retired_at: when it was taken away; None while it may sign.
    """

    email: str
    line: str
    retired_at: datetime | None


@dataclass(frozen=True)
class PublicKey:
    """A key's public half, and how long it signs.

    Attributes:
        line: type and base64, as in an authorized_keys file.
        fingerprint: as ssh-keygen prints it, `SHA256:…`.
        created_at, retired_at: by the database's clock; None while it is live.
    """

    line: str
    fingerprint: str
    created_at: datetime
    retired_at: datetime | None


def wire(*parts: bytes) -> bytes:
    """SSH's strings (RFC 4251, 5): each its length in four bytes, then itself."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


class Reader:
    """Reads SSH's wire format. Everything raises ValueError where there is less than is asked for."""

    def __init__(self, blob: bytes) -> None:
        self._rest = blob

    def take(self, count: int) -> bytes:
        """So many bytes."""
        if len(self._rest) < count:
            raise ValueError("it ends too early")
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def string(self) -> bytes:
        """One string."""
        return self.take(struct.unpack(">I", self.take(4))[0])

    def end(self) -> None:
        """There is nothing left."""
        if self._rest:
            raise ValueError("there is something behind its end")


def to_be_signed(content: bytes, namespace: bytes = GIT) -> bytes:
    """What is signed for a commit or tag without a signature, or for a decision."""
    return _MAGIC + wire(namespace, _RESERVED, _HASH, hashlib.sha512(content).digest())


def armoured(public_key: bytes, signature: bytes, namespace: bytes = GIT) -> bytes:
    """The signature as git stores it.

    Args:
        public_key: in wire format, its type first.
        signature: in wire format, its type first.
        namespace: what it is for.
    """
    blob = _MAGIC + _VERSION + wire(public_key, namespace, _RESERVED, _HASH, signature)
    lines = textwrap.wrap(base64.b64encode(blob).decode(), _LINE)
    return _BEGIN + "".join(f"{line}\n" for line in lines).encode() + _END


def unarmoured(text: bytes, namespace: bytes = GIT) -> tuple[bytes, bytes]:
    """The public key and the signature, each in wire format, of what git stores.

    Raises:
        ValueError: it is no SSH signature, or one for something else.
    """
    if not (text.startswith(_BEGIN) and text.rstrip(b"\n").endswith(_END.rstrip(b"\n"))):
        raise ValueError("it is no SSH signature")
    lines = text.rstrip(b"\n").split(b"\n")[1:-1]
    reader = Reader(base64.b64decode(b"".join(lines), validate=True))
    if reader.take(len(_MAGIC) + len(_VERSION)) != _MAGIC + _VERSION:
        raise ValueError("it is of another version")
    public, *said, signature = (reader.string() for _ in range(5))
    reader.end()
    if said != [namespace, _RESERVED, _HASH]:
        raise ValueError("it was made for something else")
    return public, signature


def verify_ed25519(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether a signature in wire format is this key's. Raises ValueError for what is none of ed25519."""
    key, signed = Reader(public), Reader(signature)
    if (key.string(), signed.string()) != (_ED25519, _ED25519):
        raise ValueError("it is of another type")
    try:
        Ed25519PublicKey.from_public_bytes(key.string()).verify(signed.string(), message)
    except InvalidSignature:
        return False
    return True


def ed25519_signature(private: Ed25519PrivateKey, commit: bytes) -> bytes:
    """The armoured signature of a commit. The same key and bytes always give the same (RFC 8032)."""
    return armoured(ed25519_blob(private), wire(_ED25519, private.sign(to_be_signed(commit))))


def ed25519_blob(private: Ed25519PrivateKey) -> bytes:
    """The public half in wire format."""
    return wire(_ED25519, private.public_key().public_bytes_raw())


def public_line(blob: bytes) -> str:
    """A public key in wire format as one line: its type and base64."""
    (length,) = struct.unpack_from(">I", blob)
    return f"{blob[4 : 4 + length].decode()} {base64.b64encode(blob).decode()}"


def fingerprint(blob: bytes) -> str:
    """A public key's fingerprint, as ssh-keygen prints it."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip('=')}"


def allowed_signers(keys: Iterable[PublicKey], issuer: str | None, owners: Iterable[OwnerKey] = ()) -> str:
    """The file that `gpg.ssh.allowedSignersFile` names: every key that ever signed. An owner's is under his address,
    the service's under `placet@<host>`, the host being the issuer's; a service that says nothing of itself is local.

    A retired one is good for commits that are dated before its end. No key has a beginning: a commit bears the time of
    its approval, which may lie before the making of the key that signs it.
    """
    host = urlsplit(issuer or "").hostname or "localhost"
    named = [(f"placet@{host}", key) for key in keys], [(key.email, key) for key in owners]
    return "".join(f"{name} {_options(key)} {key.line}\n" for some in named for name, key in some)


def _options(key: PublicKey | OwnerKey) -> str:
    if key.retired_at is None:
        return 'namespaces="git"'
    # Git compares whole seconds, so the second in which it was retired still counts.
    end = key.retired_at.astimezone(UTC) + timedelta(seconds=1)
    return f'namespaces="git",valid-before="{end:%Y%m%d%H%M%S}Z"'

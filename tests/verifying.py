"""Whether a commit's signature holds: asked of stock git, and read in Python where there is no ssh-keygen."""

import base64
import hashlib
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests.stage import ENVIRONMENT, git

only_with_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


def git_verifies(repository: Path, commit: str, signers: str) -> bool:
    """What `git verify-commit` says, given this content of the allowed-signers file."""
    file = repository.parent / "allowed-signers"
    file.write_text(signers)
    command = ["git", "-c", f"gpg.ssh.allowedSignersFile={file}", "verify-commit", commit]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return done.returncode == 0 and 'Good "git" signature for placet@' in done.stderr


def holds(repository: Path, commit: str, signers: str) -> bool:
    """The same for ed25519 in Python alone: PROTOCOL.sshsig read by its letter."""
    content = git(repository, "cat-file", "commit", commit)
    head, _, body = content.partition(b"\n\n")
    start = head.find(b"\ngpgsig ")
    if start < 0:
        return False
    end = head.index(b"-----END SSH SIGNATURE-----") + len(b"-----END SSH SIGNATURE-----")
    payload = head[:start] + head[end:] + b"\n\n" + body
    lines = head[start:end].removeprefix(b"\ngpgsig ").split(b"\n ")
    blob = base64.b64decode(b"".join(lines[1:-1]))
    assert blob[:10] == b"SSHSIG\0\0\0\1"
    public, namespace, reserved, name, signature = strings(blob[10:])
    assert (namespace, reserved, name) == (b"git", b"", b"sha512")
    kind, raw = strings(public)
    signature_kind, signed = strings(signature)
    assert (kind, signature_kind) == (b"ssh-ed25519", b"ssh-ed25519")
    if base64.b64encode(public).decode() not in {line.split()[3] for line in signers.splitlines()}:
        return False
    hashed = hashlib.sha512(payload).digest()
    message = b"SSHSIG" + b"".join(struct.pack(">I", len(one)) + one for one in (namespace, reserved, name, hashed))
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signed, message)
    except InvalidSignature:
        return False
    return True


def strings(blob: bytes) -> list[bytes]:
    """The parts of a blob in SSH's wire format."""
    found = []
    while blob:
        (length,) = struct.unpack_from(">I", blob)
        found.append(blob[4 : 4 + length])
        blob = blob[4 + length :]
    return found

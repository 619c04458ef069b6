"""Signatures of commits: the same bytes as ssh-keygen makes, and what stock git says of them."""

import base64
import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from service.contract.data import NULL, Draft, Oid
from service.contract.plan import MoveRef, NewCommit, Plan
from service.repositories.objects import Staged
from service.writer.intent import Intent, seal
from service.writer.provenance import Trailers
from service.writer.signature import (
    PublicKey,
    allowed_signers,
    armoured,
    ed25519_blob,
    ed25519_signature,
    fingerprint,
    public_line,
    to_be_signed,
    wire,
)
from tests.stage import FILES, git, make_repository
from tests.verifying import git_verifies, holds, only_with_ssh_keygen

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
KEY = PublicKey(public_line(ed25519_blob(PRIVATE)), fingerprint(ed25519_blob(PRIVATE)), AT, None)
ISSUER = "https://placet.example.org"
SIGNERS = allowed_signers([KEY], ISSUER)
COMMITTER = b"Olive Owner <olive@example.org> %d +0000" % AT.timestamp()
TRAILERS = Trailers(UUID(int=1), "olive@example.org", UUID(int=2), "0" * 64)
CHAIN = 3


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("signed") / "storefront.git"
    make_repository(path, FILES)
    return path


@pytest.fixture(scope="module")
def plan(repository: Path) -> Plan:
    """Three commits on top of each other."""
    head = Oid(git(repository, "rev-parse", "main").decode().strip())
    tree = Oid(git(repository, "rev-parse", "main^{tree}").decode().strip())
    ids = [Draft(Oid(f"{number:040x}")) for number in range(1, CHAIN + 1)]
    author = b"Claude (conn-1) <conn-1@placet.example.org> 1700000000 +0000"
    build = tuple(
        NewCommit(id=one, parents=(parent,), tree=tree, author=author, message=b"Say \xff and \xe2\x9c\x93\n")
        for one, parent in zip(ids, (head, *ids), strict=False)
    )
    return Plan(kinds=("chain",), build=build, effects=(MoveRef(ref="refs/heads/main", old=head, new=ids[-1]),))


def sealed(plan: Plan) -> Intent:
    return seal(plan, COMMITTER, TRAILERS, lambda commit: ed25519_signature(PRIVATE, commit))


def put(repository: Path, content: bytes) -> str:
    return git(repository, "hash-object", "-t", "commit", "-w", "--stdin", stdin=content).decode().strip()


@pytest.fixture(scope="module")
def chain(repository: Path, plan: Plan) -> tuple[Staged, ...]:
    commits = sealed(plan).commits
    assert [put(repository, one.content) for one in commits] == [one.oid for one in commits]
    return commits


def test_every_commit_of_a_chain_is_signed_and_the_bytes_are_the_same_every_time(
    repository: Path, plan: Plan, chain: tuple[Staged, ...]
) -> None:
    assert len(chain) == CHAIN
    assert all(holds(repository, one.oid, SIGNERS) for one in chain)
    assert sealed(plan) == sealed(plan)
    assert sealed(plan).marker[1] == chain[-1].oid
    assert git(repository, "fsck", "--strict", "--no-dangling", *(one.oid for one in chain)) == b""


@only_with_ssh_keygen
def test_stock_git_verifies_every_commit_of_a_chain(repository: Path, chain: tuple[Staged, ...]) -> None:
    assert all(git_verifies(repository, one.oid, SIGNERS) for one in chain)


def test_without_a_key_nothing_is_signed(repository: Path, plan: Plan) -> None:
    for one in seal(plan, COMMITTER, TRAILERS).commits:
        assert b"gpgsig" not in one.content
        assert not holds(repository, put(repository, one.content), SIGNERS)


def tampered(content: bytes) -> Iterator[bytes]:
    """The commit with one byte changed, in each of its parts."""
    for part in (b"tree ", b"parent ", b"author Claude", b"committer Olive", b"\n\nSay", b"Proposal: 0000"):
        at = content.index(part) + len(part) - 1
        at += 2 if part.endswith(b" ") else 0
        changed = b"1" if content[at : at + 1] != b"1" else b"2"
        yield content[:at] + changed + content[at + 1 :]
    at = content.index(b"-----END SSH") - 20
    yield content[:at] + (b"A" if content[at : at + 1] != b"A" else b"B") + content[at + 1 :]


@only_with_ssh_keygen
def test_one_changed_byte_anywhere_is_found(repository: Path, chain: tuple[Staged, ...]) -> None:
    changed = list(tampered(chain[0].content))
    assert len(set(changed)) == 7
    for content in changed:
        commit = git(repository, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=content)
        assert not git_verifies(repository, commit.decode().strip(), SIGNERS)
        assert not holds(repository, commit.decode().strip(), SIGNERS)


@only_with_ssh_keygen
def test_a_signature_of_one_commit_proves_no_other_and_no_other_key_is_believed(
    repository: Path, chain: tuple[Staged, ...]
) -> None:
    other = Ed25519PrivateKey.generate()
    theirs = replace(KEY, line=public_line(ed25519_blob(other)))
    assert not git_verifies(repository, chain[0].oid, allowed_signers([theirs], ISSUER))
    assert git_verifies(repository, chain[0].oid, allowed_signers([theirs, KEY], ISSUER))
    signature = chain[0].content[chain[0].content.index(b"gpgsig ") : chain[0].content.index(b"\n\n")]
    mine = chain[1].content[chain[1].content.index(b"gpgsig ") : chain[1].content.index(b"\n\n")]
    moved = put(repository, chain[1].content.replace(mine, signature))
    assert not git_verifies(repository, moved, SIGNERS)


@only_with_ssh_keygen
@pytest.mark.parametrize("content", [b"", b"tree 0\n\nx\n", bytes(range(256)) * 50])
def test_the_bytes_are_those_that_ssh_keygen_makes(tmp_path: Path, content: bytes) -> None:
    key = tmp_path / "key"
    key.write_bytes(PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    key.chmod(0o600)
    (tmp_path / "commit").write_bytes(content)
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", key, tmp_path / "commit"], check=True, capture_output=True
    )
    assert ed25519_signature(PRIVATE, content) == (tmp_path / "commit.sig").read_bytes()
    told = subprocess.run(["ssh-keygen", "-l", "-f", key], check=True, capture_output=True, text=True)
    assert told.stdout.split()[1] == fingerprint(ed25519_blob(PRIVATE))


def test_the_public_line_is_the_one_that_openssh_writes() -> None:
    written = PRIVATE.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert public_line(ed25519_blob(PRIVATE)) == written.decode()


def test_a_retired_key_is_good_for_what_is_dated_before_its_end_and_no_key_has_a_beginning() -> None:
    retired = replace(KEY, retired_at=datetime(2026, 11, 30, 12, 0, 0, 999_999, tzinfo=UTC))
    first, second = allowed_signers([retired, KEY], ISSUER).splitlines()
    assert first.startswith('placet@placet.example.org namespaces="git",valid-before="20261130120001Z" ssh-ed25519 ')
    assert second.startswith('placet@placet.example.org namespaces="git" ssh-ed25519 ')
    assert allowed_signers([KEY], None).startswith("placet@localhost ")


@only_with_ssh_keygen
@pytest.mark.parametrize(
    ("end", "good"),
    [(AT, True), (datetime(2026, 12, 1, tzinfo=UTC), True), (datetime(2026, 11, 30, 11, tzinfo=UTC), False)],
)
def test_git_holds_a_commit_against_the_end_of_its_key(
    repository: Path, chain: tuple[Staged, ...], end: datetime, good: bool
) -> None:
    signers = allowed_signers([replace(KEY, retired_at=end)], ISSUER)
    assert git_verifies(repository, chain[0].oid, signers) is good


@only_with_ssh_keygen
def test_an_authenticators_signature_goes_into_the_same_armour(repository: Path, plan: Plan) -> None:
    """As a browser's passkey makes it: OpenSSH PROTOCOL.u2f, webauthn-sk-ecdsa-sha2-nistp256@openssh.com."""
    private, origin, relying = ec.generate_private_key(ec.SECP256R1()), b"https://placet.example.org", b"example.org"
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    public = wire(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", point, relying)

    def sign(commit: bytes) -> bytes:
        challenge = base64.urlsafe_b64encode(to_be_signed(commit)).decode().rstrip("=")
        fields = {"type": "webauthn.get", "challenge": challenge, "origin": origin.decode(), "crossOrigin": False}
        client = json.dumps(fields, separators=(",", ":")).encode()
        flags_and_counter = b"\x05" + (7).to_bytes(4, "big")
        authenticated = hashlib.sha256(relying).digest() + flags_and_counter
        signature = private.sign(authenticated + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        pair = wire(*(_mpint(number) for number in decode_dss_signature(signature)))
        blob = (
            wire(b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com", pair) + flags_and_counter + wire(origin, client, b"")
        )
        return armoured(public, blob)

    commit = put(repository, seal(plan, COMMITTER, TRAILERS, sign).commits[0].content)
    signers = f'placet@passkey namespaces="git" {public_line(public)}\n'
    assert git_verifies(repository, commit, signers)
    assert not git_verifies(repository, commit, SIGNERS)


def _mpint(number: int) -> bytes:
    """RFC 4251, 5: no needless zeros, one before a set top bit."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def test_a_plan_that_builds_nothing_has_nothing_to_sign(plan: Plan) -> None:
    gone = MoveRef(ref="refs/heads/old", old=plan.effects[0].old, new=NULL)

    def never(_commit: bytes) -> bytes:
        raise AssertionError("there is nothing to sign")

    assert seal(Plan(kinds=("delete",), build=(), effects=(gone,)), COMMITTER, TRAILERS, never).commits == ()

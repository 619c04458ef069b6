"""A commit signed by a browser's authenticator: what stock git says of it, and every way to make one that is none."""

import hashlib
import json
import struct
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from service.cli import placet
from service.contract.data import NULL, Oid
from service.repositories.objects import build_commit, build_tag
from service.writer.passkey import Assertion, BadAssertion, Passkey, challenge, passkey_signature
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
from service.writer.verify import BadSigners, judge, read_commit, read_signers
from tests.stage import ENVIRONMENT, FILES, git, make_repository
from tests.verifying import git_verifies, only_with_ssh_keygen

HOST, ORIGIN = "placet.example.org", "https://placet.example.org"
OLIVE = "olive@example.org"
AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
COMMITTER = f"Olive Owner <{OLIVE}> {AT.timestamp():.0f} +0000".encode()
TRAILERS = Trailers(UUID(int=1), OLIVE, UUID(int=2), "0" * 64)
SERVICE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SERVICE_KEY = PublicKey(public_line(ed25519_blob(SERVICE)), fingerprint(ed25519_blob(SERVICE)), AT, None)


@dataclass(frozen=True)
class Authenticator:
    """What a browser and its authenticator do."""

    private: ec.EllipticCurvePrivateKey
    rp_id: str = HOST
    origin: str = ORIGIN
    flags: int = 0x05
    counter: int = 7
    extensions: bytes = b""

    @property
    def key(self) -> Passkey:
        return Passkey(
            self.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint), self.rp_id
        )

    @property
    def line(self) -> str:
        return f'{OLIVE} namespaces="git" {public_line(self.key.blob)}\n'

    def answer(self, message: bytes, **more: object) -> Assertion:
        said = {"type": "webauthn.get", "challenge": challenge(message), "origin": self.origin, "crossOrigin": False}
        client = json.dumps({**said, **more}, separators=(",", ":")).encode()
        data = hashlib.sha256(self.rp_id.encode()).digest() + struct.pack(">BI", self.flags, self.counter)
        data += self.extensions
        signature = self.private.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return Assertion(data, client, signature)

    def sign(self, payload: bytes) -> bytes:
        message = to_be_signed(payload)
        return armoured(self.key.blob, passkey_signature(self.key, self.origin, message, self.answer(message)))


KEY = Authenticator(ec.derive_private_key(20261130, ec.SECP256R1()))
STRANGER = Authenticator(ec.derive_private_key(20261201, ec.SECP256R1()))
SIGNERS = allowed_signers([SERVICE_KEY], ORIGIN) + KEY.line


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "storefront.git"
    make_repository(path, FILES)
    return path


def commit(repository: Path, parent: str, sign: object = None, trailers: Trailers | None = TRAILERS) -> str:
    """A commit on top of a parent, stored; `sign` gives its armoured signature."""
    tree = Oid(git(repository, "rev-parse", "main^{tree}").decode().strip())
    message = trailers.end(b"Pin install version\n") if trailers else b"By hand\n"
    arguments = (tree, (Oid(parent),) if parent != NULL else ())
    more = {"author": COMMITTER, "committer": COMMITTER, "message": message}
    made = build_commit(*arguments, **more)  # type: ignore[arg-type]
    if sign:
        made = build_commit(*arguments, **more, extra=((b"gpgsig", sign(made.content)),))  # type: ignore[arg-type,operator]
    return git(repository, "hash-object", "-t", "commit", "-w", "--stdin", stdin=made.content).decode().strip()


def head(repository: Path) -> str:
    return git(repository, "rev-parse", "main").decode().strip()


def service(payload: bytes) -> bytes:
    return ed25519_signature(SERVICE, payload)


@only_with_ssh_keygen
@pytest.mark.parametrize("counter", [0, 1, 2**32 - 1])
def test_stock_git_verifies_what_an_authenticator_signed(repository: Path, counter: int) -> None:
    made = commit(repository, head(repository), replace(KEY, counter=counter).sign)
    signers = repository.parent / "signers"
    signers.write_text(SIGNERS)
    told = git(repository, "-c", f"gpg.ssh.allowedSignersFile={signers}", "log", "-1", "--format=%G? %GS", made)
    assert told.decode().strip() == f"G {OLIVE}"
    assert not git_verifies(repository, made, STRANGER.line)


BROKEN = {
    "another message": lambda key, message: key.answer(message + b"x"),
    "another origin": lambda key, message: replace(key, origin="https://evil.example").answer(message),
    "another host": lambda key, message: replace(key, rp_id="evil.example").answer(message),
    "another credential": lambda _key, message: STRANGER.answer(message),
    "nobody verified": lambda key, message: replace(key, flags=0x01).answer(message),
    "nobody present": lambda key, message: replace(key, flags=0x04).answer(message),
    "a registration": lambda key, message: key.answer(message, type="webauthn.create"),
    "inside another page": lambda key, message: key.answer(message, crossOrigin=True),
    "data cut short": lambda key, message: replace(key.answer(message), authenticator_data=bytes(36)),
    "data with more": lambda key, message: replace(
        key.answer(message), authenticator_data=key.answer(message).authenticator_data + b"\xa0"
    ),
    "no signature": lambda key, message: replace(key.answer(message), signature=b"\x30\x00"),
    "no JSON": lambda key, message: replace(key.answer(message), client_data=key.answer(message).client_data[:-1]),
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_answer_to_anything_else_makes_no_signature(how: str) -> None:
    message = to_be_signed(b"tree 0\n\nmessage")
    with pytest.raises(BadAssertion) as told:
        passkey_signature(KEY.key, ORIGIN, message, BROKEN[how](KEY, message))
    assert str(told.value).endswith(".")


def test_extensions_of_the_authenticator_are_kept_and_verify(repository: Path) -> None:
    made = commit(repository, head(repository), replace(KEY, extensions=b"\xa1\x61a\x01", flags=0x85).sign)
    content = git(repository, "cat-file", "commit", made)
    assert judge(read_commit(content), read_signers(SIGNERS)).standing == "owner"


def verify(repository: Path, signers: str = SIGNERS) -> tuple[int, dict[str, dict[str, str]]]:
    """What the command says of each object."""
    file = repository.parent / "allowed"
    file.write_text(signers)
    done = CliRunner().invoke(placet, ["verify", str(repository), "--signers", str(file), "--json"])
    found = json.JSONDecoder().raw_decode(done.output)[0]
    return done.exit_code, {one["id"]: one for one in found}


def test_a_history_is_verified_offline_and_each_commit_said_for_what_it_is(repository: Path) -> None:
    base = head(repository)
    other = replace(TRAILERS, proposal=UUID(int=9))
    plain = commit(repository, base, trailers=other)
    by_service = commit(repository, plain, service)
    first = commit(repository, by_service)
    second = commit(repository, first)
    signed = commit(repository, second, KEY.sign)
    by_hand = commit(repository, signed, trailers=None)
    git(repository, "update-ref", "refs/heads/main", by_hand)
    tag = build_tag(Oid(signed), "v1", tagger=COMMITTER, message=TRAILERS.end(b"One\n"))
    tag = build_tag(
        Oid(signed), "v1", tagger=COMMITTER, message=TRAILERS.end(b"One\n"), signature=KEY.sign(tag.content)
    )
    made = git(repository, "hash-object", "-t", "tag", "-w", "--stdin", stdin=tag.content).decode().strip()
    git(repository, "update-ref", "refs/tags/v1", made)
    status, found = verify(repository)
    assert status == 0
    assert {oid: one["standing"] for oid, one in found.items()} == {
        base: "foreign",
        plain: "unsigned",
        by_service: "service",
        first: "covered",
        second: "covered",
        signed: "owner",
        by_hand: "foreign",
        made: "owner",
    }
    assert {found[one]["by"] for one in (first, second, signed, made)} == {OLIVE}
    clone = repository.parent / "clone"
    git(repository.parent, "clone", "-q", str(repository), str(clone))
    assert verify(clone)[1].keys() == found.keys()


def forged(content: bytes, ending: bytes) -> bytes:
    """The commit with a signature that nobody made, in whose client data stands what a stranger likes."""
    payload = read_commit(content).payload
    message = to_be_signed(payload)
    client = json.dumps(
        {"type": "webauthn.get", "challenge": challenge(message), "origin": ORIGIN}, separators=(",", ":")
    )
    said = client.encode()[:-1] + b"," + ending + b"}"
    blob = wire(b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com", wire(b"\1", b"\1")) + struct.pack(">BI", 5, 1)
    blob += wire(ORIGIN.encode(), said, b"")
    head, _, body = payload.partition(b"\n\n")
    armour = armoured(KEY.key.blob, blob).rstrip(b"\n").replace(b"\n", b"\n ")
    return head + b"\ngpgsig " + armour + b"\n\n" + body


BAD = {
    "a byte of the message changed": lambda text: text.replace(b"Pin install", b"Pin_install"),
    "a byte of the signature changed": lambda text: text.replace(b"\n U1NIU0lH", b"\n U1NIU0lI"),
    "another person is said to have approved": lambda text: text.replace(b"Approved-by: olive", b"Approved-by: oskar"),
    "another person commits": lambda text: text.replace(
        b"committer Olive Owner <olive", b"committer Olive Owner <oskar"
    ),
    "a list where a browser says yes or no": lambda text: forged(text, b'"crossOrigin":[]'),
    "JSON as deep as there is room": lambda text: forged(text, b'"z":' + b"[" * 3_000),
    "a signature of another program": lambda text: text.replace(b"SSH SIGNATURE", b"PGP SIGNATURE"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_signature_that_does_not_hold_is_found_and_fails_the_command(repository: Path, how: str) -> None:
    content = git(repository, "cat-file", "commit", commit(repository, head(repository), KEY.sign))
    changed = BAD[how](content)
    assert changed != content
    made = (
        git(repository, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=changed).decode().strip()
    )
    git(repository, "update-ref", "refs/heads/main", made)
    status, found = verify(repository)
    assert (status, found[made]["standing"]) == (1, "bad")
    assert found[made]["why"]


def test_the_key_must_be_in_the_file_for_the_person_who_approved_and_alive_at_that_time(repository: Path) -> None:
    made = commit(repository, head(repository), KEY.sign)
    git(repository, "update-ref", "refs/heads/main", made)
    oskar = KEY.line.replace(OLIVE, "oskar@example.org")
    ends = {hours: f"{AT + timedelta(hours=hours):%Y%m%d%H%M%SZ}" for hours in (-1, 1)}
    ended, alive = (KEY.line.replace('"git"', f'"git",valid-before="{ends[hours]}"') for hours in (-1, 1))
    found = {text: verify(repository, text)[1][made]["standing"] for text in (oskar, ended, alive, STRANGER.line)}
    assert found == {oskar: "bad", ended: "bad", alive: "owner", STRANGER.line: "bad"}


@pytest.mark.parametrize(
    "line",
    [
        "olive@example.org",
        "olive@example.org ssh-ed25519",
        "olive@example.org ssh-ed25519 AAAA",
        'olive@example.org namespaces="file" ssh-ed25519 AAAA',
        'olive@example.org cert-authority,zone="git" ssh-ed25519 AAAA',
        KEY.line.replace("sk-ecdsa-sha2-nistp256@openssh.com AAAA", "ssh-ed25519 AAAA"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(BadSigners, match=r"^Line 3 "):
        read_signers(f"# published\n\n{line}\n")


def test_an_unsigned_commit_below_another_proposals_signature_is_not_covered(repository: Path) -> None:
    lower = commit(repository, head(repository), trailers=replace(TRAILERS, digest="1" * 64))
    upper = commit(repository, lower, KEY.sign)
    git(repository, "update-ref", "refs/heads/main", upper)
    _, found = verify(repository)
    assert (found[lower]["standing"], found[upper]["standing"]) == ("unsigned", "owner")


def test_a_folder_that_is_no_repository_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "signers").write_text(SIGNERS)
    done = CliRunner(env=dict(ENVIRONMENT)).invoke(
        placet, ["verify", str(tmp_path), "--signers", str(tmp_path / "signers")]
    )
    assert done.exit_code == 1
    assert "is no Git repository" in str(done.exception)


def test_what_a_commit_says_cannot_move_the_cursor(repository: Path) -> None:
    tree = Oid(git(repository, "rev-parse", "main^{tree}").decode().strip())
    message = TRAILERS.end(b"\x1b[2J\xe2\x80\xaeevil\n")
    made = build_commit(tree, (), author=COMMITTER, committer=COMMITTER, message=message)
    stored = git(repository, "hash-object", "-t", "commit", "-w", "--stdin", stdin=made.content).decode().strip()
    git(repository, "update-ref", "refs/heads/main", stored)
    (repository.parent / "allowed").write_text(SIGNERS)
    done = CliRunner().invoke(placet, ["verify", str(repository), "--signers", str(repository.parent / "allowed")])
    assert "[U+001B ESC][2J[U+202E RLO]evil" in done.output
    assert "unsigned" in done.output

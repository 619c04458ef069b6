"""Who signed the commits and tags of a history: judged from their bytes and the published file alone.

The same answer as `git verify-commit` gives, and what git does not ask: whether the key is that of the person who is
named as the one who approved. One commit has one signature; of a chain that an owner's authenticator signed, the last
commit has it, and it covers those below, whose ids are in its own bytes.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from service.contract.names import OWN_TRAILERS
from service.writer.passkey import KEY_TYPE, BadAssertion, Passkey, verify_passkey
from service.writer.provenance import committer_email
from service.writer.signature import Reader, to_be_signed, unarmoured, verify_ed25519

Standing = Literal["owner", "service", "covered", "unsigned", "foreign", "bad"]
STANDINGS: Final[Mapping[Standing, str]] = {
    "owner": "signed by the authenticator of the person who approved",
    "covered": "below a commit of the same proposal that its owner signed",
    "service": "signed by the service's key",
    "unsigned": "through the service, without a signature",
    "foreign": "not through the service",
    "bad": "says something that does not hold",
}
"""What a commit can be, the strongest first."""

SERVICE: Final = "placet@"
_OPTION: Final = re.compile(r'([a-z-]+)="([^"]*)"(?:,|$)')
_TRAILER: Final = re.compile(rb"(%s): (.*)" % "|".join(OWN_TRAILERS).encode())
_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----\n"


class BadSigners(Exception):
    """The file of allowed signers cannot be read; the message is one sentence with the line's number."""


@dataclass(frozen=True)
class Signer:
    """A line of the file: whose key it is, and until when it counts."""

    principal: str
    key: bytes
    before: datetime | None


@dataclass(frozen=True)
class Signed:
    """A commit or tag as it is stored.

    Attributes:
        payload: its bytes without the signature: what was signed.
        signature: in its armour; empty where there is none.
        by: its committer or tagger line.
        message: what it says.
    """

    payload: bytes
    signature: bytes
    by: bytes
    message: bytes
    trailers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What an object is; `by` is whose signature it has, `why` what is wrong with it."""

    standing: Standing
    by: str = ""
    why: str = ""


def read_signers(text: str) -> tuple[Signer, ...]:
    """The lines of an allowed-signers file, as far as this service publishes them.

    Raises:
        BadSigners: a line is none, or has an option that is not known here.
    """
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return tuple(_signer(number, line) for number, line in lines if line and not line.startswith("#"))


def _signer(number: int, line: str) -> Signer:
    principal, _, rest = line.partition(" ")
    options, _, key = rest.partition(" ") if "=" in rest.partition(" ")[0] else ("", "", rest)
    try:
        blob, ends = _key(*key.split()[:2]), _options(options).get("valid-before")
        before = datetime.strptime(ends, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC) if ends else None
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadSigners(f"Line {number} of the allowed signers cannot be read.") from error
    return Signer(principal, blob, before)


def _key(kind: str, encoded: str) -> bytes:
    blob = base64.b64decode(encoded, validate=True)
    if Reader(blob).string() != kind.encode():
        raise ValueError("the key is of another type than the line says")
    return blob


def _options(text: str) -> dict[str, str]:
    found = dict(_OPTION.findall(text))
    if _OPTION.sub("", text) or not found.keys() <= {"namespaces", "valid-before"}:
        raise ValueError("an option is not known")
    if found.get("namespaces", "git") != "git":
        raise ValueError("it is not for git")
    return found


def read_commit(content: bytes) -> Signed:
    """A commit in its stored form."""
    head, _, message = content.partition(b"\n\n")
    kept: list[bytes] = []
    signature: list[bytes] = []
    inside = False
    for line in head.split(b"\n"):
        inside = line.startswith(b"gpgsig ") or (inside and line.startswith(b" "))
        (signature if inside else kept).append(line)
    text = b"\n".join(line.removeprefix(b"gpgsig ").removeprefix(b" ") for line in signature)
    payload = b"\n".join(kept) + b"\n\n" + message
    return Signed(payload, text + b"\n" if text else b"", _header(kept, b"committer"), message, _trailers(message))


def read_tag(content: bytes) -> Signed:
    """An annotated tag in its stored form: a signature stands behind its message."""
    payload, mark, rest = content.partition(_BEGIN)
    head, _, message = payload.partition(b"\n\n")
    return Signed(payload, mark + rest, _header(head.split(b"\n"), b"tagger"), message, _trailers(message))


def _header(lines: Iterable[bytes], key: bytes) -> bytes:
    return next((line[len(key) + 1 :] for line in lines if line.startswith(key + b" ")), b"")


def _trailers(message: bytes) -> dict[str, str]:
    """Our trailers, which are in the last paragraph; one that stands there twice is none of ours."""
    lines = message.rstrip(b"\n").rpartition(b"\n\n")[2].split(b"\n")
    found = [match for line in lines if (match := _TRAILER.fullmatch(line))]
    named = {match[1].decode(): match[2].decode(errors="replace") for match in found}
    return named if len(named) == len(found) and "Proposal" in named else {}


def judge(what: Signed, signers: Iterable[Signer]) -> Finding:
    """What one object is by itself; that it is covered, only its descendants say."""
    if not what.trailers:
        return Finding("foreign")
    if not what.signature:
        return Finding("unsigned")
    try:
        return _verified(what, signers)
    except (ValueError, IndexError, OverflowError, BadAssertion) as error:
        return Finding("bad", why=f"{error}")


def _verified(what: Signed, signers: Iterable[Signer]) -> Finding:
    public, signature = unarmoured(what.signature)
    message = to_be_signed(what.payload)
    named = [one for one in signers if one.key == public]
    if not named:
        raise ValueError("the key is not in the file")
    if Reader(public).string() == KEY_TYPE:
        verify_passkey(Passkey.read(public), message, signature)
        return _by_owner(what, named)
    if not verify_ed25519(public, message, signature):
        raise ValueError("the signature does not hold")
    return Finding("service", _in_time(what, [one for one in named if one.principal.startswith(SERVICE)]))


def _by_owner(what: Signed, named: Iterable[Signer]) -> Finding:
    approved_by = what.trailers.get("Approved-by", "")
    if committer_email(what.by) != approved_by:
        raise ValueError("its committer is not who approved")
    return Finding("owner", _in_time(what, [one for one in named if one.principal == approved_by]))


def _in_time(what: Signed, named: list[Signer]) -> str:
    """Whose key it is. Git compares the committer's date with the end of a key."""
    if not named:
        raise ValueError("the key is another person's")
    seconds = what.by.rsplit(b" ", 2)[-2]
    at = datetime.fromtimestamp(int(seconds), UTC)
    if all(one.before and at >= one.before for one in named):
        raise ValueError("the key had ended before")
    return named[0].principal


def judge_history(
    history: Iterable[tuple[str, tuple[str, ...], Signed]], signers: Iterable[Signer]
) -> Iterator[tuple[str, Signed, Finding]]:
    """What each commit of a history is.

    Args:
        history: id, parents and content of each commit, none before one of its children.
        signers: the published keys.
    """
    signers = tuple(signers)
    covered: dict[str, list[tuple[Mapping[str, str], str]]] = {}
    for oid, parents, what in history:
        found = judge(what, signers)
        above = [by for trailers, by in covered.pop(oid, ()) if trailers == what.trailers]
        if above and found.standing == "unsigned" and committer_email(what.by) == above[0]:
            found = Finding("covered", above[0])
        if found.standing in {"owner", "covered"}:
            for parent in parents:
                covered.setdefault(parent, []).append((what.trailers, found.by))
        yield oid, what, found

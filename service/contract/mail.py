"""One mail with a patch in it, as `git format-patch` writes it: its message and its diff.

Source: git-mailinfo(1), git-am(1), mailinfo.c of git; RFC 5322, RFC 2045 and RFC 2047.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import Policy, compat32
from typing import Any, Final

from service.kit.errors import Code, Refusal

HEADER_BYTES: Final = 8_000
"""What the headers of a mail and of all its parts have together; parsing one takes the square of its length."""
PARTS_MOST: Final = 20
"""The mail itself counts as one."""
DEPTH_MOST: Final = 4
"""Parts in parts; each line of a mail is held against the boundaries of all of them."""
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_SEPARATOR: Final = re.compile(rb"^From .*[0-9]{1,2}:[0-9]{2}:[0-9]{2} [0-9]{4}.*$", re.MULTILINE)
_HEADER: Final = re.compile(rb"[!-9;-~]+:")
_NEEDED: Final = re.compile(rb"^(?:From|Subject|Date|Message-Id):", re.IGNORECASE | re.MULTILINE)
_INSIDE: Final = re.compile(r"(From|Subject|Date):[ \t]*(.*)", re.IGNORECASE)
_BREAK: Final = re.compile(rb"^(?:diff -|Index: |--- \S|---\s*$)", re.MULTILINE)
_PREFIX: Final = re.compile(r"(?:re:|[ \t:]|\[[^\]]*\])+", re.IGNORECASE)
_BLANKS: Final = re.compile(r"\n{3,}")
_ENCODED: Final = ("base64", "quoted-printable")
_NO_CHARSETS: Final = ("punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined")
"""Codecs of Python's own that no mail is written in; the first two take the square of what they decode."""


@dataclass(frozen=True)
class Mail:
    """What a mail says, and the patch that it carries."""

    message: str
    patch: bytes


def is_mail(text: bytes) -> bool:
    """Whether this is a mail and no bare diff: it begins as a mailbox does, or with a mail's header."""
    head = _head(text.lstrip(b"\r\n"))
    lines = head.splitlines()
    if not lines:
        return False
    if _SEPARATOR.match(lines[0]):
        return True
    whole = all(_HEADER.match(line) or line[:1] in b" \t" for line in lines)
    return whole and _NEEDED.search(head) is not None


def read_mail(text: bytes) -> Mail:
    """The parts of one mail. Its author and its date are not taken.

    The message is subject and body without `[PATCH]` and what stands behind `---`, cleaned as `git am` does it. Line
    ends of the patch are those of the mail, unless every line of it ends with CRLF: then that came on the way.

    Raises:
        Refusal: INVALID_ARGUMENT with the field `patch`: there are several mails, this one has more headers or parts
            than HEADER_BYTES, PARTS_MOST and DEPTH_MOST, or it cannot be read.
    """
    text = text.lstrip(b"\r\n")
    if text.count(b"\n") == text.count(b"\r\n"):
        text = text.replace(b"\r\n", b"\n")
    mails = len(_SEPARATOR.findall(text))
    if mails > 1:
        message = f"There are {mails:,} mails in the patch; send each in a proposal of its own."
        raise Refusal(Code.INVALID_ARGUMENT, message, field="patch", limit=1, value=mails)
    bounds = _Bounds()
    _bound("bytes of headers", len(_head(text)), HEADER_BYTES)
    try:
        subject, said, patch = _read(BytesParser(bounds.part, policy=compat32).parsebytes(text))
    except (LookupError, ValueError, MessageError, RecursionError) as error:  # the last: parts in parts in parts
        raise Refusal(Code.INVALID_ARGUMENT, "The mail cannot be read.", field="patch") from error
    return Mail(_message(subject, said), patch)


def _head(text: bytes) -> bytes:
    return _END_OF_HEAD.split(text, maxsplit=1)[0]


def _bound(what: str, value: int, limit: int) -> None:
    if value > limit:
        message = f"The mail has more {what} than {limit:,}."
        raise Refusal(Code.INVALID_ARGUMENT, message, field="patch", limit=limit, value=value)


@dataclass
class _Bounds:
    """How much one mail has so far of what takes long to read."""

    parts: int = 0
    headers: int = 0

    def part(self, policy: "Policy[Any]" = compat32) -> "_Part":
        self.parts += 1
        _bound("parts", self.parts, PARTS_MOST)
        return _Part(self, policy)

    def header(self, size: int) -> None:
        self.headers += size
        _bound("bytes of headers", self.headers, HEADER_BYTES)


class _Part(Message):
    """A mail or a part of one; the parser hands it each header before it looks into any, and each part."""

    def __init__(self, bounds: _Bounds, policy: "Policy[Any]") -> None:
        super().__init__(policy)
        self._bounds = bounds
        self.depth = 0

    def set_raw(self, name: str, value: Any) -> None:
        self._bounds.header(len(name) + len(value))
        super().set_raw(name, value)

    def attach(self, payload: Any) -> None:
        payload.depth = self.depth + 1
        _bound("parts in parts", payload.depth, DEPTH_MOST)
        super().attach(payload)


def _read(mail: Message) -> tuple[str, str, bytes]:
    parts = list(_parts(mail))
    content = b"".join(raw for raw, _ in parts)
    found = _BREAK.search(content)
    end = found.start() if found else len(content)
    said, at = "", 0
    for raw, charset in parts:
        said += _decoded(raw[: max(end - at, 0)], charset)
        at += len(raw)
    return _subject(mail), said, content[end:]


def _parts(mail: Message) -> Iterator[tuple[bytes, str | None]]:
    """The content of each part, decoded, and in which letters it is; None: those of the whole text, UTF-8."""
    for part in mail.walk():
        if part.is_multipart():
            continue
        payload = part.get_payload(decode=True)
        raw = payload if isinstance(payload, bytes) else b""
        encoded = str(part.get("Content-Transfer-Encoding", "")).strip().lower() in _ENCODED
        yield raw if raw.endswith(b"\n") or not raw else raw + b"\n", part.get_content_charset() if encoded else None


def _decoded(raw: bytes, charset: str | None) -> str:
    if charset is not None and charset.lower() not in ("us-ascii", "utf-8"):
        if codecs.lookup(charset).name.replace("-", "_") in _NO_CHARSETS:
            raise LookupError(charset)
        return raw.decode(charset)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # as mailinfo guesses


def _subject(mail: Message) -> str:
    pieces = decode_header(str(mail.get("Subject", "")).replace("\n", ""))
    words = [piece if isinstance(piece, str) else _decoded(piece, charset) for piece, charset in pieces]
    return "".join(words).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _message(subject: str, said: str) -> str:
    lines = said.split("\n")
    inside, lines = _inside(lines)
    subject = inside or subject
    head = " ".join(subject[_end(subject) :].split())
    body = "\n".join(line.rstrip() for line in lines)
    return _BLANKS.sub("\n\n", f"{head}\n\n{body}").strip("\n")


def _end(subject: str) -> int:
    found = _PREFIX.match(subject)
    return found.end() if found else 0


def _inside(lines: list[str]) -> tuple[str, list[str]]:
    """A body may begin with header lines of its own, which win; the subject that they give, and the rest."""
    at = _first(lines)
    found: dict[str, list[str]] = {}
    while at < len(lines) and (header := _INSIDE.match(lines[at])) and header[1].lower() not in found:
        folded, at = [header[2]], at + 1
        found[header[1].lower()] = folded
        while at < len(lines) and lines[at][:1] in (" ", "\t"):
            folded.append(lines[at].strip())
            at += 1
    return " ".join(found.get("subject", [])), lines[at:]


def _first(lines: list[str]) -> int:
    return next((at for at, line in enumerate(lines) if line.strip()), len(lines))

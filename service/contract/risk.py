"""What an owner must notice about new content, computed; each thing is a warning that must be acknowledged by name."""

import base64
import binascii
import re
from collections.abc import Iterator

from service.contract.hidden import find_hidden
from service.contract.names import quote_path
from service.contract.plan import Note

BINARY_LOOK_BYTES = 8_000
"""Git calls content binary when one of its first 8,000 bytes is NUL (buffer_is_binary in xdiff-interface.c)."""

RUNS_OR_REDIRECTS: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            "workflow",
            rb"(.*/)?(\.github/(workflows|actions)/.*|\.gitlab-ci\.ya?ml|\.circleci/.*|jenkinsfile|\.forgejo/.*)",
        ),
        ("hook", rb"(.*/)?(\.husky/.*|\.githooks/.*|\.pre-commit-config\.ya?ml|lefthook\.ya?ml)"),
        ("attributes", rb"(.*/)?(\.gitattributes|\.lfsconfig|\.mailmap|\.gitconfig)"),
        (
            "agent_instructions",
            rb"(.*/)?(agents|claude|gemini)\.md|(.*/)?(\.cursor/.*|\.cursorrules|\.claude/.*|\.mcp\.json)",
        ),
        ("agent_instructions", rb"(.*/)?\.github/copilot-instructions\.md"),
        ("codeowners", rb"(.*/)?codeowners"),
        ("package_script", rb"(.*/)?(package\.json|setup\.py|pyproject\.toml|conftest\.py|build\.rs|gemfile|\.npmrc)"),
        (
            "build",
            rb"(.*/)?(makefile|dockerfile|justfile|rakefile|cmakelists\.txt|\.envrc|\.vscode/.*|\.devcontainer/.*)",
        ),
    )
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/\s]{16,}={0,2}\s*")
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF", b"PK\x03\x04", b"\x1f\x8b", b"\x7fELF", b"RIFF", b"\0asm")


def is_binary(content: bytes) -> bool:
    """Whether Git would call this content binary."""
    return b"\0" in content[:BINARY_LOOK_BYTES]


def line_ends_changed(old: bytes, new: bytes) -> int:
    """How many lines went from CRLF to LF or the other way round."""
    old_crlf, new_crlf = old.count(b"\r\n"), new.count(b"\r\n")
    old_lf, new_lf = old.count(b"\n") - old_crlf, new.count(b"\n") - new_crlf
    lost, gained = max(old_crlf - new_crlf, 0), max(new_lf - old_lf, 0)
    return min(lost, gained) or min(max(new_crlf - old_crlf, 0), max(old_lf - new_lf, 0))


def path_warnings(path: bytes) -> Iterator[Note]:
    """The path is one that some program runs, obeys or is redirected by; or its name hides something."""
    shown = quote_path(path)
    kind = next((kind for kind, pattern in RUNS_OR_REDIRECTS if pattern.fullmatch(path)), None)
    if kind:
        yield Note(code="runs_or_redirects", at=shown, params={"kind": kind})
    yield from text_warnings(path.decode("utf-8", "replace"), "path", shown)


def content_warnings(path: bytes, old: bytes, new: bytes) -> Iterator[Note]:
    """What the new content hides or is not what it seems."""
    shown = quote_path(path)
    if is_binary(new):
        yield Note(code="binary_content", at=shown, params={"bytes": len(new)})
    else:
        yield from text_warnings(new.decode("utf-8", "replace"), "content", shown)
    if looks_like_base64(new):
        yield Note(code="looks_like_base64", at=shown, params={"bytes": len(new)})
    if ends := line_ends_changed(old, new):
        yield Note(code="line_ends_change", at=shown, params={"lines": ends})


def text_warnings(text: str, where: str, at: str = "") -> Iterator[Note]:
    """The text has characters that are invisible or reorder what stands around them."""
    if hidden := find_hidden(text):
        yield Note(code="hidden_characters", at=at or where, params={"count": len(hidden), "where": where})


def looks_like_base64(content: bytes) -> bool:
    """Whether text is, by its first bytes once decoded, a file in base64 that was meant to be decoded."""
    if not _BASE64.fullmatch(content):
        return False
    start = b"".join(content[:64].split())[:24]
    try:
        return base64.b64decode(start[: len(start) // 4 * 4]).startswith(_MAGIC)
    except binascii.Error:
        return False

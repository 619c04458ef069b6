"""What an owner must notice about new content, computed; each thing is a warning that must be acknowledged by name."""

import base64
import binascii
import re
from collections.abc import Iterator

from service.contract.hidden import find_hidden, mixed_scripts
from service.contract.names import quote_path, sets_submodules
from service.contract.plan import Note

WORDS_PLACE = "//"
"""Begins the place of a warning about the agent's words: no path begins so, and no two warnings share a name."""

BINARY_LOOK_BYTES = 8_000
"""Git calls content binary when one of its first 8,000 bytes is NUL (buffer_is_binary in xdiff-interface.c)."""

_RISKY = {
    "workflow": (
        r"\.github/(workflows|actions)/.*",
        r"\.gitlab-ci\.ya?ml",
        r"\.(circleci|forgejo|woodpecker)/.*",
        r"jenkinsfile",
        r"(azure|bitbucket)-pipelines\.ya?ml",
        r"\.(drone|travis|woodpecker)\.ya?ml",
    ),
    "hook": (r"\.(husky|githooks)/.*", r"\.pre-commit-config\.ya?ml", r"lefthook\.ya?ml"),
    "attributes": (r"\.gitattributes", r"\.lfsconfig", r"\.mailmap", r"\.gitconfig"),
    "agent_instructions": (
        r"(agents|claude|gemini)\.md",
        r"\.(cursor|claude)/.*",
        r"\.(cursor|windsurf)rules",
        r"\.mcp\.json",
        r"\.github/copilot-instructions\.md",
    ),
    "codeowners": (r"codeowners",),
    "package_script": (
        r"package\.json",
        r"setup\.(py|cfg)",
        r"pyproject\.toml",
        r"tox\.ini",
        r"(conftest|sitecustomize)\.py",
        r"[^/]*\.pth",
        r"build\.rs",
        r"gemfile",
        r"\.npmrc",
        r"\.yarnrc(\.yml)?",
    ),
    "build": (
        r"(gnu)?makefile",
        r"([^/]+\.)?dockerfile(\.[^/]+)?",
        r"(docker-)?compose[^/]*\.ya?ml",
        r"justfile",
        r"rakefile",
        r"cmakelists\.txt",
        r"\.bazelrc",
        r"\.envrc",
        r"\.(vscode|devcontainer)/.*",
    ),
}
RUNS_OR_REDIRECTS = tuple(
    (kind, re.compile(f"(.*/)?({'|'.join(patterns)})".encode(), re.IGNORECASE | re.DOTALL))
    for kind, patterns in _RISKY.items()
)
"""Paths that some program runs, obeys or is redirected by, at any depth, in any letter case; `.gitmodules` has more
aliases than letter cases and is not among them."""

_BASE64 = re.compile(rb"[A-Za-z0-9+/\s]{16,}={0,2}\s*")
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF", b"PK\x03\x04", b"\x1f\x8b", b"\x7fELF", b"RIFF", b"\0asm")
_NO_TEXT = re.compile(rb".*\.(png|jpe?g|gif|webp|ico|pdf|zip|gz|tgz|woff2?|wasm|exe|so|dll|class|jar)", re.IGNORECASE)
_BASE64_OR_URI = re.compile(rb"(data:[\x20-\x7e]*,)?[A-Za-z0-9+/=_%\s-]+")
_WORD = re.compile(r"\w+")


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
    yield from running_warnings(path)
    yield from text_warnings(path.decode("utf-8", "replace"), "path", quote_path(path))


def running_warnings(path: bytes) -> Iterator[Note]:
    """The path is one that some program runs, obeys or is redirected by."""
    listed = (kind for kind, pattern in RUNS_OR_REDIRECTS if pattern.fullmatch(path))
    kind = "submodules" if sets_submodules(path) else next(listed, None)
    if kind:
        yield Note(code="runs_or_redirects", at=quote_path(path), params={"kind": kind})


def content_warnings(path: bytes, old: bytes, new: bytes) -> Iterator[Note]:
    """What the new content hides or is not what it seems."""
    shown = quote_path(path)
    if is_binary(new):
        yield Note(code="binary_content", at=shown, params={"bytes": len(new)})
    else:
        yield from text_warnings(new.decode("utf-8", "replace"), "content", shown)
    if looks_like_base64(path, new):
        yield Note(code="looks_like_base64", at=shown, params={"bytes": len(new)})
    if ends := line_ends_changed(old, new):
        yield Note(code="line_ends_change", at=shown, params={"lines": ends})


def text_warnings(text: str, where: str, at: str = "") -> Iterator[Note]:
    """The text has characters that are invisible or reorder others, or words that mix alphabets which look alike."""
    if hidden := find_hidden(text):
        yield Note(
            code="hidden_characters", at=at or WORDS_PLACE + where, params={"count": len(hidden), "where": where}
        )
    words = () if text.isascii() else _WORD.findall(text)
    mixed = [scripts for word in words if not word.isascii() and (scripts := mixed_scripts(word))]
    if mixed:
        names = sorted({name for scripts in mixed for name in scripts})
        yield Note(
            code="mixed_scripts",
            at=at or WORDS_PLACE + where,
            params={"count": len(mixed), "scripts": names, "where": where},
        )


def looks_like_base64(path: bytes, content: bytes) -> bool:
    """Whether text stands where a file that is no text was meant: it was not decoded.

    Either its first bytes are those of a known format once decoded, or the path's ending is one of a format that is
    no text and the content is nothing but base64, or a data URI.
    """
    if _NO_TEXT.fullmatch(path) and _BASE64_OR_URI.fullmatch(content):
        return True
    if not _BASE64.fullmatch(content):
        return False
    start = b"".join(content[:64].split())[:24]
    try:
        return base64.b64decode(start[: len(start) // 4 * 4]).startswith(_MAGIC)
    except binascii.Error:
        return False

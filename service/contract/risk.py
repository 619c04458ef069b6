"""What an owner must notice about new content, computed; each thing is a warning that must be acknowledged by name."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator

from service.contract.data import Json
from service.contract.hidden import find_hidden, mixed_scripts
from service.contract.names import quote_path, sets_submodules
from service.contract.plan import Note

WORDS_PLACE = "//"
"""Begins the place of a warning about the agent's words: no path begins so, and no two warnings share a name."""

LEAK = "secret"
"""The warning that a password, key or token comes."""
FIRST = (LEAK, "not_searched", "runs_or_redirects", "hidden_characters", "mixed_scripts", "looks_alike")
"""The warnings that are shown before all others, in this order."""

BINARY_LOOK_BYTES = 8_000
"""Git calls content binary when one of its first 8,000 bytes is NUL (buffer_is_binary in xdiff-interface.c)."""

_RISKY = {
    "workflow": (
        r"\.github/(workflows|actions)/.*",
        r"\.github/(dependabot|settings)\.ya?ml",
        r"action\.ya?ml",
        r"\.gitlab-ci[^/]*\.ya?ml",
        r"\.gitlab/.*\.ya?ml",
        r"\.(buildkite|circleci|forgejo|gitea|semaphore|teamcity|tekton|woodpecker|zuul\.d)/.*",
        r"(jenkinsfile(\.[^/]+)?|[^/]+\.jenkinsfile)",
        r"(azure|bitbucket)-pipelines[^/]*\.ya?ml",
        r"\.?(appveyor|cirrus|drone|mergify|readthedocs|travis|woodpecker|zuul)\.ya?ml",
        r"(buildspec|cloudbuild)[^/]*\.(ya?ml|json)",
        r"(renovate\.json5?|\.renovaterc(\.json5?)?)",
        r"(netlify\.toml|vercel\.json|fly\.toml|procfile)",
    ),
    "hook": (
        r"\.(husky|githooks|lefthook)/.*",
        r"\.pre-commit-(config|hooks)\.ya?ml",
        r"\.?lefthook(-local)?\.(ya?ml|toml|json)",
        r"\.(overcommit\.yml|huskyrc[^/]*|lintstagedrc[^/]*)",
    ),
    "attributes": (r"\.gitattributes", r"\.lfsconfig", r"\.mailmap", r"\.gitconfig", r"\.gitreview"),
    "agent_instructions": (
        r"(agents|claude|codex|gemini|qwen|skill|warp)(\.(local|override))?\.md",
        r"\.(agents?|aider|amazonq|augment|claude|cline|clinerules|codex|continue|cursor)/.*",
        r"\.(gemini|goose|junie|kiro|opencode|qwen|roo|windsurf)/.*",
        r"\.(cline|cursor|goose|windsurf)(rules|hints|ignore)",
        r"\.(aider[^/]*|roomodes|(claude|codeium|gemini)ignore)",
        r"(\.?mcp\.json|opencode\.jsonc?)",
        r"(\.github/)?copilot-instructions\.md",
        r"\.github/(agents|chatmodes|instructions|prompts|skills)/.*",
    ),
    "codeowners": (r"codeowners",),
    "package_script": (
        r"(package|composer|deno)\.jsonc?",
        r"setup\.(py|cfg)",
        r"pyproject\.toml",
        r"tox\.ini",
        r"(conftest|noxfile|sitecustomize|usercustomize)\.py",
        r"[^/]*\.pth",
        r"(build\.rs|\.cargo/config(\.toml)?|rust-toolchain(\.toml)?)",
        r"(gemfile|podfile|[^/]+\.gemspec)",
        r"(mix\.exs|package\.swift|binding\.gyp)",
        r"(\.npmrc|\.pnpmfile\.c?js|bunfig\.toml)",
        r"\.yarnrc(\.yml)?",
        r"(pip\.conf|\.pypirc|nuget\.config)",
        r"pom\.xml",
        r"\.mvn/.*",
        r"([^/]+\.gradle(\.kts)?|gradle\.properties|gradle/wrapper/.*|[^/]+\.sbt)",
        r"(gradlew|mvnw)(\.(bat|cmd))?",
    ),
    "build": (
        r"(gnu)?makefile(\.[^/]+)?",
        r"[^/]+\.(mk|bzl|cmake|just)",
        r"([^/]+\.)?(docker|container)file(\.[^/]+)?",
        r"(docker-)?compose[^/]*\.ya?ml",
        r"\.?(just|rake|task|tilt|earth|vagrant)file(\.ya?ml)?",
        r"cmakelists\.txt",
        r"(\.bazelrc|(build|module|workspace)\.bazel|meson\.build|sconstruct)",
        r"\.envrc",
        r"\.(devcontainer|idea|vscode|zed)/.*",
        r"(\.devcontainer\.json|[^/]+\.code-workspace|\.gitpod\.ya?ml|\.replit|devbox\.json)",
        r"(default|flake|shell)\.nix",
        r"\.?mise(\.[^/]+)?\.toml",
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
# What makes code read otherwise than it runs (Trojan Source, CVE-2021-42574), and runs of characters that nobody sees
# and that carry a byte each (GlassWorm). A flag of England is six of the latter.
_REORDERS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_CARRIES = re.compile(r"[\ufe00-\ufe0f\U000e0000-\U000e007f\U000e0100-\U000e01ef]{8}")


def in_order(warnings: Iterable[Note]) -> tuple[Note, ...]:
    """The gravest first; of one kind as they come."""

    def rank(note: Note) -> int:
        code = note.at if note.code == "many_alike" else note.code
        return FIRST.index(code) if code in FIRST else len(FIRST)

    return tuple(sorted(warnings, key=rank))


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
        params: Json = {"count": len(hidden), "where": where}
        if payload := _CARRIES.search(text) or (_REORDERS.search(text) if at else None):
            params["confirm"] = f"U+{ord(payload[0][0]):04X}"  # as it is marked where it stands
        yield Note(code="hidden_characters", at=at or WORDS_PLACE + where, params=params)
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

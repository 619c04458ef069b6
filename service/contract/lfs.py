"""Pointers of Git LFS: what stands in Git for a content that is elsewhere.

Source: git-lfs, docs/spec.md, "The Pointer".
"""

import re
from typing import Final, NamedTuple

_BYTES_MOST: Final = 1_024
_POINTER: Final = re.compile(
    rb"version https://(?:git-lfs\.github\.com/spec/v1|hawser\.github\.com/spec/v1)\n"
    rb"(?:ext-[0-9]-[a-z0-9.-]+ [^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n?"
)


class Pointer(NamedTuple):
    """Which content it stands for: its SHA-256 in hexadecimal digits, and its size in bytes."""

    oid: str
    size: int


def pointer_of(content: bytes | None) -> Pointer | None:
    """The pointer that a content is."""
    found = _POINTER.fullmatch(content) if content and len(content) < _BYTES_MOST else None
    return Pointer(found[1].decode(), int(found[2])) if found else None

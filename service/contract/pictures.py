"""What a content that is no text is, by its first bytes, and how large a picture in it is, without decoding it.

Sources: PNG (W3C), 11.2.2 IHDR; GIF89a, 18 logical screen, 20 image descriptor, 23 to 26 extensions; JPEG (T.81), B.2.2
frame header; RFC 9649, 2.5 to 2.7.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

BYTES_MOST: Final = 5_000_000
SIDE_MOST: Final = 16_384
PIXELS_MOST: Final = 40_000_000
"""A picture that is larger is not shown: to decode it could take more memory than a browser has."""

_KINDS: Final = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"\x7fELF", "ELF"),
    (b"MZ", "Windows program"),
    (b"\0asm", "WebAssembly"),
    (b"SQLite format 3\0", "SQLite"),
    (b"wOFF", "WOFF"),
    (b"wOF2", "WOFF2"),
    (b"OggS", "Ogg"),
    (b"ID3", "MP3"),
    (b"fLaC", "FLAC"),
    (b"\xca\xfe\xba\xbe", "Java class"),
)
_MARKS: Final = (  # the longer ones first: UTF-32 LE begins as UTF-16 LE does
    (b"\xff\xfe\0\0", "UTF-32 LE"),
    (b"\0\0\xfe\xff", "UTF-32 BE"),
    (b"\xff\xfe", "UTF-16 LE"),
    (b"\xfe\xff", "UTF-16 BE"),
    (b"\xef\xbb\xbf", "UTF-8"),
)
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_SEGMENTS_MOST: Final = 1_000


class Picture(NamedTuple):
    """A picture that browsers show.

    Attributes:
        kind: PNG, JPEG, GIF or WebP.
        width: in pixels, as its header says.
        height: likewise.
        bytes: how long it is.
    """

    kind: str
    width: int
    height: int
    bytes: int

    @property
    def media(self) -> str:
        """Its media type."""
        return f"image/{self.kind.lower()}"

    @property
    def shown(self) -> bool:
        """Whether it is small enough."""
        sides = 0 < self.width <= SIDE_MOST and 0 < self.height <= SIDE_MOST
        return sides and self.width * self.height <= PIXELS_MOST and self.bytes <= BYTES_MOST


def picture_of(content: bytes) -> Picture | None:
    """The picture that a content is; None for what is none, or has no header that says how large it is."""
    for kind, (begins, size) in _PICTURES.items():
        if begins(content):
            try:
                return Picture(kind, *size(content), len(content))
            except (struct.error, IndexError):
                return None
    return None


def kind_of(content: bytes) -> str:
    """What a content is by its first bytes; "" where they say nothing."""
    if picture := picture_of(content):
        return picture.kind
    return next((name for begins, name in _KINDS if content.startswith(begins)), "")


def byte_order_mark(content: bytes) -> str:
    """The encoding whose byte order mark a content begins with; "" for none."""
    return next((name for begins, name in _MARKS if content.startswith(begins)), "")


def _png(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", content, 16)
    return width, height


def _gif(content: bytes) -> tuple[int, int]:
    """The screen, or the first frame where it is larger: browsers make room for it."""
    screen_width, screen_height, flags = struct.unpack_from("<HHB", content, 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)  # after the colours
    while content[at] == 0x21:  # noqa: PLR2004  an extension: its label, then blocks until an empty one
        at += 2
        while content[at]:
            at += 1 + content[at]
        at += 1
    if content[at] != 0x2C:  # noqa: PLR2004  a frame
        raise IndexError
    left, top, width, height = struct.unpack_from("<HHHH", content, at + 1)
    return max(screen_width, left + width), max(screen_height, top + height)


def _jpeg(content: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(_SEGMENTS_MOST):
        while content[at] == 0xFF and content[at + 1] == 0xFF:  # noqa: PLR2004  fill bytes
            at += 1
        marker = content[at + 1]
        if content[at] != 0xFF:  # noqa: PLR2004  every marker begins so
            break
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return width, height
        at += 2 if marker in _ALONE else 2 + int(struct.unpack_from(">H", content, at + 2)[0])
    raise IndexError


def _webp(content: bytes) -> tuple[int, int]:
    chunk = content[12:16]
    if chunk == b"VP8X":
        return _three(content, 24) + 1, _three(content, 27) + 1
    if chunk == b"VP8L" and content[20] == 0x2F:  # noqa: PLR2004  its signature
        bits = int(struct.unpack_from("<I", content, 21)[0])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", content, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise IndexError


def _three(content: bytes, at: int) -> int:
    low, high = struct.unpack_from("<HB", content, at)
    return int(low | high << 16)


_PICTURES: Final[dict[str, tuple[Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]]]] = {
    "PNG": (lambda content: content.startswith(b"\x89PNG\r\n\x1a\n") and content[12:16] == b"IHDR", _png),
    "GIF": (lambda content: content.startswith((b"GIF87a", b"GIF89a")), _gif),
    "JPEG": (lambda content: content.startswith(b"\xff\xd8\xff"), _jpeg),
    "WebP": (lambda content: content.startswith(b"RIFF") and content[8:12] == b"WEBP", _webp),
}

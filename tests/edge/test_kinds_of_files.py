"""What a card says of each kind of file that Git knows, on real entries of a real repository."""

import re
import struct
from collections.abc import Mapping
from html import unescape
from pathlib import Path

import desk_views as views
import httpx
import pytest

from service.contract.data import Json
from service.contract.lfs import pointer_of
from service.contract.pictures import BYTES_MOST, Picture, byte_order_mark, kind_of, picture_of
from tests.stage import House, Web, git

pytestmark = pytest.mark.anyio

LINK, MODULE = "120000", "160000"
Entries = Mapping[str, tuple[str, bytes] | None]
"""Mode and content by path; of a submodule the commit; None takes the path away."""


def gif(screen: tuple[int, int], frame: tuple[int, int]) -> bytes:
    """A GIF with two colours, an extension and a frame."""
    colours, extension = b"\x80\0\0" + bytes(6), b"!\xf9\4\0\0\0\0\0"
    return (
        b"GIF89a"
        + struct.pack("<HH", *screen)
        + colours
        + extension
        + b","
        + struct.pack("<4H", 0, 0, *frame)
        + b"\0\2;"
    )


GIF = gif((3, 2), (3, 2))
BEFORE: Entries = {
    "current": (LINK, b"releases/2.2"),
    "lib": (MODULE, b"1" * 40),
    "film.mp4": ("100644", views.lfs("3", 1_048_576)),
    "logo.png": ("100644", views.png(4, 3)),
    "from.txt": ("100644", b"one\ntwo\nthree\nfour\n"),
    "run.sh": ("100644", b"#!/bin/sh\n"),
    "was-link": (LINK, b"there"),
    "gone.txt": ("100644", b""),
    "end.txt": ("100644", b"a\nb\n"),
    "dos.txt": ("100644", b"a\r\nb\r\n"),
}
AFTER: Entries = {
    "current": (LINK, b"releases/2.3"),
    "lib": (MODULE, b"2" * 40),
    "film.mp4": ("100644", views.lfs("4", 2_097_152)),
    "logo.png": ("100644", views.png(5, 3)),
    "huge.png": ("100644", views.png(30_000, 30_000)),
    "icon.gif": ("100644", GIF),
    "icon.svg": ("100644", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>\n'),
    "from.txt": None,
    "to.txt": ("100644", b"one\ntwo\nthree\nfour\n"),
    "run.sh": ("100755", b"#!/bin/sh\n"),
    "was-link": ("100644", b"here\n"),
    "gone.txt": None,
    "end.txt": ("100644", b"a\nb"),
    "dos.txt": ("100644", b"a\nb\n"),
    "utf16.txt": ("100644", "Gr\u00fc\u00dfe\n".encode("utf-16")),
    "utf32.txt": ("100644", "Gr\u00fc\u00dfe\n".encode("utf-32")),
    "bom.csv": ("100644", b"\xef\xbb\xbfa;b\n"),
    "latin1.txt": ("100644", "caf\u00e9\n".encode("latin-1")),
}
SAID = {
    "current": ("symbolic link", "\N{MINUS SIGN} releases/2.2", "+ releases/2.3"),
    "lib": ("Before: commit " + "1" * 40, "After: commit " + "2" * 40, "is not here"),
    "film.mp4": (
        "LFS pointer",
        f"Before: 1,048,576 bytes, SHA-256 {'3' * 64}",
        f"After: 2,097,152 bytes, SHA-256 {'4' * 64}",
        "is not here",
    ),
    "logo.png": ("not text", "Before: PNG of 4 by 3 pixels,", "After: PNG of 5 by 3 pixels,"),
    "huge.png": ("After: PNG of 30,000 by 30,000 pixels,", "After: a picture of so many pixels is not shown."),
    "icon.gif": ("After: GIF of 3 by 2 pixels,",),
    "icon.svg": ("<script>", "alert(1)"),
    "to.txt": ("renamed", "was from.txt", "The content stays the same, byte for byte."),
    "run.sh": ("100644 \u2192 100755",),
    "was-link": ("120000 \u2192 100644", "symbolic link", "there", "here"),
    "gone.txt": ("deleted", "The file was empty."),
    "end.txt": ("no newline at the end of the file",),
    "dos.txt": ("line ends change on 2 lines", "CR LF"),
    "utf16.txt": ("not text", "not UTF-8", "UTF-16 LE byte order mark"),
    "utf32.txt": ("not text", "not UTF-8", "UTF-32 LE byte order mark"),
    "bom.csv": ("UTF-8 byte order mark", "U+FEFF ZWNBSP"),
    "latin1.txt": ("not UTF-8", "byte E9"),
}  # fmt: skip


def commit(path: Path, parent: str, entries: Entries) -> str:
    git(path, "read-tree", parent)
    for name, entry in entries.items():
        mode, content = entry or ("0", b"")
        oid = content.decode() if mode == MODULE else "0" * 40
        if entry and mode != MODULE:
            oid = git(path, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
        git(path, "update-index", "--index-info", stdin=f"{mode} {oid}\t{name}\n".encode())
    tree = git(path, "write-tree").decode().strip()
    return git(path, "commit-tree", tree, "-p", parent, "-m", "Change").decode().strip()


async def propose(house: House, before: Entries, after: Entries) -> Json:
    """The change from one to the other, proposed as a merge of a branch that somebody pushed."""
    base = commit(house.path, "main", before)
    git(house.path, "update-ref", "refs/heads/main", base)
    git(house.path, "update-ref", "refs/heads/side", commit(house.path, base, after))
    sent = {"repository_id": str(house.repository), "branch": "main", "source": "side", "reason": "As was asked."}
    return await house.propose(sent, tool="propose_merge")


def panels(page: str) -> dict[str, str]:
    """The text of every file's panel by its name."""
    found = {}
    for panel in re.findall(r'<section class="panel file.*?</section>', page, re.DOTALL):
        text = unescape(" ".join(re.sub(r"<[^>]*>", " ", re.sub(r"</?mark>", "", panel)).split()))
        found[text.split(" ")[0]] = text
    return found


async def test_each_kind_of_file_is_said_to_be_what_it_is(web: Web, house: House) -> None:
    shown = await propose(house, BEFORE, AFTER)
    browser = await web.browser(house.owner)
    for layout in ("unified", "split"):
        answer = await web.http.get(f"/proposals/{shown['proposal_id']}?view={layout}", headers=browser)
        found = panels(answer.text)
        assert set(found) == set(SAID)
        for name, said in SAID.items():
            assert [one for one in said if one not in found[name]] == [], found[name]
        assert "no newline" not in found["current"] + found["lib"]
        assert "Subproject" not in found["lib"]


@pytest.fixture
async def pictures(web: Web, house: House) -> tuple[dict[str, str], str]:
    """An owner's browser, and where the files of a proposal with pictures are."""
    names = ("logo.png", "huge.png", "icon.gif", "icon.svg")
    shown = await propose(house, {"logo.png": BEFORE["logo.png"]}, {name: AFTER[name] for name in names})
    return await web.browser(house.owner), f"/proposals/{shown['proposal_id']}/files"


async def test_a_picture_is_sent_so_that_it_is_nothing_but_a_picture(
    web: Web, pictures: tuple[dict[str, str], str]
) -> None:
    browser, files = pictures
    old, new = [await web.http.get(f"{files}/4/{side}/picture", headers=browser) for side in ("old", "new")]
    assert (old.content, new.content) == (views.png(4, 3), views.png(5, 3))
    gif = await web.http.get(f"{files}/2/new/picture", headers=browser)
    assert (gif.content, gif.headers["content-type"]) == (GIF, "image/gif")
    assert new.headers["content-type"] == "image/png"
    assert new.headers["x-content-type-options"] == "nosniff"
    assert new.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert new.headers["content-disposition"] == 'inline; filename="picture.png"'


@pytest.mark.parametrize("what", ["1/new", "2/old", "3/new", "4/both", "5/new", "0/new"])
async def test_what_is_no_picture_that_can_be_shown_is_not_found(
    web: Web, pictures: tuple[dict[str, str], str], what: str
) -> None:
    browser, files = pictures
    assert (await web.http.get(f"{files}/{what}/picture", headers=browser)).status_code == 404


async def test_a_picture_is_nobodys_but_who_may_see_the_proposal(
    web: Web, house: House, pictures: tuple[dict[str, str], str]
) -> None:
    _, files = pictures
    stranger = await web.browser((await house.stage.house()).owner)
    agent = {"authorization": f"Bearer {await web.token(house.agent)}"}
    answers: list[httpx.Response] = [
        await web.http.get(f"{files}/4/new/picture", headers=headers) for headers in (stranger, agent, {})
    ]
    assert [answer.status_code for answer in answers] == [404, 403, 303]


WEBP = {
    "VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480),
    "VP8L": b"\x2f" + struct.pack("<I", 639 | 479 << 14),
    "VP8X": bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little"),
}


@pytest.mark.parametrize("chunk", WEBP)
def test_a_webp_says_how_large_it_is(chunk: str) -> None:
    content = b"RIFF\0\0\0\0WEBP" + chunk.encode() + bytes(4) + WEBP[chunk]
    assert picture_of(content) == Picture("WebP", 640, 480, len(content))
    assert picture_of(content[:22]) is None


def test_a_jpeg_says_how_large_it_is_and_a_broken_one_is_no_picture() -> None:
    assert picture_of(views.JPEG) == Picture("JPEG", 32, 16, len(views.JPEG))
    for end in range(len(views.JPEG) - 14):
        assert picture_of(views.JPEG[:end]) is None
    assert picture_of(b"\xff\xd8\xff" + b"\xff" * 100_000) is None
    assert picture_of(b"\xff\xd8" + b"\xff\xe0\0\0" * 100_000) is None


def test_a_picture_is_shown_while_it_is_small_enough() -> None:
    shown = Picture("PNG", 8_000, 5_000, BYTES_MOST)
    assert shown.shown
    for larger in ({"width": 8_001}, {"bytes": BYTES_MOST + 1}, {"width": 0}, {"width": 20_000, "height": 1}):
        assert not shown._replace(**larger).shown


def test_first_bytes_say_what_a_content_is() -> None:
    names = [kind_of(content) for content in (b"%PDF-1.7", b"PK\x03\x04", b"\x7fELF", views.png(1, 1), b"<svg>", b"")]
    assert names == ["PDF", "ZIP", "ELF", "PNG", "", ""]
    marks = [byte_order_mark("\ufeffa".encode(name)) for name in ("utf-8", "utf-16-be", "utf-32-be", "utf-16-le")]
    assert marks == ["UTF-8", "UTF-16 BE", "UTF-32 BE", "UTF-16 LE"]


@pytest.mark.parametrize(
    ("content", "is_one"),
    [
        (views.lfs("a", 12), True),
        (views.lfs("a", 12).replace(b"oid", b"ext-0-foo sha256:" + b"b" * 64 + b"\noid"), True),
        (views.lfs("a", 12) + b"more\n", False),
        (views.lfs("g", 12), False),
        (b"see version https://git-lfs.github.com/spec/v1\n", False),
        (None, False),
    ],
)
def test_a_pointer_of_lfs_is_known_by_its_form(content: bytes | None, is_one: bool) -> None:
    assert (pointer_of(content) is not None) is is_one


def test_a_gif_is_as_large_as_its_first_frame_where_that_is_larger_than_its_screen() -> None:
    found = picture_of(gif((1, 1), (20_000, 20_000)))
    assert found is not None
    assert (found.width, found.height, found.shown) == (20_000, 20_000, False)
    whole = gif((3, 2), (1, 1))
    assert picture_of(whole) == Picture("GIF", 3, 2, len(whole))
    assert [picture_of(whole[:end]) for end in range(10, 30)] == [None] * 20

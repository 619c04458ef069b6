"""What the diff of a file shows: everything, marked, and nothing else."""

import html
import re
import time

import desk_views as views
import pytest

from service.contract.hidden import HIDDEN_RANGES, is_hidden, label, readable
from service.edge.desk.diffview import FilePanel, panel
from service.edge.desk.visible import Visible
from service.edge.desk.words import Words
from service.proposals.view import FileView
from service.repositories.colour import Palette

# Downwards, since a NUL among the first 8,000 bytes makes content binary, for Git and for us.
CODE_POINTS = [chr(code) for code in reversed(range(0x110000)) if not 0xD800 <= code < 0xE000 and is_hidden(chr(code))]
PLACES = ("{}tail", "head{}", "he{}ad", "# co{}mment", '"st{}ring"')
HIDDEN = re.compile(f"[{HIDDEN_RANGES}]")


def shown(old: bytes | None, new: bytes | None, path: bytes = b"a.txt") -> FilePanel:
    return panel(views.file_view(path, old, new), 1, Palette())


def rows(found: FilePanel) -> list[tuple[str, str]]:
    """(sign, text) of every row as a reader sees it."""
    cells = re.findall(r'<td class="s">(.*?)</td><td[^>]*>(.*?)</td></tr>', str(found.rows or ""), re.DOTALL)
    return [(sign, html.unescape(re.sub(r"<[^>]*>", "", text))) for sign, text in cells]


def test_there_are_4287_code_points_to_show() -> None:
    assert len(CODE_POINTS) == 4287


@pytest.mark.parametrize("place", PLACES)
def test_every_hidden_code_point_is_a_mark_in_content(place: str) -> None:
    lines = [place.format(char) for char in CODE_POINTS]
    found = shown(None, "\n".join(lines).encode() + b"\n", b"a.py")
    line_ends = {"\r"} if place.endswith("{}") else set()
    marks = ["CR LF" if char in line_ends else label(char) for char in CODE_POINTS]
    assert [text for _, text in rows(found)] == [place.format(mark) for mark in marks]
    assert HIDDEN.search(str(found.rows)) is None
    assert found.hidden == len(CODE_POINTS) - len(line_ends)


def test_every_hidden_code_point_is_a_mark_in_a_name_and_in_plain_text() -> None:
    for char in CODE_POINTS:
        text = f"ad{char}min"
        mark = Visible().line(text)
        assert f'<span class="hid">{label(char)}</span>' in mark
        assert readable(text) == f"ad[{label(char)}]min"
        assert HIDDEN.search(mark) is None


def test_a_name_shows_its_line_breaks_and_tabs_and_bytes_that_are_no_text() -> None:
    said = re.sub(r"<[^>]*>", "|", Visible().path(b"a\tb\nc\r\nd\xff"))
    assert said == "a|U+0009 TAB|b|U+000A LF|c|U+000D CR||U+000A LF|d|byte FF|"


def test_every_changed_line_is_there_after_five_thousand_equal_ones() -> None:
    old = b"same\n" * 5_000 + b"last\n"
    said = rows(shown(old, old.replace(b"last", b"lost")))
    assert ("\N{MINUS SIGN}", "last") in said
    assert ("+", "lost") in said
    assert said[0] == ("", "4,997 unchanged lines")


def test_a_minified_line_of_100_kb_is_whole_and_its_change_is_marked() -> None:
    old = b"var a=1;" * 12_500
    new = old[:50_000] + b"evil();" + old[50_000:]
    found = shown(old, new, b"app.min.js")
    text = str(found.rows)
    assert [len(line) for sign, line in rows(found) if sign] == [len(old), len(new)]
    assert re.sub(r"<[^>]*>", "", re.findall(r"<mark[^>]*>(.*?)</mark>", text)[0]).strip(";") in "evil();1"
    anchors = re.findall(r'href="#([^"]*)"', text)
    assert anchors
    assert all(f'<mark id="{anchor}">' in text for anchor in anchors)


def test_a_whole_file_that_comes_or_goes_is_shown_whole() -> None:
    content = b"".join(b"line %d\n" % number for number in range(300))
    for found in (shown(None, content), shown(content, None)):
        assert [text for _, text in rows(found)] == [f"line {number}" for number in range(300)]


def test_changed_words_are_marked() -> None:
    text = str(shown(b"The newest release is fine.\n", b"The 2.3 release is fine.\n").rows)
    assert re.findall(r"<mark>(.*?)</mark>", text) == ["newest", "2.3"]


def test_lines_with_little_in_common_are_not_marked() -> None:
    assert Words().changed("alpha beta", "{completely: other}") == ([], [])


def test_word_marks_take_bounded_work_on_hostile_lines() -> None:
    old = "\n".join("a b " * 60 + "x" for _ in range(400)).encode() + b"\n"
    new = "\n".join("b a " * 60 + "y" for _ in range(400)).encode() + b"\n"
    before = time.process_time()
    shown(old, new)
    assert time.process_time() - before < 5


@pytest.mark.parametrize("piece", ["{", "`${", "/*", '"""', " ", "\\", "<!--", "a: ", "'", "\t", "("])
@pytest.mark.parametrize("name", [b"a.py", b"a.js", b"a.md", b"a.sh", b"a.yml", b"a.c", b"a.html"])
def test_colours_take_bounded_time_on_hostile_content(name: bytes, piece: str) -> None:
    content = (piece * 100_000)[:100_000].encode()
    before = time.process_time()
    Palette().colours(name, content)
    assert time.process_time() - before < 3


def test_colours_wrap_the_text_and_never_change_it() -> None:
    content = 'def main(a):\n    """Say\n    it."""\n    return f"{a!r}\u202e" # why\n'.encode()
    found = shown(None, content, b"a.py")
    assert "\n".join(text for _, text in rows(found)) + "\n" == content.decode().replace("\u202e", "U+202E RLO")
    assert 'class="t-keyword"' in str(found.rows)


def test_line_ends_that_change_are_shown() -> None:
    found = shown(b"x\r\ny\r\nz\r\n", b"x\ny\nz\n")
    assert [text for _, text in rows(found)] == ["xCR LF", "yCR LF", "zCR LF", "xLF", "yLF", "zLF"]
    assert found.badges[0].text == "line ends change on 3 lines"


def test_windows_line_ends_that_stay_are_said_once() -> None:
    found = shown(b"x\r\ny\r\nz\r\n", b"x\r\nY\r\nz\r\n")
    assert [text for _, text in rows(found)] == ["x", "y", "Y", "z"]
    assert [badge.text for badge in found.badges] == ["CR LF line ends"]


def test_a_lone_carriage_return_is_marked() -> None:
    assert rows(shown(None, b"a\rb\n")) == [("+", "aU+000D CRb")]
    assert rows(shown(None, b"a\r"))[0] == ("+", "aU+000D CR")


def test_a_missing_newline_at_the_end_is_said_on_the_side_that_lacks_it() -> None:
    note = "no newline at the end of the file"
    assert [text for _, text in rows(shown(b"a\nb", b"a\nb\n"))] == ["a", "b", note, "b"]
    assert [text for _, text in rows(shown(b"a\nb\n", b"a\nb"))] == ["a", "b", "b", note]


def facts(file: FileView) -> tuple[list[str], list[str]]:
    found = panel(file, 1, Palette())
    return [badge.text for badge in found.badges], list(found.facts)


def test_a_change_of_mode_only_is_shown() -> None:
    file = views.file_view(b"run.sh", b"#!/bin/sh\n", b"#!/bin/sh\n", new_mode=0o100755)
    assert facts(file) == (["100644 → 100755"], ["The content stays the same, byte for byte."])


def test_a_new_executable_is_shown() -> None:
    assert facts(views.file_view(b"run.sh", None, b"", new_mode=0o100755)) == (
        ["new file", "executable 100755"],
        ["The file is empty."],
    )


def test_a_file_that_is_emptied_shows_what_it_loses() -> None:
    assert rows(shown(b"a\n", b"")) == [("\N{MINUS SIGN}", "a")]


def test_binary_content_is_shown_by_size_and_hash() -> None:
    badges, told = facts(views.file_view(b"p.png", None, bytes(12)))
    assert badges == ["new file", "not text"]
    assert told[1] == "After: 12 bytes, SHA-256 15ec7bf0b50732b49f8228e07d24365338f9e3ab994b00af08e5a3bffe55fd8b"


def test_a_symbolic_link_is_called_one() -> None:
    file = views.file_view(b"link", b"/etc/passwd", b"/etc/shadow", old_mode=0o120000, new_mode=0o120000)
    assert facts(file)[0] == ["symbolic link"]


def test_a_rename_says_where_the_file_was() -> None:
    found = panel(views.file_view(b"to", b"a\n", b"a\n", old_path=b"fr\xe2\x80\xaeom"), 1, Palette())
    assert found.old_path == 'fr<span class="hid">U+202E RLO</span>om'
    assert found.facts == ("The content stays the same, byte for byte.",)


def test_content_that_is_no_utf8_is_shown_byte_by_byte() -> None:
    found = shown(b"caf\xe9\n", b"caf\xc3\xa9\n")
    assert rows(found) == [("\N{MINUS SIGN}", "cafbyte E9"), ("+", "café")]
    assert [badge.text for badge in found.badges] == ["not UTF-8"]

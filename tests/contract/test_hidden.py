"""Whatever a reader cannot see is found, named and set apart."""

from collections import Counter

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contract.hidden import HIDDEN_RANGES, Hidden, find_hidden, is_hidden, label, mixed_scripts, split_hidden

EVERY = "".join(map(chr, range(0x110000)))
PROPERTIES = regex.compile(
    r"[[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}]--[\t\n\x20]]", regex.V1
)
SET = frozenset(PROPERTIES.findall(EVERY))
FRAMES = ("{}b", "a{}", "a{}b", "1\n{}\n3", "\t{} ")
TEXTS = st.text(st.one_of(st.sampled_from(sorted(SET)), st.sampled_from("\r\n\tab é漢😀")), max_size=60)
LAW = settings(derandomize=True, deadline=None, max_examples=200)


def test_the_ranges_are_the_unicode_properties_over_every_code_point() -> None:
    assert len(SET) == 4287
    assert set(regex.findall(f"[{HIDDEN_RANGES}]", EVERY)) == SET
    assert {char for char in EVERY if is_hidden(char)} == SET


@pytest.mark.parametrize("frame", FRAMES)
def test_each_hidden_character_is_found_once_at_its_place_in_every_position(frame: str) -> None:
    line, offset = 1 + frame[: frame.index("{")].count("\n"), frame.index("{")
    for char in SET - {"\r"}:
        (found,) = find_hidden(frame.format(char))
        assert (found.offset, found.code_point, found.line) == (offset, ord(char), line)
        assert f"U+{ord(char):04X} {found.name}" == label(char)


def test_nothing_else_is_reported_among_all_code_points() -> None:
    assert [found.code_point for found in find_hidden(EVERY)] == sorted(map(ord, SET))


@pytest.mark.parametrize(
    ("char", "shown"),
    [
        ("\u202e", "U+202E RLO"),
        ("\u2066", "U+2066 LRI"),
        ("\u200b", "U+200B ZWSP"),
        ("\ufeff", "U+FEFF ZWNBSP"),
        ("\u00a0", "U+00A0 NBSP"),
        ("\x00", "U+0000 NUL"),
        ("\x1b", "U+001B ESC"),
        ("\x9b", "U+009B CSI"),
        ("\ufe0f", "U+FE0F VS16"),
        ("\U000e01ef", "U+E01EF VS256"),
        ("\U000e0061", "U+E0061 TAG LATIN SMALL LETTER A"),
        ("\u2061", "U+2061 FUNCTION APPLICATION"),
        ("\u2065", "U+2065 unassigned"),
    ],
)
def test_a_label_is_the_code_point_and_its_usual_short_name(char: str, shown: str) -> None:
    assert label(char) == shown


def test_short_names_are_those_of_one_character_each() -> None:
    names = Counter(label(char).split(" ", 1)[1] for char in SET)
    del names["unassigned"]
    assert max(names.values()) == 1


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("x\r\ny\r\n", []),
        ("x\ry", [1]),
        ("x\r", [1]),
        ("\r\r\n", [0]),
        ("\u200b\r\n", [0]),
        ("\r\u200b\n", [0, 1]),
        ("", []),
        ("\tplain\n", []),
    ],
)
def test_a_carriage_return_is_hidden_unless_a_line_feed_follows(text: str, offsets: list[int]) -> None:
    assert [found.offset for found in find_hidden(text)] == offsets


def test_lines_are_counted_by_line_feeds_only() -> None:
    text = "a\u2028b\n\u200bc\rd\n\n\u202e"
    assert [(found.code_point, found.line) for found in find_hidden(text)] == [
        (0x2028, 1),
        (0x200B, 2),
        (0x0D, 2),
        (0x202E, 4),
    ]


@LAW
@given(TEXTS)
def test_pieces_joined_again_are_the_text_and_strings_hide_nothing(text: str) -> None:
    pieces = list(split_hidden(text))
    assert "".join(chr(piece.code_point) if isinstance(piece, Hidden) else piece for piece in pieces) == text
    for piece in pieces:
        assert isinstance(piece, Hidden) or (piece and not find_hidden(piece + "\n"))
    assert tuple(piece for piece in pieces if isinstance(piece, Hidden)) == find_hidden(text)


@LAW
@given(TEXTS)
def test_a_hidden_character_counts_the_line_feeds_before_it(text: str) -> None:
    for found in find_hidden(text):
        assert text[found.offset] == chr(found.code_point)
        assert found.line == 1 + text.count("\n", 0, found.offset)


@pytest.mark.parametrize("hostile", ["\x01", "\x01\n", "\r", "\r\n", "\u202ea", "\U000e0100"])
def test_a_text_of_hidden_characters_only_is_taken_apart_piece_by_piece(hostile: str) -> None:
    text = hostile * 20_000
    assert len(find_hidden(text)) == 20_000 * len(find_hidden(hostile))


@pytest.mark.parametrize(
    ("word", "scripts"),
    [
        ("admin", ()),
        ("\u0430dmin", ("Latin", "Cyrillic")),
        ("\u0430\u0434\u043c\u0438\u043d", ()),
        ("p\u03b1ssword", ("Latin", "Greek")),
        ("\u13a0BC", ("Latin", "Cherokee")),
        ("\u0430\u03b1", ("Cyrillic", "Greek")),
        ("\u6d4b\u8bd5test_2", ()),
        ("caf\u00e9", ()),
        ("\u00b5m", ()),
        ("", ()),
    ],
)
def test_a_word_that_mixes_look_alike_alphabets_names_them(word: str, scripts: tuple[str, ...]) -> None:
    assert mixed_scripts(word) == scripts

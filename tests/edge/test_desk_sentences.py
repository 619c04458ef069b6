"""Codes become sentences; what is not known is shown as it is."""

from datetime import timedelta
from typing import Any

import pytest
from desk_views import NOW
from hypothesis import given
from hypothesis import strategies as some

from service.contract.operation import Operation
from service.contract.plan import Note
from service.edge.desk.pieces import at_text
from service.edge.desk.sentences import SECTIONS, Chapter, _as_it_is, html, plain, sentence, waiting
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment
from tests.proposals.scenes import Scenes
from tests.stage import REGISTRY

CHAPTERS: tuple[Chapter, ...] = ("headline", "note", "warning", "brief")
CODES = (
    *("files_change", "file_created", "file_updated", "file_deleted", "file_renamed", "mode_changed"),
    *("becomes_executable", "hidden_characters", "line_ends_change", "runs_or_redirects"),
    *("looks_like_base64", "binary_content", "deletes_file", "mixed_scripts"),
)


def says(chapter: Chapter, code: str, at: str = "", **params: object) -> str:
    return plain(sentence(chapter, Note(code=code, at=at, params=params)))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"updated": 2, "executable": 1}, "Change 2 files on main; one becomes executable"),
        ({"created": 1}, "Create 1 file on main"),
        ({"created": 1, "executable": 1}, "Create 1 file on main; it becomes executable"),
        ({"deleted": 4}, "Delete 4 files on main"),
        ({"renamed": 1, "updated": 0}, "Rename 1 file on main"),
        ({"mode_changed": 2, "executable": 2}, "Change the mode of 2 files on main; two become executable"),
        ({"created": 1, "updated": 2, "deleted": 1}, "Change 4 files on main: 1 created, 2 changed, 1 deleted"),
    ],
)
def test_a_headline_says_what_would_happen(params: dict[str, int], expected: str) -> None:
    assert says("headline", "files_change", branch="main", **params) == expected


@pytest.mark.parametrize(
    ("code", "params", "expected"),
    [
        ("becomes_executable", {"mode": "100755"}, "Runs on your machines. a becomes executable (mode 100755)."),
        (
            "hidden_characters",
            {"count": 1, "where": "content"},
            "1 hidden character in the content of a. It is marked where it stands.",
        ),
        (
            "hidden_characters",
            {"count": 3, "where": "message"},
            "3 hidden characters in the commit message. Each is marked where it stands.",
        ),
        ("line_ends_change", {"lines": 3}, "Line ends change on 3 lines of a; they are marked below."),
        (
            "runs_or_redirects",
            {"kind": "agent_instructions"},
            "Instructs agents. a is read by agents that work here, as orders.",
        ),
        ("runs_or_redirects", {"kind": "submodules"}, "Redirects. a decides from where submodules are fetched."),
        ("binary_content", {"bytes": 12}, "Not text. a holds 12 bytes that cannot be shown as lines."),
        ("deletes_file", {}, "Deletes a. After this, what it holds is in the history only."),
    ],
)
def test_a_warning_says_what_to_mind(code: str, params: dict[str, object], expected: str) -> None:
    assert says("warning", code, "a", **params) == expected


def test_a_note_says_lines_and_modes() -> None:
    params = {"added": 11, "removed": 0, "old_mode": "100644", "new_mode": "100755", "binary": False}
    assert says("note", "file_updated", "run.sh", **params) == "Change run.sh, +11, mode 100644 → 100755"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_code_that_is_not_known_is_shown_with_its_parameters(chapter: Chapter) -> None:
    assert says(chapter, "moon_moves", "refs/x", by=2) == 'moon_moves refs/x {"by": 2}'


_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=6,
)
_NAMES = some.sampled_from(
    (
        *("branch", "created", "updated", "executable", "mode", "count", "where", "lines", "kind"),
        *("bytes", "binary", "old_path", "added", "old_mode"),
    )
)


@given(some.sampled_from(CHAPTERS), some.sampled_from(CODES), some.text(), some.dictionaries(_NAMES, _JSON))
def test_no_parameters_make_a_sentence_fail(chapter: Chapter, code: str, at: str, params: dict[str, object]) -> None:
    pieces = sentence(chapter, Note(code=code, at=at, params=params))
    assert html(pieces, Visible())
    plain(pieces).encode()


@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("value", [None, 1, [], {}, "x"])
def test_no_kind_of_value_in_every_parameter_makes_a_sentence_fail(chapter: Chapter, code: str, value: object) -> None:
    params = dict.fromkeys(("branch", "count", "where", "lines", "kind", "bytes", "old_path", "mode", "scripts"), value)
    assert plain(sentence(chapter, Note(code=code, at="x", params=params)))


def test_a_quoted_path_is_shown_as_what_it_is() -> None:
    assert at_text('"a\\tb\\342\\200\\256"') == "a\tb\u202e"
    assert at_text('"not quoted well\\') == '"not quoted well\\'
    assert says("note", "file_deleted", '"a\\342\\200\\256\\377"') == "Delete a[U+202E RLO][byte FF]"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "Nothing waits for you."),
        (1, "One thing waits for you"),
        (3, "Three things wait for you"),
        (1400, "1,400 things wait for you"),
    ],
)
def test_the_inbox_says_in_words_how_many_things_wait(count: int, expected: str) -> None:
    assert waiting(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-10, "just now"),
        (-61, "1 minute ago"),
        (-240, "4 minutes ago"),
        (-3600 * 23, "23 hours ago"),
        (-86400 * 12, "12 days ago"),
        (30, "in less than a minute"),
        (2400, "in 40 min"),
        (86160, "in 23 h 56 min"),
        (86400 * 30, "in 30 days"),
    ],
)
def test_times_are_relative_and_exact_beside(seconds: int, expected: str) -> None:
    at = NOW + timedelta(seconds=seconds)
    assert moment(at, NOW) == f'<time datetime="{at.isoformat()}" title="{at.isoformat()}">{expected}</time>'


@pytest.mark.parametrize("operation", list(REGISTRY.operations().values()), ids=lambda one: one.kind)
def test_everything_that_an_operation_puts_on_a_card_has_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, operation: Operation[Any]
) -> None:
    scenes = Scenes(tmp_path_factory.mktemp("scenes"))
    for example in (one for one in operation.examples() if not one.blocked):
        card = scenes.case(operation, example).card
        said: list[tuple[Chapter, Note]] = [("headline", card.headline)]
        said += [("note", note) for section in card.sections for note in section.notes]
        said += [(chapter, note) for note in card.warnings for chapter in ("warning", "brief")]  # type: ignore[misc]
        for chapter, note in said:
            assert sentence(chapter, note) != _as_it_is(note), note
        assert {section.code for section in card.sections} <= SECTIONS.keys()

"""A clause that would not do what its author believes is refused before it is kept."""

from typing import Literal

import pytest

from service.grants.policy import Clause, Subject, check_pattern
from service.kit.errors import Code, Refusal
from service.tools.registry import discover

KINDS = discover().operations()
SUBJECTS: tuple[Subject, ...] = ("operation", "branch", "path")


@pytest.mark.parametrize(
    ("subject", "pattern"),
    [
        ("operation", "propose_file_import"),
        ("operation", "propose_file_impor?"),
        ("operation", "propose_*"),
        ("operation", "some_day_*"),
        ("operation", "**"),
        ("branch", "release/?.*"),
        ("path", ".github/**"),
        ("path", "a]b"),
        ("path", "ä" * 300),
    ],
)
@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_pattern_that_can_match_is_taken(effect: Literal["allow", "deny"], subject: Subject, pattern: str) -> None:
    check_pattern(Clause(effect, subject, pattern), KINDS)


def _refused(subject: Subject, pattern: str) -> str:
    with pytest.raises(Refusal) as caught:
        check_pattern(Clause("deny", subject, pattern), KINDS)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.details["field"] == "pattern"
    return caught.value.message


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("pattern", ["", "*" * 301, "a\0*", "a\n*", "*\x7f", "*\x85"])
def test_a_pattern_that_is_empty_too_long_or_has_control_characters_is_refused(subject: Subject, pattern: str) -> None:
    assert _refused(subject, pattern).startswith("A pattern ")


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("pattern", ["[", "*.[ch]", "[!a]*", "*.{py,md}", "{", "*}"])
def test_a_pattern_that_looks_like_a_class_or_a_list_is_refused(subject: Subject, pattern: str) -> None:
    assert "[ ] classes" in _refused(subject, pattern)


def test_a_path_that_begins_with_a_slash_is_refused() -> None:
    assert "without a slash" in _refused("path", "/etc/**")


@pytest.mark.parametrize("pattern", ["nope", "propose_file_imports", "?"])
def test_an_operation_that_does_not_exist_is_refused_with_those_that_do(pattern: str) -> None:
    assert "propose_file_import" in _refused("operation", pattern)

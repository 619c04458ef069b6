"""Secrets are found by their shapes: thirty kinds, as they are and in base64, whatever the text says of itself."""

import base64
import random
import string
import textwrap
from pathlib import Path

import pytest

from service.kit import leaks
from service.kit.leaks import DECODED_MOST, LEAST, OVERLAP, WINDOW, Leak, find_leaks
from tests.kinds import KINDS, canary

every_kind = pytest.mark.parametrize("text", KINDS.values(), ids=KINDS.keys())
PLAIN = "nothing here\n"


def found(text: str, lines: list[range] | None = None) -> list[Leak]:
    return list(find_leaks(text, lambda: None, lines))


def test_there_are_thirty_kinds() -> None:
    assert len(KINDS) == 30


@every_kind
def test_each_kind_is_found_on_its_line(text: str) -> None:
    assert 4 in {leak.first for leak in found(PLAIN * 3 + text + "\n" + PLAIN)}


@every_kind
def test_each_kind_is_found_in_base64_on_one_line_and_on_several(text: str) -> None:
    coded = base64.b64encode(text.encode()).decode()
    assert [leak.first for leak in found(f"{PLAIN}data: {coded}\n{PLAIN}")][:1] == [2]
    wrapped = "\n".join(textwrap.wrap(coded, 76))
    assert [leak.first for leak in found(f"{PLAIN}{wrapped}\n{PLAIN}end\n")][:1] == [2]


@pytest.mark.parametrize("marker", ["gitleaks:allow", "betterleaks:allow"])
def test_a_text_cannot_ask_not_to_be_searched(marker: str) -> None:
    assert found(f'token = "{canary()}"  # {marker}\n')


@pytest.mark.parametrize("before", ["\0", "\r\n", "\ufeff", "\ufffd"])
def test_what_stands_before_a_secret_does_not_hide_it(before: str) -> None:
    assert found(f'{before}x = "{canary()}"\n')


def test_base64_of_base64_is_opened_and_lines_after_it_keep_their_numbers() -> None:
    twice = base64.b64encode(base64.b64encode(f"token = {canary()}\n".encode())).decode()
    assert [leak.first for leak in found(f"x\n{twice}\n")] == [2]
    code = "\n".join(textwrap.wrap(base64.b64encode(b"plain words\n" * 40).decode(), 76))
    after = code.count("\n") + 2
    assert [leak.first for leak in found(f'{code}\nx = "{canary()}"\n')] == [after]


def test_a_key_that_is_split_over_two_texts_is_found_by_its_first_half() -> None:
    key = KINDS["openssh key"]
    assert [(leak.kind, leak.first) for leak in found(PLAIN + key[: len(key) // 2])] == [("private-key", 2)]


def test_only_lines_that_count_are_told_of() -> None:
    text = "".join(f'x = "{canary()}"\n' for _ in range(5))
    assert [leak.first for leak in found(text, [range(2, 3), range(5, 6)])] == [2, 5]
    assert found(text, []) == []


def test_a_key_over_several_lines_counts_when_one_of_them_is_new() -> None:
    key = KINDS["rsa key"]
    assert [leak.first for leak in found(PLAIN + key, [range(9, 10)])] == [2]
    assert found(PLAIN + key + "\n" + PLAIN, [range(1, 2)]) == []


def test_a_secret_across_the_end_of_a_window_is_found_once() -> None:
    for text in ("x\n" * (WINDOW // 2 - 200), "x" * (WINDOW - 200) + " "):
        assert [leak.kind for leak in found(text + KINDS["rsa key"] + "\n" + "y\n" * WINDOW)] == ["private-key"]


@pytest.mark.parametrize(
    "text",
    [
        "smtp://user@host",
        "postgres://app:${PASSWORD}@db/x",
        "https://user:<password>@host",
        "https://user:password@host",
        "https://user:****@host",
        "http://localhost:8765/@x",
        "Basic authentication is not offered",
        "Authorization: Basic dXNlcjo=",
        "AKIAIOSFODNN7EXAMPLE",
        'password = "seven green bottles"',
    ],
)
def test_a_field_to_fill_in_is_no_secret(text: str) -> None:
    assert found(text) == []


def test_the_code_of_this_service_has_next_to_none() -> None:
    files = sorted(Path(leaks.__file__).parents[1].rglob("*.py"))
    assert len(files) > 200
    assert [file.name for file in files if found(file.read_text())] == []


def test_the_work_on_much_entropy_is_bounded_by_its_length() -> None:
    chance = random.Random(1)  # noqa: S311  nothing here is secret
    letters = "".join(chance.choices(string.ascii_letters + string.digits + "+/", k=200_000))
    for text in (letters, "\n".join(textwrap.wrap(letters, 76)), "a" * 200_000, "a-" * 100_000):
        asked: list[None] = []
        assert list(find_leaks(text, lambda asked=asked: asked.append(None))) == []  # type: ignore[misc]
        assert len(asked) <= (1 + DECODED_MOST) * (1 + 200_000 // (LEAST - 2 * OVERLAP))


def test_whoever_has_no_time_is_asked_first() -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        next(find_leaks(f'x = "{canary()}"', stop))

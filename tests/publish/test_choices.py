"""Quiet hours and digests by given clocks; no clock is read."""

from datetime import datetime

import pytest

from service.publish.choices import Choices, after_quiet, next_digest
from service.publish.telling import DAY, pause
from service.publish.words import NAME_MOST, clean

NIGHT = (22 * 60, 7 * 60)
NOON = (12 * 60, 13 * 60)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


@pytest.mark.parametrize(
    ("zone", "quiet", "now", "free"),
    [
        ("UTC", None, "2026-03-10T23:00", "2026-03-10T23:00"),
        ("UTC", NIGHT, "2026-03-10T21:59", "2026-03-10T21:59"),
        ("UTC", NIGHT, "2026-03-10T22:00", "2026-03-11T07:00"),
        ("UTC", NIGHT, "2026-03-11T06:59", "2026-03-11T07:00"),
        ("UTC", NIGHT, "2026-03-11T07:00", "2026-03-11T07:00"),
        ("UTC", NOON, "2026-03-11T12:30", "2026-03-11T13:00"),
        ("UTC", NOON, "2026-03-11T13:30", "2026-03-11T13:30"),
        ("UTC", (480, 480), "2026-03-11T08:00", "2026-03-11T08:00"),
        ("Europe/Berlin", NIGHT, "2026-01-10T21:30", "2026-01-11T06:00"),
        ("Europe/Berlin", NIGHT, "2026-07-10T20:30", "2026-07-11T05:00"),
        ("Europe/Berlin", NIGHT, "2026-03-28T23:00", "2026-03-29T05:00"),  # the clocks go forward that night
        ("Europe/Berlin", (22 * 60, 2 * 60 + 30), "2026-03-29T00:30", "2026-03-29T01:30"),  # 02:30 does not exist
        ("Asia/Kathmandu", NIGHT, "2026-03-10T16:15", "2026-03-11T01:15"),
        ("America/St_Johns", NIGHT, "2026-01-11T10:00", "2026-01-11T10:30"),
    ],
)
def test_nothing_comes_in_quiet_hours_wherever_the_person_lives(
    zone: str, quiet: tuple[int, int] | None, now: str, free: str
) -> None:
    choices = Choices(zone=zone, quiet=quiet)
    assert after_quiet(choices, at(now)) == at(free)
    assert after_quiet(choices, at(free)) == at(free)


@pytest.mark.parametrize(
    ("zone", "quiet", "hour", "now", "due"),
    [
        ("UTC", None, 8, "2026-03-10T07:59", "2026-03-10T08:00"),
        ("UTC", None, 8, "2026-03-10T08:00", "2026-03-11T08:00"),
        ("Europe/Berlin", None, 8, "2026-07-10T05:00", "2026-07-10T06:00"),
        ("UTC", NIGHT, 6, "2026-03-10T05:00", "2026-03-10T07:00"),
        ("UTC", None, 0, "2026-12-31T23:59", "2027-01-01T00:00"),
    ],
)
def test_a_digest_comes_once_a_day_at_its_hour(
    zone: str, quiet: tuple[int, int] | None, hour: int, now: str, due: str
) -> None:
    assert next_digest(Choices(zone=zone, quiet=quiet, digest_hour=hour), at(now)) == at(due)


def test_pauses_grow_and_about_a_dozen_tries_fill_a_day() -> None:
    pauses = [pause(attempts) for attempts in range(1, 40)]
    assert pauses == sorted(pauses)
    tries = next(count for count in range(40) if sum(pauses[:count]) > DAY.total_seconds())
    assert 8 <= tries <= 20


@pytest.mark.parametrize("text", ["a\r\nBcc: x@y", "\u202eevil", "x" * 10_000, "\u200b" * 500, "tab\tbed", "\ud800"])
def test_clean_words_are_one_bounded_line_in_which_nothing_hides(text: str) -> None:
    said = clean(text, NAME_MOST)
    assert len(said) <= NAME_MOST
    assert said.isprintable()

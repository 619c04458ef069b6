"""What a person wants to hear, and when. No clock is read here: the time is given."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import Row

from service.kit.language import ENGLISH
from service.publish.words import Event, event_of

USUAL: Final[frozenset[Event]] = frozenset({"waiting"})
DAY_MINUTES: Final = 1_440


@dataclass(frozen=True)
class Choices:
    """A person's choices in one tenant.

    Attributes:
        mail: what comes by e-mail.
        push: what comes to the browsers that he let in.
        zone: a name of the IANA time zone database.
        quiet: from and to, in minutes since midnight; nothing comes between them. From may be later than to.
        digest_hour: the hour at which e-mails are sent together; None: each at once.
        language: in which he is told, by its code.
    """

    mail: frozenset[Event] = USUAL
    push: frozenset[Event] = USUAL
    zone: str = "UTC"
    quiet: tuple[int, int] | None = None
    digest_hour: int | None = None
    language: str = ENGLISH

    @classmethod
    def of(cls, row: Row[Any]) -> "Choices":
        """As they are stored."""
        mail, push = (frozenset(map(event_of, words)) for words in (row.mail_events, row.push_events))
        quiet = None if row.quiet_from is None else (row.quiet_from, row.quiet_to)
        return cls(mail, push, row.zone, quiet, row.digest_hour, row.language)


def after_quiet(choices: Choices, now: datetime) -> datetime:
    """The first moment from now on at which this person may be disturbed."""
    if choices.quiet is None or choices.quiet[0] == choices.quiet[1]:
        return now
    begin, end = choices.quiet
    local = now.astimezone(ZoneInfo(choices.zone))
    minute = local.hour * 60 + local.minute
    if (minute - begin) % DAY_MINUTES >= (end - begin) % DAY_MINUTES:
        return now
    return _next(local, end)


def next_digest(choices: Choices, now: datetime) -> datetime:
    """When the next mail that collects others is due; quiet hours come on top.

    Raises:
        ValueError: there is no digest.
    """
    if choices.digest_hour is None:
        raise ValueError("each mail is sent by itself")
    return after_quiet(choices, _next(now.astimezone(ZoneInfo(choices.zone)), choices.digest_hour * 60))


def _next(local: datetime, minute: int) -> datetime:
    """The next time at which a clock on the wall says this. In the hour that a clock leaves out, just after it."""
    at = time(minute // 60, minute % 60)
    for days in (0, 1):
        found = datetime.combine(local.date() + timedelta(days=days), at, local.tzinfo).astimezone(UTC)
        if found > local:
            return found
    raise AssertionError("tomorrow is later than now")

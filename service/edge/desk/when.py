"""Times as a person says them, with the exact time beside."""

from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

_TIME: Final = Markup('<time datetime="{exact}" title="{exact}">{words}</time>')
_NEAR: Final = timedelta(seconds=45)


def moment(at: datetime, now: datetime) -> Markup:
    """A past time as "4 minutes ago", a coming one as "in 23 h 56 min"."""
    words = _coming(at - now) if at > now else _past(now - at)
    return _TIME.format(exact=at.isoformat(timespec="seconds"), words=words)


def stamp(at: datetime) -> Markup:
    """A time as it stands in a record."""
    return _TIME.format(exact=at.isoformat(timespec="microseconds"), words=f"{at:%Y-%m-%d %H:%M:%S}")


def _past(span: timedelta) -> str:
    if span < _NEAR:
        return "just now"
    count, unit = _largest(span)
    return f"{count} {unit}{'' if count == 1 else 's'} ago"


def _coming(span: timedelta) -> str:
    minutes = int(span.total_seconds()) // 60
    days, hours = divmod(minutes // 60, 24)
    if minutes < 1:
        return "in less than a minute"
    if days > 1:
        return f"in {days} days"
    hours += days * 24
    return f"in {hours} h {minutes % 60} min" if hours else f"in {minutes} min"


def _largest(span: timedelta) -> tuple[int, str]:
    minutes = max(1, round(span.total_seconds() / 60))
    if minutes < 60:  # noqa: PLR2004  minutes in an hour
        return minutes, "minute"
    hours = round(minutes / 60)
    return (hours, "hour") if hours < 48 else (round(hours / 24), "day")  # noqa: PLR2004  two days

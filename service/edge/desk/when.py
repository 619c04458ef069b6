"""Times as a person says them, with the exact time beside."""

from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from service.kit.language import gettext, ngettext, plural

_TIME: Final = Markup('<time datetime="{exact}" title="{exact}">{words}</time>')
_NEAR: Final = timedelta(seconds=45)


def moment(at: datetime, now: datetime) -> Markup:
    """A past time as "4 minutes ago", a coming one as "in 23 h 56 min"."""
    words = _coming(at - now) if at > now else _past(now - at)
    return _TIME.format(exact=at.isoformat(timespec="seconds"), words=words)


def span(time: timedelta) -> str:
    """How long: `24 h`, `90 days`."""
    hours, minutes = divmod(int(time.total_seconds()) // 60, 60)
    if hours > 48 and hours % 24 == 0 and not minutes:  # noqa: PLR2004  two days
        return ngettext("{count} day", "{count} days", hours // 24)
    if not minutes:
        return gettext("{hours} h", hours=hours)
    return gettext("{hours} h {minutes} min", hours=hours, minutes=minutes) if hours else f"{minutes} min"


def _past(span: timedelta) -> str:
    if span < _NEAR:
        return gettext("just now")
    count, messages = _largest(span)
    return ngettext(*messages, count)


def _coming(span: timedelta) -> str:
    minutes = int(span.total_seconds()) // 60
    days, hours = divmod(minutes // 60, 24)
    if minutes < 1:
        return gettext("in less than a minute")
    if days > 1:
        return ngettext("in {count} day", "in {count} days", days)
    hours += days * 24
    if not hours:
        return gettext("in {minutes} min", minutes=minutes)
    return gettext("in {hours} h {minutes} min", hours=hours, minutes=minutes % 60)


_MINUTES: Final = plural("{count} minute ago", "{count} minutes ago")
_HOURS: Final = plural("{count} hour ago", "{count} hours ago")
_DAYS: Final = plural("{count} day ago", "{count} days ago")


def _largest(span: timedelta) -> tuple[int, tuple[str, str]]:
    minutes = max(1, round(span.total_seconds() / 60))
    if minutes < 60:  # noqa: PLR2004  minutes in an hour
        return minutes, _MINUTES
    hours = round(minutes / 60)
    return (hours, _HOURS) if hours < 48 else (round(hours / 24), _DAYS)  # noqa: PLR2004  two days

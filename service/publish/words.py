"""What is told, in words. What agents and repositories wrote is cut, and nothing in it hides."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args
from uuid import UUID

from service.contract.hidden import readable
from service.kit.language import gettext, later, ngettext

Event = Literal["waiting", "expiring", "executed", "failed", "stale", "test"]
Task = Literal["waiting", "expiring", "executed", "failed", "stale", "test", "deliver", "digest"]
Channel = Literal["mail", "push", "webhook", "chat"]
DeliveryState = Literal["waiting", "collected", "sent", "failed", "overtaken"]
EVENTS: Final[tuple[Event, ...]] = ("waiting", "expiring", "executed", "failed", "stale")
"""What happens to a proposal, and can be chosen; a test is asked for."""
NAME_MOST: Final = 60
REASON_MOST: Final = 600
_ALL: Final[tuple[Event, ...]] = get_args(Event)
_SUBJECTS: Final[dict[Event, str]] = {
    "waiting": later("[{repository}] {proposer} proposes: {what}"),
    "expiring": later("[{repository}] Expires soon: {what} by {proposer}"),
    "executed": later("[{repository}] Executed: {what} by {proposer}"),
    "failed": later("[{repository}] Failed: {what} by {proposer}"),
    "stale": later("[{repository}] Stale: {what} by {proposer}"),
    "test": later("A test message from Placet"),
}
_SENTENCES: Final[dict[Event, str]] = {
    "waiting": later("A proposal waits for your decision."),
    "expiring": later("A proposal still waits for your decision, and its time is nearly over."),
    "executed": later("The proposal was approved and executed."),
    "failed": later("The proposal was approved and could not be executed. Its page says why."),
    "stale": later("The branch moved on before the proposal could be executed. Nothing was changed."),
    "test": later("You asked for a test message. This is it: what Placet has to tell you reaches you here."),
}


@dataclass(frozen=True)
class Decider:
    """A person who may decide on a proposal."""

    person: UUID
    email: str
    owner: bool


@dataclass(frozen=True)
class News:
    """A proposal as it is now, for those who are told of it. Names and reason are hostile until cleaned."""

    tenant: UUID
    proposal: UUID
    repository_id: UUID
    project_id: UUID
    state: str
    kind: str
    repository: str
    proposer: str
    reason: str
    expires_at: datetime
    deciders: tuple[Decider, ...]

    def overtakes(self, event: Event) -> bool:
        """Whether an event is no news any more: nobody has to be told that a decided proposal waits."""
        return event in {"waiting", "expiring"} and self.state != "pending"


@dataclass(frozen=True)
class Message:
    """What a person reads: one line, some lines, and the page that it is about. All of it is clean and bounded."""

    subject: str
    lines: tuple[str, ...]
    link: str


def event_of(word: str) -> Event:
    """A stored word as an event. Raises ValueError for what is none."""
    for event in _ALL:
        if event == word:
            return event
    raise ValueError(f"{word} is no event")


def clean(text: str, most: int) -> str:
    """One line in which nothing hides, of `most` characters at most."""
    line = readable(" ".join(text[: most * 2].split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def link_to(issuer: str, tenant: UUID, proposal: UUID) -> str:
    """The card, after sign-in; no link decides anything."""
    return f"{issuer}/proposals/{proposal}?tenant={tenant}"


def settings_link(issuer: str, tenant: UUID) -> str:
    """Where a person chooses what to hear."""
    return f"{issuer}/settings/notifications?tenant={tenant}"


def message_of(event: Event, news: News | None, issuer: str, tenant: UUID) -> Message:
    """What is said of an event. Only a test has no news."""
    if news is None:
        return Message(gettext(_SUBJECTS[event]), (gettext(_SENTENCES[event]),), settings_link(issuer, tenant))
    named = {
        "repository": clean(news.repository, NAME_MOST),
        "proposer": clean(news.proposer, NAME_MOST),
        "what": clean(news.kind.removeprefix("propose_").replace("_", " "), NAME_MOST),
    }
    lines = [
        gettext(_SENTENCES[event]),
        gettext("What: {what} in {repository}, proposed by {proposer}", **named),
        gettext("Why, in the words of {proposer}: {reason}", reason=clean(news.reason, REASON_MOST), **named),
    ]
    if event in {"waiting", "expiring"}:
        lines.append(gettext("It expires at {time} UTC.", time=f"{news.expires_at:%Y-%m-%d %H:%M}"))
    return Message(gettext(_SUBJECTS[event], **named), tuple(lines), link_to(issuer, tenant, news.proposal))


def digest_of(messages: tuple[Message, ...], issuer: str, tenant: UUID) -> Message:
    """Several messages as one."""
    lines = tuple(f"{one.subject}\n{one.link}" for one in messages)
    subject = ngettext("Placet: {count} notice", "Placet: {count} notices", len(messages))
    return Message(subject, lines, f"{issuer}/?tenant={tenant}")

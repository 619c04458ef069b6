"""Tell what happened: an event becomes deliveries, and each delivery is made by itself, at least once.

A delivery's id follows from what it is, so that whoever gets it twice can tell. Whether somebody may still know is
asked again just before it is sent.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5

from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from service.grants.tables import person, tenant
from service.kit.database import Bound, Database
from service.kit.language import speaking
from service.publish import queue
from service.publish.channel import Undelivered
from service.publish.chat import Chats
from service.publish.choices import Choices, after_quiet, next_digest
from service.publish.mail import Letter, Mail
from service.publish.push import Browser, Push
from service.publish.queue import Claimed
from service.publish.tables import delivery, notice_choice, push_browser, webhook
from service.publish.webhooks import Webhooks
from service.publish.words import (
    Decider,
    Event,
    Message,
    News,
    digest_of,
    event_of,
    message_of,
    settings_link,
)

log = logging.getLogger("placet.notifier")
DAY: Final = timedelta(days=1)
KEPT: Final = timedelta(days=30)
ATTEMPTS_MOST: Final = 30
"""More than fit into a day."""
PAUSE_SECONDS: Final = 20
PAUSE_SECONDS_MOST: Final = 3 * 3_600
ReadNews = Callable[[Bound, UUID], Awaitable[News | None]]
"""Reads a proposal as it is now; None where it is gone."""


def pause(attempts: int) -> float:
    """Seconds until the next try: three times as long each time, three hours at most."""
    return min(PAUSE_SECONDS * 3.0 ** min(attempts - 1, 20), PAUSE_SECONDS_MOST)


@dataclass(frozen=True)
class Channels:
    """The ways out. `mail` is None where the operator named no server."""

    mail: Mail | None
    push: Push
    webhooks: Webhooks
    chats: Chats


@dataclass(frozen=True)
class _Post:
    """One delivery with what is needed to make it."""

    row: Row[Any]
    event: Event
    news: News | None
    now: datetime
    email: str
    tenant_name: str
    language: str

    @property
    def tenant(self) -> UUID:
        return UUID(str(self.row.tenant))


@dataclass(frozen=True)
class Tell:
    """Does one claimed piece of work."""

    database: Database
    channels: Channels
    read: ReadNews
    issuer: str

    async def __call__(self, claimed: Claimed) -> None:
        """Do it. What fails stays in the queue; what fails in a way that nobody thought of, not for ever."""
        if claimed.attempts > ATTEMPTS_MOST:
            await self.database.repeat(claimed.tenant, lambda tx: _given_up(tx, claimed))
        elif claimed.kind == "deliver":
            await self._deliver(claimed)
        elif claimed.kind == "digest":
            await self._digest(claimed)
        else:
            await self.database.repeat(claimed.tenant, lambda tx: self._spread(tx, claimed))

    async def _spread(self, tx: Bound, claimed: Claimed) -> None:
        """Make an event's deliveries, and forget the event, in one transaction."""
        event = event_of(claimed.kind)
        now: datetime = await tx.scalar(select(func.clock_timestamp()))
        if event == "test":
            await self._spread_to_person(tx, event, None, await _person(tx, claimed.subject), now)
        else:
            news = await self.read(tx, claimed.subject)
            if news is not None and not news.overtakes(event):
                for one in news.deciders:
                    await self._spread_to_person(tx, event, news, one, now)
                await self._spread_to_machines(tx, event, news, now)
        await tx.execute(delete(delivery).where(delivery.c.made_at < now - KEPT))
        await queue.done(tx, claimed)

    async def _spread_to_person(
        self, tx: Bound, event: Event, news: News | None, who: Decider | None, now: datetime
    ) -> None:
        if who is None:
            return
        choices = await choices_of(tx, who.person)
        due = now if event == "test" else after_quiet(choices, now)
        if self.channels.mail and event in {*choices.mail, "test"}:
            collected = choices.digest_hour is not None and event != "test"
            await self._make(tx, event, news, "mail", who.person, "", due, now, collected=collected)
            if collected:
                await queue.gather(tx, "digest", who.person, next_digest(choices, now))
        if event in {*choices.push, "test"}:
            browsers = await tx.execute(select(push_browser.c.id).where(push_browser.c.person == who.person))
            for one in browsers.scalars():
                await self._make(tx, event, news, "push", who.person, str(one), due, now)

    async def _spread_to_machines(self, tx: Bound, event: Event, news: News, now: datetime) -> None:
        owners = [one.person for one in news.deciders if one.owner]
        live = select(webhook.c.id, webhook.c.person).where(webhook.c.state == "live", webhook.c.person.in_(owners))
        for one in await tx.execute(live):
            await self._make(tx, event, news, "webhook", one.person, str(one.id), now, now)
        name = await tx.scalar(select(tenant.c.name).where(tenant.c.id == tx.tenant))
        for chat in self.channels.chats.names(name):
            await self._make(tx, event, news, "chat", None, chat, now, now)

    async def _make(
        self,
        tx: Bound,
        event: Event,
        news: News | None,
        channel: str,
        who: UUID | None,
        target: str,
        due: datetime,
        now: datetime,
        *,
        collected: bool = False,
    ) -> None:
        about = str(now.timestamp()) if news is None else str(news.proposal)
        one = uuid5(tx.tenant, f"{event} {about} {channel} {who} {target}")
        made = await tx.execute(
            insert(delivery)
            .values(
                tenant=tx.tenant,
                id=one,
                event=event,
                proposal=news.proposal if news else None,
                person=who,
                channel=channel,
                target=target,
                state="collected" if collected else "waiting",
            )
            .on_conflict_do_nothing()
        )
        if made.rowcount and not collected:
            await queue.ask(tx, "deliver", one, due)

    async def _deliver(self, claimed: Claimed) -> None:
        async with self.database.bound(claimed.tenant) as tx:
            post = await self._post(tx, claimed)
            if post is None:
                return
        try:
            await self._send(post)
        except Undelivered as failed:
            failure = failed  # a name that outlives this block
            await self.database.repeat(claimed.tenant, lambda tx: _failed(tx, claimed, post, failure))
        else:
            await self.database.repeat(claimed.tenant, lambda tx: _sent(tx, claimed, post))

    async def _post(self, tx: Bound, claimed: Claimed) -> _Post | None:
        """What is to be sent now; None where nothing is, or not yet."""
        row = (await tx.execute(select(delivery).where(delivery.c.id == claimed.subject))).one_or_none()
        if row is None or row.state != "waiting":
            await queue.done(tx, claimed)
            return None
        event, now = event_of(row.event), await tx.scalar(select(func.clock_timestamp()))
        news = await self.read(tx, row.proposal) if row.proposal else None
        who = await _person(tx, row.person) if row.person else None
        if event != "test" and not _may_know(row, event, news):
            await _end(tx, row.id, "overtaken")
            await queue.done(tx, claimed)
            return None
        choices = await choices_of(tx, row.person) if row.person else Choices()
        if row.channel in {"mail", "push"} and event != "test":
            free = after_quiet(choices, now)
            if free > now:
                await queue.postpone(tx, claimed, free)
                return None
        name = await tx.scalar(select(tenant.c.name).where(tenant.c.id == tx.tenant))
        return _Post(row, event, news, now, who.email if who else "", name, choices.language)

    async def _send(self, post: _Post) -> None:
        with speaking(post.language):
            await self._send_by(post, message_of(post.event, post.news, self.issuer, post.tenant))

    async def _send_by(self, post: _Post, message: Message) -> None:
        match post.row.channel:
            case "mail":
                await self._mail(post.email, message, post.row.id, post.row.proposal, post.tenant)
            case "push":
                await self._push(post, message)
            case "webhook":
                await self._hook(post)
            case _:
                await self.channels.chats.send(post.tenant_name, post.row.target, message)

    async def _mail(self, to: str, message: Message, own: UUID, thread: UUID | None, tenant_id: UUID) -> None:
        if self.channels.mail is None:
            raise Undelivered("The operator named no mail server.")
        await self.channels.mail.send(to, message, Letter(own, thread, settings_link(self.issuer, tenant_id)))

    async def _push(self, post: _Post, message: Message) -> None:
        async with self.database.bound(post.tenant) as tx:
            chosen = select(push_browser).where(push_browser.c.id == UUID(post.row.target))
            one = (await tx.execute(chosen)).one_or_none()
        if one is None:
            raise Undelivered("You took this browser away.", final=True)
        await self.channels.push.send(Browser(one.endpoint, one.p256dh, one.auth), message, post.row.id)

    async def _hook(self, post: _Post) -> None:
        async with self.database.bound(post.tenant) as tx:
            one = (await tx.execute(select(webhook).where(webhook.c.id == UUID(post.row.target)))).one_or_none()
        if one is None or one.state != "live" or post.news is None:
            raise Undelivered("The webhook was switched off.", final=True)
        await self.channels.webhooks.send(one.url, one.id, post.row.id, post.event, post.news, post.now)

    async def _digest(self, claimed: Claimed) -> None:
        """Send what was collected for a person. What is in the mail is fixed before it is sent, and so is its id."""
        batch, rows, who = await self.database.repeat(claimed.tenant, lambda tx: _batch(tx, claimed))
        async with self.database.bound(claimed.tenant) as tx:
            choices = await choices_of(tx, claimed.subject)
        with speaking(choices.language):
            failure = await self._send_batch(claimed, batch, rows, who)
        await self.database.repeat(claimed.tenant, lambda tx: _digested(tx, claimed, batch, failure))

    async def _send_batch(
        self, claimed: Claimed, batch: UUID, rows: list[Row[Any]], who: Decider | None
    ) -> Undelivered | None:
        messages = []
        async with self.database.bound(claimed.tenant) as tx:
            for row in rows:
                event, news = event_of(row.event), await self.read(tx, row.proposal)
                if _may_know(row, event, news):
                    messages.append(message_of(event, news, self.issuer, claimed.tenant))
        try:
            if messages and who:
                message = digest_of(tuple(messages), self.issuer, claimed.tenant)
                await self._mail(who.email, message, batch, None, claimed.tenant)
        except Undelivered as failure:
            return failure
        return None


def _may_know(row: Row[Any], event: Event, news: News | None) -> bool:
    """Whether it is still news, and its reader one who may decide there; a webhook's must own it."""
    if news is None or news.overtakes(event):
        return False
    if row.person is None:
        return True
    return any(one.person == row.person and (one.owner or row.channel != "webhook") for one in news.deciders)


async def choices_of(tx: Bound, who: UUID) -> Choices:
    """What a person chose in this tenant."""
    row = (await tx.execute(select(notice_choice).where(notice_choice.c.person == who))).one_or_none()
    return Choices() if row is None else Choices.of(row)


async def _person(tx: Bound, who: UUID) -> Decider | None:
    email = await tx.scalar(select(person.c.email).where(person.c.id == who))
    return None if email is None else Decider(who, email, owner=False)


async def _sent(tx: Bound, claimed: Claimed, post: _Post) -> None:
    await _end(tx, post.row.id, "sent")
    if post.row.channel == "webhook":
        mine = update(webhook).where(webhook.c.id == UUID(post.row.target))
        await tx.execute(mine.values(failing_since=None, error=""))
    await queue.done(tx, claimed)


async def _failed(tx: Bound, claimed: Claimed, post: _Post, failure: Undelivered) -> None:
    """Try again later, or give up after a day; a receiver that is gone is forgotten."""
    if post.row.channel == "webhook":
        await _webhook_failed(tx, UUID(post.row.target), failure)
    elif failure.gone:
        await tx.execute(delete(push_browser).where(push_browser.c.id == UUID(post.row.target)))
    if failure.final or post.now - post.row.made_at > DAY:
        await _end(tx, post.row.id, "failed", failure.sentence)
        await queue.done(tx, claimed)
    else:
        await tx.execute(update(delivery).where(delivery.c.id == post.row.id).values(error=failure.sentence))
        await queue.later(tx, claimed, pause(claimed.attempts))


async def _webhook_failed(tx: Bound, which: UUID, failure: Undelivered) -> None:
    """Note it; one that failed for a whole day is switched off."""
    mine = update(webhook).where(webhook.c.id == which, webhook.c.state == "live")
    since = func.coalesce(webhook.c.failing_since, func.clock_timestamp())
    await tx.execute(mine.values(failing_since=since, error=failure.sentence))
    over = webhook.c.failing_since < func.clock_timestamp() - DAY
    await tx.execute((mine if failure.gone else mine.where(over)).values(state="off"))


async def _batch(tx: Bound, claimed: Claimed) -> tuple[UUID, list[Row[Any]], Decider | None]:
    """What one mail has in it: what an earlier try fixed, else everything that was collected."""
    mine = (delivery.c.person == claimed.subject) & (delivery.c.state == "collected")
    rows = (await tx.execute(select(delivery).where(mine).order_by(delivery.c.made_at, delivery.c.id))).all()
    fixed = [row for row in rows if row.batch] or list(rows)
    batch = (
        UUID(str(fixed[0].batch)) if fixed and fixed[0].batch else uuid5(claimed.subject, str([r.id for r in fixed]))
    )
    await tx.execute(update(delivery).where(delivery.c.id.in_([row.id for row in fixed])).values(batch=batch))
    return batch, fixed, await _person(tx, claimed.subject)


async def _digested(tx: Bound, claimed: Claimed, batch: UUID, failure: Undelivered | None) -> None:
    mine = update(delivery).where(delivery.c.batch == batch)
    if failure and not failure.final:
        await tx.execute(mine.values(error=failure.sentence))
        old = await tx.scalar(
            select(func.min(delivery.c.made_at) < func.clock_timestamp() - 2 * DAY).where(delivery.c.batch == batch)
        )
        if not old:
            await queue.later(tx, claimed, pause(claimed.attempts))
            return
    state = "failed" if failure else "sent"
    error = failure.sentence if failure else ""
    await tx.execute(mine.values(state=state, error=error, done_at=func.clock_timestamp()))
    left = select(delivery.c.id).where(delivery.c.person == claimed.subject, delivery.c.state == "collected").limit(1)
    if await tx.scalar(left) is None:
        await queue.done(tx, claimed)
    else:  # came while the mail was on its way
        await queue.later(tx, claimed, 0)


async def _given_up(tx: Bound, claimed: Claimed) -> None:
    log.error("%s of %s was given up after %d attempts", claimed.kind, claimed.subject, claimed.attempts)
    waits = (delivery.c.id == claimed.subject) | (delivery.c.person == claimed.subject)
    left = update(delivery).where(waits, delivery.c.state.in_(("waiting", "collected")))
    if claimed.kind in {"deliver", "digest"}:
        words = "It could not be sent; the operator's log says why."
        await tx.execute(left.values(state="failed", error=words, done_at=func.clock_timestamp()))
    await queue.done(tx, claimed)


async def _end(tx: Bound, which: UUID, state: str, error: str = "") -> None:
    ended = update(delivery).where(delivery.c.id == which)
    await tx.execute(ended.values(state=state, error=error, done_at=func.clock_timestamp()))

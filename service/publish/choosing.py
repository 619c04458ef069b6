"""What a person sees and chooses of his notices in one tenant."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID, uuid4
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from service.contract.hidden import readable
from service.grants.tables import membership
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.kit.language import ENGLISH, LANGUAGES
from service.ledger.append import append
from service.publish import queue
from service.publish.choices import Choices
from service.publish.push import Browser, Push
from service.publish.tables import delivery, notice_choice, push_browser, webhook
from service.publish.telling import choices_of
from service.publish.webhooks import Webhooks
from service.publish.words import EVENTS, Event

URL_MOST: Final = 2_000
WEBHOOKS_MOST: Final = 5
BROWSERS_MOST: Final = 10
SHOWN_MOST: Final = 30
WebhookAction = Literal["revoke", "resume"]
_QUIET: Final = r"^(|([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d)$"


def _zone(name: str) -> str:
    if name not in available_timezones():
        raise ValueError("it is no name of a time zone, such as Europe/Berlin")
    return name


def _language(name: str) -> str:
    if name not in LANGUAGES:
        raise ValueError(f"it is none of {', '.join(LANGUAGES)}")
    return name


class NewChoices(BaseModel):
    """What a person chooses. `quiet` reads 22:00-07:00, or nothing; `digest` is an hour, or nothing."""

    model_config = ConfigDict(extra="forbid")

    mail: list[Event] = Field(default_factory=list, max_length=len(EVENTS))
    push: list[Event] = Field(default_factory=list, max_length=len(EVENTS))
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    quiet: Annotated[str, Field(pattern=_QUIET)] = ""
    digest: Annotated[int, Field(ge=0, le=23)] | None = None
    language: Annotated[str, AfterValidator(_language)] = ENGLISH

    @property
    def quiet_minutes(self) -> tuple[int, int] | tuple[None, None]:
        """From and to in minutes since midnight."""
        if not self.quiet:
            return None, None
        begin, end = ((int(hour) * 60 + int(minute)) for hour, minute in (w.split(":") for w in self.quiet.split("-")))
        return begin, end


@dataclass(frozen=True)
class ShownBrowser:
    """A browser that is notified. `service` is the host of its push service."""

    id: UUID
    service: str
    made_at: datetime


@dataclass(frozen=True)
class ShownWebhook:
    """A webhook; `error` is what went wrong last, and empty when nothing did."""

    id: UUID
    url: str
    state: str
    error: str


@dataclass(frozen=True)
class ShownDelivery:
    """How a message went."""

    event: str
    channel: str
    proposal: UUID | None
    state: str
    error: str
    made_at: datetime


@dataclass(frozen=True)
class NoticesView:
    """The page. `webhooks` is None for who owns no project."""

    now: datetime
    choices: Choices
    mail: bool
    browsers: tuple[ShownBrowser, ...]
    webhooks: tuple[ShownWebhook, ...] | None
    deliveries: tuple[ShownDelivery, ...]


@dataclass(frozen=True)
class Notices:
    """Answers for the page of one web process. `mail`: whether the operator named a mail server."""

    database: Database
    push: Push
    webhooks: Webhooks
    mail: bool

    @property
    def push_key(self) -> str:
        """What a browser subscribes with."""
        return self.push.public_key

    async def read(self, actor: Actor) -> NoticesView:
        """The page of this person."""
        async with self.database.bound(actor.tenant) as tx:
            owns = await _owns(tx, actor)
            return NoticesView(
                now=await tx.scalar(select(func.clock_timestamp())),
                choices=await choices_of(tx, actor.id),
                mail=self.mail,
                browsers=await _browsers(tx, actor),
                webhooks=await _webhooks(tx, actor) if owns else None,
                deliveries=await _deliveries(tx, actor, owns=owns),
            )

    async def choose(self, actor: Actor, new: NewChoices) -> None:
        """Store what a person wants to hear."""
        begin, end = new.quiet_minutes
        values = {
            "mail_events": sorted(set(new.mail)),
            "push_events": sorted(set(new.push)),
            "zone": new.zone,
            "quiet_from": begin,
            "quiet_to": end,
            "digest_hour": new.digest,
            "language": new.language,
        }
        async with self.database.bound(actor.tenant) as tx:
            stored = insert(notice_choice).values(tenant=tx.tenant, person=actor.id, **values)
            await tx.execute(stored.on_conflict_do_update(index_elements=["tenant", "person"], set_=values))

    async def test(self, actor: Actor) -> None:
        """Have a test message sent to this person."""
        async with self.database.bound(actor.tenant) as tx:
            await queue.ask(tx, "test", actor.id)

    async def add_browser(self, actor: Actor, endpoint: str, p256dh: str, auth: str) -> UUID:
        """Notify a browser from now on; one that is known is replaced.

        Raises:
            Refusal: ADDRESS_REFUSED, INVALID_ARGUMENT, RATE_LIMITED for too many.
        """
        self.push.outgoing.check(endpoint)
        try:
            Browser(endpoint, p256dh, auth).keys()
        except ValueError:
            raise Refusal(Code.INVALID_ARGUMENT, "These are no keys of a subscription.", field="keys") from None
        which = uuid4()
        mine = push_browser.c.person == actor.id
        async with self.database.bound(actor.tenant) as tx:
            await tx.execute(delete(push_browser).where(mine, push_browser.c.endpoint == endpoint))
            if await tx.scalar(select(func.count()).select_from(push_browser).where(mine)) >= BROWSERS_MOST:
                message = f"{BROWSERS_MOST} browsers are the most; take one away first."
                raise Refusal(Code.RATE_LIMITED, message, limit=BROWSERS_MOST)
            row = {"tenant": tx.tenant, "id": which, "person": actor.id, "endpoint": endpoint}
            await tx.execute(insert(push_browser).values(**row, p256dh=p256dh, auth=auth))
        return which

    async def remove_browser(self, actor: Actor, which: UUID) -> None:
        """Notify a browser no more. Raises NOT_FOUND."""
        async with self.database.bound(actor.tenant) as tx:
            mine = (push_browser.c.id == which) & (push_browser.c.person == actor.id)
            if not (await tx.execute(delete(push_browser).where(mine))).rowcount:
                raise Refusal(Code.NOT_FOUND, "There is no such browser.")

    async def add_webhook(self, actor: Actor, url: str) -> tuple[UUID, str]:
        """Name an address that hears of the projects that this person owns. Gives its id and its secret.

        Raises:
            Refusal: FORBIDDEN, ADDRESS_REFUSED, INVALID_ARGUMENT, RATE_LIMITED for too many.
        """
        if len(url) > URL_MOST:
            message = f"An address has {URL_MOST:,} characters at most."
            raise Refusal(Code.INVALID_ARGUMENT, message, field="url", limit=URL_MOST, value=len(url))
        self.webhooks.outgoing.check(url)
        which = uuid4()
        async with self.database.bound(actor.tenant) as tx:
            if not await _owns(tx, actor):
                raise Refusal(Code.FORBIDDEN, "Only an owner of a project names webhooks.")
            await tx.alone(actor.id)  # so that the count holds
            mine = select(func.count()).select_from(webhook).where(webhook.c.person == actor.id)
            if await tx.scalar(mine) >= WEBHOOKS_MOST:
                message = f"{WEBHOOKS_MOST} webhooks are the most; take one away first."
                raise Refusal(Code.RATE_LIMITED, message, limit=WEBHOOKS_MOST)
            await tx.execute(insert(webhook).values(tenant=tx.tenant, id=which, person=actor.id, url=url))
            append(tx, actor, "webhook.added", str(which))
        return which, self.webhooks.shown_secret(actor.tenant, which)

    async def change_webhook(self, actor: Actor, which: UUID, action: WebhookAction) -> None:
        """Take a webhook away, or switch one on again. Raises NOT_FOUND."""
        mine = (webhook.c.id == which) & (webhook.c.person == actor.id)
        on = update(webhook).where(mine).values(state="live", failing_since=None, error="")
        async with self.database.bound(actor.tenant) as tx:
            done = await tx.execute(on if action == "resume" else delete(webhook).where(mine))
            if not done.rowcount:
                raise Refusal(Code.NOT_FOUND, "There is no such webhook.")
            append(tx, actor, "webhook.resumed" if action == "resume" else "webhook.removed", str(which))


async def _owns(tx: Bound, actor: Actor) -> bool:
    owns = select(membership.c.id).where(
        membership.c.person == actor.id, membership.c.role == "owner", membership.c.state == "live"
    )
    return await tx.scalar(owns.limit(1)) is not None


async def _browsers(tx: Bound, actor: Actor) -> tuple[ShownBrowser, ...]:
    chosen = select(push_browser).where(push_browser.c.person == actor.id).order_by(push_browser.c.made_at)
    rows = (await tx.execute(chosen)).all()
    return tuple(ShownBrowser(row.id, row.endpoint.split("/")[2], row.made_at) for row in rows)


async def _webhooks(tx: Bound, actor: Actor) -> tuple[ShownWebhook, ...]:
    rows = await tx.execute(select(webhook).where(webhook.c.person == actor.id).order_by(webhook.c.made_at))
    return tuple(ShownWebhook(row.id, readable(row.url), row.state, row.error) for row in rows)


async def _deliveries(tx: Bound, actor: Actor, *, owns: bool) -> tuple[ShownDelivery, ...]:
    """His own, and for an owner those to the chats, which are nobody's; of what those tell he may not see all."""
    mine = or_(delivery.c.person == actor.id, delivery.c.person.is_(None)) if owns else delivery.c.person == actor.id
    chosen = select(delivery).where(mine).order_by(delivery.c.made_at.desc(), delivery.c.id).limit(SHOWN_MOST)
    return tuple(
        ShownDelivery(row.event, row.channel, row.proposal if row.person else None, row.state, row.error, row.made_at)
        for row in await tx.execute(chosen)
    )

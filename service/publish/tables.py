"""What is to be told, to whom, by which channel, and how that went."""

from typing import get_args

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Text,
    Uuid,
    text,
)

from service.kit.database import directory_table, tenant_table
from service.kit.language import ENGLISH
from service.publish.words import Channel, DeliveryState, Task

NOW = text("clock_timestamp()")


def _one_of(column: str, words: object) -> str:
    listed = ", ".join(f"'{word}'" for word in get_args(words))
    return f"{column} IN ({listed})"


notice_queue = directory_table(  # what the notifier claims from: ids alone
    "notice_queue",
    Column("kind", Text, nullable=False),
    Column("tenant", Uuid, ForeignKey("tenant.id"), nullable=False),
    Column("subject", Uuid, nullable=False),  # a proposal, a delivery, or a person
    Column("due", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("attempts", Integer, nullable=False, server_default="0"),
    CheckConstraint(_one_of("kind", Task), "kind"),
    PrimaryKeyConstraint("kind", "tenant", "subject"),
    Index(None, "due"),
)

notice_choice = tenant_table(  # what a person wants to hear; who has no row gets what is usual
    "notice_choice",
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("mail_events", ARRAY(Text), nullable=False),
    Column("push_events", ARRAY(Text), nullable=False),
    Column("zone", Text, nullable=False),
    Column("language", Text, nullable=False, server_default=ENGLISH),
    Column("quiet_from", Integer, nullable=True),  # minutes since midnight, in the zone
    Column("quiet_to", Integer, nullable=True),
    Column("digest_hour", Integer, nullable=True),  # None: each mail by itself
    CheckConstraint("(quiet_from IS NULL) = (quiet_to IS NULL)", "quiet"),
    key=("person",),
)

push_browser = tenant_table(  # a browser that a person let notify him
    "push_browser",
    Column("id", Uuid, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("p256dh", Text, nullable=False),
    Column("auth", Text, nullable=False),
    Column("made_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Index(None, "tenant", "person"),
)

webhook = tenant_table(  # hears of the projects that its person owns; its secret is derived, and stored nowhere
    "webhook",
    Column("id", Uuid, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="live"),
    Column("failing_since", DateTime(timezone=True), nullable=True),
    Column("error", Text, nullable=False, server_default=""),
    Column("made_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    CheckConstraint("state IN ('live', 'off')", "state"),
)

delivery = tenant_table(  # one message on one channel to one receiver
    "delivery",
    Column("id", Uuid, nullable=False),
    Column("event", Text, nullable=False),
    Column("proposal", Uuid, nullable=True),  # None: a test
    Column("person", Uuid, ForeignKey("person.id"), nullable=True),  # whose it is; None: a chat
    Column("channel", Text, nullable=False),
    Column("target", Text, nullable=False),  # the browser's or webhook's id, the chat's name
    Column("state", Text, nullable=False, server_default="waiting"),
    Column("error", Text, nullable=False, server_default=""),
    Column("batch", Uuid, nullable=True),  # the mail in which it is sent together with others
    Column("made_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("done_at", DateTime(timezone=True), nullable=True),
    CheckConstraint(_one_of("channel", Channel), "channel"),
    CheckConstraint(_one_of("state", DeliveryState), "state"),
    Index(None, "tenant", "person", "made_at"),
)

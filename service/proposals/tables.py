"""A proposal, what it staged, how it was decided, what the writer intends, and the queue of work."""

from typing import get_args

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from service.contract.answers import State
from service.kit.database import directory_table, tenant_table, within

NOW = text("clock_timestamp()")
_STATE_LIST = ", ".join(f"'{state}'" for state in get_args(State))

proposal = tenant_table(
    "proposal",
    Column("id", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    Column("connection", Uuid, nullable=False),
    Column("key", Text, nullable=False),
    Column("body_hash", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("kind_version", Integer, nullable=False),
    # JSON in its canonical form, as text: what was hashed is what is stored
    Column("request", Text, nullable=False),
    Column("pins", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("card", Text, nullable=False),
    Column("manifest", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("outcome", Text, nullable=True),  # JSON: the commit, the head that was in the way, the reason
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=True),
    CheckConstraint(f"state IN ({_STATE_LIST})", "state"),
    UniqueConstraint("tenant", "connection", "key"),
    Index(None, "tenant", "repository", "created_at"),
    Index("proposal_pending_idx", "tenant", "connection", postgresql_where=text("state = 'pending'")),
    within("repository", "repository"),
    within("connection", "connection"),
)

staging = tenant_table(
    "staging",
    Column("proposal", Uuid, nullable=False),
    Column("objects", LargeBinary, nullable=False),
    within("proposal", "proposal"),
    key=("proposal",),
)

decision = tenant_table(
    "decision",
    Column("proposal", Uuid, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("session", Uuid, nullable=True),
    Column("verdict", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("acknowledged", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("committer", LargeBinary, nullable=False),
    Column("decided_at", DateTime(timezone=True), nullable=False),
    CheckConstraint("verdict IN ('approve', 'decline')", "verdict"),
    within("proposal", "proposal"),
    key=("proposal",),
)

intent = tenant_table(
    "intent",
    Column("proposal", Uuid, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="1"),
    Column("moves", Text, nullable=False),
    Column("commits", LargeBinary, nullable=False),
    Column("marker", Text, nullable=False),
    Column("signing_key", Uuid, nullable=True),  # None: nobody asked for a signature
    Column("written_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    within("signing_key", "signing_key"),
    within("proposal", "proposal"),
    key=("proposal",),
)

work_queue = directory_table(
    "work_queue",
    Column("kind", Text, nullable=False),
    Column("tenant", Uuid, ForeignKey("tenant.id"), nullable=False),
    Column("subject", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    Column("due", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("attempts", Integer, nullable=False, server_default="0"),
    CheckConstraint("kind IN ('execute', 'expire', 'maintain')", "kind"),
    PrimaryKeyConstraint("kind", "tenant", "subject"),
    Index(None, "due"),
)

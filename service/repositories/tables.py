"""The repository and where it lies."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Integer,
    SmallInteger,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    text,
)

from service.kit.database import tenant_table, within

repository = tenant_table(
    "repository",
    Column("id", Uuid, nullable=False),
    Column("project", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    Column("agents_may_propose", Boolean, nullable=False, server_default=false()),
    Column("signed_approvals", Boolean, nullable=False, server_default=false()),  # nothing less approves
    Column("state", Text, nullable=False, server_default="live"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("lock_anchor", SmallInteger, nullable=True),  # lets the writer lock the row and change nothing that counts
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    CheckConstraint("state IN ('live', 'paused', 'revoked')", "state"),
    UniqueConstraint("tenant", "project", "name"),
    within("project", "project"),
)

placement = tenant_table(
    "placement",
    Column("repository", Uuid, nullable=False),
    Column("shard", Text, nullable=False),
    Column("epoch", Integer, nullable=False, server_default="1"),
    within("repository", "repository"),
    key=("repository",),
)

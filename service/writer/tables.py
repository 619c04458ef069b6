"""The keys that sign a tenant's commits."""

from sqlalchemy import CheckConstraint, Column, DateTime, ForeignKey, Index, LargeBinary, Text, Uuid, text

from service.kit.database import tenant_table

approval_key = tenant_table(  # what an owner signed with here; it stays, since what it signed must verify
    "approval_key",
    Column("fingerprint", Text, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("email", Text, nullable=False),
    Column("public_key", Text, nullable=False),
    Column("used_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("retired_at", DateTime(timezone=True), nullable=True),
    key=("fingerprint", "email"),
)

signing_key = tenant_table(
    "signing_key",
    Column("id", Uuid, nullable=False),
    Column("public_key", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=True),  # the private half; gone when the key is retired
    Column("state", Text, nullable=False, server_default="live"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("retired_at", DateTime(timezone=True), nullable=True),
    CheckConstraint("state IN ('live', 'retired')", "state"),
    CheckConstraint("(state = 'live') = (sealed IS NOT NULL)", "sealed"),
    CheckConstraint("(state = 'retired') = (retired_at IS NOT NULL)", "retired"),
    Index("signing_key_live_idx", "tenant", unique=True, postgresql_where=text("state = 'live'")),
)

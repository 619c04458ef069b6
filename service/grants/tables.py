"""Who may what: people and clients; tenants, projects, members, connections, and the clauses of their policy.

`version` rises under FOR UPDATE with every change of rights; the writer reads these rows FOR SHARE. `lock_anchor` is a
column that nobody uses: the right to update it is what lets the writer lock a row without being able to change it.
"""

from sqlalchemy import (
    ARRAY,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    text,
)
from sqlalchemy.schema import SchemaItem

from service.kit.database import directory_table, tenant_table, within


def standing() -> list[SchemaItem]:
    """The columns of a row that rights hang on: state, version, and the anchor for locks."""
    return [
        Column("state", Text, nullable=False, server_default="live"),
        Column("version", Integer, nullable=False, server_default="1"),
        Column("lock_anchor", SmallInteger, nullable=True),
        Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
        CheckConstraint("state IN ('live', 'paused', 'revoked')", "state"),
    ]


tenant = directory_table(
    "tenant",
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("proposal_seconds", Integer, nullable=False, server_default="86400"),
    Column("restore_seconds", Integer, nullable=False, server_default="7776000"),  # 90 days
    Column("warn_seconds", Integer, nullable=False, server_default="3600"),  # before a proposal expires
    Column("pending_most", Integer, nullable=False, server_default="20"),
    Column("sign_commits", Boolean, nullable=False, server_default=false()),
    *standing(),
)

person = directory_table(
    "person",
    Column("id", Uuid, primary_key=True),
    Column("email", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
)

person_tenant = directory_table(  # where to look for this person's memberships; gives no right
    "person_tenant",
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("tenant", Uuid, ForeignKey("tenant.id"), nullable=False),
    PrimaryKeyConstraint("person", "tenant"),
)

oauth_client = directory_table(
    "oauth_client",
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("redirect_uris", ARRAY(Text), nullable=False),
    Column("auth_method", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("used_at", DateTime(timezone=True), nullable=True),
)

project = tenant_table(
    "project",
    Column("id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    *standing(),
    UniqueConstraint("tenant", "name"),
)

membership = tenant_table(
    "membership",
    Column("id", Uuid, nullable=False),
    Column("project", Uuid, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("role", Text, nullable=False),
    *standing(),
    CheckConstraint("role IN ('owner', 'maintainer', 'reader')", "role"),
    UniqueConstraint("tenant", "project", "person"),
    within("project", "project"),
)

connection = tenant_table(
    "connection",
    Column("id", Uuid, nullable=False),
    Column("client", Text, ForeignKey("oauth_client.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("granted_by", Uuid, ForeignKey("person.id"), nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=True),
    *standing(),
)

connection_repository = tenant_table(
    "connection_repository",
    Column("connection", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    within("connection", "connection"),
    within("repository", "repository"),
    key=("connection", "repository"),
)

policy_clause = tenant_table(
    "policy_clause",
    Column("id", Uuid, nullable=False),
    Column("connection", Uuid, nullable=False),
    Column("effect", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("pattern", Text, nullable=False),
    CheckConstraint("effect IN ('allow', 'deny')", "effect"),
    CheckConstraint("subject IN ('operation', 'branch', 'path')", "subject"),
    UniqueConstraint("tenant", "connection", "effect", "subject", "pattern"),
    within("connection", "connection"),
)

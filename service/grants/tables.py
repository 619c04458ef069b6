"""Who may what: people, their sessions and credentials, and clients; tenants, projects, members, connections, and the
clauses of their policy.

`version` rises under FOR UPDATE with every change of rights; the writer reads these rows FOR SHARE. `lock_anchor` is a
column that nobody uses: the right to update it is what lets the writer lock a row without being able to change it.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    text,
    true,
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

session = directory_table(  # a signed-in browser
    "session",
    Column("id", Uuid, primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("csrf", Text, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("tenant", Uuid, ForeignKey("tenant.id"), nullable=False),
    Column("way", Text, nullable=False, server_default="link"),
    Column("browser", Text, nullable=False, server_default=""),  # as it calls itself, cut and cleaned
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("proved_at", DateTime(timezone=True), nullable=True),  # when the person last showed a credential
    Column("proved_by", Text, nullable=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=True),
    CheckConstraint("way IN ('link', 'passkey', 'password', 'oidc')", "way"),
    CheckConstraint("(proved_at IS NULL) = (proved_by IS NULL)", "proof"),
    Index(None, "person"),
)

person_credential = directory_table(  # what a person shows to sign in, or to prove that it is still the same person
    "person_credential",
    Column("id", Uuid, primary_key=True),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("handle", LargeBinary, nullable=True),  # how it is found: credential id, or a hash
    Column("live", Boolean, nullable=False, server_default=true()),  # False: being set up
    Column("secret", LargeBinary, nullable=True),  # public key, password hash, or a sealed secret
    Column("counter", BigInteger, nullable=False, server_default="0"),  # signatures, or the last time step
    Column("transports", ARRAY(Text), nullable=False, server_default="{}"),
    Column("aaguid", Text, nullable=True),
    Column("es256", Boolean, nullable=False, server_default=false()),  # whether it can sign a commit
    Column("signs", Boolean, nullable=False, server_default=false()),  # approvals: nothing less approves then
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("used_at", DateTime(timezone=True), nullable=True),
    CheckConstraint("NOT signs OR es256", "signs"),
    CheckConstraint("kind IN ('passkey', 'password', 'totp', 'recovery', 'oidc')", "kind"),
    UniqueConstraint("kind", "handle"),
    Index(None, "person", "kind"),
    Index(
        "person_credential_one_idx",
        "person",
        "kind",
        unique=True,
        postgresql_where=text("kind IN ('password', 'totp')"),
    ),
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
    Column("used_at", DateTime(timezone=True), nullable=True),  # when it last took a token
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

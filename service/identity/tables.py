"""What signing in needs for a while, and what was issued to OAuth clients. Of every secret only its hash is stored."""

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
    Uuid,
    text,
)

from service.kit.database import directory_table, tenant_table, within

NOW = text("clock_timestamp()")

login_challenge = directory_table(  # a link, or what a ceremony must answer; each of them is used once
    "login_challenge",
    Column("hash", LargeBinary, primary_key=True),
    Column("kind", Text, nullable=False, server_default="link"),
    Column("person", Uuid, ForeignKey("person.id"), nullable=True),
    Column("browser", LargeBinary, nullable=True),  # hash of what the same browser holds; None for a link
    Column("data", Text, nullable=False, server_default=""),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True), nullable=True),
    CheckConstraint("kind IN ('link', 'register', 'sign_in', 'prove', 'oidc')", "kind"),
    CheckConstraint("kind IN ('sign_in', 'oidc') OR person IS NOT NULL", "person"),
    Index(None, "expires_at"),
)

login_counter = directory_table(  # failed tries, of an account (that need not exist) or from an address
    "login_counter",
    Column("kind", Text, nullable=False),
    Column("subject", LargeBinary, nullable=False),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("last_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("locked_until", DateTime(timezone=True), nullable=True),
    CheckConstraint("kind IN ('account', 'address')", "kind"),
    PrimaryKeyConstraint("kind", "subject"),
    Index(None, "last_at"),
)

oauth_request = directory_table(  # an authorization request between its arrival and the person's answer
    "oauth_request",
    Column("hash", LargeBinary, primary_key=True),
    Column("session", Uuid, ForeignKey("session.id"), nullable=False),
    Column("client", Text, ForeignKey("oauth_client.id"), nullable=False),
    Column("redirect_uri", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("state", Text, nullable=True),
    Column("resource", Text, nullable=False),
    Column("code_challenge", Text, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("answered_at", DateTime(timezone=True), nullable=True),
)

authorization_code = tenant_table(
    "authorization_code",
    Column("hash", LargeBinary, nullable=False),
    Column("connection", Uuid, nullable=False),
    Column("client", Text, ForeignKey("oauth_client.id"), nullable=False),
    Column("redirect_uri", Text, nullable=False),
    Column("code_challenge", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("family", Uuid, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True), nullable=True),
    within("connection", "connection"),
    key=("hash",),
)

access_token = tenant_table(
    "access_token",
    Column("hash", LargeBinary, nullable=False),
    Column("connection", Uuid, nullable=False),
    Column("scope", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("family", Uuid, nullable=False),
    Column("issued_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True), nullable=True),
    Index(None, "tenant", "family"),
    within("connection", "connection"),
    key=("hash",),
)

refresh_token = tenant_table(
    "refresh_token",
    Column("hash", LargeBinary, nullable=False),
    Column("connection", Uuid, nullable=False),
    Column("client", Text, ForeignKey("oauth_client.id"), nullable=False),
    Column("scope", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("family", Uuid, nullable=False),
    Column("issued_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("rotated_at", DateTime(timezone=True), nullable=True),
    Column("sibling_at", DateTime(timezone=True), nullable=True),  # the grace was used
    Column("revoked_at", DateTime(timezone=True), nullable=True),
    Index(None, "tenant", "family"),
    within("connection", "connection"),
    key=("hash",),
)

"""Sessions, and what was issued to OAuth clients. Of every secret only its hash is stored."""

from sqlalchemy import (
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    Text,
    Uuid,
    text,
)

from service.kit.database import directory_table, tenant_table, within

NOW = text("clock_timestamp()")

login_challenge = directory_table(
    "login_challenge",
    Column("hash", LargeBinary, primary_key=True),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True), nullable=True),
)

session = directory_table(
    "session",
    Column("id", Uuid, primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("csrf", Text, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("tenant", Uuid, ForeignKey("tenant.id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=True),
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

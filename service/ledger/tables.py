"""The ledger's tables."""

from sqlalchemy import BigInteger, Column, DateTime, LargeBinary, Text, Uuid, text

from service.kit.database import tenant_table, within

NOW = text("clock_timestamp()")

ledger_entry = tenant_table(
    "ledger_entry",
    Column("seq", BigInteger, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("body", Text, nullable=False),  # the canonical bytes that are hashed
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    key=("seq",),
)

ledger_head = tenant_table(
    "ledger_head",
    Column("seq", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    key=(),
)

ref_move = tenant_table(
    "ref_move",
    Column("id", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    Column("ref", Text, nullable=False),
    Column("old", Text, nullable=False),
    Column("new", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("proposal", Uuid, nullable=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=NOW),
    within("repository", "repository"),
)

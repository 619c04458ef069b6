"""A proposal, what it staged, how it was decided, what the writer intends, and the queue of work."""

from typing import get_args

from sqlalchemy import (
    ARRAY,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    text,
)

from service.contract.answers import State
from service.contract.operation import SERVERS_KEYS
from service.kit.database import directory_table, tenant_table, within

NOW = text("clock_timestamp()")
ONE_PROPOSER = "(connection IS NULL) <> (person IS NULL)"
LIVE: tuple[State, ...] = ("pending", "approved", "executing")
"""The states of a proposal that is not at its end."""
_STATE_LIST, _LIVE_LIST = (", ".join(f"'{state}'" for state in states) for states in (get_args(State), LIVE))

proposal = tenant_table(
    "proposal",
    Column("id", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    Column("connection", Uuid, nullable=True),  # who proposed it: a connection, or a person
    Column("person", Uuid, ForeignKey("person.id"), nullable=True),
    Column("group_id", Text, nullable=True),
    Column("undoes", Uuid, nullable=True),  # the proposal whose execution it takes back
    Column("parent", Uuid, nullable=True),  # the proposal of which an owner chose this part
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
    Column("wanted_again", Text, nullable=True),  # what an owner told the agent when he asked for it again
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=True),
    Column("words", Text, nullable=False, server_default=""),  # what a search finds it by, in lower case
    Column("warned", Boolean, nullable=False, server_default=false()),
    CheckConstraint(f"state IN ({_STATE_LIST})", "state"),
    CheckConstraint(ONE_PROPOSER, "proposer"),
    UniqueConstraint("tenant", "connection", "key"),
    UniqueConstraint("tenant", "person", "key"),
    Index("proposal_group_idx", "tenant", "connection", "group_id", postgresql_where=text("group_id IS NOT NULL")),
    CheckConstraint(f"parent IS NULL OR key LIKE '{SERVERS_KEYS}%'", "part"),
    Index(
        "proposal_part_idx",
        "tenant",
        "parent",
        "body_hash",
        unique=True,
        postgresql_where=text(f"parent IS NOT NULL AND state IN ({_LIVE_LIST})"),
    ),
    Index("proposal_undoes_idx", "tenant", "undoes", unique=True, postgresql_where=text(f"state IN ({_LIVE_LIST})")),
    Index(None, "tenant", "repository", "created_at"),
    Index("proposal_pending_idx", "tenant", "connection", postgresql_where=text("state = 'pending'")),
    Index("proposal_waiting_idx", "tenant", "created_at", "id", postgresql_where=text("state = 'pending'")),
    Index("proposal_ended_idx", "tenant", "state", "ended_at", "id", postgresql_where=text("state <> 'pending'")),
    within("proposal", "undoes"),
    within("proposal", "parent"),
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
    Column("signature", LargeBinary, nullable=True),  # the person's own, in its armour
    Column("decided_at", DateTime(timezone=True), nullable=False),
    Column("proof", Text, nullable=False, server_default="session"),  # with what the person was known
    Column("reason", Text, nullable=False, server_default=""),  # why what the card warns of was let through
    CheckConstraint("verdict IN ('approve', 'decline', 'changes')", "verdict"),
    CheckConstraint("proof IN ('session', 'passkey', 'password', 'oidc')", "proof"),
    within("proposal", "proposal"),
    key=("proposal",),
)

draft = tenant_table(  # an approval that waits for its person's signature
    "draft",
    Column("id", Uuid, nullable=False),
    Column("proposal", Uuid, nullable=False),
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("session", Uuid, nullable=True),
    Column("said", Text, nullable=False),  # JSON: what was acknowledged, at which digest
    Column("committer", LargeBinary, nullable=False),
    Column("decided_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True), nullable=True),
    Index(None, "tenant", "proposal"),
    within("proposal", "proposal"),
)

reading = tenant_table(  # what was sent in full to a session
    "reading",
    Column("session", Uuid, nullable=False),
    Column("proposal", Uuid, nullable=False),
    Column("digest", Text, nullable=False),
    Column("files", Integer, nullable=False),  # how many the proposal has
    Column("sent", ARRAY(Integer), nullable=False),  # the places of those that were sent, from 1
    Column("begun_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    within("proposal", "proposal"),
    key=("session", "proposal"),
)

coloured = tenant_table(  # a content's colours, which any page of the tenant may use
    "coloured",
    Column("content", LargeBinary, nullable=False),  # its SHA-256
    Column("lexer", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("stretches", LargeBinary, nullable=False),
    Column("used_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Index(None, "tenant", "used_at"),
    key=("content", "lexer", "version"),
)

seen = tenant_table(  # what a person has marked, for himself
    "seen",
    Column("person", Uuid, ForeignKey("person.id"), nullable=False),
    Column("change", LargeBinary, nullable=False),  # SHA-256 over path, modes and contents
    Column("marked_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    key=("person", "change"),
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

restore_point = tenant_table(  # its id is that of the proposal whose execution kept it
    "restore_point",
    Column("id", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    Column("moves", Text, nullable=False),  # JSON: each ref with what it was before and after
    Column("made_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("dropped_at", DateTime(timezone=True), nullable=True),
    Index(None, "tenant", "repository", "made_at"),
    ForeignKeyConstraint(["tenant", "id"], ["proposal.tenant", "proposal.id"]),
    within("repository", "repository"),
)

conflict = tenant_table(  # what could not be proposed, so that both sides can be read
    "conflict",
    Column("id", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    Column("connection", Uuid, nullable=True),
    Column("person", Uuid, ForeignKey("person.id"), nullable=True),
    Column("kind", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("paths", Text, nullable=False),  # JSON: the conflicts of the contract
    Column("objects", LargeBinary, nullable=False),  # of them, those that no repository has
    Column("made_at", DateTime(timezone=True), nullable=False, server_default=NOW),
    CheckConstraint(ONE_PROPOSER, "proposer"),
    Index(None, "tenant", "made_at"),
    within("repository", "repository"),
    within("connection", "connection"),
)

work_queue = directory_table(
    "work_queue",
    Column("kind", Text, nullable=False),
    Column("tenant", Uuid, ForeignKey("tenant.id"), nullable=False),
    Column("subject", Uuid, nullable=False),
    Column("repository", Uuid, nullable=False),
    Column("due", DateTime(timezone=True), nullable=False, server_default=NOW),
    Column("attempts", Integer, nullable=False, server_default="0"),
    CheckConstraint("kind IN ('execute', 'expire', 'maintain', 'drop')", "kind"),
    PrimaryKeyConstraint("kind", "tenant", "subject"),
    Index(None, "due"),
)

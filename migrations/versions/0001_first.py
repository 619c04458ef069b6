"""The first schema: tables, the wall between tenants, and what each role may touch.

Revision ID: 0001
Revises: 
"""

import sqlalchemy as sa
from alembic import op

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None

TENANT_TABLES = (
    "project", "membership", "repository", "placement", "connection", "connection_repository", "policy_clause",
    "proposal", "staging", "decision", "intent", "ledger_entry", "ledger_head", "ref_move",
    "authorization_code", "access_token", "refresh_token",
)
MINE = "tenant = nullif(current_setting('app.tenant', true), '')::uuid"
LOCK = "SELECT, UPDATE (lock_anchor)"

# What each role may do. Row security comes on top of it; what is absent is refused.
RIGHTS = {
    "placet_app": {
        "tenant": LOCK,
        "project": LOCK,
        "membership": LOCK,
        "repository": "SELECT, UPDATE (agents_may_propose, version, lock_anchor)",
        "placement": "SELECT",
        "connection": "SELECT, INSERT, UPDATE",
        "connection_repository": "SELECT, INSERT, DELETE",
        "policy_clause": "SELECT",
        "proposal": "SELECT, INSERT, UPDATE (state, outcome, ended_at)",
        "staging": "SELECT, INSERT",
        "decision": "SELECT, INSERT",
        "intent": "SELECT",
        "ledger_entry": "SELECT, INSERT",
        "ledger_head": "SELECT, INSERT, UPDATE",
        "ref_move": "SELECT",
        "work_queue": "INSERT",
        "person": "SELECT",
        "person_tenant": "SELECT",
        "login_challenge": "SELECT, UPDATE (used_at)",
        "session": "SELECT, INSERT, UPDATE",
        "oauth_client": "SELECT, INSERT, UPDATE (used_at), DELETE",
        "oauth_request": "SELECT, INSERT, UPDATE (answered_at), DELETE",
        "authorization_code": "SELECT, INSERT, UPDATE (used_at)",
        "access_token": "SELECT, INSERT, UPDATE (revoked_at), DELETE",
        "refresh_token": "SELECT, INSERT, UPDATE (rotated_at, sibling_at, revoked_at), DELETE",
    },
    "placet_writer": {
        "tenant": LOCK,
        "project": LOCK,
        "membership": LOCK,
        "repository": LOCK,
        "connection": LOCK,
        "placement": "SELECT",
        "connection_repository": "SELECT",
        "policy_clause": "SELECT",
        "proposal": "SELECT, UPDATE (state, outcome, ended_at)",
        "staging": "SELECT",
        "decision": "SELECT",
        "intent": "SELECT, INSERT, UPDATE",
        "ledger_entry": "SELECT, INSERT",
        "ledger_head": "SELECT, INSERT, UPDATE",
        "ref_move": "SELECT, INSERT",
        "work_queue": "SELECT, INSERT, UPDATE (due, attempts), DELETE",
    },
}

# A proposal begins as pending and moves only as DESIGN says; the web process never says that something was executed.
MOVES = (
    "pending>approved pending>declined pending>cancelled pending>expired pending>stale "
    "approved>executing approved>stale approved>failed approved>executed "
    "executing>executed executing>stale executing>failed executing>approved"
).split()
GUARDS = f"""
CREATE FUNCTION guard_proposal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user NOT IN ('placet_app', 'placet_writer') THEN RETURN NEW; END IF;
  IF (TG_OP = 'INSERT' AND NEW.state = 'pending')
    OR (TG_OP = 'UPDATE' AND OLD.state = NEW.state)
    OR (TG_OP = 'UPDATE' AND OLD.state || '>' || NEW.state IN ({", ".join(f"'{move}'" for move in MOVES)})
        AND (current_user = 'placet_writer' OR OLD.state = 'pending'))
  THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'no such move of a proposal' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE FUNCTION guard_connection() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state = 'revoked' AND NEW.state <> 'revoked' THEN
    RAISE EXCEPTION 'a revoked connection stays revoked' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON proposal FOR EACH ROW EXECUTE FUNCTION guard_proposal();
CREATE TRIGGER guard BEFORE UPDATE ON connection FOR EACH ROW EXECUTE FUNCTION guard_connection()
"""

APPEND_ONLY = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the ledger is append only' USING ERRCODE = 'insufficient_privilege'; END $$
"""


def build_walls() -> None:
    for table in TENANT_TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant_wall ON {table} USING ({MINE}) WITH CHECK ({MINE})")
    for role, rights in RIGHTS.items():
        for table, granted in rights.items():
            op.execute(f"GRANT {granted} ON {table} TO {role}")
    for statement in GUARDS.split(";\nCREATE"):
        op.execute(statement if statement.lstrip().startswith("CREATE") else f"CREATE{statement}")
    op.execute(APPEND_ONLY)
    for table in ("ledger_entry", "ref_move"):
        op.execute(
            f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    op.execute("INSERT INTO tenant (id, name) VALUES ('00000000-0000-0000-0000-000000000000', 'placet')")


def upgrade() -> None:
    op.create_table('oauth_client',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('redirect_uris', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('auth_method', sa.Text(), nullable=False),
    sa.Column('secret_hash', sa.LargeBinary(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('used_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('oauth_client_pkey')),
    info={'tenant': False}
    )
    op.create_table('person',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('email', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('person_pkey')),
    sa.UniqueConstraint('email', name=op.f('person_email_key')),
    info={'tenant': False}
    )
    op.create_table('tenant',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('proposal_seconds', sa.Integer(), server_default='86400', nullable=False),
    sa.Column('pending_most', sa.Integer(), server_default='20', nullable=False),
    sa.Column('state', sa.Text(), server_default='live', nullable=False),
    sa.Column('version', sa.Integer(), server_default='1', nullable=False),
    sa.Column('lock_anchor', sa.SmallInteger(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.CheckConstraint("state IN ('live', 'paused', 'revoked')", name=op.f('tenant_state_check')),
    sa.PrimaryKeyConstraint('id', name=op.f('tenant_pkey')),
    sa.UniqueConstraint('name', name=op.f('tenant_name_key')),
    info={'tenant': False}
    )
    op.create_table('connection',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('client', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('granted_by', sa.Uuid(), nullable=False),
    sa.Column('scopes', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('state', sa.Text(), server_default='live', nullable=False),
    sa.Column('version', sa.Integer(), server_default='1', nullable=False),
    sa.Column('lock_anchor', sa.SmallInteger(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.CheckConstraint("state IN ('live', 'paused', 'revoked')", name=op.f('connection_state_check')),
    sa.ForeignKeyConstraint(['client'], ['oauth_client.id'], name=op.f('connection_client_fkey')),
    sa.ForeignKeyConstraint(['granted_by'], ['person.id'], name=op.f('connection_granted_by_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('connection_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('connection_pkey')),
    info={'tenant': True}
    )
    op.create_table('ledger_entry',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('seq', sa.BigInteger(), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('body', sa.Text(), nullable=False),
    sa.Column('previous', sa.LargeBinary(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('ledger_entry_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'seq', name=op.f('ledger_entry_pkey')),
    info={'tenant': True}
    )
    op.create_table('ledger_head',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('seq', sa.BigInteger(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('ledger_head_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', name=op.f('ledger_head_pkey')),
    info={'tenant': True}
    )
    op.create_table('login_challenge',
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('used_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('login_challenge_person_fkey')),
    sa.PrimaryKeyConstraint('hash', name=op.f('login_challenge_pkey')),
    info={'tenant': False}
    )
    op.create_table('person_tenant',
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('person_tenant_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('person_tenant_tenant_fkey')),
    sa.PrimaryKeyConstraint('person', 'tenant', name=op.f('person_tenant_pkey')),
    info={'tenant': False}
    )
    op.create_table('project',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default='live', nullable=False),
    sa.Column('version', sa.Integer(), server_default='1', nullable=False),
    sa.Column('lock_anchor', sa.SmallInteger(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.CheckConstraint("state IN ('live', 'paused', 'revoked')", name=op.f('project_state_check')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('project_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('project_pkey')),
    sa.UniqueConstraint('tenant', 'name', name=op.f('project_tenant_name_key')),
    info={'tenant': True}
    )
    op.create_table('session',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('csrf', sa.Text(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('seen_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('session_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('session_tenant_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('session_pkey')),
    sa.UniqueConstraint('hash', name=op.f('session_hash_key')),
    info={'tenant': False}
    )
    op.create_table('work_queue',
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('subject', sa.Uuid(), nullable=False),
    sa.Column('repository', sa.Uuid(), nullable=False),
    sa.Column('due', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.CheckConstraint("kind IN ('execute', 'expire')", name=op.f('work_queue_kind_check')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('work_queue_tenant_fkey')),
    sa.PrimaryKeyConstraint('kind', 'tenant', 'subject', name=op.f('work_queue_pkey')),
    info={'tenant': False}
    )
    op.create_index(op.f('work_queue_due_idx'), 'work_queue', ['due'], unique=False)
    op.create_table('access_token',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('connection', sa.Uuid(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('resource', sa.Text(), nullable=False),
    sa.Column('family', sa.Uuid(), nullable=False),
    sa.Column('issued_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('revoked_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['tenant', 'connection'], ['connection.tenant', 'connection.id'], name=op.f('access_token_tenant_connection_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('access_token_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'hash', name=op.f('access_token_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('access_token_tenant_family_idx'), 'access_token', ['tenant', 'family'], unique=False)
    op.create_table('authorization_code',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('connection', sa.Uuid(), nullable=False),
    sa.Column('client', sa.Text(), nullable=False),
    sa.Column('redirect_uri', sa.Text(), nullable=False),
    sa.Column('code_challenge', sa.Text(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('resource', sa.Text(), nullable=False),
    sa.Column('family', sa.Uuid(), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('used_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['client'], ['oauth_client.id'], name=op.f('authorization_code_client_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'connection'], ['connection.tenant', 'connection.id'], name=op.f('authorization_code_tenant_connection_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('authorization_code_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'hash', name=op.f('authorization_code_pkey')),
    info={'tenant': True}
    )
    op.create_table('membership',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('project', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default='live', nullable=False),
    sa.Column('version', sa.Integer(), server_default='1', nullable=False),
    sa.Column('lock_anchor', sa.SmallInteger(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.CheckConstraint("role IN ('owner', 'maintainer', 'reader')", name=op.f('membership_role_check')),
    sa.CheckConstraint("state IN ('live', 'paused', 'revoked')", name=op.f('membership_state_check')),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('membership_person_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'project'], ['project.tenant', 'project.id'], name=op.f('membership_tenant_project_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('membership_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('membership_pkey')),
    sa.UniqueConstraint('tenant', 'project', 'person', name=op.f('membership_tenant_project_person_key')),
    info={'tenant': True}
    )
    op.create_table('oauth_request',
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('session', sa.Uuid(), nullable=False),
    sa.Column('client', sa.Text(), nullable=False),
    sa.Column('redirect_uri', sa.Text(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=True),
    sa.Column('resource', sa.Text(), nullable=False),
    sa.Column('code_challenge', sa.Text(), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('answered_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['client'], ['oauth_client.id'], name=op.f('oauth_request_client_fkey')),
    sa.ForeignKeyConstraint(['session'], ['session.id'], name=op.f('oauth_request_session_fkey')),
    sa.PrimaryKeyConstraint('hash', name=op.f('oauth_request_pkey')),
    info={'tenant': False}
    )
    op.create_table('policy_clause',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('connection', sa.Uuid(), nullable=False),
    sa.Column('effect', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('pattern', sa.Text(), nullable=False),
    sa.CheckConstraint("effect IN ('allow', 'deny')", name=op.f('policy_clause_effect_check')),
    sa.CheckConstraint("subject IN ('operation', 'branch', 'path')", name=op.f('policy_clause_subject_check')),
    sa.ForeignKeyConstraint(['tenant', 'connection'], ['connection.tenant', 'connection.id'], name=op.f('policy_clause_tenant_connection_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('policy_clause_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('policy_clause_pkey')),
    sa.UniqueConstraint('tenant', 'connection', 'effect', 'subject', 'pattern', name=op.f('policy_clause_tenant_connection_effect_subject_pattern_key')),
    info={'tenant': True}
    )
    op.create_table('refresh_token',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('connection', sa.Uuid(), nullable=False),
    sa.Column('client', sa.Text(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('resource', sa.Text(), nullable=False),
    sa.Column('family', sa.Uuid(), nullable=False),
    sa.Column('issued_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('rotated_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('sibling_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('revoked_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['client'], ['oauth_client.id'], name=op.f('refresh_token_client_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'connection'], ['connection.tenant', 'connection.id'], name=op.f('refresh_token_tenant_connection_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('refresh_token_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'hash', name=op.f('refresh_token_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('refresh_token_tenant_family_idx'), 'refresh_token', ['tenant', 'family'], unique=False)
    op.create_table('repository',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('project', sa.Uuid(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('agents_may_propose', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('state', sa.Text(), server_default='live', nullable=False),
    sa.Column('version', sa.Integer(), server_default='1', nullable=False),
    sa.Column('lock_anchor', sa.SmallInteger(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.CheckConstraint("state IN ('live', 'paused', 'revoked')", name=op.f('repository_state_check')),
    sa.ForeignKeyConstraint(['tenant', 'project'], ['project.tenant', 'project.id'], name=op.f('repository_tenant_project_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('repository_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('repository_pkey')),
    sa.UniqueConstraint('tenant', 'project', 'name', name=op.f('repository_tenant_project_name_key')),
    info={'tenant': True}
    )
    op.create_table('connection_repository',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('connection', sa.Uuid(), nullable=False),
    sa.Column('repository', sa.Uuid(), nullable=False),
    sa.ForeignKeyConstraint(['tenant', 'connection'], ['connection.tenant', 'connection.id'], name=op.f('connection_repository_tenant_connection_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'repository'], ['repository.tenant', 'repository.id'], name=op.f('connection_repository_tenant_repository_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('connection_repository_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'connection', 'repository', name=op.f('connection_repository_pkey')),
    info={'tenant': True}
    )
    op.create_table('placement',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('repository', sa.Uuid(), nullable=False),
    sa.Column('shard', sa.Text(), nullable=False),
    sa.Column('epoch', sa.Integer(), server_default='1', nullable=False),
    sa.ForeignKeyConstraint(['tenant', 'repository'], ['repository.tenant', 'repository.id'], name=op.f('placement_tenant_repository_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('placement_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'repository', name=op.f('placement_pkey')),
    info={'tenant': True}
    )
    op.create_table('proposal',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('repository', sa.Uuid(), nullable=False),
    sa.Column('connection', sa.Uuid(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('body_hash', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('kind_version', sa.Integer(), nullable=False),
    sa.Column('request', sa.Text(), nullable=False),
    sa.Column('pins', sa.Text(), nullable=False),
    sa.Column('plan', sa.Text(), nullable=False),
    sa.Column('card', sa.Text(), nullable=False),
    sa.Column('manifest', sa.Text(), nullable=False),
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default='pending', nullable=False),
    sa.Column('outcome', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("state IN ('pending', 'approved', 'executing', 'executed', 'stale', 'failed', 'declined', 'cancelled', 'expired')", name=op.f('proposal_state_check')),
    sa.ForeignKeyConstraint(['tenant', 'connection'], ['connection.tenant', 'connection.id'], name=op.f('proposal_tenant_connection_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'repository'], ['repository.tenant', 'repository.id'], name=op.f('proposal_tenant_repository_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('proposal_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('proposal_pkey')),
    sa.UniqueConstraint('tenant', 'connection', 'key', name=op.f('proposal_tenant_connection_key_key')),
    info={'tenant': True}
    )
    op.create_index('proposal_pending_idx', 'proposal', ['tenant', 'connection'], unique=False, postgresql_where=sa.text("state = 'pending'"))
    op.create_index(op.f('proposal_tenant_repository_created_at_idx'), 'proposal', ['tenant', 'repository', 'created_at'], unique=False)
    op.create_table('ref_move',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('repository', sa.Uuid(), nullable=False),
    sa.Column('ref', sa.Text(), nullable=False),
    sa.Column('old', sa.Text(), nullable=False),
    sa.Column('new', sa.Text(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('proposal', sa.Uuid(), nullable=True),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['tenant', 'repository'], ['repository.tenant', 'repository.id'], name=op.f('ref_move_tenant_repository_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('ref_move_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('ref_move_pkey')),
    info={'tenant': True}
    )
    op.create_table('decision',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('proposal', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('session', sa.Uuid(), nullable=True),
    sa.Column('verdict', sa.Text(), nullable=False),
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('acknowledged', sa.Text(), nullable=False),
    sa.Column('note', sa.Text(), nullable=False),
    sa.Column('committer', sa.LargeBinary(), nullable=False),
    sa.Column('decided_at', sa.DateTime(timezone=True), nullable=False),
    sa.CheckConstraint("verdict IN ('approve', 'decline')", name=op.f('decision_verdict_check')),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('decision_person_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'proposal'], ['proposal.tenant', 'proposal.id'], name=op.f('decision_tenant_proposal_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('decision_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'proposal', name=op.f('decision_pkey')),
    info={'tenant': True}
    )
    op.create_table('intent',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('proposal', sa.Uuid(), nullable=False),
    sa.Column('epoch', sa.Integer(), nullable=False),
    sa.Column('attempts', sa.Integer(), server_default='1', nullable=False),
    sa.Column('moves', sa.Text(), nullable=False),
    sa.Column('commits', sa.LargeBinary(), nullable=False),
    sa.Column('marker', sa.Text(), nullable=False),
    sa.Column('written_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['tenant', 'proposal'], ['proposal.tenant', 'proposal.id'], name=op.f('intent_tenant_proposal_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('intent_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'proposal', name=op.f('intent_pkey')),
    info={'tenant': True}
    )
    op.create_table('staging',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('proposal', sa.Uuid(), nullable=False),
    sa.Column('objects', sa.LargeBinary(), nullable=False),
    sa.ForeignKeyConstraint(['tenant', 'proposal'], ['proposal.tenant', 'proposal.id'], name=op.f('staging_tenant_proposal_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('staging_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'proposal', name=op.f('staging_pkey')),
    info={'tenant': True}
    )
    build_walls()


def downgrade() -> None:
    op.drop_table('staging')
    op.drop_table('intent')
    op.drop_table('decision')
    op.drop_table('ref_move')
    op.drop_index(op.f('proposal_tenant_repository_created_at_idx'), table_name='proposal')
    op.drop_index('proposal_pending_idx', table_name='proposal', postgresql_where=sa.text("state = 'pending'"))
    op.drop_table('proposal')
    op.drop_table('placement')
    op.drop_table('connection_repository')
    op.drop_table('repository')
    op.drop_index(op.f('refresh_token_tenant_family_idx'), table_name='refresh_token')
    op.drop_table('refresh_token')
    op.drop_table('policy_clause')
    op.drop_table('oauth_request')
    op.drop_table('membership')
    op.drop_table('authorization_code')
    op.drop_index(op.f('access_token_tenant_family_idx'), table_name='access_token')
    op.drop_table('access_token')
    op.drop_index(op.f('work_queue_due_idx'), table_name='work_queue')
    op.drop_table('work_queue')
    op.drop_table('session')
    op.drop_table('project')
    op.drop_table('person_tenant')
    op.drop_table('login_challenge')
    op.drop_table('ledger_head')
    op.drop_table('ledger_entry')
    op.drop_table('connection')
    op.drop_table('tenant')
    op.drop_table('person')
    op.drop_table('oauth_client')
    op.execute("DROP FUNCTION refuse_change(), guard_proposal(), guard_connection()")

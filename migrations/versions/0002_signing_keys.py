"""Signing keys: who signs a tenant's commits, the switch that asks for it, and which key signed an intent.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

MINE = "tenant = nullif(current_setting('app.tenant', true), '')::uuid"
PUBLIC = "tenant, id, public_key, fingerprint, state, created_at, retired_at"

# What a key signed must verify for ever: its public half never changes, it is never deleted, and a retired one stays so.
GUARD = """
CREATE FUNCTION guard_signing_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.state = 'live'
    AND (OLD.tenant, OLD.id, OLD.public_key, OLD.fingerprint, OLD.created_at)
      = (NEW.tenant, NEW.id, NEW.public_key, NEW.fingerprint, NEW.created_at)
  THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'what a key signed must verify for ever' USING ERRCODE = 'insufficient_privilege';
END $$
"""


def upgrade() -> None:
    op.add_column('tenant', sa.Column('sign_commits', sa.Boolean(), server_default=sa.text('false'), nullable=False))
    op.create_table('signing_key',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('public_key', sa.Text(), nullable=False),
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('sealed', sa.LargeBinary(), nullable=True),
    sa.Column('state', sa.Text(), server_default='live', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("state IN ('live', 'retired')", name=op.f('signing_key_state_check')),
    sa.CheckConstraint("(state = 'live') = (sealed IS NOT NULL)", name=op.f('signing_key_sealed_check')),
    sa.CheckConstraint("(state = 'retired') = (retired_at IS NOT NULL)", name=op.f('signing_key_retired_check')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('signing_key_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('signing_key_pkey')),
    info={'tenant': True}
    )
    op.create_index('signing_key_live_idx', 'signing_key', ['tenant'], unique=True, postgresql_where=sa.text("state = 'live'"))
    op.add_column('intent', sa.Column('signing_key', sa.Uuid(), nullable=True))
    op.create_foreign_key(op.f('intent_tenant_signing_key_fkey'), 'intent', 'signing_key', ['tenant', 'signing_key'], ['tenant', 'id'])
    op.execute("ALTER TABLE signing_key ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE signing_key FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant_wall ON signing_key USING ({MINE}) WITH CHECK ({MINE})")
    op.execute(f"GRANT SELECT ({PUBLIC}) ON signing_key TO placet_app")
    op.execute("GRANT SELECT ON signing_key TO placet_writer")
    op.execute(GUARD)
    op.execute(
        "CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON signing_key "
        "FOR EACH ROW EXECUTE FUNCTION guard_signing_key()"
    )


def downgrade() -> None:
    op.drop_constraint(op.f('intent_tenant_signing_key_fkey'), 'intent', type_='foreignkey')
    op.drop_column('intent', 'signing_key')
    op.drop_table('signing_key')
    op.execute("DROP FUNCTION guard_signing_key()")
    op.drop_column('tenant', 'sign_commits')

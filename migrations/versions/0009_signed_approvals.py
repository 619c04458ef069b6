"""Approvals that a person signed: the signature, what it was made with, and what waits for one.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None

MINE = "tenant = nullif(current_setting('app.tenant', true), '')::uuid"

# What a person signed must verify for ever: his key stays as it was, and one that was taken away stays so.
GUARD = """
CREATE FUNCTION guard_approval_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE'
    AND (OLD.tenant, OLD.fingerprint, OLD.person, OLD.email, OLD.public_key, OLD.used_at)
      = (NEW.tenant, NEW.fingerprint, NEW.person, NEW.email, NEW.public_key, NEW.used_at)
  THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'what a key signed must verify for ever' USING ERRCODE = 'insufficient_privilege';
END $$
"""


def upgrade() -> None:
    op.add_column('repository', sa.Column('signed_approvals', sa.Boolean(), server_default=sa.text('false'), nullable=False))
    op.execute("GRANT UPDATE (signed_approvals) ON repository TO placet_app")
    op.add_column('person_credential', sa.Column('signs', sa.Boolean(), server_default=sa.text('false'), nullable=False))
    op.create_check_constraint(op.f('person_credential_signs_check'), 'person_credential', "NOT signs OR es256")
    op.add_column('decision', sa.Column('signature', sa.LargeBinary(), nullable=True))
    op.create_table('approval_key',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('email', sa.Text(), nullable=False),
    sa.Column('public_key', sa.Text(), nullable=False),
    sa.Column('used_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('approval_key_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('approval_key_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'fingerprint', 'email', name=op.f('approval_key_pkey')),
    info={'tenant': True}
    )
    op.create_table('draft',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('proposal', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('session', sa.Uuid(), nullable=True),
    sa.Column('said', sa.Text(), nullable=False),
    sa.Column('committer', sa.LargeBinary(), nullable=False),
    sa.Column('decided_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('used_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('draft_person_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'proposal'], ['proposal.tenant', 'proposal.id'], name=op.f('draft_tenant_proposal_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('draft_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('draft_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('draft_tenant_proposal_idx'), 'draft', ['tenant', 'proposal'])
    for table in ('approval_key', 'draft'):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant_wall ON {table} USING ({MINE}) WITH CHECK ({MINE})")
    op.execute("GRANT SELECT, INSERT, UPDATE (retired_at) ON approval_key TO placet_app")
    op.execute("GRANT SELECT, INSERT, DELETE, UPDATE (used_at) ON draft TO placet_app")
    op.execute(GUARD)
    op.execute(
        "CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON approval_key "
        "FOR EACH ROW EXECUTE FUNCTION guard_approval_key()"
    )


def downgrade() -> None:
    """The commits keep their signatures; which keys made them is lost to the service."""
    op.drop_table('draft')
    op.drop_table('approval_key')
    op.execute("DROP FUNCTION guard_approval_key()")
    op.drop_column('decision', 'signature')
    op.drop_constraint(op.f('person_credential_signs_check'), 'person_credential')
    op.drop_column('person_credential', 'signs')
    op.drop_column('repository', 'signed_approvals')

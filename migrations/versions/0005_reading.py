"""What of a proposal was sent in full, and to which session.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None

MINE = "tenant = nullif(current_setting('app.tenant', true), '')::uuid"


def upgrade() -> None:
    op.create_table('reading',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('session', sa.Uuid(), nullable=False),
    sa.Column('proposal', sa.Uuid(), nullable=False),
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('files', sa.Integer(), nullable=False),
    sa.Column('sent', sa.ARRAY(sa.Integer()), nullable=False),
    sa.Column('begun_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.ForeignKeyConstraint(['tenant', 'proposal'], ['proposal.tenant', 'proposal.id'], name=op.f('reading_tenant_proposal_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('reading_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'session', 'proposal', name=op.f('reading_pkey')),
    info={'tenant': True}
    )
    op.execute("ALTER TABLE reading ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE reading FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant_wall ON reading USING ({MINE}) WITH CHECK ({MINE})")
    op.execute("GRANT SELECT, INSERT, UPDATE (sent) ON reading TO placet_app")


def downgrade() -> None:
    op.drop_table('reading')

"""A part of a proposal, which an owner chose, is a proposal that names it.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = '0011'
down_revision = '0010'
branch_labels = None
depends_on = None

LIVE_PART = "parent IS NOT NULL AND state IN ('pending', 'approved', 'executing')"
WITHDRAW = """
UPDATE proposal SET state = 'cancelled', ended_at = clock_timestamp(), outcome = '{"code":"withdrawn"}'
WHERE parent IS NOT NULL AND state = 'pending'
"""


def upgrade() -> None:
    op.add_column('proposal', sa.Column('parent', sa.Uuid(), nullable=True))
    op.create_foreign_key(op.f('proposal_tenant_parent_fkey'), 'proposal', 'proposal', ['tenant', 'parent'], ['tenant', 'id'])
    op.create_check_constraint(op.f('proposal_part_check'), 'proposal', "parent IS NULL OR key LIKE 'placet:%'")
    op.create_index('proposal_part_idx', 'proposal', ['tenant', 'parent', 'body_hash'], unique=True,
        postgresql_where=sa.text(LIVE_PART))


def downgrade() -> None:
    """A part that waits is withdrawn: nothing would decline what it was chosen from. What became of others stays."""
    op.execute("ALTER TABLE proposal NO FORCE ROW LEVEL SECURITY")
    op.execute(WITHDRAW)
    op.execute("ALTER TABLE proposal FORCE ROW LEVEL SECURITY")
    op.drop_index('proposal_part_idx', table_name='proposal')
    op.drop_constraint(op.f('proposal_part_check'), 'proposal', type_='check')
    op.drop_constraint(op.f('proposal_tenant_parent_fkey'), 'proposal', type_='foreignkey')
    op.drop_column('proposal', 'parent')

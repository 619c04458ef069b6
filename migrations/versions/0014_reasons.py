"""Why an owner let through what a card warns of.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('decision', sa.Column('reason', sa.Text(), server_default='', nullable=False))


def downgrade() -> None:
    """The reasons stay in the ledger only."""
    op.drop_column('decision', 'reason')

"""A person chooses in which language he is told.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('notice_choice', sa.Column('language', sa.Text(), nullable=False, server_default='en'))


def downgrade() -> None:
    op.drop_column('notice_choice', 'language')

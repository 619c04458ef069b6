"""Decisions that ask the agent for something: for changes, or for the same again.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None

VERDICT = 'decision_verdict_check'


def upgrade() -> None:
    op.drop_constraint(op.f(VERDICT), 'decision')
    op.create_check_constraint(op.f(VERDICT), 'decision', "verdict IN ('approve', 'decline', 'changes')")
    op.add_column('proposal', sa.Column('wanted_again', sa.Text(), nullable=True))
    op.execute("GRANT UPDATE (wanted_again) ON proposal TO placet_app")


def downgrade() -> None:
    """Whoever asked for changes has declined."""
    op.drop_column('proposal', 'wanted_again')
    op.drop_constraint(op.f(VERDICT), 'decision')
    op.execute("ALTER TABLE decision NO FORCE ROW LEVEL SECURITY")
    op.execute("UPDATE decision SET verdict = 'decline' WHERE verdict = 'changes'")
    op.execute("ALTER TABLE decision FORCE ROW LEVEL SECURITY")
    op.create_check_constraint(op.f(VERDICT), 'decision', "verdict IN ('approve', 'decline')")

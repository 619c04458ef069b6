"""Maintenance of repositories is work for the queue; the writer's rights on it are enough.

Revision ID: 0003
Revises: 0002
"""

from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None

NAME = 'work_queue_kind_check'


def upgrade() -> None:
    op.drop_constraint(op.f(NAME), 'work_queue')
    op.create_check_constraint(op.f(NAME), 'work_queue', "kind IN ('execute', 'expire', 'maintain')")


def downgrade() -> None:
    op.execute("DELETE FROM work_queue WHERE kind = 'maintain'")
    op.drop_constraint(op.f(NAME), 'work_queue')
    op.create_check_constraint(op.f(NAME), 'work_queue', "kind IN ('execute', 'expire')")

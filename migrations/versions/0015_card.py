"""Colours of code that a page need not make again, and what a person has marked as seen.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None

MINE = "tenant = nullif(current_setting('app.tenant', true), '')::uuid"
NOW = sa.text('clock_timestamp()')
RIGHTS = {
    "coloured": "SELECT, INSERT, UPDATE (used_at), DELETE",
    "seen": "SELECT, INSERT, DELETE",
}


def upgrade() -> None:
    op.create_table('coloured',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('content', sa.LargeBinary(), nullable=False),
    sa.Column('lexer', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=False),
    sa.Column('stretches', sa.LargeBinary(), nullable=False),
    sa.Column('used_at', sa.DateTime(timezone=True), server_default=NOW, nullable=False),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('coloured_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'content', 'lexer', 'version', name=op.f('coloured_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('coloured_tenant_used_at_idx'), 'coloured', ['tenant', 'used_at'])
    op.create_table('seen',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('change', sa.LargeBinary(), nullable=False),
    sa.Column('marked_at', sa.DateTime(timezone=True), server_default=NOW, nullable=False),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('seen_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('seen_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'person', 'change', name=op.f('seen_pkey')),
    info={'tenant': True}
    )
    for table, rights in RIGHTS.items():
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant_wall ON {table} USING ({MINE}) WITH CHECK ({MINE})")
        op.execute(f"GRANT {rights} ON {table} TO placet_app")


def downgrade() -> None:
    op.drop_table('seen')
    op.drop_table('coloured')

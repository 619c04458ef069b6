"""Every Git operation as a proposal: owners propose too, restore points are kept, conflicts can be read.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None

MINE = "tenant = nullif(current_setting('app.tenant', true), '')::uuid"
WALLED = ('intent', 'decision', 'staging', 'proposal')
QUEUE = 'work_queue_kind_check'
RIGHTS = {
    "placet_app": {"restore_point": "SELECT", "conflict": "SELECT, INSERT, DELETE"},
    "placet_writer": {"restore_point": "SELECT, INSERT, UPDATE (dropped_at)"},
}


def upgrade() -> None:
    op.add_column('tenant', sa.Column('restore_seconds', sa.Integer(), server_default='7776000', nullable=False))
    op.alter_column('proposal', 'connection', nullable=True)
    op.add_column('proposal', sa.Column('person', sa.Uuid(), nullable=True))
    op.add_column('proposal', sa.Column('group_id', sa.Text(), nullable=True))
    op.add_column('proposal', sa.Column('undoes', sa.Uuid(), nullable=True))
    op.create_foreign_key(op.f('proposal_person_fkey'), 'proposal', 'person', ['person'], ['id'])
    op.create_foreign_key(op.f('proposal_tenant_undoes_fkey'), 'proposal', 'proposal', ['tenant', 'undoes'], ['tenant', 'id'])
    op.create_check_constraint(op.f('proposal_proposer_check'), 'proposal', "(connection IS NULL) <> (person IS NULL)")
    op.create_unique_constraint(op.f('proposal_tenant_person_key_key'), 'proposal', ['tenant', 'person', 'key'])
    op.create_index('proposal_group_idx', 'proposal', ['tenant', 'connection', 'group_id'],
        postgresql_where=sa.text("group_id IS NOT NULL"))
    op.create_index('proposal_undoes_idx', 'proposal', ['tenant', 'undoes'], unique=True,
        postgresql_where=sa.text("state IN ('pending', 'approved', 'executing')"))
    op.create_table('restore_point',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('repository', sa.Uuid(), nullable=False),
    sa.Column('moves', sa.Text(), nullable=False),
    sa.Column('made_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('dropped_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['tenant', 'id'], ['proposal.tenant', 'proposal.id'], name=op.f('restore_point_tenant_id_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'repository'], ['repository.tenant', 'repository.id'], name=op.f('restore_point_tenant_repository_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('restore_point_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('restore_point_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('restore_point_tenant_repository_made_at_idx'), 'restore_point', ['tenant', 'repository', 'made_at'])
    op.create_table('conflict',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('repository', sa.Uuid(), nullable=False),
    sa.Column('connection', sa.Uuid(), nullable=True),
    sa.Column('person', sa.Uuid(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('request', sa.Text(), nullable=False),
    sa.Column('paths', sa.Text(), nullable=False),
    sa.Column('objects', sa.LargeBinary(), nullable=False),
    sa.Column('made_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.CheckConstraint("(connection IS NULL) <> (person IS NULL)", name=op.f('conflict_proposer_check')),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('conflict_person_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'connection'], ['connection.tenant', 'connection.id'], name=op.f('conflict_tenant_connection_fkey')),
    sa.ForeignKeyConstraint(['tenant', 'repository'], ['repository.tenant', 'repository.id'], name=op.f('conflict_tenant_repository_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('conflict_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('conflict_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('conflict_tenant_made_at_idx'), 'conflict', ['tenant', 'made_at'])
    for table in ('restore_point', 'conflict'):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant_wall ON {table} USING ({MINE}) WITH CHECK ({MINE})")
    for role, rights in RIGHTS.items():
        for table, granted in rights.items():
            op.execute(f"GRANT {granted} ON {table} TO {role}")
    op.drop_constraint(op.f(QUEUE), 'work_queue')
    op.create_check_constraint(op.f(QUEUE), 'work_queue', "kind IN ('execute', 'expire', 'maintain', 'drop')")


def downgrade() -> None:
    """What an owner proposed and what was kept is lost to the service; Git has it."""
    op.execute("DELETE FROM work_queue WHERE kind = 'drop'")
    op.drop_constraint(op.f(QUEUE), 'work_queue')
    op.create_check_constraint(op.f(QUEUE), 'work_queue', "kind IN ('execute', 'expire', 'maintain')")
    op.drop_table('conflict')
    op.drop_table('restore_point')
    for table in WALLED:  # no tenant is bound here, and the walls would hide every row from the owner as well
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    for table in ('intent', 'decision', 'staging'):
        op.execute(f"DELETE FROM {table} USING proposal WHERE proposal.tenant = {table}.tenant "
                   f"AND proposal.id = {table}.proposal AND proposal.connection IS NULL")
    op.execute("DELETE FROM work_queue USING proposal WHERE proposal.id = work_queue.subject AND proposal.connection IS NULL")
    op.execute("DELETE FROM proposal WHERE connection IS NULL")
    for table in WALLED:
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.drop_index('proposal_undoes_idx', table_name='proposal')
    op.drop_constraint(op.f('proposal_tenant_undoes_fkey'), 'proposal', type_='foreignkey')
    op.drop_column('proposal', 'undoes')
    op.drop_index('proposal_group_idx', table_name='proposal')
    op.drop_constraint(op.f('proposal_tenant_person_key_key'), 'proposal', type_='unique')
    op.drop_constraint(op.f('proposal_proposer_check'), 'proposal', type_='check')
    op.drop_constraint(op.f('proposal_person_fkey'), 'proposal', type_='foreignkey')
    op.drop_column('proposal', 'group_id')
    op.drop_column('proposal', 'person')
    op.alter_column('proposal', 'connection', nullable=False)
    op.drop_column('tenant', 'restore_seconds')

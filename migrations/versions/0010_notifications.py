"""What is to be told to people, by which channel, and how that went; a role for the process that tells it.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None

MINE = "tenant = nullif(current_setting('app.tenant', true), '')::uuid"
NOW = sa.text('clock_timestamp()')
WALLED = ('notice_choice', 'push_browser', 'webhook', 'delivery')
# The notifier speaks with the outside. It reads what it tells, and writes only how the telling went.
RIGHTS = {
    "placet_app": {
        "notice_queue": "INSERT",
        "notice_choice": "SELECT, INSERT, UPDATE",
        "push_browser": "SELECT, INSERT, DELETE",
        "webhook": "SELECT, INSERT, UPDATE (state, failing_since, error), DELETE",
        "delivery": "SELECT",
    },
    "placet_writer": {"notice_queue": "INSERT"},
    "placet_notifier": {
        "notice_queue": "SELECT, INSERT, UPDATE (due, attempts), DELETE",
        "notice_choice": "SELECT",
        "push_browser": "SELECT, DELETE",
        "webhook": "SELECT, UPDATE (state, failing_since, error)",
        "delivery": "SELECT, INSERT, UPDATE (state, error, batch, done_at), DELETE",
        "tenant": "SELECT (id, name)",
        "person": "SELECT (id, email, name)",
        "project": "SELECT (tenant, id, state)",
        "membership": "SELECT (tenant, project, person, role, state)",
        "repository": "SELECT (tenant, id, project, name)",
        "connection": "SELECT (tenant, id, name)",
        "proposal": "SELECT (tenant, id, repository, connection, person, kind, state, card, expires_at)",
    },
}


def upgrade() -> None:
    op.add_column('tenant', sa.Column('warn_seconds', sa.Integer(), server_default='3600', nullable=False))
    op.create_table('notice_queue',
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('subject', sa.Uuid(), nullable=False),
    sa.Column('due', sa.DateTime(timezone=True), server_default=NOW, nullable=False),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.CheckConstraint("kind IN ('waiting', 'expiring', 'executed', 'failed', 'stale', 'test', 'deliver', 'digest')", name=op.f('notice_queue_kind_check')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('notice_queue_tenant_fkey')),
    sa.PrimaryKeyConstraint('kind', 'tenant', 'subject', name=op.f('notice_queue_pkey')),
    info={'tenant': False}
    )
    op.create_index(op.f('notice_queue_due_idx'), 'notice_queue', ['due'])
    op.create_table('notice_choice',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('mail_events', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('push_events', sa.ARRAY(sa.Text()), nullable=False),
    sa.Column('zone', sa.Text(), nullable=False),
    sa.Column('quiet_from', sa.Integer(), nullable=True),
    sa.Column('quiet_to', sa.Integer(), nullable=True),
    sa.Column('digest_hour', sa.Integer(), nullable=True),
    sa.CheckConstraint("(quiet_from IS NULL) = (quiet_to IS NULL)", name=op.f('notice_choice_quiet_check')),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('notice_choice_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('notice_choice_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'person', name=op.f('notice_choice_pkey')),
    info={'tenant': True}
    )
    op.create_table('push_browser',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('endpoint', sa.Text(), nullable=False),
    sa.Column('p256dh', sa.Text(), nullable=False),
    sa.Column('auth', sa.Text(), nullable=False),
    sa.Column('made_at', sa.DateTime(timezone=True), server_default=NOW, nullable=False),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('push_browser_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('push_browser_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('push_browser_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('push_browser_tenant_person_idx'), 'push_browser', ['tenant', 'person'])
    op.create_table('webhook',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('url', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default='live', nullable=False),
    sa.Column('failing_since', sa.DateTime(timezone=True), nullable=True),
    sa.Column('error', sa.Text(), server_default='', nullable=False),
    sa.Column('made_at', sa.DateTime(timezone=True), server_default=NOW, nullable=False),
    sa.CheckConstraint("state IN ('live', 'off')", name=op.f('webhook_state_check')),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('webhook_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('webhook_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('webhook_pkey')),
    info={'tenant': True}
    )
    op.create_table('delivery',
    sa.Column('tenant', sa.Uuid(), nullable=False),
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('event', sa.Text(), nullable=False),
    sa.Column('proposal', sa.Uuid(), nullable=True),
    sa.Column('person', sa.Uuid(), nullable=True),
    sa.Column('channel', sa.Text(), nullable=False),
    sa.Column('target', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default='waiting', nullable=False),
    sa.Column('error', sa.Text(), server_default='', nullable=False),
    sa.Column('batch', sa.Uuid(), nullable=True),
    sa.Column('made_at', sa.DateTime(timezone=True), server_default=NOW, nullable=False),
    sa.Column('done_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("channel IN ('mail', 'push', 'webhook', 'chat')", name=op.f('delivery_channel_check')),
    sa.CheckConstraint("state IN ('waiting', 'collected', 'sent', 'failed', 'overtaken')", name=op.f('delivery_state_check')),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('delivery_person_fkey')),
    sa.ForeignKeyConstraint(['tenant'], ['tenant.id'], name=op.f('delivery_tenant_fkey')),
    sa.PrimaryKeyConstraint('tenant', 'id', name=op.f('delivery_pkey')),
    info={'tenant': True}
    )
    op.create_index(op.f('delivery_tenant_person_made_at_idx'), 'delivery', ['tenant', 'person', 'made_at'])
    for table in WALLED:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenant_wall ON {table} USING ({MINE}) WITH CHECK ({MINE})")
    for role, rights in RIGHTS.items():
        for table, granted in rights.items():
            op.execute(f"GRANT {granted} ON {table} TO {role}")


def downgrade() -> None:
    """What was not told yet stays untold."""
    for table, granted in RIGHTS["placet_notifier"].items():
        op.execute(f"REVOKE {granted} ON {table} FROM placet_notifier")
    for table in ('delivery', 'webhook', 'push_browser', 'notice_choice', 'notice_queue'):
        op.drop_table(table)
    op.drop_column('tenant', 'warn_seconds')

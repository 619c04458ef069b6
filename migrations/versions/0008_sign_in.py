"""Ways to sign in beside the link: passkeys, password and code, another service; counted tries; proofs.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None

RIGHTS = {
    "person_credential": "SELECT, INSERT, UPDATE, DELETE",
    "login_counter": "SELECT, INSERT, UPDATE, DELETE",
    "login_challenge": "INSERT, DELETE",
}
WAYS = "'link', 'passkey', 'password', 'oidc'"


def upgrade() -> None:
    op.create_table('person_credential',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('person', sa.Uuid(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('handle', sa.LargeBinary(), nullable=True),
    sa.Column('live', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('secret', sa.LargeBinary(), nullable=True),
    sa.Column('counter', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('transports', sa.ARRAY(sa.Text()), server_default='{}', nullable=False),
    sa.Column('aaguid', sa.Text(), nullable=True),
    sa.Column('es256', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('used_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("kind IN ('passkey', 'password', 'totp', 'recovery', 'oidc')", name=op.f('person_credential_kind_check')),
    sa.ForeignKeyConstraint(['person'], ['person.id'], name=op.f('person_credential_person_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('person_credential_pkey')),
    sa.UniqueConstraint('kind', 'handle', name=op.f('person_credential_kind_handle_key')),
    info={'tenant': False}
    )
    op.create_index(op.f('person_credential_person_kind_idx'), 'person_credential', ['person', 'kind'])
    op.create_index('person_credential_one_idx', 'person_credential', ['person', 'kind'], unique=True,
        postgresql_where=sa.text("kind IN ('password', 'totp')"))
    op.create_table('login_counter',
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('subject', sa.LargeBinary(), nullable=False),
    sa.Column('failures', sa.Integer(), server_default='0', nullable=False),
    sa.Column('last_at', sa.DateTime(timezone=True), server_default=sa.text('clock_timestamp()'), nullable=False),
    sa.Column('locked_until', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("kind IN ('account', 'address')", name=op.f('login_counter_kind_check')),
    sa.PrimaryKeyConstraint('kind', 'subject', name=op.f('login_counter_pkey')),
    info={'tenant': False}
    )
    op.create_index(op.f('login_counter_last_at_idx'), 'login_counter', ['last_at'])
    op.add_column('login_challenge', sa.Column('kind', sa.Text(), server_default='link', nullable=False))
    op.add_column('login_challenge', sa.Column('browser', sa.LargeBinary(), nullable=True))
    op.add_column('login_challenge', sa.Column('data', sa.Text(), server_default='', nullable=False))
    op.alter_column('login_challenge', 'person', nullable=True)
    op.create_check_constraint(op.f('login_challenge_kind_check'), 'login_challenge',
        "kind IN ('link', 'register', 'sign_in', 'prove', 'oidc')")
    op.create_check_constraint(op.f('login_challenge_person_check'), 'login_challenge',
        "kind IN ('sign_in', 'oidc') OR person IS NOT NULL")
    op.create_index(op.f('login_challenge_expires_at_idx'), 'login_challenge', ['expires_at'])
    op.add_column('session', sa.Column('way', sa.Text(), server_default='link', nullable=False))
    op.add_column('session', sa.Column('browser', sa.Text(), server_default='', nullable=False))
    op.add_column('session', sa.Column('proved_at', sa.DateTime(timezone=True), nullable=True))
    op.add_column('session', sa.Column('proved_by', sa.Text(), nullable=True))
    op.create_check_constraint(op.f('session_way_check'), 'session', f"way IN ({WAYS})")
    op.create_check_constraint(op.f('session_proof_check'), 'session', "(proved_at IS NULL) = (proved_by IS NULL)")
    op.create_index(op.f('session_person_idx'), 'session', ['person'])
    op.add_column('decision', sa.Column('proof', sa.Text(), server_default='session', nullable=False))
    op.create_check_constraint(op.f('decision_proof_check'), 'decision',
        "proof IN ('session', 'passkey', 'password', 'oidc')")
    for table, granted in RIGHTS.items():
        op.execute(f"GRANT {granted} ON {table} TO placet_app")


def downgrade() -> None:
    """Credentials are lost: people sign in with a link again. Challenges that are no links go."""
    op.execute("REVOKE INSERT, DELETE ON login_challenge FROM placet_app")
    op.drop_constraint(op.f('decision_proof_check'), 'decision')
    op.drop_column('decision', 'proof')
    op.drop_index(op.f('session_person_idx'), table_name='session')
    op.drop_constraint(op.f('session_proof_check'), 'session')
    op.drop_constraint(op.f('session_way_check'), 'session')
    for column in ('proved_by', 'proved_at', 'browser', 'way'):
        op.drop_column('session', column)
    op.execute("DELETE FROM login_challenge WHERE kind <> 'link'")
    op.drop_index(op.f('login_challenge_expires_at_idx'), table_name='login_challenge')
    op.drop_constraint(op.f('login_challenge_person_check'), 'login_challenge')
    op.drop_constraint(op.f('login_challenge_kind_check'), 'login_challenge')
    op.alter_column('login_challenge', 'person', nullable=False)
    for column in ('data', 'browser', 'kind'):
        op.drop_column('login_challenge', column)
    op.drop_index(op.f('login_counter_last_at_idx'), table_name='login_counter')
    op.drop_table('login_counter')
    op.drop_index('person_credential_one_idx', table_name='person_credential')
    op.drop_index(op.f('person_credential_person_kind_idx'), table_name='person_credential')
    op.drop_table('person_credential')

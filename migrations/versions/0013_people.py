"""When a connection was last used; and the web process may take a person out of a project, and no more.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None

GUARD = """
CREATE FUNCTION guard_membership() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user = 'placet_app' AND NEW.state IS DISTINCT FROM OLD.state AND NEW.state <> 'revoked' THEN
    RAISE EXCEPTION 'the web process gives nobody a right' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN NEW;
END $$
"""


def upgrade() -> None:
    op.add_column('connection', sa.Column('used_at', sa.DateTime(timezone=True), nullable=True))
    op.execute(GUARD)
    op.execute("CREATE TRIGGER membership_guard BEFORE UPDATE ON membership FOR EACH ROW EXECUTE FUNCTION guard_membership()")
    op.execute("GRANT UPDATE (state, version) ON membership TO placet_app")


def downgrade() -> None:
    op.execute("REVOKE UPDATE (state, version) ON membership FROM placet_app")
    op.execute("DROP TRIGGER membership_guard ON membership")
    op.execute("DROP FUNCTION guard_membership()")
    op.drop_column('connection', 'used_at')

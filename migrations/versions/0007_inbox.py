"""The inbox: what a proposal is found by, quick lists, and word of every change on the desk.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None

# What waits and what ended before this is found by the same: the agent's words, the headline's facts, the paths.
FILL = """
UPDATE proposal SET
  warned = jsonb_array_length(card::jsonb -> 'warnings') > 0,
  words = left(lower(concat_ws(E'\\n',
    (SELECT string_agg(value, E'\\n') FROM jsonb_each_text(card::jsonb -> 'agent_words')),
    (SELECT string_agg(value, E'\\n') FROM jsonb_each_text(card::jsonb -> 'headline' -> 'params')),
    (SELECT string_agg(DISTINCT note ->> 'at', E'\\n')
       FROM jsonb_array_elements(card::jsonb -> 'sections') section,
            jsonb_array_elements(section -> 'notes') note))), 20000)
"""
# A notification says only in which tenant something changed: everybody who listens hears it.
TELL = """
CREATE FUNCTION tell_desk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('placet_desk', NEW.tenant::text);
  RETURN NULL;
END $$
"""
WHEN = {"proposal": "AFTER INSERT OR UPDATE OF state", "ref_move": "AFTER INSERT"}


def upgrade() -> None:
    op.add_column('proposal', sa.Column('words', sa.Text(), server_default='', nullable=False))
    op.add_column('proposal', sa.Column('warned', sa.Boolean(), server_default=sa.false(), nullable=False))
    op.execute("ALTER TABLE proposal NO FORCE ROW LEVEL SECURITY")  # no tenant is bound here
    op.execute(FILL)
    op.execute("ALTER TABLE proposal FORCE ROW LEVEL SECURITY")
    op.create_index('proposal_waiting_idx', 'proposal', ['tenant', 'created_at', 'id'],
        postgresql_where=sa.text("state = 'pending'"))
    op.create_index('proposal_ended_idx', 'proposal', ['tenant', 'state', 'ended_at', 'id'],
        postgresql_where=sa.text("state <> 'pending'"))
    op.execute(TELL)
    for table, when in WHEN.items():
        op.execute(f"CREATE TRIGGER tell_desk {when} ON {table} FOR EACH ROW EXECUTE FUNCTION tell_desk()")


def downgrade() -> None:
    for table in WHEN:
        op.execute(f"DROP TRIGGER tell_desk ON {table}")
    op.execute("DROP FUNCTION tell_desk()")
    op.drop_index('proposal_ended_idx', table_name='proposal')
    op.drop_index('proposal_waiting_idx', table_name='proposal')
    op.drop_column('proposal', 'warned')
    op.drop_column('proposal', 'words')

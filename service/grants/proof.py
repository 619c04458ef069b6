"""Whether a person showed a credential of theirs in this session just now, and has one to show."""

from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, exists, func, select, text

from service.grants.tables import person_credential, session
from service.kit.database import Directory

ProofWay = Literal["passkey", "password", "oidc"]
PROOF_SECONDS: Final = 300
"""How long a proof is fresh."""
FRESH: Final = session.c.proved_at > func.clock_timestamp() - text(f"interval '{PROOF_SECONDS} seconds'")


@dataclass(frozen=True)
class Proof:
    """`able`: whether the person has anything to prove with; `by`: with what it was done, None where not, or not
    lately.
    """

    able: bool
    by: ProofWay | None


def _has(kind: str) -> ColumnElement[bool]:
    mine = (person_credential.c.person == bindparam("who")) & person_credential.c.live
    return exists().where(mine, person_credential.c.kind == kind)


# A password alone is no way in: it takes the code as well.
_ABLE = _has("passkey") | _has("oidc") | (_has("password") & _has("totp"))
_BY = (
    select(session.c.proved_by)
    .where(session.c.id == bindparam("session"), session.c.person == bindparam("who"))
    .where(session.c.ended_at.is_(None), FRESH)
    .scalar_subquery()
)
_PROOF = select(_ABLE.label("able"), _BY.label("by"))


async def proof_of(tx: Directory, person_id: UUID, session_id: UUID | None) -> Proof:
    """What this person has proved in this session, by the database's clock."""
    row = (await tx.execute(_PROOF, {"who": person_id, "session": session_id})).one()
    return Proof(row.able, row.by)


async def has_signing_passkey(tx: Directory, person_id: UUID) -> bool:
    """Whether this person's approvals are signed."""
    mine = (person_credential.c.person == person_id) & person_credential.c.signs & person_credential.c.live
    return bool(await tx.scalar(select(exists().where(mine))))

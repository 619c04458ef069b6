"""Ask an agent to propose again what came too late: as data, which it finds when it reads its proposal."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select, update

from service.contract.names import check_text
from service.grants.standing import Proposer, stand
from service.kit.canonical import sha256
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.append import append
from service.proposals.decide import NOTE_MOST
from service.proposals.tables import proposal
from service.proposals.view import Decider

TOO_LATE = frozenset({"stale", "expired"})
"""The states in which a proposal can be wanted again: nobody said no to it."""
USUAL = "Propose this again on what is there now."


@dataclass(frozen=True)
class AskAgain:
    """This step of one web process."""

    database: Database

    async def __call__(self, who: Decider, proposal_id: UUID, note: str) -> None:
        """Tell the agent that it is wanted again, once; a note of nothing is a usual sentence.

        Raises:
            Refusal: NOT_FOUND, FORBIDDEN; NOT_TOO_LATE with the state for one that is neither stale nor expired.
        """
        check_text(note, "note", most=NOTE_MOST, least=0)

        async def work(tx: Bound) -> None:
            row = (await tx.execute(select(proposal).where(proposal.c.id == proposal_id))).one()  # too late for ever
            told = row.parent or row.id  # of a part its agent reads only what it proposed itself
            standing = await stand(tx, Proposer.of(row.connection, row.person), row.repository, who.actor.id)
            standing.check_decider(who.actor.id)
            if row.state not in TOO_LATE or row.connection is None:
                raise Refusal(Code.NOT_TOO_LATE, f"This proposal is {row.state}.", status=row.state)
            once = (proposal.c.id == told, proposal.c.wanted_again.is_(None))
            asking = await tx.execute(update(proposal).where(*once).values(wanted_again=note.strip() or USUAL))
            if asking.rowcount:
                append(tx, who.actor, "proposal.wanted_again", str(told), note_sha256=sha256(note.encode()))

        await self.database.repeat(who.actor.tenant, work)

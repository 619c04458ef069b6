"""How an execution is taken back: by reverting its commits, by moving a branch back, or by its restore point."""

from service.contract.plan import Outcome, Wish
from service.contract.refs import short_name


def revert_of(outcome: Outcome, branch: str) -> Wish | None:
    """Revert what was committed, the newest first."""
    if not outcome.commits:
        return None
    return Wish(kind="propose_revert", arguments={"branch": branch, "commits": list(reversed(outcome.commits))})


def reset_of(outcome: Outcome) -> Wish:
    """Move the branch back to where it was."""
    move = outcome.moves[0]
    return Wish(kind="propose_reset", arguments={"branch": short_name(move.ref), "target": move.old})


def restore_of(outcome: Outcome) -> Wish | None:
    """Bring every ref back to what it was."""
    if outcome.restore_point is None:
        return None
    refs = [move.ref for move in outcome.moves]
    return Wish(kind="propose_restore", arguments={"restore_point_id": outcome.restore_point, "refs": refs})

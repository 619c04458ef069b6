"""How an execution is taken back: by reverting its commits, by moving a branch back, or by its restore point."""

from typing import Final

from service.contract.plan import Outcome, Wish
from service.contract.refs import short_name

RESTORE_POINTS: Final = "refs/restore/"
RESTORED_MOST: Final = 100
"""So many refs at most are brought back in one proposal."""


def kept_ref(point: str, ref: str) -> str:
    """Where a restore point keeps what a ref was before the execution."""
    return f"{RESTORE_POINTS}{point}/kept/{ref.removeprefix('refs/')}"


def made_ref(point: str, ref: str) -> str:
    """Where a restore point keeps what the execution made of a ref that was not there before."""
    return f"{RESTORE_POINTS}{point}/made/{ref.removeprefix('refs/')}"


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
    """Bring every ref back to what it was; None for more of them than one proposal brings back."""
    if outcome.restore_point is None or len(outcome.moves) > RESTORED_MOST:
        return None
    refs = [move.ref for move in outcome.moves]
    return Wish(kind="propose_restore", arguments={"restore_point_id": outcome.restore_point, "refs": refs})

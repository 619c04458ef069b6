"""List what can be restored in a repository."""

from typing import Annotated, ClassVar

from pydantic import Field

from service.contract.answers import MoveAnswer
from service.contract.data import Json
from service.contract.operation import RepositoryId, Toolset
from service.contract.paging import ANSWER_BYTES, Cursor, fit
from service.contract.ports import Answer, Arguments, Ports, RestorePoint, Scope

PAGE = 50
MOVES_SHOWN = 5
ROOM = ANSWER_BYTES - 4_000


class ListRestorePointsArguments(Arguments):
    """Where, and where to go on."""

    repository_id: RepositoryId
    cursor: Cursor = None
    limit: Annotated[int, Field(ge=1, le=PAGE, description="The most restore points in one answer.")] = 20

    @property
    def query(self) -> Json:
        """What a cursor is bound to."""
        return {"tool": "list_restore_points", "repository_id": self.repository_id}


class RestorePointLine(Answer):
    """One restore point in a list."""

    restore_point_id: str
    operation: str = Field(description="The tool whose proposal was executed.")
    made_at: Annotated[str, Field(description="RFC 3339, UTC.")]
    expires_at: Annotated[str, Field(description="RFC 3339, UTC: until then it can be restored.")]
    refs: int = Field(description="How many refs moved.")
    moves: list[MoveAnswer] = Field(description=f"The first {MOVES_SHOWN} of them.")


class RestorePointList(Answer):
    """Restore points, and where to go on when there are more."""

    restore_points: list[RestorePointLine]
    next_cursor: str | None = None


class ListRestorePoints:
    """The tool. See the module."""

    name: ClassVar[str] = "list_restore_points"
    title: ClassVar[str] = "List restore points"
    description: ClassVar[str] = (
        "Lists the restore points of a repository, the newest first: for each execution that did not only go forward "
        "(reset, rebase, deletion, creation, plan), what its refs were before and after. read_restore_point gives one "
        "whole; propose_restore brings refs back."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "git"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = ListRestorePointsArguments
    answer = RestorePointList

    async def run(self, arguments: ListRestorePointsArguments, ports: Ports) -> RestorePointList:
        before = ports.cursors.open(arguments.query, arguments.cursor)["before"] if arguments.cursor else ""
        found = await ports.restore_points.list(arguments.repository_id, before, arguments.limit + 1)
        kept = fit([_line(one) for one in found], arguments.limit, ROOM)
        last = {"before": kept[-1].restore_point_id} if len(found) > len(kept) else None
        return RestorePointList(
            restore_points=kept, next_cursor=ports.cursors.seal(arguments.query, last) if last else None
        )


def _line(one: RestorePoint) -> RestorePointLine:
    return RestorePointLine(
        restore_point_id=one.id,
        operation=one.operation,
        made_at=one.made_at,
        expires_at=one.expires_at,
        refs=len(one.moves),
        moves=[MoveAnswer(ref=move.ref, old=move.old, new=move.new) for move in one.moves[:MOVES_SHOWN]],
    )


TOOL = ListRestorePoints()

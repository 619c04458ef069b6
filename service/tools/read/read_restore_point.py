"""Read one restore point: every ref with what it was before and what it became."""

from typing import Annotated, ClassVar

from pydantic import Field

from service.contract.answers import MoveAnswer
from service.contract.operation import Toolset
from service.contract.ports import Answer, Arguments, Ports, Scope

RestorePointId = Annotated[
    str,
    Field(
        description="The restore point's id, as list_restore_points gives it; also that of the proposal.",
        pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    ),
]


class ReadRestorePointArguments(Arguments):
    """Which one."""

    restore_point_id: RestorePointId


class RestorePointAnswer(Answer):
    """A restore point. A ref that was absent before can be taken away again, one that is gone brought back."""

    restore_point_id: str
    repository_id: str
    operation: str = Field(description="The tool whose proposal was executed.")
    made_at: Annotated[str, Field(description="RFC 3339, UTC.")]
    expires_at: Annotated[str, Field(description="RFC 3339, UTC: until then it can be restored.")]
    moves: list[MoveAnswer]


class ReadRestorePoint:
    """The tool. See the module."""

    name: ClassVar[str] = "read_restore_point"
    title: ClassVar[str] = "Read a restore point"
    description: ClassVar[str] = (
        "Reads a restore point: every ref that an execution moved, with the commit it was at before (old) and after "
        "(new); forty zeros stand for absent. propose_restore takes its id and these refs."
    )
    scope: ClassVar[Scope] = "repo:read"
    toolset: ClassVar[Toolset] = "git"
    read_only: ClassVar[bool] = True
    destructive: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    arguments = ReadRestorePointArguments
    answer = RestorePointAnswer

    async def run(self, arguments: ReadRestorePointArguments, ports: Ports) -> RestorePointAnswer:
        one = await ports.restore_points.read(arguments.restore_point_id)
        return RestorePointAnswer(
            restore_point_id=one.id,
            repository_id=one.repository_id,
            operation=one.operation,
            made_at=one.made_at,
            expires_at=one.expires_at,
            moves=[MoveAnswer(ref=move.ref, old=move.old, new=move.new) for move in one.moves],
        )


TOOL = ReadRestorePoint()

"""The fault table: every named step of an execution, where it is in the code, and what can happen at it."""

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from service.kit.errors import Code, Refusal
from service.proposals.execute import Execute
from service.repositories.lease import Lease
from service.repositories.refs import RefTransaction
from service.settings import Settings
from service.worker import run_worker
from service.writer import write

STEPS: dict[str, tuple[Any, str]] = {
    "leased": (Lease, "mark"),
    "intended": (Execute, "_intend"),
    "compared": (write, "manifests"),
    "packed": (write, "write_pack"),
    "locked": (RefTransaction, "lock"),
    "verified": (RefTransaction, "verify"),
    "staged": (RefTransaction, "stage"),
    "marked": (RefTransaction, "commit_marker"),
    "moved": (RefTransaction, "commit_moves"),
    "recorded": (Execute, "_landed"),
}
"""The steps in their order, by the names that the product tells, with the function that does each."""

IN_THE_DATABASE = frozenset({"intended", "recorded"})
NOT_DONE = "fails and is not done"


def fail(step: str, _parent: int) -> NoReturn:
    if step in IN_THE_DATABASE:
        raise Refusal(Code.UNAVAILABLE, "The database does not answer.")
    raise OSError(errno.EIO, "Input/output error")


def hang(_step: str, _parent: int) -> NoReturn:
    while True:
        signal.pause()


def kill(_step: str, _parent: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_all(step: str, parent: int) -> None:
    os.kill(parent, signal.SIGKILL)
    hang(step, parent)


FAULTS: dict[str, Callable[[str, int], None]] = {
    NOT_DONE: fail,
    "fails though it is done": fail,
    "hangs": hang,
    "is killed": kill,
    "is killed with the whole writer": kill_all,
}
"""What happens at a step: before it in the first, after it in the others."""


def plan(root: Path, proposal: str, step: str, fault: str) -> Path:
    """Let a fault happen to the worker on this proposal, once; the file beside the repositories is there until then."""
    file = root / "faults" / proposal
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{step}\n{fault}")
    return file


class _Faults:
    """The faults of this worker's executors, each of which executes one proposal at a time."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "faults"
        self._parent = os.getpid()
        self._proposal = ""

    def install(self) -> None:
        execute = Execute.__call__

        async def told(run: Execute, tenant: Any, proposal: Any) -> bool:
            self._proposal = str(proposal)
            return await execute(run, tenant, proposal)

        Execute.__call__ = told  # type: ignore[method-assign]
        for step, (owner, name) in STEPS.items():
            setattr(owner, name, self._before(step, getattr(owner, name)))

    def _before(self, step: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self._happen(step, before=True)
            return plain(*arguments, **options)

        return call

    def after(self, step: str) -> None:
        """What the product tells of each step that it did."""
        self._happen(step, before=False)

    def _happen(self, step: str, *, before: bool) -> None:
        file = self._folder / self._proposal
        if not self._proposal or not file.exists():
            return
        planned, fault = file.read_text().split("\n")
        if planned == step and before == (fault == NOT_DONE):
            file.unlink()
            FAULTS[fault](step, self._parent)


def work(settings: Settings, executors: int, lease_seconds: float) -> int:
    """Run a real worker to which the planned faults happen."""
    faults = _Faults(settings.repositories)
    faults.install()
    return run_worker(settings, executors, faults.after, lease_seconds)

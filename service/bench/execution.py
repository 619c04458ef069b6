"""The Git part of an execution, as `proposals/execute` runs it, with the database left out.

Everything is production's own: this module is the one place where the measures call it.
"""

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from service.bench.projects import BRANCH
from service.contract.data import NULL, Json, Oid
from service.contract.operation import Operation
from service.proposals.execute import HELD
from service.proposals.maintain import SECONDS_MOST
from service.proposals.planning import (
    Planned,
    broken_pin,
    load_manifests,
    load_pins,
    load_plan,
    plan_proposal,
)
from service.repositories.bare import BareRepository
from service.repositories.maintenance import Maintenance
from service.repositories.objects import decode
from service.tools.registry import discover
from service.writer.intent import marker_ref, seal
from service.writer.provenance import Trailers, author_line, committer_line
from service.writer.write import Step, write

LEASE_SECONDS = 30.0
PLAN_SECONDS = 60.0
CONNECTION = UUID(int=0x0123456789AB << 80)
EMAIL = "olive@example.org"


class NotExecuted(Exception):
    """An execution did not come to its end: the measure is worth nothing."""


@dataclass(frozen=True)
class Submitted:
    """A proposal as the database holds it when the writer comes."""

    id: UUID
    planned: Planned


def submit(repository: Path, files: dict[str, str], message: str, branch: str = BRANCH) -> Submitted:
    """Plan an import of these files (content by path) into a branch (its full name), as submit does."""
    arguments = {
        "branch": branch.removeprefix("refs/heads/"),
        "message": message,
        "files": [{"path": path, "content": content} for path, content in files.items()],
    }
    return submit_any(repository, "propose_file_import", arguments)


def submit_any(repository: Path, kind: str, arguments: Json, seconds: float = PLAN_SECONDS) -> Submitted:
    """Plan what the arguments of an operation ask for (less repository, reason and key), within so many seconds.

    Raises:
        Refusal: it cannot be planned.
        OutOfTime: nor in that time.
    """
    operation = operations()[kind]
    sent = {"repository_id": str(uuid4()), "reason": "To measure.", **arguments}
    request = operation.request.model_validate(sent)
    proposal, now = uuid4(), int(time.time())
    author = author_line("Claude", CONNECTION, "localhost", now)
    until = time.monotonic() + seconds
    return Submitted(proposal, plan_proposal(repository, operation, request, proposal, author, until))


@cache
def operations() -> dict[str, Operation[Any]]:
    """Every operation there is, by kind."""
    return discover().operations()


def no_step(_name: str) -> None:
    """Most measures are of the whole."""


def execute(repository: Path, what: Submitted, step: Step, wait: float = LEASE_SECONDS) -> Oid:
    """From taking the lease to giving it back. Gives the commit.

    Raises:
        NotExecuted: somebody else had a hand in this repository.
        LeaseBusy: somebody else held the lease for as long as was waited, in seconds.
    """
    git = BareRepository(repository)
    with git.lease(wait) as lease:
        if lease.read():
            raise NotExecuted("the last holder of the lease died")
        lease.mark(HELD)
        step("leased")
        try:
            commit = _write(git, what, step)
        except NotExecuted:  # and nothing was begun
            lease.clear()
            raise
        lease.clear()
    step("cleared")
    return commit


def _write(git: BareRepository, what: Submitted, step: Step) -> Oid:
    planned = what.planned
    if git.read_ref(marker_ref(what.id)) != NULL:
        raise NotExecuted("it has a marker")
    step("marker looked up")
    if broken_pin(git, load_pins(planned.pins)):
        raise NotExecuted("a pin is broken")
    step("pins checked")
    committer = committer_line("Olive Owner", EMAIL, int(time.time()))
    intent = seal(load_plan(planned.plan), committer, Trailers(what.id, EMAIL, CONNECTION, planned.digest))
    step("sealed")
    objects = decode(planned.objects)
    step("decoded")
    write(git, load_plan(planned.plan), load_manifests(planned.manifest), objects, intent, step)
    git.wants_maintenance()  # which the worker is told with the end of the proposal
    return intent.marker[1]


def maintain(repository: Path) -> None:
    """What the worker does behind an execution, where it is wanted."""
    git = BareRepository(repository)
    if git.wants_maintenance():
        with git.lease(LEASE_SECONDS) as lease:
            Maintenance(repository, lease.fd, SECONDS_MOST, no_step)()

"""A repository made in one go, and an operation planned on it."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from service.contract.data import Json
from service.contract.operation import Operation
from service.contract.plan import Note
from service.kit.errors import Refusal
from service.proposals.planning import Planned, load_card, load_manifests, load_plan, plan_proposal
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.tools.validation import errors_of, refuse
from service.writer.intent import seal
from service.writer.provenance import Trailers
from service.writer.write import write
from tests.stage import git

AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"
COMMITTER = b"Olive Owner <olive@example.org> 1700000100 +0000"
File = tuple[str, bytes]
"""Mode and content; of a submodule the commit."""


@dataclass(frozen=True)
class Bench:
    """A bare repository with one commit on main, and the operation that is tried on it."""

    path: Path
    operation: Operation[Any]

    @classmethod
    def made(cls, folder: Path, operation: Operation[Any], files: Mapping[str, File]) -> "Bench":
        git(folder, "init", "-q", "--bare", "-b", "main", "r.git")
        git(folder / "r.git", "fast-import", "--quiet", stdin=imported({"main": files}))
        return cls(folder / "r.git", operation)

    def copy(self, folder: Path) -> "Bench":
        """The same to write to."""
        return Bench(Path(shutil.copytree(self.path, folder / "copy.git")), self.operation)

    def ask(self, sent: Json) -> Any:
        """A request as the registry reads it, with what every request has."""
        words = {"repository_id": str(uuid4()), "branch": "main", "reason": "Because."}
        request, errors = errors_of(self.operation.request, {**words, **sent})
        if request is None:
            raise refuse(errors)
        return request

    def plan(self, request: Any) -> Planned:
        return plan_proposal(self.path, self.operation, request, UUID(int=5), AUTHOR, time.monotonic() + 60)

    def refused(self, sent: Json) -> Refusal:
        with pytest.raises(Refusal) as caught:
            self.plan(self.ask(sent))
        return caught.value

    def land(self, request: Any) -> Planned:
        planned = self.plan(request)
        what = load_plan(planned.plan)
        sealed = seal(what, COMMITTER, Trailers(uuid4(), "o@example.org", UUID(int=1), planned.digest))
        reviewed = load_manifests(planned.manifest)
        write(BareRepository(self.path), what, reviewed, decode(planned.objects), sealed, lambda _name: None)
        assert git(self.path, "fsck", "--strict", "--no-dangling") == b""
        return planned


def imported(branches: Mapping[str, Mapping[Any, File]]) -> bytes:
    """What `git fast-import` reads: one commit for each branch; paths are texts or bytes."""
    out = []
    for name, files in branches.items():
        out.append(b"commit refs/heads/%s\ncommitter C <c@example.org> 1 +0000\ndata 0\n\n" % name.encode())
        for path, (mode, content) in files.items():
            raw = path if isinstance(path, bytes) else path.encode()
            quoted = b'"' + b"".join(b"\\%03o" % byte for byte in raw) + b'"'
            if mode == "160000":
                out.append(b"M 160000 %s %s\n" % (content, quoted))
            else:
                out.append(b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(content), content))
    return b"".join(out)


def notes(planned: Planned) -> dict[str, Note]:
    """What the card says of each path."""
    return {note.at: note for section in load_card(planned.card).sections for note in section.notes}


def warnings(planned: Planned) -> list[str]:
    """The names of the card's warnings."""
    return [note.name for note in load_card(planned.card).warnings]

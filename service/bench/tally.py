"""What became of proposals, told from Git and from the answers: which lost a commit, has two, or was told wrongly."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.bench.projects import BRANCH
from service.repositories.git import Call, run

_GIT_SECONDS = 120.0
_PROPOSAL = re.compile(rb"^Proposal: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Ending:
    """One proposal: the answer to its approval, and the answer to the same click once more."""

    proposal: str
    answer: dict[str, Any]
    again: dict[str, Any]

    @property
    def state(self) -> str:
        """How it is now."""
        return str(self.again.get("status"))

    @property
    def replayed(self) -> bool:
        """Whether the second click told what the first had told, and that it was no news."""
        same = all(self.again.get(name) == self.answer.get(name) for name in ("status", "commit", "head"))
        return same and self.again.get("replayed") is True


@dataclass
class Tally:
    """The trials of one run, each with the proposals that were approved in it."""

    trials: list[Sequence[Ending]] = field(default_factory=list)

    def row(self, repository: Path) -> dict[str, Any]:
        """The counts.

        lost commits: executed, and the branch has no commit of it.
        false stale: stale, and the branch has a commit of it, or nobody else's of this trial.
        duplicates: more than one commit was made of it.
        """
        made, landed = _commits(repository, "--batch-all-objects"), _commits(repository, BRANCH)
        every = [one for trial in self.trials for one in trial]
        states = Counter(one.state for one in every)
        alone = {
            one.proposal for trial in self.trials for one in trial if not any(each.proposal in landed for each in trial)
        }
        return {
            "trials": len(self.trials),
            "executed": states["executed"],
            "stale": states["stale"],
            "lost commits": sum(one.state == "executed" and one.proposal not in landed for one in every),
            "false stale": sum(one.state == "stale" and one.proposal in landed.keys() | alone for one in every),
            "duplicates": sum(made[one.proposal] > 1 for one in every),
            "replays": sum(one.replayed for one in every),
            "of clicks again": len(every),
        }


def _commits(repository: Path, which: str) -> Counter[str]:
    """How many commits name each proposal: in the history of a branch, or among all objects, lost ones too."""
    if which == "--batch-all-objects":
        call = ("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
        lines = run(Call(repository, call, _GIT_SECONDS)).splitlines()
        oids = [line.split()[1] for line in lines if line.startswith(b"commit ")]
    else:
        oids = run(Call(repository, ("rev-list", which), _GIT_SECONDS)).split()
    told = run(Call(repository, ("cat-file", "--batch"), _GIT_SECONDS), stdin=b"\n".join(oids) + b"\n")
    return Counter(name.decode() for name in _PROPOSAL.findall(told))

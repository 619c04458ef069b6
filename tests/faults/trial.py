"""One trial: a house with an approved proposal, what is done to its writer, and what the oracle says in the end."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from service.contract.data import Json
from service.repositories.placement import Storage
from tests.faults.attack import Call, Zygote, calls_in
from tests.faults.oracle import judge
from tests.stage import House, Stage, git

RECOVERY_SECONDS = 5.0
LAYOUTS = ("loose", "packed")


@dataclass
class Trial:
    """A house with an approved proposal, and in some a rival that was approved on the same base."""

    house: House
    shown: Json
    rival: Json | None

    @property
    def ids(self) -> list[str]:
        """The proposals in the order in which they come after a crash."""
        return [one["proposal_id"] for one in (self.rival, self.shown) if one]

    async def ends(self) -> list[str]:
        return sorted([(await self.house.read(one))["status"] for one in (self.rival, self.shown) if one])

    async def faults(self) -> list[str]:
        """What is wrong when all is over."""
        stage = self.house.stage
        found = [str(one) for one in await judge(stage.owner_db, stage.storage, self.house.tenant)]
        wanted = ["executed", "stale"] if self.rival else ["executed"]
        ends = await self.ends()
        return found if ends == wanted else [*found, f"ended as {ends}"]


async def staged(stage: Stage, layout: str, *, rival: bool = False, root: Path | None = None) -> Trial:
    """A trial, in a storage of its own unless said: a writer looks at every lease there is."""
    own = replace(stage, storage=Storage(root or stage.storage.root / uuid4().hex))
    house = await own.house()
    first = await house.propose()
    second = await house.propose(house.arguments({"path": "app.py", "content": "2\n"})) if rival else None
    for shown in filter(None, (first, second)):
        await house.decide(shown)
    if layout == "packed":
        git(house.path, "pack-refs", "--all")
    return Trial(house, first, second)


@dataclass
class Tally:
    """What a series of trials came to."""

    longest: float = 0.0
    trials: int = 0
    wrong: list[str] = field(default_factory=list)

    async def add(self, where: str, trial: Trial, seconds: float) -> None:
        self.trials += 1
        self.longest = max(self.longest, seconds)
        late = [f"recovery took {seconds:.1f} s"] if seconds > RECOVERY_SECONDS else []
        self.wrong += [f"{where}: {one}" for one in (*await trial.faults(), *late)]

    def tell(self, record: Callable[[str, object], None]) -> None:
        record("trials", self.trials)
        record("violations", len(self.wrong))
        record("longest recovery, s", round(self.longest, 2))


async def counted(stage: Stage, writers: Zygote, layout: str, log: Path) -> list[Call]:
    """The calls of an execution that nothing disturbs, to the end of its lease."""
    trial = await staged(stage, layout)
    assert writers.run("execute", trial.house, trial.ids, log=log).status == 0
    assert await trial.faults() == []
    return to_the_lease(calls_in(log))


def to_the_lease(calls: list[Call]) -> list[Call]:
    last = max(index for index, call in enumerate(calls) if ".git.lease" in call.arguments)
    return calls[: last + 1]

"""Where plans are made: in threads of their own, so that no page waits for them, and one at a time for a proposer."""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID
from weakref import WeakValueDictionary

from service.contract.world import OutOfTime
from service.kit.errors import Code, Refusal
from service.proposals.planning import Planned, plan_proposal
from service.proposals.submission import Submission
from service.repositories.placement import Place

PLAN_SECONDS = 20
"""For how long one plan may be made, and for how long a proposer waits for his other ones."""
THREADS = 4


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="plan")


@dataclass(frozen=True)
class Planners:
    """The planning threads of one web process."""

    threads: ThreadPoolExecutor = field(default_factory=_threads)
    turns: "WeakValueDictionary[UUID, asyncio.Lock]" = field(default_factory=WeakValueDictionary)

    @asynccontextmanager
    async def turn(self, proposer: UUID) -> AsyncIterator[None]:
        """The proposer's turn, for the block: his other proposals wait for theirs.

        Raises:
            Refusal: RATE_LIMITED where they take too long.
        """
        turn = self.turns.setdefault(proposer, asyncio.Lock())
        try:
            async with asyncio.timeout(PLAN_SECONDS):
                await turn.acquire()
        except TimeoutError:
            message = f"Other proposals of yours have been planned for {PLAN_SECONDS} seconds; one is at a time."
            raise Refusal(Code.RATE_LIMITED, message, limit=PLAN_SECONDS) from None
        try:
            yield
        finally:
            turn.release()

    async def plan(self, place: Place, what: Submission, proposal_id: UUID, author: bytes) -> Planned:
        """Plan an operation; see `plan_proposal`.

        Raises:
            Refusal: OUT_OF_TIME; what the plan refuses.
        """
        return await self.run(partial(plan_proposal, place.path, what.operation, what.request, proposal_id, author))

    async def run(self, work: "partial[Planned]") -> Planned:
        """Make a plan in a thread; the deadline is the last argument of `work`. Raises as `plan`."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, _in_time, work)
        except OutOfTime:
            message = f"Planning took longer than {PLAN_SECONDS} seconds."
            raise Refusal(Code.OUT_OF_TIME, message, limit=PLAN_SECONDS) from None


def _in_time(work: "partial[Planned]") -> Planned:
    """The time begins when a thread does."""
    return work(time.monotonic() + PLAN_SECONDS)

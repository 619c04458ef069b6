"""Wait for the end of a proposal, woken by the writer's notification and looking each second anyway; or for any change
on a tenant's desk, of which the database tells.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from service.kit.database import Database
from service.kit.errors import Refusal
from service.proposals.states import DESK, DONE

LOOK_SECONDS = 1.0
RECONNECT_SECONDS = 1.0
T = TypeVar("T")


@dataclass(frozen=True)
class Expected:
    """The end of a proposal, expected."""

    event: asyncio.Event

    async def until(self, look: Callable[[], Awaitable[T | None]], seconds: float) -> T | None:
        """Look each time it is told of, and each second anyway, until something is found or the time is over."""
        deadline = asyncio.get_running_loop().time() + seconds
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.event.wait(), min(left, LOOK_SECONDS))
            self.event.clear()
            if (found := await look()) is not None:
                return found
        return None


class Waiter:
    """One listener per web process; any number of calls wait on it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Waiter"]:
        """Listen for as long as the block lasts."""
        task = asyncio.create_task(self._listen())
        try:
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @contextmanager
    def expecting(self, proposal_id: str) -> Iterator["Expected"]:
        """Miss no end that comes from now on: begun before whatever leads to it. For a tenant's id: no change there."""
        event = asyncio.Event()
        self._waiting.setdefault(proposal_id, set()).add(event)
        try:
            yield Expected(event)
        finally:
            self._forget(proposal_id, event)

    async def until(self, proposal_id: str, look: Callable[[], Awaitable[T | None]], seconds: float) -> T | None:
        """Look until something is found or the time is over; None then."""
        with self.expecting(proposal_id) as expected:
            return await look() or await expected.until(look, seconds)

    def _forget(self, proposal_id: str, event: asyncio.Event) -> None:
        events = self._waiting[proposal_id]
        events.discard(event)
        if not events:
            del self._waiting[proposal_id]

    def _wake(self, *subjects: str) -> None:
        for subject in subjects:
            for event in self._waiting.get(subject, ()):
                event.set()

    async def _listen(self) -> None:
        while True:
            with suppress(Refusal, OSError, TimeoutError):
                async with self._database.listen(DONE, DESK) as notices:
                    self._wake(*self._waiting)  # for what was told while nobody listened
                    while (notice := await notices.get())[0]:
                        self._wake(notice[1])
            await asyncio.sleep(RECONNECT_SECONDS)

"""The open pages that are told when something changed in their tenant.

A stream waits on an event of its own and holds nothing meanwhile: one listener of the process wakes all of them, and
one look a second finds those whose session or membership has ended.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from service.identity.sessions import Session, live_sessions
from service.kit.database import Database
from service.kit.errors import Code, Refusal
from service.proposals.waiting import Waiter

LOOK_SECONDS: Final = 1.0
SESSION_MOST: Final = 8
PERSON_MOST: Final = 16
RETRY_SECONDS: Final = 5
Members = Callable[[UUID, Iterable[UUID]], Awaitable[set[UUID]]]


@dataclass(eq=False)
class Stream:
    """One open page; `over` is set before its last waking. `changed` is set when there is something to look at."""

    session: Session
    changed: asyncio.Event
    over: bool = False

    def end(self) -> None:
        """End it, in its own time."""
        self.over = True
        self.changed.set()


@dataclass
class Streams:
    """Those of one web process.

    Attributes:
        members: who of these people is still in a tenant.
    """

    database: Database
    waiter: Waiter
    members: Members
    _open: set[Stream] = field(default_factory=set)
    _watching: "asyncio.Task[None] | None" = None
    _ended: bool = False

    @contextmanager
    def open(self, session: Session) -> Iterator[Stream]:
        """A stream for this session in its tenant, from now on.

        Raises:
            Refusal: RATE_LIMITED when the session or the person has too many; UNAVAILABLE when the service stops.
        """
        if self._ended:
            raise Refusal(Code.UNAVAILABLE, "The service stops.")
        self._check("session", sum(one.session.id == session.id for one in self._open), SESSION_MOST)
        self._check("person", sum(one.session.person == session.person for one in self._open), PERSON_MOST)
        with self.waiter.expecting(str(session.tenant)) as expected:
            stream = Stream(session, expected.event)
            self._open.add(stream)
            if self._watching is None or self._watching.done():
                self._watching = asyncio.create_task(self._watch())
            try:
                yield stream
            finally:
                self._open.discard(stream)

    def end(self) -> None:
        """End all of them, and let no other begin."""
        self._ended = True
        for stream in self._open:
            stream.end()

    def _check(self, of: str, value: int, limit: int) -> None:
        if value >= limit:
            message = f"More than {limit} pages of one {of} cannot be live at once."
            raise Refusal(Code.RATE_LIMITED, message, limit=limit, value=value, retry_after=RETRY_SECONDS)

    async def _watch(self) -> None:
        """Look each second, for as long as a stream is open; a database that does not answer ends none."""
        while self._open:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except Refusal:
                continue

    async def _look(self) -> None:
        streams = list(self._open)
        if not streams:
            return
        live = await live_sessions(self.database, {one.session.id for one in streams})
        people: dict[UUID, set[UUID]] = defaultdict(set)
        for one in streams:
            people[one.session.tenant].add(one.session.person)
        there = {tenant: await self.members(tenant, asked) for tenant, asked in people.items()}
        for one in streams:
            if one.session.id not in live or one.session.person not in there[one.session.tenant]:
                one.end()

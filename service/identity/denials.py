"""An agent refused: at an owner's door, or by policy. Written down at most once per connection, place and minute."""

import logging
import time
from collections import OrderedDict

from service.kit.actor import Actor
from service.kit.database import Database
from service.kit.errors import Refusal
from service.ledger.append import append

log = logging.getLogger("placet.denials")
WINDOW_SECONDS = 60
DOORS_MOST = 10_000


class Denials:
    """Counts what it does not write, so that the next entry carries the number."""

    def __init__(self) -> None:
        self._doors: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    async def record(self, database: Database, actor: Actor, where: str, code: str) -> None:
        """Write a ledger entry, unless this connection was written down here for this within the last minute.

        Args:
            database: where the tenant's ledger is.
            actor: the connection.
            where: the route, or the tool.
            code: why it was refused.
        """
        door = (str(actor.id), f"{where} {code}")
        now = time.monotonic()
        since, unwritten = self._doors.pop(door, (now - WINDOW_SECONDS, 0))
        if now - since < WINDOW_SECONDS:
            self._remember(door, since, unwritten + 1)
            return
        self._remember(door, now, 0)
        try:
            async with database.bound(actor.tenant) as tx:
                append(tx, actor, "agent.denied", str(actor.id), where=where, code=code, unwritten=unwritten)
        except Refusal:
            self._remember(door, now - WINDOW_SECONDS, unwritten + 1)  # it stays denied, and is written next time
            log.warning("a denial could not be written: %s at %s", actor.id, where)

    def _remember(self, door: tuple[str, str], since: float, unwritten: int) -> None:
        self._doors[door] = (since, unwritten)
        if len(self._doors) > DOORS_MOST:
            self._doors.popitem(last=False)

"""How often one caller may do a thing: a moving window, shared through Redis where there is one.

Redis is never needed: while it does not answer, each process counts for itself, with a third of the amount.
"""

import asyncio
import logging
import math
import time
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter

from service.kit.errors import Code, Refusal

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

log = logging.getLogger("placet.limits")
REDIS_SECONDS: Final = 0.05
"""How long an answer of Redis is waited for."""
PAUSE_SECONDS: Final = 5.0
"""How long Redis is left alone after it did not answer."""
ALONE_DIVISOR: Final = 3


@dataclass(frozen=True)
class Quota:
    """`amount` times in `seconds`, for one caller."""

    name: str
    amount: int
    seconds: int

    def item(self, divisor: int = 1) -> RateLimitItem:
        return RateLimitItemPerSecond(self.amount // divisor, self.seconds, namespace=self.name)


class Limits:
    """Counts in Redis, or in this process."""

    def __init__(self, redis_url: str | None = None) -> None:
        self._alone = MovingWindowRateLimiter(MemoryStorage())
        self._pool = None if redis_url is None else _pool(redis_url)
        self._shared = None if self._pool is None else MovingWindowRateLimiter(_storage(self._pool))
        self._paused_until = 0.0

    async def take(self, quota: Quota, caller: str) -> None:
        """Count once.

        Raises:
            Refusal: RATE_LIMITED, with `retry_after` in seconds, when the quota is used up.
        """
        wait = await self._ask_shared(quota, caller)
        if wait is None:
            wait = await _wait(self._alone, quota.item(ALONE_DIVISOR if self._shared else 1), caller)
        if wait:
            raise Refusal(Code.RATE_LIMITED, "This was asked too often.", limit=quota.amount, retry_after=wait)

    async def close(self) -> None:
        """Let go of the connections to Redis."""
        if self._pool:
            await self._pool.aclose()

    async def _ask_shared(self, quota: Quota, caller: str) -> int | None:
        """Seconds to wait as Redis counts; None without an answer."""
        if self._shared is None or time.monotonic() < self._paused_until:
            return None
        from redis.exceptions import RedisError  # noqa: PLC0415  loaded only where there is a Redis

        try:
            async with asyncio.timeout(REDIS_SECONDS):
                return await _wait(self._shared, quota.item(), caller)
        except (RedisError, OSError, TimeoutError):
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            log.warning("Redis does not answer; this process counts alone for %.0f s", PAUSE_SECONDS)
            return None


def caller_address(host: str | None) -> str:
    """What stands for one caller: an IPv4 address, or the /64 that one IPv6 subscriber has."""
    try:
        address = ip_address((host or "").partition("%")[0])
    except ValueError:
        return "unknown"
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or address.exploded[:19])


async def _wait(limiter: MovingWindowRateLimiter, item: RateLimitItem, caller: str) -> int:
    if await limiter.hit(item, caller):
        return 0
    stats = await limiter.get_window_stats(item, caller)
    return max(1, math.ceil(stats.reset_time - time.time()))


def _pool(url: str) -> "ConnectionPool":
    from redis.asyncio import ConnectionPool  # noqa: PLC0415  loaded only where there is a Redis
    from redis.asyncio.retry import Retry  # noqa: PLC0415  likewise
    from redis.backoff import NoBackoff  # noqa: PLC0415  likewise

    return ConnectionPool.from_url(
        url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS, retry=Retry(NoBackoff(), 0)
    )


def _storage(pool: "ConnectionPool") -> RedisStorage:
    # The pool knows the address; the options of the storage are typed narrower than they are.
    return RedisStorage(
        "async+redis://",
        implementation="redispy",
        key_prefix="placet",
        connection_pool=pool,  # type: ignore[arg-type]
    )

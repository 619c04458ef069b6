"""Quotas, with Redis, without it, and when it goes."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from service.edge.limits import Limits, Quota, caller_address
from service.kit.errors import Code, Refusal

pytestmark = pytest.mark.anyio
QUOTA = Quota("test", 9, 60)


async def taken(limits: Limits, caller: str = "192.0.2.1", tries: int = 20) -> int:
    """How many of so many tries are let through."""
    refusals = []
    for _ in range(tries):
        try:
            await limits.take(QUOTA, caller)
        except Refusal as refusal:
            refusals.append(refusal)
    assert {refusal.code for refusal in refusals} <= {Code.RATE_LIMITED}
    assert all(1 <= refusal.details["retry_after"] <= 60 for refusal in refusals)
    return tries - len(refusals)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def redis(port: int, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on the path")
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    yield server
    server.kill()
    server.wait()


@pytest.fixture
async def answering(redis: "subprocess.Popen[bytes]", port: int) -> str:
    """The address of a Redis that answers."""
    with anyio.fail_after(60):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.lowlevel.checkpoint()
            else:
                await stream.aclose()
                break
    return f"redis://127.0.0.1:{port}/0"


async def test_each_caller_has_its_own_quota() -> None:
    limits = Limits()
    assert await taken(limits) == 9
    assert await taken(limits, "192.0.2.2") == 9
    assert await taken(limits) == 0


async def test_two_processes_share_a_quota_through_redis(answering: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.edge.limits.REDIS_SECONDS", 5)  # however busy the machine that tests is
    first, second = Limits(answering), Limits(answering)
    assert await taken(first, tries=5) == 5
    assert await taken(second) == 4
    await first.close()
    await second.close()


async def test_when_redis_goes_no_call_fails_and_none_waits(answering: str, redis: "subprocess.Popen[bytes]") -> None:
    limits = Limits(answering)
    assert await taken(limits, tries=1) == 1
    redis.kill()
    redis.wait()
    with anyio.fail_after(60):  # who waited would wait for ever
        for number in range(20):
            await limits.take(QUOTA, f"caller {number}")
    assert await taken(limits, "192.0.2.9") == 3  # alone, with a third
    await limits.close()


async def test_a_redis_that_never_answers_is_not_waited_for(port: int) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener:
        assert listener  # accepts connections and says nothing
        limits = Limits(f"redis://127.0.0.1:{port}/0")
        with anyio.fail_after(60):  # who waited would wait for ever
            assert await taken(limits) == 3
        await limits.close()


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002"),
        ("fe80::1%eth0", "fe80:0000:0000:0000"),
        (None, "unknown"),
        ("/run/socket", "unknown"),
    ],
)
def test_a_caller_is_an_address_or_a_subscribers_network(host: str | None, caller: str) -> None:
    assert caller_address(host) == caller

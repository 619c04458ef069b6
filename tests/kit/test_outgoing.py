"""Requests to addresses that others named go to the open Internet or nowhere: THREATS A15 and A16."""

import asyncio
import socket
from typing import Any

import pytest

from service.kit.errors import Code, Refusal
from service.kit.outgoing import ANSWER_BYTES_MOST, Outgoing, is_public
from tests.publish.receivers import http_server

pytestmark = pytest.mark.anyio

INSIDE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0",  # noqa: S104  nothing is bound
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "nonsense",
    "fec0::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "3fff::1", "5f00::1", "192.88.99.1",
]  # fmt: skip
SPELLINGS = [
    "https://127.1/", "https://0x7f000001/", "https://2130706433/", "https://0177.0.0.1/", "https://127.0.0.1./",
    "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://169.254.169.254/", "https://localhost/",
    "https://example.org:6379/", "http://example.org/", "https://a@example.org/", "https://example.org\\@evil.org/",
    "https://example.org/\r\nHost: x", "https://exämple.org/", "ftp://example.org/", "https:///", "https://example.org:x/",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111"])
def test_an_address_of_the_open_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("url", SPELLINGS)
async def test_no_spelling_of_an_address_inside_is_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _forbidden)
    with pytest.raises(Refusal) as refused:
        await Outgoing().send("POST", url, content=b"{}")
    assert refused.value.code is Code.ADDRESS_REFUSED


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:169.254.169.254"]])
async def test_a_name_that_leads_inside_is_not_asked(addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async with http_server() as receiver:
        _answer(monkeypatch, lambda: addresses)
        with pytest.raises(Refusal) as refused:
            await Outgoing().send("POST", "https://rebound.example/", content=b"{}")
        assert refused.value.code is Code.ADDRESS_REFUSED
        assert receiver.requests == []


async def test_a_name_servers_second_answer_is_never_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to the address that was looked at, whatever the name means by then."""
    answers = iter([["192.88.99.77"], ["127.0.0.1"]])
    connected: list[str] = []
    _answer(monkeypatch, lambda: next(answers))

    async def connect(_loop: Any, _sock: Any, address: tuple[str, int]) -> None:
        connected.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr("service.kit.outgoing.is_public", lambda one: one == "192.88.99.77")
    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", connect)
    with pytest.raises(Refusal) as refused:
        await Outgoing().send("GET", "https://rebound.example/")
    assert refused.value.code is Code.UNREACHABLE
    assert set(connected) == {"192.88.99.77"}


async def test_a_redirect_is_not_followed() -> None:
    async with http_server() as receiver:
        receiver.answer = lambda _request: "302 Found\r\nLocation: http://127.0.0.1:1/inside"
        with pytest.raises(Refusal) as refused:
            await Outgoing(frozenset({"127.0.0.1"})).send("GET", f"http://127.0.0.1:{receiver.port}/")
    assert refused.value.code is Code.UNREACHABLE
    assert len(receiver.requests) == 1


async def test_an_answer_without_end_is_cut_off() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            for _ in range(10 * ANSWER_BYTES_MOST // 65_536):
                writer.write(b"x" * 65_536)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Refusal) as refused:
            await Outgoing(frozenset({"127.0.0.1"})).send("GET", f"http://127.0.0.1:{port}/")
    assert refused.value.details["limit"] == ANSWER_BYTES_MOST


def _forbidden(*_: Any) -> None:
    raise AssertionError("nothing inside is connected to")


def _answer(monkeypatch: pytest.MonkeyPatch, addresses: Any) -> None:
    async def resolve(_loop: Any, _host: Any, port: int, **_more: Any) -> list[Any]:
        return [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, port)) for one in addresses()]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", resolve)

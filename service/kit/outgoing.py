"""Requests that the service sends to addresses which others named: one client, one set of rules.

A name is resolved here, every address that it has must be a public one, and the connection goes to the address that was
looked at, so that a second answer of the name server changes nothing. TLS is checked against the name. No redirect is
followed, no proxy of the environment used, no connection kept; size and time of an answer are limited. A host that the
operator allows may be a private one, and be spoken to without TLS.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import httpx

from service.kit.errors import Code, Refusal

ANSWER_BYTES_MOST: Final = 1_000_000
SECONDS_MOST: Final = 10.0
CONNECT_SECONDS: Final = 4.0
PORTS: Final = frozenset({443, 8443})
"""Where a public host is spoken to; an allowed one on any port."""
_UNICAST: Final = ip_network("2000::/3")
"""All that is given out of IPv6 (IANA, IPv6 Global Unicast Address Assignments)."""
_NOT_OPEN: Final = (ip_network("3fff::/20"), ip_network("192.88.99.0/24"))
"""Documentation (RFC 9637) and the relays of 6to4 (RFC 7526), which Python takes for open."""
_CARRIERS: Final = tuple(map(IPv6Network, ("64:ff9b::/32", "2002::/16", "2001::/32")))
"""NAT64, 6to4 and Teredo: addresses that carry an IPv4 address."""


@dataclass(frozen=True)
class Reply:
    """An answer: its status, headers in small letters, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Outgoing:
    """Sends requests. `allowed`: hosts, in small letters, which may be private and without TLS."""

    allowed: frozenset[str] = frozenset()

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> Reply:
        """Send one request and read the whole answer.

        Raises:
            Refusal: ADDRESS_REFUSED for an address that must not be asked, UNREACHABLE for no answer in time, or one
                that is too large.
        """
        host, port = self.check(url)
        try:
            async with asyncio.timeout(SECONDS_MOST):
                return await self._send(method, url, await self._resolve(host, port), dict(headers or {}), content)
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            raise Refusal(Code.UNREACHABLE, "The other service did not answer as it should.") from error

    def check(self, url: str) -> tuple[str, int]:
        """Host and port of an address that may be asked, as far as can be told without a name server.

        Raises:
            Refusal: ADDRESS_REFUSED.
        """
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            raise _refused() from None
        plain = url.isascii() and url.isprintable() and not set(url) & {" ", "\\", "@"}
        allowed = host in self.allowed
        if not plain or not host or parts.fragment or parts.scheme not in ({"https", "http"} if allowed else {"https"}):
            raise _refused()
        port = port or {"https": 443, "http": 80}[parts.scheme]
        if not allowed and (port not in PORTS or _is_address(host) or "." not in host):
            raise _refused()
        return host, port

    async def _resolve(self, host: str, port: int) -> str:
        """The address to connect to. Every address of the name is judged: one bad one spoils it."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise Refusal(Code.UNREACHABLE, "The other service has no address.") from error
        addresses = [str(one[4][0]) for one in found]
        if host not in self.allowed and not all(is_public(one) for one in addresses):
            raise _refused()
        return addresses[0]

    async def _send(self, method: str, url: str, address: str, headers: dict[str, str], content: bytes) -> Reply:
        given = httpx.URL(url)
        own = {
            "host": given.netloc.decode(),
            "accept-encoding": "identity",
            "user-agent": "Placet",
            "connection": "close",
        }
        timeout = httpx.Timeout(SECONDS_MOST, connect=CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=timeout, limits=limits) as client,
            client.stream(
                method,
                given.copy_with(host=address),
                headers={**headers, **own},
                content=content,
                extensions={"sni_hostname": given.host},
            ) as answer,
        ):
            body = await _read(answer.aiter_raw())
            lowered = {name.lower(): value for name, value in answer.headers.items()}
        if answer.is_redirect or lowered.get("content-encoding", "identity") != "identity":
            raise Refusal(Code.UNREACHABLE, "The other service did not answer as it should.")
        return Reply(answer.status_code, lowered, body)


def is_public(address: str) -> bool:
    """Whether this is an address of the open Internet; of one that carries another, whether both are."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(found in network for network in _NOT_OPEN):
        return False
    if isinstance(found, IPv4Address):
        return found.is_global and not found.is_multicast
    return found in _UNICAST and found.is_global and not _carries(found)


def _carries(address: IPv6Address) -> bool:
    """IPv4 inside IPv6 (mapped, NAT64, 6to4, Teredo): nobody who means well names such an address."""
    return address.ipv4_mapped is not None or any(address in carrier for carrier in _CARRIERS)


async def _read(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > ANSWER_BYTES_MOST:
            raise Refusal(Code.UNREACHABLE, "The other service's answer is too large.", limit=ANSWER_BYTES_MOST)
    return bytes(body)


def _is_address(host: str) -> bool:
    """Also as decimal, octal or hexadecimal numbers, in which some resolvers read addresses: no name ends in one."""
    last = host.rstrip(".").rpartition(".")[2]
    return ":" in host or last.isdecimal() or last.startswith("0x")


def _refused() -> Refusal:
    return Refusal(Code.ADDRESS_REFUSED, "This address must not be asked.")

"""Chats through Apprise. Their addresses are the operator's: no tenant names one."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from service.publish.channel import Undelivered
from service.publish.words import Message

SECONDS_MOST: Final = 30


@dataclass(frozen=True)
class Chats:
    """Sends to chats. `urls`: of each tenant's name, the chats by name."""

    urls: Mapping[str, Mapping[str, str]] = field(repr=False)

    def names(self, tenant: str) -> tuple[str, ...]:
        """The chats of a tenant."""
        return tuple(self.urls.get(tenant, {}))

    async def send(self, tenant: str, name: str, message: Message) -> None:
        """Send to one chat: the first two lines, and the link.

        Raises:
            Undelivered: the chat did not take it, or is not set any more.
        """
        url = self.urls.get(tenant, {}).get(name)
        if url is None:
            raise Undelivered("The operator took this chat away.", final=True)
        try:
            async with asyncio.timeout(SECONDS_MOST):
                arrived = await asyncio.to_thread(_notify, url, message)
        except TimeoutError:
            arrived = False
        if not arrived:
            raise Undelivered("The chat did not take the message.")


def _notify(url: str, message: Message) -> bool:
    import apprise  # noqa: PLC0415  slow to load, and needed only where there is a chat

    one = apprise.Apprise()
    if not one.add(url):
        return False
    return bool(one.notify(title=message.subject, body="\n".join((*message.lines[:2], message.link))))

"""E-mail: one server, named by the operator. Plain text, and the same as simple HTML."""

import asyncio
import smtplib
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

from markupsafe import Markup, escape

from service.kit.language import gettext, language
from service.publish.channel import Undelivered
from service.publish.words import Message

SECONDS_MOST: Final = 15
_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_PERMANENT: Final = range(500, 600)
_PAGE: Final = Markup(
    '<!doctype html><html lang="{language}"><meta charset="utf-8"><body>{lines}<p><a href="{link}">{link}</a></p>'
    '<p><small>{end} <a href="{settings}">{choose}</a></small></p></body></html>'
)


@dataclass(frozen=True)
class SmtpServer:
    """A mail server. `security` is the scheme of its URL: in the clear, STARTTLS, or TLS from the start."""

    security: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)


def read_server(url: str, password: str) -> SmtpServer:
    """The server of a URL such as smtp+starttls://user@host:587.

    Raises:
        ValueError: it is no such URL; the message says why.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in {"", "/"} or parts.query:
        raise ValueError("must read smtp+starttls://user@host:587, or smtps:// or smtp:// in its place")
    if parts.password:
        raise ValueError("must not hold the password: name its file in PLACET_SMTP_PASSWORD_FILE")
    if parts.scheme == "smtp" and password:
        raise ValueError("must be smtp+starttls or smtps where there is a password")
    port = parts.port or _PORTS[parts.scheme]
    return SmtpServer(parts.scheme, parts.hostname, port, unquote(parts.username or ""), password)


@dataclass(frozen=True)
class Letter:
    """Where a mail belongs: its own id, the proposal whose mails it stands with, and the page of its reader."""

    id: UUID
    thread: UUID | None
    settings: str


@dataclass(frozen=True)
class Mail:
    """Sends mails. `sender` is an address, `host` the service's name."""

    server: SmtpServer
    sender: str
    host: str

    async def send(self, to: str, message: Message, letter: Letter) -> None:
        """Send one mail.

        Raises:
            Undelivered: the server did not take it.
        """
        try:
            ready = self._written(to, message, letter)
        except (ValueError, MessageError):
            raise Undelivered("The address is none that mail can be sent to.", final=True) from None
        try:
            async with asyncio.timeout(SECONDS_MOST * 2):
                await asyncio.to_thread(self._hand_over, ready)
        except UnicodeError:
            raise Undelivered("The mail server takes no such address.", final=True) from None
        except smtplib.SMTPRecipientsRefused as error:
            code = max((code for code, _ in error.recipients.values()), default=0)
            raise Undelivered("The mail server refuses this address.", final=code in _PERMANENT) from None
        except smtplib.SMTPResponseException as error:
            raise Undelivered(f"The mail server refused the mail with {error.smtp_code}.") from None
        except (OSError, smtplib.SMTPException):
            raise Undelivered("The mail server does not answer as it should.") from None

    def _written(self, to: str, message: Message, letter: Letter) -> EmailMessage:
        mail = EmailMessage(policy=SMTP)
        mail["From"] = Address("Placet", addr_spec=self.sender)
        mail["To"] = Address(addr_spec=to)
        mail["Subject"] = message.subject
        mail["Date"] = format_datetime(datetime.now(UTC))
        mail["Message-ID"] = f"<{letter.id}@{self.host}>"
        if letter.thread:
            mail["In-Reply-To"] = mail["References"] = f"<{letter.thread}@{self.host}>"
        mail["List-Unsubscribe"] = f"<{letter.settings}>"
        mail["Auto-Submitted"] = "auto-generated"
        end, choose = gettext("Opening the page decides nothing."), gettext("Choose what you hear")
        mail.set_content("\n\n".join((*message.lines, message.link, f"{end} {choose}: {letter.settings}")) + "\n")
        lines = Markup("").join(Markup("<p>{}</p>").format(_broken(line)) for line in message.lines)
        page = _PAGE.format(
            language=language(), lines=lines, link=message.link, end=end, settings=letter.settings, choose=choose
        )
        mail.add_alternative(str(page), subtype="html")
        return mail

    def _hand_over(self, mail: EmailMessage) -> None:
        one, context = self.server, ssl.create_default_context()
        if one.security == "smtps":
            client: smtplib.SMTP = smtplib.SMTP_SSL(one.host, one.port, timeout=SECONDS_MOST, context=context)
        else:
            client = smtplib.SMTP(one.host, one.port, timeout=SECONDS_MOST)
        with client:
            if one.security == "smtp+starttls":
                client.starttls(context=context)
            if one.user and one.password:
                client.login(one.user, one.password)
            client.send_message(mail)


def _broken(line: str) -> Markup:
    return Markup("<br>").join(escape(part) for part in line.split("\n"))

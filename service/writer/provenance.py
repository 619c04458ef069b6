"""Who stands in a commit: author = the connection, committer = the person who approved, and our trailers."""

import re
from dataclasses import dataclass
from uuid import UUID

from service.contract.names import OWN_TRAILERS

_OWN = re.compile("|".join(f"{key}:" for key in OWN_TRAILERS).encode(), re.IGNORECASE)


def handle(connection: UUID) -> str:
    """The short name of a connection in commits: `conn-` and the first 12 digits of its id."""
    return f"conn-{connection.hex[:12]}"


def author_line(name: str, connection: UUID, host: str, seconds: int) -> bytes:
    """Git's author line of a connection's proposal; `seconds` since 1970 by the database's clock, zone UTC."""
    own = handle(connection)
    return f"{name} ({own}) <{own}@{host}> {seconds} +0000".encode()


def person_line(name: str, email: str) -> bytes:
    """A person as Git writes one, without a date."""
    return f"{name} <{email}>".encode()


def committer_line(name: str, email: str, seconds: int) -> bytes:
    """Git's committer line of the person who approved."""
    return b"%s %d +0000" % (person_line(name, email), seconds)


def committer_email(line: bytes) -> str:
    """The address in a committer line."""
    return line.partition(b"<")[2].partition(b">")[0].decode()


@dataclass(frozen=True)
class Trailers:
    """What our trailers say: the proposal, who approved it, through which connection it came (None: an owner made it),
    what was reviewed.
    """

    proposal: UUID
    approved_by: str
    connection: UUID | None
    digest: str

    def lines(self) -> bytes:
        """One line per key, each key once."""
        values = (
            str(self.proposal),
            self.approved_by,
            handle(self.connection) if self.connection else "",
            self.digest,
        )
        return "".join(f"{key}: {value}\n" for key, value in zip(OWN_TRAILERS, values, strict=True) if value).encode()

    def end(self, message: bytes) -> bytes:
        """The whole message: what was proposed, an empty line, the trailers. Those of an earlier execution, which a
        commit that is repeated elsewhere has, go.
        """
        return _without_own(message.rstrip()) + b"\n\n" + self.lines()


def _without_own(message: bytes) -> bytes:
    body, _, last = message.rpartition(b"\n\n")
    lines = last.split(b"\n")
    kept = [line for line in lines if not _OWN.match(line)]
    if not body or len(kept) == len(lines):
        return message
    return b"\n\n".join(filter(None, (body, b"\n".join(kept)))).rstrip()

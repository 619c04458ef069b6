"""The questions behind the owner's pages, one file for each of them."""

from dataclasses import dataclass

from service.proposals.browse import Browsing
from service.proposals.lists import Connections, Ledger, Repositories
from service.proposals.people import People
from service.proposals.view import Cards, Inbox, Parts


@dataclass(frozen=True)
class Desk:
    """What the owner's pages ask for. The actor is an owner with a session; only his tenant's things exist.

    Each question raises NOT_FOUND for what is not there, is another tenant's, or may not be seen by this person.
    """

    inbox: Inbox
    cards: Cards
    parts: Parts
    connections: Connections
    repositories: Repositories
    browsing: Browsing
    people: People
    ledger: Ledger

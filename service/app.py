"""The web process: builds the parts, hands them to each other, and serves every route behind the guard."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from starlette.applications import Starlette
from starlette.types import Lifespan

from service.contract.ports import Ports
from service.edge import desk, health, languages, mcp, oauth, signin
from service.edge.guard import Endpoint, Nowhere, routes
from service.edge.limits import Limits
from service.edge.mcp.cursors import SignedCursors
from service.edge.parts import Parts
from service.edge.streams import Streams
from service.grants.reach import ReachedRepositories
from service.identity.doors import build_doors
from service.kit.actor import Actor
from service.kit.database import Database
from service.kit.outgoing import Outgoing
from service.proposals.again import AskAgain
from service.proposals.conflicts import OwnConflicts
from service.proposals.decide import Decide
from service.proposals.desk import Desk
from service.proposals.desk.browsing import OwnerBrowsing
from service.proposals.desk.cards import OwnerCards
from service.proposals.desk.colouring import Colouring
from service.proposals.desk.connections import OwnerConnections
from service.proposals.desk.inbox import OwnerInbox
from service.proposals.desk.ledger import OwnerLedger
from service.proposals.desk.parts import OwnerParts
from service.proposals.desk.people import OwnerPeople
from service.proposals.desk.repositories import OwnerRepositories
from service.proposals.dividing import Dividing
from service.proposals.own import OwnProposals
from service.proposals.restore import ReachedRestorePoints
from service.proposals.signing import Signing
from service.proposals.store import ProposalStore
from service.proposals.submit import Submit
from service.proposals.undo import Undo
from service.proposals.waiting import Waiter
from service.publish.choosing import Notices
from service.publish.push import Push
from service.publish.webhooks import Webhooks
from service.repositories.bare import BareRepository
from service.repositories.placement import Storage
from service.repositories.scratch import sweep
from service.settings import Settings
from service.tools.registry import discover

ENDPOINTS: tuple[Endpoint, ...] = (
    *health.ENDPOINTS,
    *mcp.ENDPOINTS,
    *oauth.ENDPOINTS,
    *signin.ENDPOINTS,
    *languages.ENDPOINTS,
    *desk.ENDPOINTS,
)


def build_parts(settings: Settings, database: Database, waiter: Waiter) -> Parts:
    """The parts of one web process, handed to each other."""
    storage = Storage(settings.repositories)
    store = ProposalStore(database, storage)
    registry = discover()
    colouring = Colouring(database, storage)
    submit = Submit(database, storage, settings.host, stored=colouring.soon)
    deciding = Decide(store, BareRepository, anyio.to_thread.run_sync, waiter)

    def ports(actor: Actor) -> Ports:
        own = OwnProposals(actor, database, storage, submit, waiter, registry.operations(), settings.issuer)
        return Ports(
            actor=actor,
            repositories=ReachedRepositories(actor, database, storage),
            proposals=own,
            conflicts=OwnConflicts(actor, database, storage),
            restore_points=ReachedRestorePoints(actor, database),
            cursors=SignedCursors(settings.secret, actor),
            in_thread=anyio.to_thread.run_sync,
        )

    inbox = OwnerInbox(database, storage)
    return Parts(
        database=database,
        issuer=settings.issuer,
        ports=ports,
        desk=Desk(
            inbox=inbox,
            cards=OwnerCards(
                database,
                storage,
                deciding,
                Signing(deciding, settings.issuer),
                Undo(database, submit, registry.operations()),
                AskAgain(database),
            ),
            parts=OwnerParts(database, storage, Dividing(database, storage, submit.planners, registry.operations())),
            connections=OwnerConnections(database),
            repositories=OwnerRepositories(database),
            browsing=OwnerBrowsing(database, storage, settings.issuer),
            people=OwnerPeople(database),
            ledger=OwnerLedger(database),
        ),
        doors=build_doors(
            database, settings.issuer, settings.sealer, settings.provider, Outgoing(settings.outgoing_hosts)
        ),
        streams=Streams(database, waiter, inbox.members),
        colouring=colouring,
        notices=build_notices(settings, database),
        limits=Limits(settings.redis_url),
        registry=registry,
    )


def build_notices(settings: Settings, database: Database) -> Notices:
    """What people choose of the notices that the notifier sends."""
    outgoing = Outgoing(settings.outgoing_hosts)
    return Notices(
        database,
        Push(settings.secret, settings.issuer, outgoing),
        Webhooks(settings.secret, settings.issuer, outgoing),
        mail=settings.mail is not None,
    )


def create_app(settings: Settings) -> Starlette:
    """The application of one web process."""
    database = Database(settings.database_url, "placet_app")
    waiter = Waiter(database)

    parts = build_parts(settings, database, waiter)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        gc.freeze()  # what is loaded by now is no garbage, and is not looked through for each large page
        await anyio.to_thread.run_sync(sweep)
        async with waiter.running(), parts.colouring.running():
            yield
        await parts.limits.close()
        await database.close()

    return serve(parts, lifespan)


def serve(parts: Parts, lifespan: Lifespan[Starlette] | None = None) -> Starlette:
    """Every route behind the guard."""
    app = Starlette(routes=list(routes(ENDPOINTS, parts)), lifespan=lifespan)
    app.state.streams = parts.streams  # a server that stops ends them first, or would wait for them
    app.router.default = Nowhere(parts)
    app.router.redirect_slashes = False  # such a redirect would come before the guard
    return app

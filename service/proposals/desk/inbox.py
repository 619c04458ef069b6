"""The inbox: which proposals wait, and which came to an end; a page of them at a time, found by their keys."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Row, Select, exists, func, select
from sqlalchemy.sql.selectable import Subquery

from service.contract.data import Oid
from service.grants.tables import connection, membership, oauth_client, person, person_tenant, project, tenant
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.desk.place import ENDED, WAITING, Order
from service.proposals.desk.reach import count_shown, listed, now_of, reached
from service.proposals.planning import holds, load_card, load_pins, read_fact
from service.proposals.tables import proposal
from service.proposals.view import NO_PROPOSAL, Choice, Choices, Filter, Glance, InboxLine, InboxView, Show
from service.repositories.bare import BareRepository
from service.repositories.placement import Place, Storage
from service.repositories.tables import repository

PAGE: Final = 50
CHOICES_FROM: Final = 2_000
SOON: Final = timedelta(hours=4)
proposer_id = func.coalesce(proposal.c.connection, proposal.c.person)


@dataclass(frozen=True)
class OwnerInbox:
    """Implements `view.Inbox`."""

    database: Database
    storage: Storage

    async def read(self, actor: Actor, show: Show, only: Filter, after: str) -> InboxView:
        """One page of a list. Pins and cards are read for the lines of this page alone."""
        order = WAITING if show == "waiting" else ENDED
        asked = _page(_keys(actor, show, only), order, after)
        async with self.database.bound(actor.tenant) as tx:
            found = (await tx.execute(asked)).all()
            rows = found[:PAGE]
            matching = await _matching(tx, actor, only) if show == "waiting" else None
            choices = await _choices(tx, actor, show)
            counts, now = await count_shown(tx, actor), await now_of(tx)
            tenants, lacks = await _tenants(tx, actor), await _lacks(tx, actor)
            places = {row.repository: await self.storage.place(tx, row.repository) for row in rows}
        moved = await asyncio.to_thread(_moved, rows, places) if show == "waiting" else set()
        lines = tuple(_inbox_line(row, moved=row.id in moved) for row in rows)
        next_page = order.write(rows[-1]) if len(found) > PAGE else ""
        return InboxView(now, show, counts, lines, next_page, matching, choices, tenants, lacks)

    async def glance(self, actor: Actor, proposal_id: UUID | None) -> Glance:
        """How many wait, and where one proposal and the refs that it pins are now."""
        async with self.database.bound(actor.tenant) as tx:
            mine = proposal.c.repository.in_(reached(actor))
            waiting = int(await tx.scalar(select(func.count()).where(mine, proposal.c.state == "pending")))
            if proposal_id is None:
                return Glance(waiting)
            columns = (proposal.c.state, proposal.c.pins, proposal.c.repository)
            row = (await tx.execute(select(*columns).where(mine, proposal.c.id == proposal_id))).one_or_none()
            if row is None:
                raise Refusal(Code.NOT_FOUND, NO_PROPOSAL)
            place = await self.storage.place(tx, row.repository)
        return Glance(waiting, row.state, await asyncio.to_thread(_refs, row.pins, place))

    async def members(self, tenant_id: UUID, people: Iterable[UUID]) -> set[UUID]:
        """Who of these people is still in a project of the tenant."""
        live = select(membership.c.person).where(membership.c.person.in_(list(people)), membership.c.state == "live")
        async with self.database.bound(tenant_id) as tx:
            return set((await tx.execute(live)).scalars())


def _keys(actor: Actor, show: Show, only: Filter) -> Subquery:
    """The keys of everything in the list that matches, narrow: no card, no pins."""
    named = (proposal.c.id, proposal.c.repository, proposer_id.label("proposer"), proposal.c.created_at)
    first = func.min(proposal.c.created_at).over(partition_by=(proposal.c.repository, proposer_id))
    key = first.label("first") if show == "waiting" else proposal.c.ended_at
    return select(*named, key).where(*_matches(actor, show, only)).subquery("keys")


def _matches(actor: Actor, show: Show, only: Filter) -> Iterable[ColumnElement[bool]]:
    yield proposal.c.repository.in_(reached(actor))
    yield listed(show)
    if only.repository:
        yield proposal.c.repository == only.repository
    if only.proposer:
        yield proposer_id == only.proposer
    if only.kind:
        yield proposal.c.kind == only.kind
    if only.group:
        yield proposal.c.group_id == only.group
    if only.soon:
        yield proposal.c.expires_at <= func.clock_timestamp() + SOON
    if only.warned:
        yield proposal.c.warned
    for word in only.words:
        yield proposal.c.words.contains(word.lower(), autoescape=True)


def _page(keys: Subquery, order: Order, after: str) -> Select[Any]:
    """The lines of one page and one more, in order."""
    chosen = select(keys).order_by(*order.by(keys.c)).limit(PAGE + 1)
    page = (chosen.where(order.beyond(keys.c, after)) if after else chosen).subquery("page")
    return (
        _named(page)
        .add_columns(
            proposal.c.id,
            proposal.c.repository,
            proposal.c.state,
            proposal.c.created_at,
            proposal.c.expires_at,
            proposal.c.ended_at,
            proposal.c.card,
            proposal.c.pins,
            proposal.c.parent,
            *(one for one in page.c if one.name in {"first", "proposer"}),
        )
        .join(proposal, proposal.c.id == page.c.id)
        .order_by(*order.by(page.c))
    )


def _named(of: Subquery) -> Select[Any]:
    """What the repository and the proposer of each row are called."""
    same = repository.c.tenant == project.c.tenant
    return (
        select(
            project.c.name.label("project_name"),
            repository.c.name.label("repository_name"),
            func.coalesce(connection.c.name, person.c.name).label("connection_name"),
            func.coalesce(oauth_client.c.name, person.c.name).label("client_name"),
        )
        .select_from(of)
        .join(repository, repository.c.id == of.c.repository)
        .join(project, same & (project.c.id == repository.c.project))
        .outerjoin(connection, connection.c.id == of.c.proposer)
        .outerjoin(oauth_client, oauth_client.c.id == connection.c.client)
        .outerjoin(person, person.c.id == of.c.proposer)
    )


async def _matching(tx: Bound, actor: Actor, only: Filter) -> int:
    return int(await tx.scalar(select(func.count()).where(*_matches(actor, "waiting", only))))


async def _choices(tx: Bound, actor: Actor, show: Show) -> Choices:
    """What can be filtered by, from what there is."""
    columns = (proposal.c.repository, proposer_id.label("proposer"), proposal.c.kind, proposal.c.group_id)
    newest = proposal.c.created_at if show == "waiting" else proposal.c.ended_at
    there = select(*columns).where(*_matches(actor, show, Filter())).order_by(newest.desc()).limit(CHOICES_FROM)
    distinct = select(there.subquery()).distinct().subquery("there")
    rows = (await tx.execute(_named(distinct).add_columns(*distinct.c))).all()
    return Choices(
        repositories=_by_name((row.repository, f"{row.project_name} / {row.repository_name}") for row in rows),
        proposers=_by_name((row.proposer, row.connection_name) for row in rows),
        kinds=tuple(sorted({row.kind for row in rows})),
        groups=tuple(sorted({row.group_id for row in rows if row.group_id})),
    )


def _by_name(pairs: Iterable[tuple[UUID, str]]) -> tuple[Choice, ...]:
    return tuple(Choice(str(value), name) for value, name in sorted(set(pairs), key=lambda one: (one[1], one[0])))


async def _tenants(tx: Bound, actor: Actor) -> tuple[Choice, ...]:
    found = await tx.execute(
        select(tenant.c.id, tenant.c.name)
        .join(person_tenant, person_tenant.c.tenant == tenant.c.id)
        .where(person_tenant.c.person == actor.id)
    )
    return _by_name((row.id, row.name) for row in found)


async def _lacks(tx: Bound, actor: Actor) -> Literal["", "repository", "connection"]:
    there = (exists(reached(actor)), exists(select(connection.c.id).where(connection.c.state != "revoked")))
    has_repository, has_connection = tuple((await tx.execute(select(*there))).one())
    if not has_repository:
        return "repository"
    return "" if has_connection else "connection"


def _moved(rows: Sequence[Row[Any]], places: dict[UUID, Place]) -> set[UUID]:
    """The proposals whose pins no longer hold; a ref is read once however many wait on it."""
    now: dict[tuple[UUID, str], Oid] = {}
    gits = {repository: BareRepository(place.path) for repository, place in places.items()}
    moved: set[UUID] = set()
    for row in rows:
        for pin in load_pins(row.pins):
            key, git = (row.repository, pin.fact.name), gits[row.repository]
            if key not in now:
                now[key] = read_fact(git, pin.fact)
            if not holds(git, pin, now[key]):
                moved.add(row.id)
    return moved


def _refs(pins: str, place: Place) -> tuple[tuple[str, Oid], ...]:
    git = BareRepository(place.path)
    return tuple((pin.fact.name, read_fact(git, pin.fact)) for pin in load_pins(pins))


def _inbox_line(row: Row[Any], *, moved: bool) -> InboxLine:
    card = load_card(row.card)
    return InboxLine(
        id=row.id,
        project=row.project_name,
        repository=row.repository_name,
        connection=row.connection_name,
        client=row.client_name,
        state=row.state,
        created_at=row.created_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        headline=card.headline,
        message=card.agent_words.get("message") or card.agent_words["reason"],
        warnings=card.warnings,
        branch_moved=moved,
        part=row.parent is not None,
    )

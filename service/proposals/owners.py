"""What the owner's pages ask for: the queries behind `view.Desk`, and the actions that an owner may take."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Row, Select, func, select

from service.contract.data import NULL, Oid
from service.contract.names import unquote_path
from service.contract.plan import NewCommit, NewTag, Pin, Plan, ReviewCard
from service.contract.refs import short_name
from service.contract.showing import label, shown_changes
from service.contract.world import tree_of
from service.grants.manage import State as StandingState
from service.grants.manage import change_state, let_agents_propose
from service.grants.standing import DECIDERS, Proposer, stand
from service.grants.tables import connection, connection_repository, membership, oauth_client, person, project, tenant
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.ledger.tables import ledger_entry
from service.proposals.decide import Decide, wanted
from service.proposals.others import overlap, touched
from service.proposals.planning import holds, load_card, load_manifests, load_pins, load_plan, read_fact
from service.proposals.states import read_outcome
from service.proposals.tables import decision, proposal, staging
from service.proposals.undo import Undo
from service.proposals.view import (
    SHOWN,
    AroundLine,
    CardView,
    ConnectionAction,
    ConnectionLine,
    ConnectionsView,
    Decider,
    DecisionResult,
    DecisionView,
    FileView,
    InboxLine,
    InboxView,
    LedgerLine,
    LedgerView,
    Outcome,
    PinView,
    RepositoriesView,
    RepositoryAction,
    RepositoryLine,
    Show,
    SigningView,
    Verdicts,
)
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.repositories.placement import Place, Storage
from service.repositories.reading import Objects
from service.repositories.staging import Staging
from service.repositories.tables import repository
from service.writer.keys import public_keys
from service.writer.provenance import Trailers

LINES_MOST = 200
ACTIONS: dict[ConnectionAction, StandingState] = {"pause": "paused", "resume": "live", "revoke": "revoked"}
_LINE = (
    select(
        proposal,
        repository.c.name.label("repository_name"),
        project.c.name.label("project_name"),
        func.coalesce(connection.c.name, person.c.name).label("connection_name"),
        func.coalesce(oauth_client.c.name, person.c.name).label("client_name"),
    )
    .join(repository, (repository.c.tenant == proposal.c.tenant) & (repository.c.id == proposal.c.repository))
    .join(project, (project.c.tenant == repository.c.tenant) & (project.c.id == repository.c.project))
    .outerjoin(connection, (connection.c.tenant == proposal.c.tenant) & (connection.c.id == proposal.c.connection))
    .outerjoin(oauth_client, oauth_client.c.id == connection.c.client)
    .outerjoin(person, person.c.id == proposal.c.person)
)


@dataclass(frozen=True)
class OwnerDesk:
    """Implements `view.Desk` on the database and the repositories."""

    database: Database
    storage: Storage
    deciding: Decide
    undoing: Undo

    async def inbox(self, actor: Actor, show: Show) -> InboxView:
        """One list of the inbox."""
        order = (proposal.c.created_at, proposal.c.id)
        async with self.database.bound(actor.tenant) as tx:
            mine = repository.c.project.in_(_projects(actor))
            statement = _LINE.where(mine, proposal.c.state.in_(SHOWN[show])).limit(LINES_MOST + 1)
            waiting = show == "waiting"
            rows = (await tx.execute(statement.order_by(*(order if waiting else (one.desc() for one in order))))).all()
            counts = await _counts(tx, actor)
            now = await _now(tx)
            places = {row.repository: await self.storage.place(tx, row.repository) for row in rows} if waiting else {}
        moved = await asyncio.to_thread(_moved, rows, places)
        lines = tuple(_inbox_line(row, moved=row.id in moved) for row in rows[:LINES_MOST])
        return InboxView(now, show, counts, lines, len(rows) > LINES_MOST)

    async def card(self, actor: Actor, proposal_id: UUID) -> CardView:
        """Everything on one proposal."""
        async with self.database.bound(actor.tenant) as tx:
            row = await _card_row(tx, actor, proposal_id)
            place = await self.storage.place(tx, row.repository)
            objects = await tx.scalar(select(staging.c.objects).where(staging.c.proposal == proposal_id))
            said = await _decision(tx, proposal_id)
            others = (
                await tx.execute(
                    _LINE.where(
                        proposal.c.repository == row.repository,
                        proposal.c.state == "pending",
                        proposal.c.id != proposal_id,
                    ).limit(LINES_MOST)
                )
            ).all()
            role = await _role(tx, actor, row.repository)
            waiting = (await _counts(tx, actor))["waiting"]
            now = await _now(tx)
            hindrance = await _hindrance(tx, row)
            may_undo = role in DECIDERS and await self.undoing.offers(tx, row)
        card = await asyncio.to_thread(_card, actor, row, place.path, objects, said, others, role, waiting, now)
        return replace(card, hindrance=hindrance, may_undo=may_undo)

    async def decide(self, who: Decider, proposal_id: UUID, said: Verdicts) -> DecisionResult:
        """See `proposals/decide`."""
        done = await self.deciding(who, proposal_id, said)
        return DecisionResult(done.proposal_id, done.state, done.replayed, _outcome(done.outcome) or Outcome())

    async def undo(self, who: Decider, proposal_id: UUID) -> UUID:
        """See `proposals/undo`."""
        async with self.database.bound(who.actor.tenant) as tx:
            await _card_row(tx, who.actor, proposal_id)
        return await self.undoing(who, proposal_id)

    async def connections(self, actor: Actor) -> ConnectionsView:
        """The tenant's connections that reach a project of this person's."""
        async with self.database.bound(actor.tenant) as tx:
            reached = await _reached(tx, actor)
            rows = (
                await tx.execute(
                    select(connection, oauth_client.c.name.label("client_name"), person.c.email)
                    .join(oauth_client, oauth_client.c.id == connection.c.client)
                    .join(person, person.c.id == connection.c.granted_by)
                    .where(connection.c.id.in_(reached) | (connection.c.granted_by == actor.id))
                    .order_by(connection.c.state == "revoked", connection.c.name, connection.c.created_at)
                )
            ).all()
            tallies = await _tallies(tx)
            waiting = (await _counts(tx, actor))["waiting"]
            lines = [_connection_line(actor, row, reached.get(row.id, []), tallies[row.id]) for row in rows]
            return ConnectionsView(await _now(tx), waiting, tuple(lines))

    async def connection_action(self, actor: Actor, connection_id: UUID, action: ConnectionAction) -> tuple[UUID, ...]:
        """Pause, resume or revoke; what had passed the point of no return before it is given."""
        async with self.database.bound(actor.tenant) as tx:
            granted_by = await tx.scalar(select(connection.c.granted_by).where(connection.c.id == connection_id))
            if granted_by != actor.id and connection_id not in await _reached(tx, actor):
                raise Refusal(Code.NOT_FOUND, "There is no such connection.")
            await change_state(tx, actor, connection, connection_id, ACTIONS[action])
            running = await tx.execute(
                select(proposal.c.id).where(proposal.c.connection == connection_id, proposal.c.state == "executing")
            )
            return tuple(row.id for row in running)

    async def repositories(self, actor: Actor) -> RepositoriesView:
        """The tenant's repositories in this person's projects."""
        async with self.database.bound(actor.tenant) as tx:
            rows = (
                await tx.execute(
                    select(repository, project.c.name.label("project_name"), membership.c.role)
                    .join(project, (project.c.tenant == repository.c.tenant) & (project.c.id == repository.c.project))
                    .join(
                        membership,
                        (membership.c.tenant == project.c.tenant) & (membership.c.project == project.c.id),
                    )
                    .where(membership.c.person == actor.id, membership.c.state == "live")
                    .order_by(project.c.name, repository.c.name)
                )
            ).all()
            counted = await tx.execute(
                select(proposal.c.repository, func.count().label("waiting"))
                .where(proposal.c.state == "pending")
                .group_by(proposal.c.repository)
            )
            waits = {row.repository: row.waiting for row in counted}
            lines = [_repository_line(row, waits.get(row.id, 0)) for row in rows]
            return RepositoriesView(await _now(tx), (await _counts(tx, actor))["waiting"], tuple(lines))

    async def repository_action(self, actor: Actor, repository_id: UUID, action: RepositoryAction) -> None:
        """Let agents propose there, or not. Owners only."""
        async with self.database.bound(actor.tenant) as tx:
            if await _role(tx, actor, repository_id) != "owner":
                raise Refusal(Code.NOT_FOUND, "There is no such repository.")
            await let_agents_propose(tx, actor, repository_id, on=action == "admit_agents")

    async def ledger(self, actor: Actor, before: int | None, most: int) -> LedgerView:
        """The tenant's ledger, newest first; for a person who may decide somewhere in it."""
        async with self.database.bound(actor.tenant) as tx:
            if not await tx.scalar(_memberships(actor).where(membership.c.role.in_(DECIDERS)).limit(1)):
                raise Refusal(Code.NOT_FOUND, "There is no such page.")
            statement = select(ledger_entry).order_by(ledger_entry.c.seq.desc()).limit(most + 1)
            if before is not None:
                statement = statement.where(ledger_entry.c.seq < before)
            rows = (await tx.execute(statement)).all()
            names = await _names(tx)
            lines = tuple(_ledger_line(row, names) for row in rows[:most])
            after = lines[-1].seq if len(rows) > most else None
            return LedgerView(await _now(tx), (await _counts(tx, actor))["waiting"], lines, after)

    async def signing(self, actor: Actor) -> SigningView:
        """With what the tenant's commits are signed; for everybody who is in it."""
        async with self.database.bound(actor.tenant) as tx:
            if not await tx.scalar(_memberships(actor).limit(1)):
                raise Refusal(Code.NOT_FOUND, "There is no such page.")
            on = await tx.scalar(select(tenant.c.sign_commits).where(tenant.c.id == actor.tenant))
            return SigningView(bool(on), tuple(await public_keys(tx)))


def _memberships(actor: Actor) -> Select[Any]:
    return select(membership.c.project).where(membership.c.person == actor.id, membership.c.state == "live")


def _projects(actor: Actor) -> Any:
    return _memberships(actor)


async def _card_row(tx: Bound, actor: Actor, proposal_id: UUID) -> Row[Any]:
    mine = repository.c.project.in_(_projects(actor))
    row = (await tx.execute(_LINE.where(proposal.c.id == proposal_id, mine))).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is no such proposal.")
    return row


async def _role(tx: Bound, actor: Actor, repository_id: UUID) -> str | None:
    statement = (
        select(membership.c.role)
        .join(repository, (repository.c.tenant == membership.c.tenant) & (repository.c.project == membership.c.project))
        .where(repository.c.id == repository_id, membership.c.person == actor.id, membership.c.state == "live")
    )
    return cast("str | None", await tx.scalar(statement))


async def _counts(tx: Bound, actor: Actor) -> dict[Show, int]:
    found = await tx.execute(
        select(proposal.c.state, func.count().label("number"))
        .join(repository, (repository.c.tenant == proposal.c.tenant) & (repository.c.id == proposal.c.repository))
        .where(repository.c.project.in_(_projects(actor)))
        .group_by(proposal.c.state)
    )
    numbers = {row.state: row.number for row in found}
    return {show: sum(numbers.get(state, 0) for state in states) for show, states in SHOWN.items()}


async def _now(tx: Bound) -> Any:
    return await tx.scalar(select(func.clock_timestamp()))


def _moved(rows: Sequence[Row[Any]], places: dict[UUID, Place]) -> set[UUID]:
    """The proposals whose pins no longer hold; a ref is read once however many wait on it."""
    now: dict[tuple[UUID, str], Oid] = {}
    moved: set[UUID] = set()
    for row in rows if places else ():
        for pin in load_pins(row.pins):
            key = (row.repository, pin.fact.name)
            git = BareRepository(places[row.repository].path)
            if key not in now:
                now[key] = read_fact(git, pin.fact)
            if not holds(git, pin, now[key]):
                moved.add(row.id)
    return moved


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
    )


async def _hindrance(tx: Bound, row: Row[Any]) -> Refusal | None:
    """What would refuse an approval now: a right that is gone, or a policy that has become stricter."""
    if row.state != "pending":
        return None
    try:
        (await stand(tx, Proposer.of(row.connection, row.person), row.repository)).check(
            wanted(load_plan(row.plan), load_manifests(row.manifest))
        )
    except Refusal as refusal:
        return refusal
    return None


async def _decision(tx: Bound, proposal_id: UUID) -> Row[Any] | None:
    found = await tx.execute(
        select(decision, person.c.email)
        .join(person, person.c.id == decision.c.person)
        .where(decision.c.proposal == proposal_id)
    )
    return found.one_or_none()


def _card(
    actor: Actor,
    row: Row[Any],
    path: Path,
    objects: bytes,
    said: Row[Any] | None,
    others: Sequence[Row[Any]],
    role: str | None,
    waiting: int,
    now: Any,
) -> CardView:
    plan, card = load_plan(row.plan), load_card(row.card)
    store = BareRepository(path).store(plan, decode(objects))
    mine = touched(row)
    return CardView(
        id=row.id,
        tenant=row.tenant,
        project=row.project_name,
        repository=row.repository_name,
        branch=short_name(plan.effects[0].ref),
        state=row.state,
        created_at=row.created_at,
        expires_at=row.expires_at,
        now=now,
        connection=row.connection_name,
        client=row.client_name,
        card=card,
        digest=row.digest,
        pins=tuple(_pin_view(path, pin) for pin in load_pins(row.pins)),
        files=tuple(_file_views(store, plan, card)),
        commit_preview=_preview(row, plan, said, actor),
        decision=None if said is None else DecisionView(said.verdict, said.email, said.note, said.decided_at),
        outcome=_outcome(read_outcome(row.outcome)),
        around=tuple(
            AroundLine(
                other.id,
                load_card(other.card).headline,
                other.connection_name,
                overlap=overlap(mine, touched(other)) is not None,
                grouped=row.group_id is not None
                and (row.connection, row.group_id) == (other.connection, other.group_id),
            )
            for other in others
        ),
        may_decide=role in DECIDERS,
        waiting=waiting,
        refs=tuple(effect.ref for effect in plan.effects),
        by_owner=row.person is not None,
    )


def _pin_view(path: Path, pin: Pin) -> PinView:
    git = BareRepository(path)
    current = read_fact(git, pin.fact)
    ahead = None
    if NULL not in (pin.seen, current):
        ahead = Objects(path).ahead(current, pin.seen)
    return PinView(pin.fact.name, pin.seen, current, holds(git, pin, current), ahead)


def _file_views(store: Staging, plan: Plan, card: ReviewCard) -> Iterable[FileView]:
    """Every path of everything that is brought, whole; a rename that the card names is one view."""
    renames = {
        unquote_path(note.at, "at"): unquote_path(note.params["old_path"], "old_path")
        for section in card.sections
        for note in section.notes
        if "old_path" in note.params
    }
    shown = shown_changes(store, plan)
    for one in shown:
        differences = store.changes(tree_of(store, one.old), tree_of(store, one.new))
        changes = {change.path: change for change in differences}
        for path, change in changes.items():
            source = renames.get(path)
            before = changes[source].old if source in changes else change.old
            if path in renames.values() and change.new is None:
                continue
            yield FileView(
                path=path,
                old_path=source,
                old_mode=before.mode if before else 0,
                new_mode=change.new.mode if change.new else 0,
                old=_content(store, before),
                new=_content(store, change.new),
                of=label(one, plan.commits) if len(shown) > 1 else "",
            )


def _content(store: Staging, entry: Any) -> bytes | None:
    if entry is None:
        return None
    gitlink = 0o160000
    return f"Subproject commit {entry.oid}\n".encode() if entry.mode == gitlink else store.blob(entry.oid)


def _preview(row: Row[Any], plan: Plan, said: Row[Any] | None, actor: Actor) -> str:
    """The commit as it is or will be. While it waits its committer is whoever approves; without an approval nobody."""
    approved = said is not None and said.verdict == "approve"
    waits = row.state == "pending"
    committer, by = "(nobody)", ""
    if said is not None and approved:
        committer, by = said.committer.decode(), said.email
    elif waits:
        committer, by = "(you, when you approve)", actor.name
    trailers = Trailers(row.id, by, row.connection, row.digest) if by else None
    names = _names_of(plan, read_outcome(row.outcome).get("commits", ()))
    return "\n".join(_object_text(new, committer, trailers, names) for new in plan.build)


def _names_of(plan: Plan, executed: Sequence[str]) -> dict[str, str]:
    """What the new commits are called: by their ids once they have some, before that by their places."""
    places = [f"(commit {place} of these)" for place in range(1, len(plan.commits) + 1)]
    return dict(zip((new.id for new in plan.commits), executed or places, strict=False))


def _object_text(new: NewCommit | NewTag, committer: str, trailers: Trailers | None, names: Mapping[str, str]) -> str:
    message = trailers.end(new.message) if trailers else new.message
    if isinstance(new, NewTag):
        target = names.get(new.target, new.target)
        head = [f"object {target}", "type commit", f"tag {new.name}", f"tagger {committer}"]
    else:
        head = [f"tree {new.tree}", *(f"parent {names.get(parent, parent)}" for parent in new.parents)]
        head += [f"author {new.author.decode(errors='replace')}", f"committer {committer}"]
    return "\n".join(head) + "\n\n" + message.decode(errors="replace")


def _outcome(found: dict[str, Any]) -> Outcome | None:
    if not found:
        return None
    return Outcome(
        commit=found.get("commit"), head=found.get("head"), code=found.get("code", ""), message=found.get("message", "")
    )


async def _reached(tx: Bound, actor: Actor) -> dict[UUID, list[str]]:
    """The connections that reach a repository of this person's projects, with the repositories' names."""
    found = await tx.execute(
        select(
            connection_repository.c.connection,
            project.c.name.label("project_name"),
            repository.c.name.label("repository_name"),
        )
        .join(
            repository,
            (repository.c.tenant == connection_repository.c.tenant)
            & (repository.c.id == connection_repository.c.repository),
        )
        .join(project, (project.c.tenant == repository.c.tenant) & (project.c.id == repository.c.project))
        .where(repository.c.project.in_(_memberships(actor).where(membership.c.role.in_(DECIDERS))))
        .order_by(project.c.name, repository.c.name)
    )
    reached: dict[UUID, list[str]] = defaultdict(list)
    for row in found:
        reached[row.connection].append(f"{row.project_name} / {row.repository_name}")
    return reached


async def _tallies(tx: Bound) -> dict[UUID, list[Row[Any]]]:
    found = await tx.execute(
        select(
            proposal.c.connection,
            proposal.c.state,
            func.count().label("number"),
            func.max(proposal.c.created_at).label("last_at"),
        ).group_by(proposal.c.connection, proposal.c.state)
    )
    tallies: dict[UUID, list[Row[Any]]] = defaultdict(list)
    for row in found:
        tallies[row.connection].append(row)
    return tallies


def _connection_line(actor: Actor, row: Row[Any], names: list[str], tally: list[Row[Any]]) -> ConnectionLine:
    return ConnectionLine(
        id=row.id,
        name=row.name,
        client=row.client_name,
        granted_by=row.email,
        scopes=tuple(row.scopes),
        repositories=tuple(names),
        state=row.state,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_at=max((one.last_at for one in tally), default=None),
        counts={one.state: one.number for one in tally},
        may_manage=row.granted_by == actor.id or bool(names),
    )


def _repository_line(row: Row[Any], waiting: int) -> RepositoryLine:
    return RepositoryLine(
        row.id, row.project_name, row.name, row.state, row.agents_may_propose, waiting, row.role == "owner"
    )


async def _names(tx: Bound) -> dict[str, str]:
    """What the ids of this tenant's actors are called."""
    people = select(person.c.id, person.c.email.label("name")).where(person.c.id.in_(select(membership.c.person)))
    agents = select(connection.c.id, connection.c.name)
    return {str(row.id): row.name for statement in (people, agents) for row in await tx.execute(statement)}


def _ledger_line(row: Row[Any], names: dict[str, str]) -> LedgerLine:
    actor = json.loads(row.body)["actor"]
    name = names.get(actor["id"], "Placet" if actor["kind"] == "system" else actor["id"])
    return LedgerLine(row.seq, row.at, row.kind, row.subject, actor["kind"], name, row.hash.hex())

"""The people of a tenant's projects, and what holds for all of it. An owner takes people out of his projects; nobody is
let in, and no role is given, by a page: the web process has no right to do that (record 39).
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import Row, func, select

from service.grants.manage import change_state
from service.grants.proof import proof_of
from service.grants.tables import membership, person, person_credential, project, tenant
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.desk.reach import count_shown, memberships, now_of
from service.proposals.people import Member, PeopleView, ProjectPeople, TenantView, Way

WAYS: Final[tuple[Way, ...]] = ("passkey", "password", "oidc")


@dataclass(frozen=True)
class OwnerPeople:
    """Implements `people.People`."""

    database: Database

    async def read(self, actor: Actor) -> PeopleView:
        """The projects that this person is in, with who else is."""
        async with self.database.bound(actor.tenant) as tx:
            projects = (await tx.execute(_mine(actor).order_by(project.c.name))).all()
            members = await _members(tx, [row.id for row in projects])
            ways = await _ways(tx, {row.person for rows in members.values() for row in rows})
            waiting = (await count_shown(tx, actor))["waiting"]
            shown = tuple(_project(actor, row, members[row.id], ways) for row in projects)
            return PeopleView(await now_of(tx), waiting, shown)

    async def tenant(self, actor: Actor) -> TenantView:
        """What holds in the tenant; for everybody who is in it."""
        async with self.database.bound(actor.tenant) as tx:
            if not await tx.scalar(memberships(actor).limit(1)):
                raise Refusal(Code.NOT_FOUND, "There is no such page.")
            row = (await tx.execute(select(tenant).where(tenant.c.id == actor.tenant))).one()
            waiting = (await count_shown(tx, actor))["waiting"]
            return TenantView(
                waiting=waiting,
                name=row.name,
                proposal_time=timedelta(seconds=row.proposal_seconds),
                warn_time=timedelta(seconds=row.warn_seconds),
                restore_time=timedelta(seconds=row.restore_seconds),
                pending_most=row.pending_most,
                sign_commits=row.sign_commits,
            )

    async def take_out(self, actor: Actor, membership_id: UUID) -> None:
        """Take a member out of his project."""
        async with self.database.bound(actor.tenant) as tx:
            one = await _managed(tx, actor, membership_id)
            await _check_proof(tx, actor)
            await tx.alone(one.project)  # of two owners who take each other out, the second is the last
            await _managed(tx, actor, membership_id)  # who was taken out meanwhile takes nobody out
            await _check_not_last(tx, one)
            await change_state(tx, actor, membership, membership_id, "revoked")


def _mine(actor: Actor) -> Any:
    return (
        select(project.c.id, project.c.name, membership.c.role)
        .join(membership, (membership.c.tenant == project.c.tenant) & (membership.c.project == project.c.id))
        .where(membership.c.person == actor.id, membership.c.state == "live")
    )


async def _members(tx: Bound, projects: list[UUID]) -> dict[UUID, list[Row[Any]]]:
    found = await tx.execute(
        select(membership, person.c.email, person.c.name)
        .join(person, person.c.id == membership.c.person)
        .where(membership.c.project.in_(projects), membership.c.state != "revoked")
        .order_by(membership.c.role == "reader", membership.c.role != "owner", person.c.email)
    )
    members: dict[UUID, list[Row[Any]]] = defaultdict(list)
    for row in found:
        members[row.project].append(row)
    return members


async def _ways(tx: Bound, people: set[UUID]) -> dict[UUID, set[str]]:
    """How people can sign in. A password alone is no way in: it takes the code as well."""
    found = await tx.execute(
        select(person_credential.c.person, person_credential.c.kind)
        .where(person_credential.c.person.in_(people), person_credential.c.live)
        .distinct()
    )
    ways: dict[UUID, set[str]] = defaultdict(set)
    for row in found:
        ways[row.person].add(row.kind)
    return {who: kinds - ({"password"} if "totp" not in kinds else set()) for who, kinds in ways.items()}


def _project(actor: Actor, row: Row[Any], members: list[Row[Any]], ways: dict[UUID, set[str]]) -> ProjectPeople:
    manages = row.role == "owner"
    return ProjectPeople(
        id=row.id,
        name=row.name,
        may_manage=manages,
        members=tuple(_shown(actor, one, ways.get(one.person, set()) if manages else set()) for one in members),
    )


def _shown(actor: Actor, row: Row[Any], kinds: set[str]) -> Member:
    return Member(
        id=row.id,
        email=row.email,
        name=row.name,
        role=row.role,
        state=row.state,
        since=row.created_at,
        me=row.person == actor.id,
        ways=tuple(way for way in WAYS if way in kinds),
    )


async def _check_proof(tx: Bound, actor: Actor) -> None:
    """Who has anything to prove with shows it first."""
    proof = await proof_of(tx, actor.id, actor.session)
    if proof.able and proof.by is None:
        raise Refusal(Code.PROOF_NEEDED, "This takes a right away, so it takes more than being signed in.")


async def _member(tx: Bound, actor: Actor, membership_id: UUID) -> Row[Any]:
    """A member of a project that this person is in, with whether he may change it. Raises NOT_FOUND."""
    mine = _mine(actor).subquery()
    which = select(membership, (mine.c.role == "owner").label("may_manage")).join(
        mine, mine.c.id == membership.c.project
    )
    row = (
        await tx.execute(which.where(membership.c.id == membership_id, membership.c.state != "revoked"))
    ).one_or_none()
    if row is None:
        raise Refusal(Code.NOT_FOUND, "There is no such member.")
    return row


async def _managed(tx: Bound, actor: Actor, membership_id: UUID) -> Row[Any]:
    """The member, for an owner of the project. Raises NOT_FOUND, FORBIDDEN."""
    one = await _member(tx, actor, membership_id)
    if not one.may_manage:
        raise Refusal(Code.FORBIDDEN, "Only an owner of the project changes who is in it.")
    return one


async def _check_not_last(tx: Bound, one: Row[Any]) -> None:
    others = select(func.count()).where(
        membership.c.project == one.project,
        membership.c.role == "owner",
        membership.c.state == "live",
        membership.c.id != one.id,
    )
    if one.role == "owner" and not cast("int", await tx.scalar(others)):
        raise Refusal(Code.LAST_OWNER, "A project keeps at least one owner.")

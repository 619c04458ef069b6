"""One proposal as its card shows it, and what an owner does there."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from sqlalchemy import Row, select

from service.contract.changes import content_of
from service.contract.data import NULL, Entry
from service.contract.history import subject_of
from service.contract.operation import Operation
from service.contract.parts import renames_of
from service.contract.plan import NewCommit, NewTag, Pin, Plan, ReviewCard
from service.contract.refs import short_name
from service.contract.showing import label, shown_changes
from service.contract.world import tree_of
from service.grants.proof import has_signing_passkey
from service.grants.standing import DECIDERS, Proposer, stand
from service.grants.tables import person
from service.kit.actor import Actor
from service.kit.database import Bound, Database
from service.kit.errors import Code, Refusal
from service.proposals.again import TOO_LATE, AskAgain
from service.proposals.coloured import KnownColours, keep_colours, known_colours
from service.proposals.decide import Decide, Decided, wanted
from service.proposals.desk.reach import LINE, LINES_MOST, card_row, count_shown, now_of, role_in
from service.proposals.others import overlap, touched
from service.proposals.planning import holds, load_card, load_manifests, load_pins, load_plan, parts_of, read_fact
from service.proposals.ports import Answer, Prepared
from service.proposals.reading import record_sent, sent_places
from service.proposals.seen import change_of, mark, marked
from service.proposals.signing import Signing
from service.proposals.states import read_outcome
from service.proposals.store import ProposalTx
from service.proposals.tables import decision, proposal, staging
from service.proposals.undo import Undo
from service.proposals.view import (
    AroundLine,
    CardView,
    Decider,
    DecisionResult,
    DecisionView,
    FileView,
    Marked,
    OneFile,
    Outcome,
    PinView,
    Verdicts,
)
from service.repositories.bare import BareRepository
from service.repositories.colour import Key, key_of
from service.repositories.objects import decode
from service.repositories.placement import Storage
from service.repositories.reading import Objects
from service.repositories.staging import Staging
from service.writer.provenance import Trailers

CAME_MOST: Final = 10
TOUCHED_MOST: Final = 20
NO_FILE: Final = "There is no such file."


@dataclass(frozen=True)
class OwnerCards:
    """Implements `view.Cards`."""

    database: Database
    storage: Storage
    deciding: Decide
    signing: Signing
    undoing: Undo
    asking_again: AskAgain

    async def read(self, actor: Actor, proposal_id: UUID) -> CardView:
        """Everything on one proposal."""
        async with self.database.bound(actor.tenant) as tx:
            row = await card_row(tx, actor, proposal_id)
            place = await self.storage.place(tx, row.repository)
            objects = await tx.scalar(select(staging.c.objects).where(staging.c.proposal == proposal_id))
            said = await _decision(tx, proposal_id)
            others = (
                await tx.execute(
                    LINE.where(
                        proposal.c.repository == row.repository,
                        proposal.c.state == "pending",
                        proposal.c.id.not_in([proposal_id, row.parent or proposal_id]),
                        proposal.c.parent.is_distinct_from(proposal_id),
                    ).limit(LINES_MOST)
                )
            ).all()
            role = await role_in(tx, actor, row.repository)
            parts = await ProposalTx(tx, self.storage).parts(proposal_id)
            told = await _told_again(tx, row)
            waiting = (await count_shown(tx, actor))["waiting"]
            now = await now_of(tx)
            hindrance = await _hindrance(tx, row)
            may_undo = role in DECIDERS and await self.undoing.offers(tx, row)
            sent = await sent_places(tx, proposal_id, actor.session, row.digest)
            signs = await has_signing_passkey(tx, actor.id)
        opened = partial(_Opened.of, row, place.path, objects)
        operation = self.undoing.operations[row.kind]
        card = await asyncio.to_thread(lambda: _card(actor, opened(), said, others, role, waiting, now, operation))
        files, colours = await helped(self.database, actor, card.files)
        return replace(
            card,
            files=files,
            colours=colours,
            hindrance=hindrance,
            may_undo=may_undo,
            sent=sent,
            signs=signs,
            parts=tuple(parts),
            wanted_again=told,
        )

    async def file(self, actor: Actor, proposal_id: UUID, place: int) -> OneFile:
        """One file of it, whole."""
        async with self.database.bound(actor.tenant) as tx:
            row = await card_row(tx, actor, proposal_id)
            at = await self.storage.place(tx, row.repository)
            objects = await tx.scalar(select(staging.c.objects).where(staging.c.proposal == proposal_id))
            sent = await sent_places(tx, proposal_id, actor.session, row.digest)
            signs = await has_signing_passkey(tx, actor.id)
        of, found = await asyncio.to_thread(lambda: _Opened.of(row, at.path, objects).file(place))
        (file,), colours = await helped(self.database, actor, (found,))
        return OneFile(proposal_id, row.tenant, row.digest, place, of, file, of - len(sent | {place}), signs, colours)

    async def mark(self, actor: Actor, proposal_id: UUID, place: int, *, on: bool) -> Marked:
        """Mark one of its files as seen, or take the mark off."""
        async with self.database.bound(actor.tenant) as tx:
            row = await card_row(tx, actor, proposal_id)
            at = await self.storage.place(tx, row.repository)
            objects = await tx.scalar(select(staging.c.objects).where(staging.c.proposal == proposal_id))
            sent = await sent_places(tx, proposal_id, actor.session, row.digest)
        files = await asyncio.to_thread(lambda: tuple(files_of(row, at.path, objects)))
        if not 1 <= place <= len(files):
            raise Refusal(Code.NOT_FOUND, NO_FILE)
        async with self.database.bound(actor.tenant) as tx:
            await mark(tx, actor.id, change_of(files[place - 1]), on=on)
        shown, colours = await helped(self.database, actor, files)
        count = sum(file.seen for file in shown)
        return Marked(proposal_id, row.tenant, place, shown[place - 1], place in sent, count, len(files), colours)

    async def keep_colours(self, actor: Actor, made: Mapping[Key, bytes]) -> None:
        """See `proposals/coloured`."""
        await keep_colours(self.database, actor.tenant, made)

    async def sent(self, actor: Actor, proposal_id: UUID, digest: str, *, of: int, places: Collection[int]) -> None:
        """What was sent, for the decision; a page of nobody's session counts for nothing, and neither does one that the
        database has no room to note: reads go on.
        """
        if actor.session is None:
            return
        try:
            async with self.database.bound(actor.tenant) as tx:
                await record_sent(tx, proposal_id, actor.session, digest, of=of, places=places)
        except Refusal as refusal:
            if refusal.code is not Code.STORAGE_FULL:
                raise

    async def decide(self, who: Decider, proposal_id: UUID, said: Verdicts) -> DecisionResult:
        """See `proposals/decide`."""
        done = await self.deciding(who, proposal_id, said)
        return _result(done)

    async def prepare(self, who: Decider, proposal_id: UUID, said: Verdicts) -> Prepared | DecisionResult:
        """See `proposals/signing`."""
        done = await self.signing.prepare(who, proposal_id, said)
        return _result(done) if isinstance(done, Decided) else done

    async def finish(self, who: Decider, proposal_id: UUID, answer: Answer) -> DecisionResult:
        """See `proposals/signing`."""
        async with self.database.bound(who.actor.tenant) as tx:
            await card_row(tx, who.actor, proposal_id)
        return _result(await self.signing.finish(who, proposal_id, answer))

    async def ask_again(self, who: Decider, proposal_id: UUID, note: str) -> None:
        """See `proposals/again`."""
        async with self.database.bound(who.actor.tenant) as tx:
            await card_row(tx, who.actor, proposal_id)
        await self.asking_again(who, proposal_id, note)

    async def undo(self, who: Decider, proposal_id: UUID) -> UUID:
        """See `proposals/undo`."""
        async with self.database.bound(who.actor.tenant) as tx:
            await card_row(tx, who.actor, proposal_id)
        return await self.undoing(who, proposal_id)


def _result(done: Decided) -> DecisionResult:
    return DecisionResult(done.proposal_id, done.state, done.replayed, _outcome(done.outcome) or Outcome())


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


@dataclass(frozen=True)
class _Opened:
    """A proposal read from its row, with the repository and what was staged for it."""

    row: Row[Any]
    path: Path
    plan: Plan
    card: ReviewCard
    store: Staging

    @classmethod
    def of(cls, row: Row[Any], path: Path, objects: bytes) -> "_Opened":
        plan = load_plan(row.plan)
        return cls(row, path, plan, load_card(row.card), BareRepository(path).store(plan, decode(objects)))

    def file(self, place: int) -> tuple[int, FileView]:
        """How many files there are, and the one at this place. Raises NOT_FOUND."""
        found = list(_shown_files(self))
        if not 1 <= place <= len(found):
            raise Refusal(Code.NOT_FOUND, NO_FILE)
        return len(found), _file_view(self.store, found[place - 1])


def files_of(row: Row[Any], path: Path, objects: bytes) -> Iterator[FileView]:
    """Every file that a proposal's page shows, in its order, one after the other."""
    opened = _Opened.of(row, path, objects)
    return (_file_view(opened.store, one) for one in _shown_files(opened))


async def helped(
    database: Database, actor: Actor, files: Sequence[FileView]
) -> tuple[tuple[FileView, ...], KnownColours]:
    """The same files with the person's own marks, and what is known of their colours."""
    changes, keys = await asyncio.to_thread(lambda: ([change_of(file) for file in files], _colour_keys(files)))
    async with database.bound(actor.tenant) as tx:
        marks = await marked(tx, actor.id, changes)
        colours = await known_colours(tx, keys)
    shown = (replace(file, seen=change in marks) for file, change in zip(files, changes, strict=True))
    return tuple(shown), colours


def _colour_keys(files: Iterable[FileView]) -> frozenset[Key]:
    """By what the colours of these files are known."""
    sides = (
        (path, content)
        for file in files
        for path, content in ((file.old_path or file.path, file.old), (file.path, file.new))
    )
    return frozenset(key for path, content in sides if (key := key_of(path, content)))


def _card(
    actor: Actor,
    opened: _Opened,
    said: Row[Any] | None,
    others: Sequence[Row[Any]],
    role: str | None,
    waiting: int,
    now: Any,
    operation: Operation[Any],
) -> CardView:
    row, plan, card = opened.row, opened.plan, opened.card
    files = tuple(_file_view(opened.store, one) for one in _shown_files(opened))
    paths = {file.path for file in files}
    mine = touched(row)
    return CardView(
        id=row.id,
        tenant=row.tenant,
        repository_id=row.repository,
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
        pins=tuple(_pin_view(opened.path, pin, paths) for pin in load_pins(row.pins)),
        files=files,
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
        may_ask_again=role in DECIDERS and row.state in TOO_LATE and row.connection is not None,
        signature_wanted=row.signed_approvals,
        part_of=row.parent,
        divisible=row.state == "pending" and row.parent is None and bool(parts_of(opened.store, operation, plan, card)),
    )


async def _told_again(tx: Bound, row: Row[Any]) -> str | None:
    """What its agent was told when it was wanted again; of a part, on the proposal that the agent made."""
    if row.parent is None or row.wanted_again is not None:
        return cast("str | None", row.wanted_again)
    return cast("str | None", await tx.scalar(select(proposal.c.wanted_again).where(proposal.c.id == row.parent)))


def _pin_view(path: Path, pin: Pin, mine: Collection[bytes]) -> PinView:
    git = BareRepository(path)
    current = read_fact(git, pin.fact)
    ahead = None
    if NULL not in (pin.seen, current):
        ahead = Objects(path).ahead(current, pin.seen)
    kept = holds(git, pin, current)
    view = PinView(pin.fact.name, pin.seen, current, kept, ahead)
    return view if kept or ahead is None else _moved_on(path, view, mine)


def _moved_on(path: Path, pin: PinView, mine: Collection[bytes]) -> PinView:
    """The same with the commits by which a branch has moved on, and which of these paths they changed."""
    store = BareRepository(path).store(Plan(kinds=(), build=(), effects=()), ())
    changes = store.changes(tree_of(store, pin.seen), tree_of(store, pin.current))
    touched = tuple(change.path for change in changes if change.path in mine)
    newest, _ = store.log(pin.current, pin.seen, CAME_MOST)
    came = tuple((oid, subject_of(store.commit(oid).message)) for oid in newest)
    return replace(pin, overlaps=bool(touched), came=came, touched=touched[:TOUCHED_MOST])


class _ShownFile(NamedTuple):
    """One path that is brought, before its contents are read."""

    path: bytes
    source: bytes | None
    before: Entry | None
    after: Entry | None
    of: str


def _shown_files(opened: _Opened) -> Iterator[_ShownFile]:
    """Every path of everything that is brought, always in the same order; a rename that the card names is one."""
    renames = renames_of(opened.card)
    shown = shown_changes(opened.store, opened.plan)
    for one in shown:
        differences = opened.store.changes(tree_of(opened.store, one.old), tree_of(opened.store, one.new))
        changes = {change.path: change for change in differences}
        for path, change in changes.items():
            source = renames.get(path)
            before = changes[source].old if source in changes else change.old
            if path not in renames.values() or change.new is not None:
                of = label(one, opened.plan.commits) if len(shown) > 1 else ""
                yield _ShownFile(path, source, before, change.new, of)


def _file_view(store: Staging, one: _ShownFile) -> FileView:
    """The same, whole."""
    return FileView(
        path=one.path,
        old_path=one.source,
        old_mode=one.before.mode if one.before else 0,
        new_mode=one.after.mode if one.after else 0,
        old=content_of(store, one.before) if one.before else None,
        new=content_of(store, one.after) if one.after else None,
        of=one.of,
    )


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
        commit=found.get("commit"),
        head=found.get("head"),
        code=found.get("code", ""),
        message=found.get("message", ""),
        part=UUID(found["proposal_id"]) if "proposal_id" in found else None,
    )

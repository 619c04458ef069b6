"""A proposal as it is divided, for its page, and what is done there."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select

from service.contract.changes import ChangedFile, content_of
from service.contract.operation import Operation
from service.contract.parts import Part
from service.contract.refs import short_name
from service.contract.world import Store
from service.kit.database import Database
from service.kit.errors import Code, Refusal
from service.proposals.desk.cards import helped
from service.proposals.desk.reach import card_row, count_shown
from service.proposals.dividing import Dividing
from service.proposals.planning import load_card, load_plan, parts_of
from service.proposals.tables import staging
from service.proposals.view import Decider, FileView, PartsView, PartView
from service.repositories.bare import BareRepository
from service.repositories.objects import decode
from service.repositories.placement import Storage


@dataclass(frozen=True)
class OwnerParts:
    """Implements `view.Parts`."""

    database: Database
    storage: Storage
    dividing: Dividing

    async def read(self, who: Decider, proposal_id: UUID) -> PartsView:
        """Everything that can be chosen, with its content."""
        async with self.database.bound(who.actor.tenant) as tx:
            row = await card_row(tx, who.actor, proposal_id)
            await self.dividing.check(tx, who, proposal_id)
            place = await self.storage.place(tx, row.repository)
            objects = await tx.scalar(select(staging.c.objects).where(staging.c.proposal == proposal_id))
            waiting = (await count_shown(tx, who.actor))["waiting"]
        operation = self.dividing.operations[row.kind]
        parts = await asyncio.to_thread(_parts, row, place.path, objects, operation)
        if not parts:
            raise Refusal(Code.NOT_DIVISIBLE, "There is nothing to choose in this proposal.")
        branch = short_name(load_plan(row.plan).effects[0].ref)
        headline = load_card(row.card).headline
        files, colours = await helped(self.database, who.actor, [file for part in parts for file in part.files])
        each = iter(files)
        parts = tuple(replace(part, files=tuple(islice(each, len(part.files)))) for part in parts)
        names = (row.project_name, row.repository_name, branch)
        return PartsView(row.id, row.tenant, *names, headline, parts, waiting, colours)

    async def choose(self, who: Decider, proposal_id: UUID, keep: Collection[str]) -> UUID:
        """See `proposals/dividing`."""
        async with self.database.bound(who.actor.tenant) as tx:
            await card_row(tx, who.actor, proposal_id)
        return await self.dividing(who, proposal_id, keep)

    async def withdraw(self, who: Decider, proposal_id: UUID) -> UUID:
        """See `proposals/dividing`."""
        async with self.database.bound(who.actor.tenant) as tx:
            await card_row(tx, who.actor, proposal_id)
        return await self.dividing.withdraw(who, proposal_id)


def _parts(row: Row[Any], path: Path, objects: bytes, operation: Operation[Any]) -> tuple[PartView, ...]:
    plan = load_plan(row.plan)
    store = BareRepository(path).store(plan, decode(objects))
    return tuple(_part(store, part) for part in parts_of(store, operation, plan, load_card(row.card)))


def _part(store: Store, part: Part) -> PartView:
    return PartView(part.id, tuple(_file(store, file) for file in part.files), part.hunks)


def _file(store: Store, file: ChangedFile) -> FileView:
    return FileView(
        path=file.path,
        old_path=file.old_path,
        old_mode=file.old.mode if file.old else 0,
        new_mode=file.new.mode if file.new else 0,
        old=content_of(store, file.old) if file.old else None,
        new=content_of(store, file.new) if file.new else None,
    )

"""What a browser asks of the desk, read and checked before the desk is asked."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeVar, get_args
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from service.contract.names import check_text
from service.contract.ports import Arguments
from service.edge.desk.lines import Layout
from service.edge.guard import Call
from service.identity.sessions import is_in, switch_tenant
from service.kit.actor import Actor
from service.kit.errors import Code, Refusal
from service.proposals.lists import ConnectionAction, LedgerFilter, RepositoryAction
from service.proposals.ports import Verdict
from service.proposals.view import NO_PROPOSAL, Decider, Filter, Show, Verdicts

NOTE_MOST: Final = 2_000
SHOWS: Final[tuple[Show, ...]] = get_args(Show)
_DIGITS_MOST: Final = 18
_KIND: Final = re.compile(r"[a-z_]{1,40}")
SEARCH_MOST: Final = 200
WORDS_MOST: Final = 8
Side = Literal["old", "new"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)
LAYOUT_FIELD: Final = "view"
LAYOUT_COOKIE: Final = "__Host-placet-view"
NO_TENANT: Final = "There is no such tenant."
LOOKS: Final = "x-placet-looks"
"""A page that looks again by itself says so: it reads its own tenant, and the session stays where the person is."""
M = TypeVar("M", bound=BaseModel)


def _check_note(text: str) -> str:
    return check_text(text, "note", most=NOTE_MOST) if text.strip() else ""


class Decision(Arguments):
    """A decision as it is sent, by the form and by the API alike."""

    verdict: Verdict
    card_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    acknowledged: Annotated[list[str], Field(default_factory=list, max_length=500)]
    note: Annotated[str, AfterValidator(_check_note)] = ""
    confirmed: Annotated[list[str], Field(default_factory=list, max_length=500)]

    @property
    def verdicts(self) -> Verdicts:
        """As the desk takes it."""
        return Verdicts(
            self.verdict, self.card_digest, frozenset(self.acknowledged), self.note, frozenset(self.confirmed)
        )


class Again(Arguments):
    """What the agent is told when something is wanted again; nothing for the usual sentence."""

    note: Annotated[str, AfterValidator(_check_note)] = ""


class Mark(Arguments):
    """Whether a file is marked as seen."""

    seen: Literal["yes", "no"]


class ConnectionChange(Arguments):
    """What to do with a connection."""

    action: ConnectionAction


class RepositoryChange(Arguments):
    """What to do with a repository."""

    action: RepositoryAction


async def decider(call: Call) -> Decider:
    """Who asks, as the person who decides: with the name and address that go into the commit. Raises as `who`."""
    actor = await who(call)
    return Decider(actor, call.owner.name, call.owner.email)


async def who(call: Call, *, looks: bool = False) -> Actor:
    """The owner who asks, in the tenant that the link carries; the session follows the link of who does not only look.

    Raises:
        Refusal: NOT_FOUND for a tenant in which the person has nothing.
    """
    asked = call.request.query_params.get("tenant")
    if asked is not None and asked != str(call.owner.tenant):
        tenant = read_id(asked, NO_TENANT)
        if not looks and LOOKS not in call.request.headers:
            await switch_tenant(call.parts.database, call.owner, tenant)
        elif not await is_in(call.parts.database, call.owner, tenant):
            raise Refusal(Code.NOT_FOUND, NO_TENANT)
        call.session = replace(call.owner, tenant=tenant)
        call.actor = call.session.actor
    return call.owner.actor


def read_id(text: str, missing: str = NO_PROPOSAL) -> UUID:
    """An id from an address; one that is malformed is one that does not exist. Raises NOT_FOUND."""
    try:
        found = UUID(text)
    except ValueError:
        raise Refusal(Code.NOT_FOUND, missing) from None
    if str(found) != text:
        raise Refusal(Code.NOT_FOUND, missing)
    return found


def proposal_id(call: Call) -> UUID:
    """The proposal that the address names."""
    return read_id(call.request.path_params["id"])


def place(call: Call) -> int:
    """Which file of a proposal the address names, from 1; what is no number is no file."""
    asked = call.request.path_params["place"]
    if not (asked.isascii() and asked.isdecimal() and len(asked) <= _DIGITS_MOST and asked[0] != "0"):
        raise Refusal(Code.NOT_FOUND, NO_PROPOSAL)
    return int(asked)


def side(call: Call) -> Side:
    """Which content of a file the address names."""
    for one in SIDES:
        if call.request.path_params["side"] == one:
            return one
    raise Refusal(Code.NOT_FOUND, NO_PROPOSAL)


def layout(call: Call) -> Layout:
    """How lines are to lie: as the address says, or else as it was chosen last in this browser."""
    asked = call.request.query_params.get(LAYOUT_FIELD, call.request.cookies.get(LAYOUT_COOKIE))
    return "split" if asked == "split" else "unified"


def show(call: Call) -> Show:
    """Which list of the inbox is asked for."""
    asked = call.request.query_params.get("show", "waiting")
    for one in SHOWS:
        if asked == one:
            return one
    raise Refusal(Code.INVALID_ARGUMENT, "There is no such list.", field="show", allowed=list(SHOWS))


def only(call: Call) -> Filter:
    """What the list is filtered by; a field that is empty asks for all, as a form sends it."""
    return Filter(
        repository=_one_of(call, "repository"),
        proposer=_one_of(call, "proposer"),
        kind=_word(call, "kind"),
        group=_word(call, "group"),
        soon=bool(_word(call, "soon")),
        warned=bool(_word(call, "warned")),
        words=_search(call),
    )


def after(call: Call) -> str:
    """Where the page begins."""
    return _word(call, "after")


def _search(call: Call) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(_word(call, "q").split()))
    if len(words) > WORDS_MOST:
        message = f"A search has at most {WORDS_MOST} words."
        raise Refusal(Code.INVALID_ARGUMENT, message, field="q", limit=WORDS_MOST, value=len(words))
    return words


def _word(call: Call, field: str) -> str:
    found = call.request.query_params.get(field, "").strip()
    return check_text(found, field, most=SEARCH_MOST) if found else ""


def _one_of(call: Call, field: str) -> UUID | None:
    found = call.request.query_params.get(field, "")
    if not found:
        return None
    try:
        return UUID(found)
    except ValueError:
        raise Refusal(Code.INVALID_ARGUMENT, f"`{field}` is an id.", field=field) from None


def entries(call: Call) -> LedgerFilter:
    """What the ledger is filtered by; days begin and end in UTC, and the last one is in it."""
    since, until = _day(call, "since"), _day(call, "until", 1)
    kind = _word(call, "kind")
    if kind and not _KIND.fullmatch(kind):
        raise Refusal(Code.INVALID_ARGUMENT, "`kind` is the first word of a kind of entry.", field="kind")
    return LedgerFilter(
        kind=kind,
        actor=_one_of(call, "actor"),
        subject=_word(call, "subject"),
        since=since,
        until=until,
    )


def _day(call: Call, field: str, days: int = 0) -> datetime | None:
    found = call.request.query_params.get(field, "")
    if not found:
        return None
    try:
        return datetime.strptime(found, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=days)
    except (ValueError, OverflowError):
        raise Refusal(Code.INVALID_ARGUMENT, f"`{field}` is a day, as 2026-11-30.", field=field) from None


def before(call: Call) -> int | None:
    """The entry before which the ledger is asked for."""
    asked = call.request.query_params.get("before")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdecimal() and len(asked) <= _DIGITS_MOST):
        raise Refusal(Code.INVALID_ARGUMENT, "`before` is the number of an entry.", field="before")
    return int(asked)


async def form(call: Call, model: type[M]) -> M:
    """A form's fields, as the model has them; fields that it does not know are left out.

    Raises:
        Refusal: INVALID_ARGUMENT naming the field.
    """
    sent = await call.form()
    values: dict[str, Any] = {}
    for field, info in model.model_fields.items():
        given = [value.replace("\r\n", "\n") if field == "note" else value for value in sent.get(field, [])]
        if info.annotation == list[str]:
            values[field] = given
        elif len(given) == 1:
            values[field] = given[0]
        elif given:
            raise Refusal(Code.INVALID_ARGUMENT, f"{field} is there twice.", field=field)
    return checked(model, values)


def checked(model: type[M], value: Any) -> M:
    """A value as the model has it. Raises INVALID_ARGUMENT naming the first field that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise Refusal(Code.INVALID_ARGUMENT, f"{field or 'The body'}: {first['msg']}.", field=field) from None

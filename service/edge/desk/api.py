"""The owner API: the desk as JSON under /api/v1, behind the same guard and with the same words.

A change carries the session's token in `X-CSRF-Token`; `GET /api/v1/session` gives it to the session's own browser.
"""

import base64
from collections.abc import Collection
from typing import Final

from starlette.responses import Response

from service.contract.names import quote_path
from service.contract.plan import Note
from service.contract.ports import Answer
from service.edge.desk import asking
from service.edge.desk.answers import (
    CardAnswer,
    Content,
    DecidedAnswer,
    DecisionAnswer,
    FileAnswer,
    FileContents,
    FileSide,
    GlanceAnswer,
    OutcomeAnswer,
    PinAnswer,
    ProposalLine,
    ProposalList,
    ProposedAnswer,
    SaidNote,
    SectionAnswer,
    SessionAnswer,
    SigningAnswer,
    UnknownOutcome,
)
from service.edge.desk.live import mark
from service.edge.desk.pieces import mode_text
from service.edge.desk.sentences import Chapter, plain, sentence
from service.edge.errors import json_response
from service.edge.guard import Call, Docs, Endpoint
from service.kit.canonical import sha256
from service.proposals.view import CardView, DecisionResult, DecisionView, FileView, InboxLine, Outcome, PinView
from service.writer.signature import allowed_signers

_GLANCED: Final = {"proposal": "The proposal that is marked."}
_LISTED: Final = {
    "show": f"The list: {', '.join(asking.SHOWS)}.",
    "repository": "Only in this repository, by its id.",
    "proposer": "Only of this connection or person, by its id.",
    "kind": "Only of this kind of operation.",
    "group": "Only of this group.",
    "soon": "Not empty: only what expires within four hours.",
    "warned": "Not empty: only what has warnings.",
    "q": "Only what has each of these words, at most 8, in its message, reason, facts, branch or paths.",
    "after": "Where the page begins: `after` of the page before.",
}
_UNKNOWN_YET: Final = frozenset({"approved", "executing"})


async def session(call: Call) -> Response:
    """Who is signed in, and the token that his changes carry."""
    actor = await asking.who(call)
    return _answer(SessionAnswer(email=call.owner.email, tenant=str(actor.tenant), csrf=call.owner.csrf))


async def signing(call: Call) -> Response:
    """Who signs this tenant's commits: the content of gpg.ssh.allowedSignersFile."""
    view = await call.parts.desk.ledger.signing(await asking.who(call))
    text = allowed_signers(view.keys, call.parts.issuer, view.owners)
    return _answer(SigningAnswer(sign_commits=view.on, allowed_signers=text))


async def proposals(call: Call) -> Response:
    """A page of one list of the inbox: by default of what waits, else `show` names another."""
    actor = await asking.who(call)
    view = await call.parts.desk.inbox.read(actor, asking.show(call), asking.only(call), asking.after(call))
    return _answer(
        ProposalList(
            show=view.show,
            counts=dict(view.counts),
            matching=view.matching,
            proposals=[_line(line) for line in view.lines],
            after=view.after or None,
        )
    )


async def glance(call: Call) -> Response:
    """How many things wait, and a mark that changes when the named proposal's state or branch does."""
    actor = await asking.who(call)
    named = call.request.query_params.get("proposal")
    found = await call.parts.desk.inbox.glance(actor, asking.read_id(named) if named is not None else None)
    marked = mark(found.state, found.refs) if found.state else None
    return _answer(GlanceAnswer(waiting=found.waiting, mark=marked))


async def proposal(call: Call) -> Response:
    """One card: its codes and what they say, its digest, its pins and how they stand. Its files are asked for one by
    one, and an approval needs each of them.
    """
    actor = await asking.who(call)
    view = await call.parts.desk.cards.read(actor, asking.proposal_id(call))
    if call.request.method != "HEAD":
        await call.parts.desk.cards.sent(actor, view.id, view.digest, of=len(view.files), places=())
    return _answer(_card(view))


async def file(call: Call) -> Response:
    """One file of a card in full, before and after; counted from 1."""
    actor = await asking.who(call)
    one = await call.parts.desk.cards.file(actor, asking.proposal_id(call), asking.place(call))
    if call.request.method != "HEAD":
        await call.parts.desk.cards.sent(actor, one.proposal, one.digest, of=one.of, places={one.place})
    contents = FileContents(
        place=one.place,
        of=one.of,
        card_digest=one.digest,
        path=quote_path(one.file.path),
        old=_content(one.file.old),
        new=_content(one.file.new),
        unsent=one.unsent,
    )
    return _answer(contents)


async def decide(call: Call) -> Response:
    """A decision: 200 with how it ended, or 202 with where to ask when that is not known yet."""
    who = await asking.decider(call)
    subject = asking.proposal_id(call)
    sent = asking.checked(asking.Decision, await call.json())
    return decided(call, await call.parts.desk.cards.decide(who, subject, sent.verdicts))


def decided(call: Call, result: DecisionResult) -> Response:
    """How a decision ended, as far as that is known."""
    if result.status in _UNKNOWN_YET:
        ask = f"{call.parts.issuer}/api/v1/proposals/{result.proposal_id}?tenant={call.owner.tenant}"
        return _answer(UnknownOutcome(code="outcome_unknown", proposal_id=str(result.proposal_id), ask=ask), 202)
    return _answer(_result(result))


async def undo(call: Call) -> Response:
    """Propose what takes an execution back; it waits for a decision like any other."""
    who = await asking.decider(call)
    proposed = await call.parts.desk.cards.undo(who, asking.proposal_id(call))
    return _answer(ProposedAnswer(proposal_id=str(proposed)))


async def ask_again(call: Call) -> Response:
    """Ask the agent to propose again what came too late; it reads that as data."""
    who = await asking.decider(call)
    subject = asking.proposal_id(call)
    sent = asking.checked(asking.Again, await call.json())
    await call.parts.desk.cards.ask_again(who, subject, sent.note)
    return _answer(ProposedAnswer(proposal_id=str(subject)))


def _answer(answer: Answer, status: int = 200) -> Response:
    return json_response(answer.model_dump(mode="json"), status)


def _result(result: DecisionResult) -> DecidedAnswer:
    ended = _outcome(result.outcome).model_dump()
    return DecidedAnswer(proposal_id=str(result.proposal_id), status=result.status, replayed=result.replayed, **ended)


def _outcome(outcome: Outcome) -> OutcomeAnswer:
    return OutcomeAnswer(
        commit=outcome.commit,
        head=outcome.head,
        reason=outcome.code or None,
        message=outcome.message or None,
        approved_part=str(outcome.part) if outcome.part else None,
    )


def _line(line: InboxLine) -> ProposalLine:
    return ProposalLine(
        proposal_id=str(line.id),
        project=line.project,
        repository=line.repository,
        connection=line.connection,
        client=line.client,
        state=line.state,
        created_at=line.created_at.isoformat(),
        expires_at=line.expires_at.isoformat(),
        headline=_said("headline", line.headline),
        message=line.message,
        warnings=[_said("warning", note) for note in line.warnings],
        branch_moved=line.branch_moved,
    )


def _card(view: CardView) -> CardAnswer:
    return CardAnswer(
        proposal_id=str(view.id),
        tenant=str(view.tenant),
        project=view.project,
        repository=view.repository,
        branch=view.branch,
        connection=view.connection,
        client=view.client,
        state=view.state,
        created_at=view.created_at.isoformat(),
        expires_at=view.expires_at.isoformat(),
        card_digest=view.digest,
        headline=_said("headline", view.card.headline),
        agent_words=view.card.agent_words,
        warnings=[_said("warning", note) for note in view.card.warnings],
        sections=[
            SectionAnswer(code=section.code, notes=[_said("note", note) for note in section.notes])
            for section in view.card.sections
        ],
        files=[_file(file, place, view.sent) for place, file in enumerate(view.files, 1)],
        pins=[_pin(pin) for pin in view.pins],
        commit_preview=view.commit_preview,
        may_decide=view.may_decide,
        by_owner=view.by_owner,
        may_undo=view.may_undo,
        may_ask_again=view.may_ask_again,
        wanted_again=view.wanted_again,
        part_of=str(view.part_of) if view.part_of else None,
        parts=[str(part) for part in view.parts],
        divisible=view.divisible and view.may_decide,
        decision=view.decision and _decision(view.decision),
        outcome=view.outcome and _outcome(view.outcome),
    )


def _decision(made: DecisionView) -> DecisionAnswer:
    return DecisionAnswer(verdict=made.verdict, by=made.email, note=made.note, at=made.at.isoformat())


def _said(chapter: Chapter, note: Note) -> SaidNote:
    return SaidNote(name=note.name, code=note.code, at=note.at, params=note.params, says=plain(sentence(chapter, note)))


def _content(content: bytes | None) -> Content | None:
    if content is None:
        return None
    try:
        return Content(encoding="utf-8", data=content.decode())
    except UnicodeDecodeError:
        return Content(encoding="base64", data=base64.b64encode(content).decode())


def _file(file: FileView, place: int, sent: Collection[int]) -> FileAnswer:
    return FileAnswer(
        place=place,
        sent=place in sent,
        path=quote_path(file.path),
        old_path=quote_path(file.old_path) if file.old_path is not None else None,
        old=_side(file.old_mode, file.old),
        new=_side(file.new_mode, file.new),
    )


def _side(mode: int, content: bytes | None) -> FileSide | None:
    if content is None:
        return FileSide(mode=mode_text(mode)) if mode else None
    return FileSide(mode=mode_text(mode), bytes=len(content), sha256=sha256(content))


def _pin(pin: PinView) -> PinAnswer:
    return PinAnswer(ref=pin.ref, seen=pin.seen, current=pin.current, holds=pin.holds, ahead=pin.ahead)


ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/session", "proposal.view", session, docs=Docs({200: SessionAnswer})),
    Endpoint("GET", "/api/v1/allowed-signers", "signing.view", signing, docs=Docs({200: SigningAnswer})),
    Endpoint("GET", "/api/v1/glance", "proposal.view", glance, docs=Docs({200: GlanceAnswer}, asks=_GLANCED)),
    Endpoint("GET", "/api/v1/proposals", "proposal.view", proposals, docs=Docs({200: ProposalList}, asks=_LISTED)),
    Endpoint("GET", "/api/v1/proposals/{id}", "proposal.view", proposal, docs=Docs({200: CardAnswer})),
    Endpoint(
        "GET",
        "/api/v1/proposals/{id}/files/{place}",
        "proposal.view",
        file,
        docs=Docs({200: FileContents}),
    ),
    Endpoint(
        "POST",
        "/api/v1/proposals/{id}/decision",
        "proposal.decide",
        decide,
        docs=Docs({200: DecidedAnswer, 202: UnknownOutcome}, asking.Decision),
    ),
    Endpoint(
        "POST",
        "/api/v1/proposals/{id}/again",
        "proposal.decide",
        ask_again,
        docs=Docs({200: ProposedAnswer}, asking.Again),
    ),
    Endpoint("POST", "/api/v1/proposals/{id}/undo", "proposal.decide", undo, docs=Docs({200: ProposedAnswer})),
)

"""Verify: a whole history, offline, with nothing but a clone of it and the published keys."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from service.commands.options import as_json as json_option
from service.contract.hidden import readable
from service.repositories.clone import NotARepository, commits_of, tags_of
from service.up.place import UpRefused
from service.writer.verify import (
    STANDINGS,
    BadSigners,
    Finding,
    Signed,
    Signer,
    judge,
    judge_history,
    read_commit,
    read_signers,
    read_tag,
)

Judged = tuple[str, Signed, Finding]


@click.command
@click.argument("repository", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--signers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The published file: `placet keys allowed-signers`, or /api/v1/allowed-signers.",
)
@json_option
def verify(repository: Path, signers: Path, *, as_json: bool) -> None:
    """Say of every commit and tag of a clone who signed it. Fails where one says something that does not hold."""
    try:
        known = read_signers(signers.read_text(encoding="utf-8", errors="replace"))
        judged = [*_commits(repository, known), *_tags(repository, known)]
    except BadSigners as error:
        raise UpRefused("signers_unreadable", str(error)) from None
    except NotARepository as error:
        raise UpRefused("not_a_repository", str(error)) from None
    click.echo(json.dumps(_data(judged), indent=2) if as_json else _told(judged))
    if bad := sum(found.standing == "bad" for _, _, found in judged):
        raise UpRefused("does_not_hold", f"{bad} of {len(judged)} say something that does not hold.")


def _commits(repository: Path, signers: tuple[Signer, ...]) -> Iterator[Judged]:
    history = ((oid, parents, read_commit(content)) for oid, parents, content in commits_of(repository))
    return judge_history(history, signers)


def _tags(repository: Path, signers: tuple[Signer, ...]) -> Iterator[Judged]:
    for oid, content in tags_of(repository):
        what = read_tag(content)
        yield oid, what, judge(what, signers)


def _data(judged: list[Judged]) -> list[dict[str, str]]:
    return [
        {
            "id": oid,
            "standing": found.standing,
            "by": found.by,
            "why": found.why,
            "proposal": what.trailers.get("Proposal", ""),
            "approved_by": what.trailers.get("Approved-by", ""),
        }
        for oid, what, found in judged
    ]


def _told(judged: list[Judged]) -> str:
    """A line for each that went through the service, and how many there are of each kind."""
    lines = [_line(*one) for one in judged if one[2].standing != "foreign"]
    counts = Counter(found.standing for _, _, found in judged)
    width = len(f"{max(counts.values(), default=0):,}")
    totals = [f"{counts[one]:>{width},} {words}" for one, words in STANDINGS.items() if counts[one]]
    return "\n".join([*lines, *([""] if lines else []), *(totals or ["There is no commit."])])


def _line(oid: str, what: Signed, found: Finding) -> str:
    subject = what.message.partition(b"\n")[0].decode(errors="replace")
    whom = readable(f" {found.by}" if found.by else f" {found.why}" if found.why else "")
    return f"{oid[:12]} {found.standing:8}{whom}  {readable(subject)}"

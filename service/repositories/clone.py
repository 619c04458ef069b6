"""A clone on somebody's disk, read as a whole: every commit and every tag that one of its refs leads to."""

from collections.abc import Iterator
from pathlib import Path

from service.contract.data import Oid
from service.kit.errors import Refusal
from service.repositories.reading import Objects, parse_commit
from service.repositories.refs import list_refs

COMMITS_MOST = 10_000_000


class NotARepository(Exception):
    """There is no repository in a folder; the message is one sentence."""


def commits_of(folder: Path) -> Iterator[tuple[Oid, tuple[Oid, ...], bytes]]:
    """Id, parents and content of every commit, children before their parents. Raises NotARepository, BadObject."""
    git, objects = _open(folder)
    found = [objects.find_commit(oid) for _, oid in list_refs(git, "refs/")]
    tips = list(dict.fromkeys(oid for oid in found if oid))
    for oid in objects.walk_log(tips, (), COMMITS_MOST)[0]:
        content = objects.read(oid, "commit")
        yield oid, parse_commit(oid, content).parents, content


def tags_of(folder: Path) -> Iterator[tuple[Oid, bytes]]:
    """Id and content of every annotated tag that is a ref, in the order of their names. Raises NotARepository."""
    git, objects = _open(folder)
    for _, oid in list_refs(git, "refs/tags/"):
        header = objects.header(oid)
        if header and header[0] == "tag":
            yield oid, objects.read(oid, "tag")


def _open(folder: Path) -> tuple[Path, Objects]:
    git = folder / ".git" if (folder / ".git").is_dir() else folder
    try:
        return git, Objects(git)
    except Refusal:
        raise NotARepository(f"{folder} is no Git repository.") from None

"""A writer process that is not production's: `python -m service.bench.hand plumbing` or `naive`.

Production has no door for another writer, on purpose: here the names that it uses are replaced in this process alone.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from service import worker
from service.bench.naive import NaiveExecute
from service.bench.plumbing import Plumbing
from service.contract.plan import Manifest, Plan
from service.proposals import execute
from service.repositories.bare import BareRepository
from service.repositories.objects import Staged
from service.repositories.reading import parse_commit
from service.settings import read_settings
from service.writer.intent import Intent
from service.writer.ports import Repository
from service.writer.write import Step


class NotTheSame(Exception):
    """The plumbing made another commit than the intent says: what was measured is not what was promised."""


def write_by_plumbing(
    repository: Repository,
    plan: Plan,
    reviewed: Sequence[Manifest],
    objects: Sequence[Staged],
    intent: Intent,
    step: Step,
) -> None:
    """What `writer/write.write` does, by eight git processes. Its commit is the same to the last byte."""
    if not isinstance(repository, BareRepository):
        raise TypeError("git is a program that wants a folder")
    store = repository.store(plan, objects)
    commit = parse_commit(intent.commits[0].oid, intent.commits[0].content)
    contents = {one.oid: one.content for one in objects if one.kind == "blob"}
    folder = repository.path.with_suffix(".files")
    folder.mkdir(exist_ok=True)
    files: dict[str, Path] = {}
    for line in reviewed[0].lines:
        entry = store.entry(commit.tree, line.path)
        if entry is None:
            raise NotTheSame("a measure only writes files")
        where = files[line.path.decode()] = folder / entry.oid
        where.write_bytes(contents[entry.oid])
    plumbing = Plumbing(repository.path, folder / f"index-{os.getpid()}", commit.author, commit.committer)
    if plumbing(files, commit.message.decode(), intent.marker[0], intent.moves[0].ref) != intent.marker[1]:
        raise NotTheSame("the plumbing made another commit")
    for where in files.values():
        where.unlink()
    step("moved")


def main() -> None:
    """Run the writer."""
    if sys.argv[1:] == ["plumbing"]:
        vars(execute)["write"] = write_by_plumbing
    elif sys.argv[1:] == ["naive"]:
        vars(worker)["Execute"] = NaiveExecute
    else:
        raise SystemExit("plumbing or naive")
    raise SystemExit(worker.run_worker(read_settings(), None))


if __name__ == "__main__":
    main()

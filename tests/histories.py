"""Histories to merge: made by one `git fast-import`, and what stock git makes of them in a working tree."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from service.contract.data import Oid
from service.contract.plan import Blocked, RefAt
from service.contract.world import World
from service.repositories.git import init_bare
from service.repositories.staging import Staging
from service.tools.registry import discover

FILE, RUNS, LINK, MODULE = 0o100644, 0o100755, 0o120000, 0o160000
Content = bytes | tuple[int, bytes]
"""A file's content, or its mode and content; that of a submodule is a commit id."""
Files = Mapping[bytes, Content]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    "GIT_AUTHOR_NAME": "Stock",
    "GIT_AUTHOR_EMAIL": "stock@example.org",
    "GIT_COMMITTER_NAME": "Stock",
    "GIT_COMMITTER_EMAIL": "stock@example.org",
}
REGISTRY = discover()
QUIET = ("-c", "advice.detachedHead=false", "-c", "gc.auto=0", "-c", "core.fsync=none", "-c", "maintenance.auto=false")


def ask(folder: Path, *arguments: str | bytes, stdin: bytes = b"") -> tuple[int, bytes]:
    """Run stock git; its status, 0 or 1, and what it wrote."""
    line = ["git", *QUIET, *arguments]
    done = subprocess.run(line, cwd=folder, input=stdin, capture_output=True, check=False, env=ENVIRONMENT)
    assert done.returncode in {0, 1}, (arguments, done.returncode, done.stderr)
    return done.returncode, done.stdout + (done.stderr if done.returncode else b"")


def git(folder: Path, *arguments: str | bytes, stdin: bytes = b"") -> bytes:
    """What stock git wrote."""
    status, said = ask(folder, *arguments, stdin=stdin)
    assert status == 0, arguments
    return said


@dataclass
class Histories:
    """Commits in the making, for one `git fast-import`; each is known by its number until `write`."""

    stream: list[bytes] = field(default_factory=list)
    files: dict[int, Files] = field(default_factory=dict)

    def commit(self, files: Files, *parents: int, message: bytes = b"", encoding: bytes = b"") -> int:
        """A commit with exactly these files."""
        return self._commit(files, parents, message, encoding, [b"deleteall"])

    def delta(self, files: Files, parent: int) -> int:
        """A commit with what its parent has and these files."""
        return self._commit(files, (parent,), b"", b"", [])

    def _commit(self, files: Files, parents: Sequence[int], message: bytes, encoding: bytes, first: list[bytes]) -> int:
        mark = len(self.files) + 1
        self.files[mark] = files
        said = message or b"Commit %d\n" % mark
        lines = [b"commit refs/heads/c%d" % mark, b"mark :%d" % mark]
        lines += [b"author Ann %d <ann@example.org> %d +0130" % (mark, 1_600_000_000 + mark)]
        lines += [b"committer Carl <carl@example.org> %d +0000" % (1_600_000_000 + mark)]
        lines += [b"encoding " + encoding] if encoding else []
        lines += [b"data %d\n%b" % (len(said), said)]
        lines += [b"%b :%d" % (b"merge" if place else b"from", parent) for place, parent in enumerate(parents)]
        lines += [*first, *(_line(path, content) for path, content in files.items()), b""]
        self.stream.append(b"\n".join(lines) + b"\n")
        return mark

    def write(self, repository: Path) -> list[Oid]:
        """Make the repository; the commits' ids by their number (the first is none)."""
        init_bare(repository, "refs/heads/main")
        marks = repository.parent / f"{repository.name}.marks"
        git(repository, "fast-import", "--quiet", f"--export-marks={marks}", stdin=b"".join(self.stream))
        found = dict(line.split() for line in marks.read_text().splitlines())
        return [Oid(""), *(Oid(found[f":{mark}"]) for mark in self.files)]


def _line(path: bytes, content: Content) -> bytes:
    mode, data = content if isinstance(content, tuple) else (FILE, content)
    name = b'"' + re.sub(rb"[^ -!#-\[\]-~]", lambda found: b"\\%03o" % found[0][0], path) + b'"'
    if mode == MODULE:
        return b"M 160000 %b %b" % (data, name)
    return b"M %06o inline %b\ndata %d\n%b" % (mode, name, len(data), data)


@dataclass(frozen=True)
class Made:
    """What came of it: the new commits (tree, author, message), or where and at which commit it could not go on.

    Attributes:
        commits: the oldest first.
        paths: the conflicted ones; None where there were none.
        at: the commit that did not fit, or that would change nothing: then it is `empty`.
    """

    commits: tuple[tuple[bytes, bytes, bytes], ...] = ()
    paths: frozenset[bytes] | None = None
    at: str = ""
    empty: bool = False


class Stock:
    """Stock git in a clone with a working tree.

    Args:
        repository: what to clone.
        folder: where to.
    """

    def __init__(self, repository: Path, folder: Path) -> None:
        git(repository, "clone", "-q", "--shared", "--no-checkout", str(repository), str(folder))
        self._folder = folder

    def merge(self, ours: Oid, theirs: Oid) -> Made:
        return self._made(ours, ours, "merge", "-q", "--no-ff", "-m", "Merge", theirs)

    def pick(self, head: Oid, commits: Sequence[Oid], mainline: int | None = None) -> Made:
        which = () if mainline is None else ("-m", str(mainline))
        return self._made(head, head, "cherry-pick", *which, *commits)

    def revert(self, head: Oid, commits: Sequence[Oid], mainline: int | None = None) -> Made:
        which = () if mainline is None else ("-m", str(mainline))
        made = self._made(head, head, "revert", "--no-edit", *which, *commits)
        return replace(made, at=made.at or commits[0]) if made.paths is not None else made  # git forgets an empty one

    def rebase(self, tip: Oid, onto: Oid, upstream: Oid) -> Made:
        return self._made(tip, onto, "rebase", "-q", "--onto", onto, upstream)

    def _made(self, start: Oid, since: Oid, *arguments: str) -> Made:
        git(self._folder, "checkout", "-q", "-f", "--detach", start)
        status, written = ask(self._folder, *arguments)
        if status == 0:
            shape = "--format=%T%x00%an <%ae> %ad%x00%B%x01"
            said = git(self._folder, "log", "--first-parent", "--reverse", "--date=raw", shape, f"{since}..HEAD")
            records = (record.removeprefix(b"\n") for record in said.split(b"\x01")[:-1])
            return Made(tuple(tuple(record.split(b"\0")) for record in records))  # type: ignore[misc]  # three each
        left = git(self._folder, "ls-files", "-u", "-z").split(b"\0")[:-1]
        paths = frozenset(record.partition(b"\t")[2].partition(b"~")[0] for record in left)
        return Made(paths=paths, at=self._give_up(), empty=not any(word in written for word in STOPPED))

    def _give_up(self) -> str:
        """Empty the working tree, for the next checkout to fill; at which commit git stopped, or empty."""
        inside, stopped = self._folder / ".git", ""
        for name in ("REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"):
            if (inside / name).exists():
                stopped = (inside / name).read_text().strip()
        for name in ("REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_HEAD", "MERGE_MSG", "AUTO_MERGE"):
            (inside / name).unlink(missing_ok=True)
        for path in (inside / "rebase-merge", inside / "sequencer", *self._folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                if path != inside:
                    shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return stopped


STOPPED = (b"could not apply", b"could not revert", b"Automatic merge failed")
"""How stock git says that it is a conflict, and not that nothing changes."""
AUTHOR = b"Claude (conn-1) <conn-1@localhost> 1700000000 +0000"


@dataclass(frozen=True)
class Ours:
    """The same by our own operations, planned on a repository and executed nowhere."""

    repository: Path

    def merge(self, ours: Oid, theirs: Oid) -> Made:
        return self._made("merge", ours, {"source": theirs}, ours)

    def pick(self, head: Oid, commits: Sequence[Oid], mainline: int | None = None) -> Made:
        return self._made("cherry_pick", head, {"commits": list(commits), "mainline": mainline}, head)

    def revert(self, head: Oid, commits: Sequence[Oid], mainline: int | None = None) -> Made:
        return self._made("revert", head, {"commits": list(commits), "mainline": mainline}, head)

    def rebase(self, tip: Oid, onto: Oid, upstream: Oid) -> Made:
        return self._made("rebase", tip, {"onto": onto, "upstream": upstream}, onto)

    def _made(self, name: str, tip: Oid, arguments: Mapping[str, object], since: Oid) -> Made:
        operation = REGISTRY.operations()[f"propose_{name}"]
        sent = {"repository_id": str(UUID(int=1)), "branch": "main", "reason": "Because.", **arguments}
        request = operation.request.model_validate(sent)
        with Staging(self.repository, AUTHOR, time.monotonic() + 60) as staging:
            world = World({RefAt(name="refs/heads/main"): tip}, staging)
            plan = operation.plan(request, world)
            if isinstance(plan, Blocked):
                return self._blocked(staging, plan, tip, since)
            if operation.kind != "propose_merge":  # the card of everything is made
                operation.review_card(request, world, plan)
            return _chain(staging, plan.effects[0].new, since)

    def _blocked(self, staging: Staging, plan: Blocked, tip: Oid, since: Oid) -> Made:
        note = plan.blockers[0]
        if note.code == "conflicts":
            return Made(paths=frozenset(one.path for one in plan.conflicts), at=note.params["commit"] or "")
        assert note.code == "nothing_to_change", note
        if "commit" in note.params:
            return Made(paths=frozenset(), at=note.params["commit"], empty=True)
        return _chain(staging, tip, since)


def _chain(staging: Staging, head: Oid, since: Oid) -> Made:
    found = []
    while head != since:
        commit = staging.commit(head)
        found.append((commit.tree.encode(), commit.author, commit.message))
        head = commit.parents[0]
    return Made(tuple(reversed(found)))

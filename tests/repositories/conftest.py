"""Real repositories and the git program as oracle."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from service.contract.data import NULL, Entry, Oid
from service.contract.plan import MoveRef
from service.repositories.git import init_bare
from service.repositories.objects import Staged, build_commit
from service.repositories.packs import write_pack
from service.repositories.refs import RefTransaction
from service.repositories.staging import Staging

AUTHOR = b"Claude (conn-1) <conn-1@placet.example> 1700000000 +0000"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}

Git = Callable[..., bytes]
Grow = Callable[..., Oid]


@pytest.fixture(name="git")
def git_fixture() -> Git:
    """Run git as a person would, in a folder; the answer less its last line end."""

    def run(folder: Path, *arguments: str | bytes, stdin: bytes = b"", **environment: str) -> bytes:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            input=stdin,
            capture_output=True,
            check=False,
            env=ENVIRONMENT | environment,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.removesuffix(b"\n")

    return run


@pytest.fixture(name="repository")
def repository_fixture(tmp_path: Path) -> Path:
    """An empty bare repository."""
    path = tmp_path / "r.git"
    init_bare(path, "refs/heads/main")
    return path


@pytest.fixture(name="grow")
def grow_fixture(repository: Path) -> Grow:
    """Put a commit on a branch through our own objects, pack and refs: contents by path, None takes a path away."""

    def grow(files: Mapping[str, bytes | None], parent: Oid = NULL, ref: str = "refs/heads/main") -> Oid:
        staging = Staging(repository, AUTHOR)
        tree = staging.commit(parent).tree if parent != NULL else None
        edits = {
            path.encode(): None if content is None else Entry(mode=0o100644, oid=staging.put(content))
            for path, content in files.items()
        }
        parents = () if parent == NULL else (parent,)
        draft = staging.draft(parents, staging.edit(tree, edits), b"Grow\n")
        commit = build_commit(draft.tree, parents, author=AUTHOR, committer=AUTHOR, message=draft.message)
        write_pack(repository, (*staging.staged(), commit))
        move(repository, MoveRef(ref=ref, old=parent, new=commit.oid))
        return commit.oid

    return grow


def move(repository: Path, *moves: MoveRef) -> None:
    """Move refs without a marker."""
    transaction = RefTransaction(repository, None, moves)
    transaction.lock()
    transaction.verify()
    transaction.stage()
    transaction.commit_moves()


@pytest.fixture(name="sealed")
def sealed_fixture() -> Callable[[Staging], Staged]:
    """The commit of a staging's one draft."""

    def sealed(staging: Staging) -> Staged:
        (new,) = staging._drafts.values()
        return build_commit(new.tree, new.parents, author=new.author, committer=AUTHOR, message=new.message)

    return sealed

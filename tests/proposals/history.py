"""Bare repositories with a whole history, each made by one `git fast-import`. Source: git-fast-import(1)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from service.contract.changes import GITLINK
from service.contract.data import NULL
from service.contract.operation import Made
from tests.stage import git

SECONDS = 1_600_000_000
"""When the first commit was made; each is a minute younger than the one above it."""
PEOPLE = (b"Ada Author <ada@example.org>", b"Bob Builder <bob@example.org>")
"""Who wrote the commits, in turn."""


def make_history(path: Path, commits: Mapping[str, Made], refs: Mapping[str, str]) -> dict[str, str]:
    """Make the repository, where it is not there yet, with this history; give each commit's id by its name."""
    if not path.exists():
        git(path.parent, "init", "-q", "--bare", "-b", "main", "--template=", str(path))
    if not commits:
        return {}
    marks = {name: f":{number}" for number, name in enumerate(commits, 1)}
    told = git(path, "fast-import", "--quiet", stdin=b"".join(_stream(commits, refs, marks)))
    return dict(zip(commits, told.decode().split(), strict=True))


def _stream(commits: Mapping[str, Made], refs: Mapping[str, str], marks: Mapping[str, str]) -> Iterator[bytes]:
    places = {name: f"refs/made/{marks[name][1:]}" for name in commits}  # a commit is made on a ref; these go again
    for number, (name, made) in enumerate(commits.items()):
        at = SECONDS + 60 * number
        yield f"commit {places[name]}\nmark {marks[name]}\n".encode()
        yield b"author %s %d +0100\n" % (PEOPLE[number % 2], at)
        yield b"committer Carl Committer <carl@example.org> %d +0000\n" % at
        yield _data((made.message or f"{name}\n").encode())
        for word, parent in zip(("from", *["merge"] * len(made.parents)), made.parents, strict=False):
            yield f"{word} {marks[parent]}\n".encode()
        yield b"deleteall\n"
        for file, content in made.files.items():
            yield _file(file, made.modes.get(file, 0o100644), content)
    for ref, target in (*refs.items(), *((place, "") for place in places.values())):
        yield f"reset {ref}\nfrom {marks.get(target, NULL)}\n\n".encode()
    yield from (f"get-mark {mark}\n".encode() for mark in marks.values())


def _file(path: str, mode: int, content: str) -> bytes:
    quoted = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    if mode == GITLINK:
        return f'M {mode:o} {content} "{quoted}"\n'.encode()
    return f'M {mode:o} inline "{quoted}"\n'.encode() + _data(content.encode())


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)

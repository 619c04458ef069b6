"""Repositories to measure on: as many files as asked for, spread over folders as a real project's are."""

import itertools
import random
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from service.contract.data import Oid
from service.repositories.git import Call, init_bare, run, started
from service.repositories.refs import list_refs, read_ref

BRANCH = "refs/heads/main"
FAN = 20
"""Files in a folder at most, and folders in a folder."""
FILE_BYTES = 10_000
_OLD_BYTES = 400
_BUILD_SECONDS = 600.0
_AUTHOR = b"Robin Orchard <robin@example.org> 1793520000 +0000"
_WORDS = re.findall(
    r"\S+",
    "self return def class import value order basket price count stock item total name row index "
    "if not None for in while True False raise yield with as from data = == + - ( ) : , [ ]",
)


def path_of(number: int, files: int) -> str:
    """Where a file lies: `part3/part17/part4/file9.py`, so that no folder has more than FAN of either kind."""
    folder, name = divmod(number, FAN)
    parts = [f"file{name}.py"]
    most = max(0, files - 1) // FAN
    while most:
        folder, part = divmod(folder, FAN)
        most //= FAN
        parts.append(f"part{part}")
    return "/".join(reversed(parts))


def content(seed: object, size: int = FILE_BYTES) -> str:
    """Text that looks like source and compresses like it (about 4 to 1), ASCII, exactly this many bytes."""
    chance = random.Random(str(seed))  # noqa: S311  the same bytes in every run
    lines: list[str] = []
    length = 0
    while length <= size:
        line = " " * 4 * chance.randrange(4) + " ".join(chance.choices(_WORDS, k=chance.randrange(2, 12)))
        lines.append(f"{line} {chance.randrange(10_000)}")
        length += len(lines[-1]) + 1
    return "\n".join(lines)[: size - 1] + "\n"


def chosen(files: int, count: int, turn: int) -> list[str]:
    """The paths that a proposal changes, as far from each other as can be, others in each turn."""
    step = max(1, files // count)
    return [path_of((number * step + turn * 7) % files, files) for number in range(count)]


def build(path: Path, files: int, more: Iterable[bytes] = ()) -> Oid:
    """Make a bare repository, configured as ours are, with one commit on main and what `more` adds to it (commands of
    git-fast-import(1), such as `commit_on` gives). Gives the commit that main is at.
    """
    init_bare(path, BRANCH)
    call = Call(path, ("fast-import", "--quiet"), _BUILD_SECONDS)
    with started(call, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as git:
        assert git.stdin  # noqa: S101  it was asked for
        for piece in itertools.chain(_first(files), more, (b"done\n",)):
            git.stdin.write(piece)
        git.stdin.close()
        if git.wait(_BUILD_SECONDS):
            raise RuntimeError("git fast-import failed")
    run(Call(path, ("repack", "-a", "-d", "-q"), _BUILD_SECONDS))
    run(Call(path, ("pack-refs", "--all"), _BUILD_SECONDS))
    return read_ref(path, BRANCH)


def _first(files: int) -> Iterator[bytes]:
    written = (written_file(path_of(number, files), old_content(number)) for number in range(files))
    return commit_on(BRANCH, "The project as it is", written)


def old_content(number: int) -> str:
    """What a file has in the first commit."""
    return content(number, _OLD_BYTES)


def commit_on(ref: str, message: str, changes: Iterable[bytes], parent: str = "") -> Iterator[bytes]:
    """A commit at the end of a ref, in git-fast-import(1)'s words; `parent` is where a new ref starts."""
    said = f"{message}\n".encode()
    yield b"commit %s\nauthor %s\ncommitter %s\n" % (ref.encode(), _AUTHOR, _AUTHOR)
    yield b"data %d\n%s" % (len(said), said)
    if parent:
        yield b"from %s\n" % parent.encode()
    yield from changes


def written_file(path: str, text: str) -> bytes:
    """A file that a commit has at a path."""
    said = text.encode()
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(said), said)


def copies(source: Path, names: Sequence[str]) -> dict[str, Path]:
    """A copy of the repository for each of the names, beside it: what one way leaves is not in another's way."""
    found = {name: source.with_name(f"{source.stem}-{name}.git") for name in names}
    for path in found.values():
        shutil.copytree(source, path)
    return found


def pack_refs(path: Path, names: Iterable[str]) -> None:
    """Add refs that stand where main does, all in packed-refs, as maintenance leaves them. None is there yet.

    Source: gitrepository-layout(5), packed-refs.
    """
    tip = read_ref(path, BRANCH)
    known = dict(list_refs(path, "refs/"))
    every = sorted({**known, **dict.fromkeys(names, tip)}.items())
    lines = "".join(f"{oid} {name}\n" for name, oid in every)
    (path / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{lines}", encoding="ascii")
